//! The rollouts' worker: chooses actions for environments elsewhere, and keeps nothing but policies that it was sent.
//!
//! Requests that wait at the same time go through a policy together where that changes no number: rows that follow on each other
//! in the whole batch, at the same step. Then each row samples from the stream that it would sample from alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use plaudit_core::{Decision, EnvSpec, Obs, Policy, Seed};
use plaudit_rl::{ExplorerNetworks, ExplorerParams, join_obs};

use super::WorkerError;
use super::env_worker::refused;
use super::messages::{FromRollout, ToRollout};
use crate::link::{Endpoint, Event, LinkError};

/// How often a worker that waits looks whether it should stop.
const POLL: Duration = Duration::from_millis(100);

/// The networks of a policy in environments like these, or why there are none.
pub type NetworksOf<'a> = dyn FnMut(&EnvSpec) -> Result<ExplorerNetworks, String> + 'a;

/// Networks, and who asks them.
pub struct RolloutWorker<'a> {
    /// Its links.
    pub endpoint: Endpoint,
    /// The environments' workers that it chooses for. It ends when the last of them has said that it is done.
    pub clients: Vec<Arc<str>>,
    /// Makes the networks when the environments are known.
    pub networks: Box<NetworksOf<'a>>,
    /// Whether somebody wants it to stop.
    pub should_stop: &'a dyn Fn() -> bool,
    /// How many requests each pass through a policy had, and the policy's version.
    pub on_batch: Box<dyn FnMut(usize, u64) + 'a>,
}

struct Waiting {
    client: Arc<str>,
    id: u64,
    version: u64,
    obs: Obs,
    seed: Seed,
}

/// A policy, and the clients' numbers for it. Two learners, one after the other, may give two policies the same number.
struct Loaded {
    params: ExplorerParams,
    policy: Box<dyn Policy>,
    /// The version that each client calls it by.
    versions: BTreeMap<Arc<str>, u64>,
}

#[derive(Default)]
struct Policies {
    networks: Option<(EnvSpec, ExplorerNetworks)>,
    loaded: Vec<Loaded>,
}

