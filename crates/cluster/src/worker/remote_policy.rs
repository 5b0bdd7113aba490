//! A policy that a rollout worker has: observations go there, decisions come back, bit for bit those of a policy here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_core::{Decision, EnvSpec, Obs, Policy, PolicyError, Seed};
use plaudit_rl::ExplorerParams;

use super::WorkerError;
use super::env_worker::{PolicySource, refused};
use super::messages::{FromRollout, ToRollout};
use crate::link::{Endpoint, Event, LinkError, Payload};

const POLL: Duration = Duration::from_millis(100);

/// How a rollout worker is asked.
pub struct RemotePolicySettings {
    /// Its name.
    pub rollout: Arc<str>,
    /// The environments that it chooses for.
    pub spec: EnvSpec,
    /// Cameras that the policy looks through; no others travel.
    pub cameras: Vec<Arc<str>>,
    /// How long it may be away.
    pub give_up_after: Duration,
    /// Whether somebody wants the environments to stop.
    pub should_stop: Box<dyn Fn() -> bool + Send>,
}

/// The policy in a process of its own. A rollout worker that was killed is sent the policy again, and asked again.
pub struct RemotePolicy {
    endpoint: Endpoint,
    settings: RemotePolicySettings,
    /// The newest policy.
    current: Option<(u64, ExplorerParams)>,
    /// The version that the rollout worker was sent last.
    sent: Option<u64>,
    /// Which of its processes was asked last.
    asked: Option<u64>,
    next: u64,
}

/// What a wait for a decision came to.
enum Answer {
    Decided(Decision),
    /// The worker does not have the policy.
    Unknown,
    /// Nothing yet.
    Waiting,
}

impl RemotePolicy {
    /// A policy that no parameters have come for yet.
    pub fn new(endpoint: Endpoint, settings: RemotePolicySettings) -> Self {
        Self { endpoint, settings, current: None, sent: None, asked: None, next: 0 }
    }

    /// Tells the worker that nothing more will be asked.
    pub fn finish(&self) {
        let rollout = &self.settings.rollout;
        let _ = self.endpoint.send(rollout, Arc::new(ToRollout::Finish.encode()));
        let _ = self.endpoint.flush(rollout, Duration::from_secs(2));
    }

    fn decide(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, WorkerError> {
        let Some((version, _)) = &self.current else {
            let (peer, problem) = (self.settings.rollout.to_string(), "was sent no policy".into());
            return Err(WorkerError::Misfit { peer, problem });
        };
        self.next += 1;
        let (id, version) = (self.next, *version);
        let mut obs = obs.clone();
        obs.cameras.retain(|(name, _)| self.settings.cameras.contains(name));
        let question = Arc::new(ToRollout::Act { id, version, obs, seed }.encode());
        self.ask(&question)?;
        let mut last_news = Instant::now();
        loop {
            if (self.settings.should_stop)() {
                return Err(WorkerError::Stopped);
            }
            let peers = [self.settings.rollout.clone()];
            let Some((_, event)) = self.endpoint.recv(&peers, POLL)? else {
                self.give_up_on_the_missing(last_news)?;
                continue;
            };
            last_news = Instant::now();
            match self.take(id, event)? {
                Answer::Decided(decision) => return self.check(decision),
                Answer::Unknown => {
                    self.sent = None;
                    self.ask(&question)?;
                }
                Answer::Waiting => {}
            }
        }
    }

    /// Sends the policy, if the worker may not have it, and what is to be decided. A worker that is not there is asked
    /// when it is back.
    fn ask(&mut self, question: &Arc<Payload>) -> Result<(), WorkerError> {
        let rollout = self.settings.rollout.clone();
        let incarnation = self.endpoint.incarnation(&rollout);
        self.asked = None;
        if let Some((version, params)) = self.current.as_ref().filter(|(now, _)| self.sent != Some(*now)) {
            let (version, params, spec) = (*version, params.clone(), self.settings.spec.clone());
            let weights = ToRollout::Weights { version, spec, params };
            match self.endpoint.send(&rollout, Arc::new(weights.encode())) {
                Err(LinkError::Down { .. }) => return Ok(()),
                sent => sent?,
            }
            self.sent = Some(version);
        }
        match self.endpoint.send(&rollout, question.clone()) {
            Err(LinkError::Down { .. }) => return Ok(()),
            sent => sent?,
        }
        self.asked = incarnation;
        Ok(())
    }

    fn take(&self, asked: u64, event: Event) -> Result<Answer, WorkerError> {
        let peer = self.settings.rollout.to_string();
        match event {
            // Another process knows nothing.
            Event::Up { incarnation } if self.asked != Some(incarnation) => Ok(Answer::Unknown),
            Event::Up { .. } | Event::Down => Ok(Answer::Waiting),
            Event::Refused { theirs } => Err(refused(&peer, theirs)),
            Event::Message(message) => {
                let decoded = FromRollout::decode(&message);
                match decoded.map_err(|error| WorkerError::Message { peer: peer.clone(), error })? {
                    FromRollout::Decided { id, decision } if id == asked => Ok(Answer::Decided(decision)),
                    FromRollout::Unknown { id, .. } if id == asked => Ok(Answer::Unknown),
                    FromRollout::NotDecided { id, problem } if id == asked => {
                        Err(WorkerError::Misfit { peer, problem: format!("could not choose: {problem}") })
                    }
                    FromRollout::NoPolicy { problem, .. } => {
                        Err(WorkerError::Misfit { peer, problem: format!("has no policy: {problem}") })
                    }
                    FromRollout::Decided { .. }
                    | FromRollout::Unknown { .. }
                    | FromRollout::NotDecided { .. } => Ok(Answer::Waiting),
                }
            }
        }
    }

    /// As many actions as there are rows.
    fn check(&self, decision: Decision) -> Result<Decision, WorkerError> {
        let EnvSpec { num_envs, actions, .. } = &self.settings.spec;
        let (values, whole) = (decision.actions.len(), num_envs * actions.width());
        if values > 0 && values.is_multiple_of(whole) {
            return Ok(decision);
        }
        let problem = format!("chose {values} numbers, and {num_envs} rows of {} were due", actions.width());
        Err(WorkerError::Misfit { peer: self.settings.rollout.to_string(), problem })
    }

    fn give_up_on_the_missing(&self, last_news: Instant) -> Result<(), WorkerError> {
        let limit = self.settings.give_up_after;
        if last_news.elapsed() <= limit {
            return Ok(());
        }
        Err(WorkerError::Gone { peer: self.settings.rollout.to_string(), secs: limit.as_secs_f64() })
    }
}

impl Policy for RemotePolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        self.decide(obs, seed).map_err(|error| PolicyError::Backend(Box::new(error)))
    }
}

impl PolicySource for RemotePolicy {
    fn policy(
        &mut self,
        version: u64,
        params: Option<&ExplorerParams>,
    ) -> Result<Option<&mut dyn Policy>, String> {
        if let Some(params) = params {
            // Another learner may have given another policy the same number.
            self.sent = None;
            self.current = Some((version, params.clone()));
        }
        Ok(match &self.current {
            Some((known, _)) if *known == version => Some(self),
            _ => None,
        })
    }
}
