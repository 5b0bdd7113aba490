//! The environments' worker: plays the segments that the actor asks for, and labels them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_core::{Env, Facts, Policy, Reward, RewardError, Seed};
use plaudit_rl::{Experience, ExplorerNetworks, PlayedSegment, Rollout, RolloutError};

use super::WorkerError;
use super::messages::{EnvFacts, FromEnv, Play, Played, ToEnv};
use crate::link::{Endpoint, Event, LinkError};

/// How often a worker that waits looks whether it should stop.
const POLL: Duration = Duration::from_millis(100);
/// How long a last message may take to arrive.
const FLUSH: Duration = Duration::from_secs(5);

/// The rows from `first_row` of all environments, their reward, and what their policy is made of.
pub struct EnvWorker<'a> {
    /// Its links.
    pub endpoint: Endpoint,
    /// Who learns.
    pub actor: Arc<str>,
    /// The environments.
    pub env: &'a mut dyn Env,
    /// What labels their segments.
    pub reward: &'a dyn Reward,
    /// What acts, but for its parameters.
    pub policy: &'a mut dyn PolicySource,
    /// The seed of the whole run's rollouts.
    pub seed: Seed,
    /// The row that its first one is among all.
    pub first_row: u64,
    /// Whether somebody wants it to stop.
    pub should_stop: &'a dyn Fn() -> bool,
}

/// Where a worker's policy comes from.
pub trait PolicySource {
    /// The policy of a version, from parameters if they came along; nothing if it is not known here.
    fn policy(
        &mut self,
        version: u64,
        params: Option<&plaudit_rl::ExplorerParams>,
    ) -> Result<Option<&mut dyn Policy>, String>;
}

/// The policy in the environments' own process.
pub struct LocalPolicy {
    networks: ExplorerNetworks,
    current: Option<(u64, Box<dyn Policy>)>,
}

impl LocalPolicy {
    /// Networks that have no parameters yet.
    pub fn new(networks: ExplorerNetworks) -> Self {
        Self { networks, current: None }
    }
}

impl PolicySource for LocalPolicy {
    fn policy(
        &mut self,
        version: u64,
        params: Option<&plaudit_rl::ExplorerParams>,
    ) -> Result<Option<&mut dyn Policy>, String> {
        if let Some(params) = params {
            let policy = self.networks.explorer(params).map_err(|error| error.to_string())?;
            self.current = Some((version, policy));
        }
        Ok(match &mut self.current {
            Some((known, policy)) if *known == version => Some(policy.as_mut()),
            _ => None,
        })
    }
}

/// Why a worker has nothing left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The actor is done.
    Finished,
    /// Somebody asked it to stop.
    Stopped,
}

/// What a rollout is left for.
enum Next {
    Ended(Ended),
    /// A segment that begins elsewhere.
    Elsewhere(Box<Play>),
}

impl EnvWorker<'_> {
    /// Works until the actor is done.
    pub fn run(mut self) -> Result<Ended, WorkerError> {
        let mut waiting = None;
        loop {
            let play = match waiting.take() {
                Some(play) => play,
                None => match self.next_command()? {
                    ToEnv::Play(play) => play,
                    ToEnv::Finish => return Ok(Ended::Finished),
                },
            };
            let next = match play.state.is_some() {
                true => self.play_from(play)?,
                false => {
                    self.send(FromEnv::Need { segment: play.segment })?;
                    continue;
                }
            };
            match next {
                Next::Ended(ended) => return Ok(ended),
                Next::Elsewhere(play) => waiting = Some(play),
            }
        }
    }

    /// Plays from the state that came with a command, as long as commands follow on each other.
    fn play_from(&mut self, mut play: Box<Play>) -> Result<Next, WorkerError> {
        let Some(state) = play.state.take() else { return Ok(Next::Elsewhere(play)) };
        let context = self.reward.context();
        let is_start = state.steps == 0 && state.past.iter().all(|past| past.actions.is_empty());
        let Self { endpoint, actor, env, reward, policy, seed, first_row, should_stop } = self;
        let facts = facts(*env, *reward, *first_row);
        let speaker = Speaker { endpoint, actor, facts: &facts };
        let started = match is_start {
            true => Rollout::start(*env, *seed, context).map(|rollout| (rollout, true)),
            false => Rollout::resume(*env, *seed, context, state),
        };
        let (rollout, restored) = match started {
            Ok(started) => started,
            Err(error) => return Err(speaker.broken(play.segment, &error)?),
        };
        let mut session = Session {
            rollout: rollout.with_first_row(*first_row),
            began_anew: !restored,
            speaker,
            reward: *reward,
            should_stop: *should_stop,
        };
        session.play_all(*policy, play)
    }

    /// Waits for a command, and says hello to an actor that has just come.
    fn next_command(&mut self) -> Result<ToEnv, WorkerError> {
        let facts = facts(self.env, self.reward, self.first_row);
        let speaker = Speaker { endpoint: &self.endpoint, actor: &self.actor, facts: &facts };
        speaker.next_command(self.should_stop)
    }

    fn send(&self, message: FromEnv) -> Result<(), WorkerError> {
        send(&self.endpoint, &self.actor, message)
    }
}