impl RolloutWorker<'_> {
    /// Works until nobody needs it.
    pub fn run(mut self) -> Result<(), WorkerError> {
        let mut waiting: VecDeque<Waiting> = VecDeque::new();
        let mut policies = Policies::default();
        let mut done = vec![false; self.clients.len()];
        while !done.iter().all(|done| *done) {
            if (self.should_stop)() {
                return Err(WorkerError::Stopped);
            }
            // Whatever has arrived is taken in before a policy is asked.
            let patience = if waiting.is_empty() { POLL } else { Duration::ZERO };
            match self.endpoint.recv(&self.clients, patience)? {
                Some((client, Event::Message(message))) => {
                    let decoded = ToRollout::decode(&message);
                    let decoded =
                        decoded.map_err(|error| WorkerError::Message { peer: client.to_string(), error })?;
                    match decoded {
                        ToRollout::Weights { version, spec, params } => {
                            self.adopt(&client, version, spec, params, &mut policies)?;
                        }
                        ToRollout::Act { id, version, obs, seed } => {
                            waiting.push_back(Waiting { client, id, version, obs, seed });
                        }
                        ToRollout::Finish => done[self.rank(&client)] = true,
                    }
                }
                // Its successor asks for what it needs.
                Some((client, Event::Down)) => waiting.retain(|other| other.client != client),
                Some((client, Event::Up { .. })) => done[self.rank(&client)] = false,
                Some((client, Event::Refused { theirs })) => return Err(refused(&client, theirs)),
                None if waiting.is_empty() => {}
                None => self.decide(&mut waiting, &mut policies)?,
            }
        }
        Ok(())
    }

    fn rank(&self, client: &Arc<str>) -> usize {
        self.clients.iter().position(|other| other == client).unwrap_or(0)
    }

    fn adopt(
        &mut self,
        client: &Arc<str>,
        version: u64,
        spec: EnvSpec,
        params: ExplorerParams,
        policies: &mut Policies,
    ) -> Result<(), WorkerError> {
        match policies.adopt(client, version, spec, params, &mut *self.networks) {
            Ok(()) => Ok(()),
            Err(problem) => self.send(client, FromRollout::NoPolicy { version, problem }),
        }
    }

    /// Chooses for the first request, and for all that wait and follow on it.
    fn decide(
        &mut self,
        waiting: &mut VecDeque<Waiting>,
        policies: &mut Policies,
    ) -> Result<(), WorkerError> {
        // The first rows of a batch come first, so that the others can follow on them.
        waiting.make_contiguous().sort_by_key(|one| one.seed.to_parts());
        let Some(first) = waiting.pop_front() else { return Ok(()) };
        let Some(at) = policies.find(&first.client, first.version) else {
            return self.send(&first.client, FromRollout::Unknown { id: first.id, version: first.version });
        };
        let mut rows = first.obs.batch() as u64;
        let mut batch = vec![first];
        while let Some(next) = waiting.iter().position(|next| {
            next.seed == batch[0].seed.from_row(rows) && policies.find(&next.client, next.version) == Some(at)
        }) {
            let Some(next) = waiting.remove(next) else { break };
            rows += next.obs.batch() as u64;
            batch.push(next);
        }
        (self.on_batch)(batch.len(), batch[0].version);
        let policy = &mut policies.loaded[at].policy;
        let decided = match &batch[..] {
            [only] => policy.act(&only.obs, only.seed).map_err(|error| error.to_string()),
            several => {
                let joined = join_obs(&several.iter().map(|one| &one.obs).collect::<Vec<_>>());
                let joined = joined.map_err(|error| error.to_string());
                joined.and_then(|obs| policy.act(&obs, several[0].seed).map_err(|error| error.to_string()))
            }
        };
        match decided {
            Ok(decision) => self.answer(batch, &decision, rows as usize),
            Err(problem) => batch.iter().try_for_each(|one| {
                self.send(&one.client, FromRollout::NotDecided { id: one.id, problem: problem.clone() })
            }),
        }
    }

    fn answer(&self, batch: Vec<Waiting>, decision: &Decision, rows: usize) -> Result<(), WorkerError> {
        let mut from = 0;
        for Waiting { client, id, obs, .. } in batch {
            let own = from..from + obs.batch();
            let of = |values: &[f32]| {
                let width = values.len() / rows;
                values[own.start * width..own.end * width].to_vec()
            };
            let Decision { actions, log_probs, values } = decision;
            let decision = Decision { actions: of(actions), log_probs: of(log_probs), values: of(values) };
            from = own.end;
            self.send(&client, FromRollout::Decided { id, decision })?;
        }
        Ok(())
    }

    fn send(&self, client: &str, answer: FromRollout) -> Result<(), WorkerError> {
        match self.endpoint.send(client, Arc::new(answer.encode())) {
            Err(LinkError::Down { .. }) => Ok(()), // its successor asks anew
            other => Ok(other?),
        }
    }
}

impl Policies {
    /// Which policy a client means.
    fn find(&self, client: &Arc<str>, version: u64) -> Option<usize> {
        self.loaded.iter().position(|loaded| loaded.versions.get(client) == Some(&version))
    }

    /// A client's policy from now on. Clients that were sent the same one share it.
    fn adopt(
        &mut self,
        client: &Arc<str>,
        version: u64,
        spec: EnvSpec,
        params: ExplorerParams,
        networks_of: &mut NetworksOf<'_>,
    ) -> Result<(), String> {
        for loaded in &mut self.loaded {
            loaded.versions.remove(client);
        }
        let any_rows = EnvSpec { num_envs: 0, ..spec.clone() };
        match &self.networks {
            Some((known, _)) if *known == any_rows => {}
            Some(_) => return Err("other environments than those of its other workers".into()),
            None => self.networks = Some((any_rows, networks_of(&spec)?)),
        }
        let at = match self.loaded.iter().position(|loaded| loaded.params == params) {
            Some(at) => at,
            None => {
                let Some((_, networks)) = &self.networks else { return Err("no networks".into()) };
                let policy = networks.explorer(&params).map_err(|error| error.to_string())?;
                self.loaded.push(Loaded { params, policy, versions: BTreeMap::new() });
                self.loaded.len() - 1
            }
        };
        self.loaded[at].versions.insert(client.clone(), version);
        self.loaded.retain(|loaded| !loaded.versions.is_empty());
        Ok(())
    }
}
