//! Environments elsewhere that play at their own pace: each worker has its next segment to play before it is done with one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_core::RewardError;
use plaudit_rl::{
    CollectedRollout, ExplorerParams, RemoteCollector, RemoteRollout, RolloutState, TrainingError,
    TrainingPlan,
};

use super::actor::{ActorSettings, CountedRollout, EnvPeer, decode};
use super::env_worker::refused;
use super::messages::{FromEnv, Play, Played, ToEnv};
use super::{Ledger, LedgerLine, WorkerError};
use crate::link::{Endpoint, Event, LinkError};

/// Segments that a worker has before it at most: the one it plays, and the next.
const AHEAD: usize = 2;

/// Environments elsewhere that never wait for the learner.
pub struct AsyncEnvironments {
    endpoint: Endpoint,
    names: Vec<Arc<str>>,
    workers: Vec<AsyncWorker>,
    settings: ActorSettings,
    ledger: Ledger,
    policy: Option<(u64, ExplorerParams)>,
}

struct AsyncWorker {
    peer: EnvPeer,
    /// What it was asked for: segments, and the version of the policy for each.
    asked: VecDeque<(u64, u64)>,
}

impl AsyncEnvironments {
    /// Environments that [`super::wait_for_envs`] found.
    pub fn new(
        endpoint: Endpoint,
        peers: Vec<EnvPeer>,
        settings: ActorSettings,
    ) -> Result<Self, WorkerError> {
        let names = peers.iter().map(|peer| peer.name.clone()).collect();
        let ledger = Ledger::new(settings.next_segment.clone());
        let workers = peers.into_iter().map(|peer| AsyncWorker { peer, asked: VecDeque::new() }).collect();
        let mut envs = Self { endpoint, names, workers, settings, ledger, policy: None };
        envs.record(&LedgerLine::Start { next: envs.ledger.next().to_vec() })?;
        Ok(envs)
    }

    fn record(&mut self, line: &LedgerLine) -> Result<(), WorkerError> {
        (self.settings.on_ledger)(line).map_err(WorkerError::Ledger)
    }

    /// Gives a worker enough to do.
    fn ask(
        &mut self,
        rank: usize,
        plan: TrainingPlan,
        state: &dyn Fn(usize) -> RolloutState,
    ) -> Result<(), WorkerError> {
        let Some((version, params)) = self.policy.clone() else { return Ok(()) };
        let next = self.ledger.next()[rank];
        let AsyncWorker { peer, asked } = &mut self.workers[rank];
        // Where a segment begins that follows on a whole episode is not known before that is over.
        let ahead = if peer.may_break { 1 } else { AHEAD };
        while asked.len() < ahead && peer.incarnation.is_some() {
            let from = peer.position.is_none().then(|| state(rank));
            let start = peer.position.or(from.as_ref().map(|state| state.steps)).unwrap_or(0);
            let play = Play {
                asker: self.endpoint.own_incarnation(),
                segment: next + asked.len() as u64,
                start,
                steps: plan.steps as u64,
                version,
                params: (peer.version != Some(version)).then(|| params.clone()),
                state: from,
                refresh: true,
                keep_frames: self.settings.keep_frames,
                keep_facts: self.settings.on_rollout.is_some(),
            };
            let (segment, position) = (play.segment, start + play.steps);
            match self.endpoint.send(&peer.name, Arc::new(ToEnv::Play(Box::new(play)).encode())) {
                Err(LinkError::Down { .. }) => return Ok(()), // it will be asked when it is back
                sent => sent?,
            }
            asked.push_back((segment, version));
            (peer.position, peer.version) = (Some(position), Some(version));
        }
        Ok(())
    }