fn facts(env: &dyn Env, reward: &dyn Reward, first_row: u64) -> EnvFacts {
    let (context, may_break) = (reward.context() as u64, env.may_break());
    EnvFacts { spec: env.spec().clone(), first_row, context, may_break }
}

/// Talks to the actor.
struct Speaker<'a> {
    endpoint: &'a Endpoint,
    actor: &'a Arc<str>,
    facts: &'a EnvFacts,
}

impl Speaker<'_> {
    fn next_command(&self, should_stop: &dyn Fn() -> bool) -> Result<ToEnv, WorkerError> {
        let peers = [self.actor.clone()];
        loop {
            if should_stop() {
                return Err(WorkerError::Stopped);
            }
            match self.endpoint.recv(&peers, POLL)? {
                Some((_, Event::Up { .. })) => {
                    send(self.endpoint, self.actor, FromEnv::Ready(Box::new(self.facts.clone())))?;
                }
                Some((_, Event::Message(message))) => {
                    let decoded = ToEnv::decode(&message);
                    return decoded
                        .map_err(|error| WorkerError::Message { peer: self.actor.to_string(), error });
                }
                Some((peer, Event::Refused { theirs })) => return Err(refused(&peer, theirs)),
                Some((_, Event::Down)) | None => {}
            }
        }
    }

    /// Tells the actor that the environments are of no use any more, which ends this process.
    fn broken(&self, segment: u64, error: &dyn std::error::Error) -> Result<WorkerError, WorkerError> {
        self.failed(segment, false, error)?;
        self.endpoint.flush(self.actor, FLUSH)?;
        Ok(WorkerError::Failed { peer: "this worker".into(), segment, problem: error.to_string() })
    }

    fn failed(
        &self,
        segment: u64,
        by_reward: bool,
        error: &dyn std::error::Error,
    ) -> Result<(), WorkerError> {
        let problem = error.to_string();
        send(self.endpoint, self.actor, FromEnv::Failed { segment, by_reward, problem })
    }
}

/// What a peer of another version is told.
pub(super) fn refused(peer: &str, theirs: String) -> WorkerError {
    LinkError::Version { peer: peer.into(), theirs, ours: "another".into() }.into()
}

/// A message to an actor that went meanwhile is not needed: the next one will ask anew.
fn send(endpoint: &Endpoint, actor: &str, message: FromEnv) -> Result<(), WorkerError> {
    match endpoint.send(actor, Arc::new(message.encode())) {
        Err(LinkError::Down { .. }) => Ok(()),
        other => Ok(other?),
    }
}

/// A rollout under way.
struct Session<'a> {
    rollout: Rollout<'a>,
    /// Its environments could not be restored, and the actor does not know yet.
    began_anew: bool,
    speaker: Speaker<'a>,
    reward: &'a dyn Reward,
    should_stop: &'a dyn Fn() -> bool,
}