    fn next(
        &mut self,
        plan: TrainingPlan,
        timeout: Duration,
        state: &dyn Fn(usize) -> RolloutState,
    ) -> Result<Option<CollectedRollout>, WorkerError> {
        let deadline = Instant::now() + timeout;
        (0..self.workers.len()).try_for_each(|rank| self.ask(rank, plan, state))?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some((name, event)) = self.endpoint.recv(&self.names, left)? else {
                self.give_up_on_the_missing()?;
                return Ok(None);
            };
            let Some(rank) = self.names.iter().position(|other| *other == name) else { continue };
            match event {
                Event::Message(message) => {
                    if let Some(collected) = self.take(rank, decode(&name, &message)?)? {
                        return Ok(Some(collected));
                    }
                    self.ask(rank, plan, state)?;
                }
                Event::Down => self.workers[rank].peer.leave(&*self.settings.on_notice),
                Event::Up { incarnation } => {
                    if self.workers[rank].peer.meet(incarnation, &*self.settings.on_notice) {
                        self.workers[rank].asked.clear();
                    }
                    self.ask(rank, plan, state)?;
                }
                Event::Refused { theirs } => return Err(refused(&name, theirs)),
            }
        }
    }

    fn give_up_on_the_missing(&self) -> Result<(), WorkerError> {
        let peers = self.workers.iter().map(|worker| &worker.peer);
        EnvPeer::give_up_on_the_missing(peers, self.settings.give_up_after)
    }

    fn take(&mut self, rank: usize, message: FromEnv) -> Result<Option<CollectedRollout>, WorkerError> {
        let worker = &mut self.workers[rank];
        let peer = worker.peer.name.to_string();
        match message {
            FromEnv::Ready(_) => Ok(None),
            FromEnv::Need { .. } => {
                worker.asked.clear();
                (worker.peer.version, worker.peer.position) = (None, None);
                Ok(None)
            }
            FromEnv::Failed { segment, by_reward: false, problem } => {
                Err(WorkerError::Failed { peer, segment, problem })
            }
            FromEnv::Failed { problem, .. } => Err(WorkerError::RewardFailed { peer, problem }),
            FromEnv::Played(played) => self.count(rank, *played),
        }
    }

    fn count(&mut self, rank: usize, played: Played) -> Result<Option<CollectedRollout>, WorkerError> {
        let worker = &mut self.workers[rank];
        if played.asker != self.endpoint.own_incarnation() {
            return Ok(None); // it was played for an actor that is gone
        }
        if self.ledger.is_counted(rank, played.segment) {
            self.ledger.duplicates += 1;
            return Ok(None); // it was asked twice, around a restart
        }
        let (name, rows) = (worker.peer.name.to_string(), worker.peer.rows.len());
        let first_row = worker.peer.rows.start;
        let misfit = |problem: String| WorkerError::Misfit { peer: name.clone(), problem };
        let segment = &played.experience.segment;
        if segment.batch() != rows {
            return Err(misfit(format!("sent {} rows of its {rows}", segment.batch())));
        }
        let steps = segment.steps() as u64;
        worker.asked.retain(|(asked, _)| *asked > played.segment);
        if worker.peer.may_break {
            worker.peer.position = Some(played.start + steps);
        }
        self.ledger.take(rank, played.segment).map_err(|error| misfit(error.to_string()))?;
        let line = LedgerLine::Segment {
            rank,
            segment: played.segment,
            start: played.start,
            steps,
            version: played.version,
            incarnation: worker.peer.incarnation.unwrap_or(0),
        };
        self.record(&line)?;
        let began_anew: Vec<usize> = if played.began_anew { (0..rows).collect() } else { Vec::new() };
        let counted = CountedRollout {
            rank,
            first_row,
            experience: &played.experience,
            facts: &played.facts,
            began_anew: &began_anew,
        };
        self.settings.record(counted)?;
        let rollout =
            RemoteRollout { experience: played.experience, began_anew, reward_secs: played.reward_secs };
        let took = Duration::from_secs_f64(played.secs.max(0.0));
        Ok(Some(CollectedRollout { rank, rollout, version: played.version, took }))
    }
}

impl RemoteCollector for AsyncEnvironments {
    fn publish(&mut self, version: u64, params: ExplorerParams) -> Result<(), TrainingError> {
        self.policy = Some((version, params));
        Ok(())
    }

    fn collect(
        &mut self,
        plan: TrainingPlan,
        timeout: Duration,
        state: &dyn Fn(usize) -> RolloutState,
    ) -> Result<Option<CollectedRollout>, TrainingError> {
        self.next(plan, timeout, state).map_err(training_error)
    }

    fn oldest_version(&self) -> Option<u64> {
        self.workers.iter().flat_map(|worker| worker.asked.iter().map(|(_, version)| *version)).min()
    }
}

/// A worker's problem as one of training.
pub(super) fn training_error(error: WorkerError) -> TrainingError {
    match error {
        error @ WorkerError::RewardFailed { .. } => {
            TrainingError::Reward(RewardError::Backend(Box::new(error)))
        }
        error => TrainingError::Remote(Box::new(error)),
    }
}