impl Session<'_> {
    fn play_all(&mut self, policy: &mut dyn PolicySource, first: Box<Play>) -> Result<Next, WorkerError> {
        let mut play = first;
        loop {
            if !self.play(policy, &play)? {
                send(self.speaker.endpoint, self.speaker.actor, FromEnv::Need { segment: play.segment })?;
            }
            play = match self.speaker.next_command(self.should_stop)? {
                ToEnv::Finish => return Ok(Next::Ended(Ended::Finished)),
                ToEnv::Play(next) if next.state.is_some() || next.start != self.rollout.steps() => {
                    return Ok(Next::Elsewhere(next));
                }
                ToEnv::Play(next) => next,
            };
        }
    }

    /// Plays a segment and sends it; says whether there is a policy to play it with.
    fn play(&mut self, source: &mut dyn PolicySource, play: &Play) -> Result<bool, WorkerError> {
        let began = Instant::now();
        let found = source.policy(play.version, play.params.as_ref());
        let policy = match found {
            Ok(Some(policy)) => policy,
            Ok(None) => return Ok(false),
            Err(problem) => {
                let failed = FromEnv::Failed { segment: play.segment, by_reward: false, problem };
                send(self.speaker.endpoint, self.speaker.actor, failed)?;
                return Ok(true);
            }
        };
        let Speaker { endpoint, actor, .. } = &self.speaker;
        let (should_stop, for_whom) = (self.should_stop, endpoint.incarnation(actor));
        let mut facts = Vec::new();
        let on_step = |taken: &plaudit_rl::TakenStep| match should_stop() {
            true => Err(Stop::Asked),
            false if endpoint.incarnation(actor) != for_whom => Err(Stop::Replaced),
            false => {
                facts.extend(play.keep_facts.then(|| taken.step.facts.clone()));
                Ok(())
            }
        };
        let played = match self.rollout.play_with_callback(policy, play.steps as usize, on_step) {
            Ok(played) => played,
            Err(Stop::Asked) => return Err(WorkerError::Stopped),
            Err(Stop::Replaced) => return Ok(true), // whoever learns now asks anew
            // A policy elsewhere is not waited for any longer.
            Err(Stop::Rollout(RolloutError::Policy(_))) if should_stop() => return Err(WorkerError::Stopped),
            Err(Stop::Rollout(error)) => return Err(self.speaker.broken(play.segment, &error)?),
        };
        let acted = began.elapsed();
        match label(self.reward, played, play.refresh) {
            Ok(experience) => self.send_played(play, experience, facts, (acted, began.elapsed()))?,
            Err(error) => self.speaker.failed(play.segment, true, &error)?,
        }
        Ok(true)
    }

    fn send_played(
        &mut self,
        play: &Play,
        mut experience: Experience,
        facts: Vec<Facts>,
        (acted, whole): (Duration, Duration),
    ) -> Result<(), WorkerError> {
        // Windows of a reward reach back into frames: a worker that is started again needs them.
        if !play.keep_frames && self.reward.context() == 0 {
            drop_frames(&mut experience);
        }
        let start = self.rollout.steps() - experience.segment.steps() as u64;
        let played = Played {
            asker: play.asker,
            segment: play.segment,
            start,
            version: play.version,
            experience,
            facts,
            began_anew: std::mem::take(&mut self.began_anew),
            reward_secs: (whole - acted).as_secs_f64(),
            secs: whole.as_secs_f64(),
        };
        send(self.speaker.endpoint, self.speaker.actor, FromEnv::Played(Box::new(played)))
    }
}

enum Stop {
    /// Somebody wants the worker to stop.
    Asked,
    /// The actor was started again.
    Replaced,
    Rollout(RolloutError),
}

impl From<RolloutError> for Stop {
    fn from(error: RolloutError) -> Self {
        Self::Rollout(error)
    }
}

fn label(reward: &dyn Reward, played: PlayedSegment, refresh: bool) -> Result<Experience, RewardError> {
    let PlayedSegment { segment, decisions } = played;
    if refresh {
        // A model that cannot be read just now is being written: the old one stays in use.
        let _ = reward.refresh();
    }
    let reward = reward.label(&segment)?;
    Ok(Experience { segment, decisions, reward })
}

/// Leaves out what a learner on states does not need.
fn drop_frames(experience: &mut Experience) {
    let segment = &mut experience.segment;
    segment.obs.iter_mut().for_each(|obs| obs.cameras.clear());
    segment.last.iter_mut().for_each(|(_, _, obs)| obs.cameras.clear());
}
