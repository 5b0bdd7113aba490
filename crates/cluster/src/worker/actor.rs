//! The actor's side of environments elsewhere: asks all of their workers for segments, counts each once, and joins the rows.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plaudit_core::{EnvSpec, Facts, Reward};
use plaudit_rl::{
    Experience, ExplorerParams, Learner, RemoteRollout, RemoteRollouts, RolloutState, TrainingError,
    TrainingPlan,
};

use super::async_actor::training_error;
use super::env_worker::refused;
use super::messages::{EnvFacts, FromEnv, Play, Played, ToEnv};
use super::{Ledger, LedgerLine, WorkerError};
use crate::link::{Endpoint, Event};

/// How often somebody who waits looks whether to stop.
const POLL: Duration = Duration::from_millis(100);

/// Writes a line of the ledger down, or says why it cannot.
pub type LedgerCallback = Box<dyn FnMut(&LedgerLine) -> Result<(), String> + Send>;

/// A rollout that was counted, for whoever records episodes: each once, and those of some rows in their order.
pub struct CountedRollout<'a> {
    /// Whose it is: the rank of its worker, or 0 for all rows together, of workers in step.
    pub rank: usize,
    /// The row of all that its first one is.
    pub first_row: usize,
    /// What was played.
    pub experience: &'a Experience,
    /// What the environments know beside, step by step.
    pub facts: &'a [Facts],
    /// Rows of it that could not be restored and began anew.
    pub began_anew: &'a [usize],
}

/// Records a rollout, or says why it cannot.
pub type RolloutCallback = Box<dyn FnMut(CountedRollout<'_>) -> Result<(), String> + Send>;

/// How the actor treats its environments.
pub struct ActorSettings {
    /// Whether the learner needs frames.
    pub keep_frames: bool,
    /// How long a worker may be away before the actor gives up.
    pub give_up_after: Duration,
    /// Every worker's next segment.
    pub next_segment: Vec<u64>,
    /// What the user should hear: a worker went, or is back.
    pub on_notice: Box<dyn Fn(&str) + Send>,
    /// Where lines of the ledger go.
    pub on_ledger: LedgerCallback,
    /// Where rollouts go to be recorded.
    pub on_rollout: Option<RolloutCallback>,
    /// Whether the user wants to stop.
    pub should_stop: Box<dyn Fn() -> bool + Send>,
}

impl ActorSettings {
    /// Shows a rollout to whoever records them.
    pub(super) fn record(&mut self, rollout: CountedRollout<'_>) -> Result<(), WorkerError> {
        self.on_rollout.as_mut().map_or(Ok(()), |callback| callback(rollout)).map_err(WorkerError::Recording)
    }
}

/// An environments' worker as the actor knows it.
#[derive(Debug, Clone)]
pub struct EnvPeer {
    /// Its name.
    pub name: Arc<str>,
    /// Its rows among all.
    pub rows: Range<usize>,
    /// Which of its processes the actor talks to; none while it is away.
    pub(super) incarnation: Option<u64>,
    /// The version of the policy it has.
    pub(super) version: Option<u64>,
    /// Where its rollout is after what it was asked for; not known of a process that has just started.
    pub(super) position: Option<u64>,
    /// Whether its rollouts are whole episodes, however long.
    pub(super) may_break: bool,
    /// Since when it is away.
    away_since: Option<Instant>,
}

impl EnvPeer {
    /// It is not there.
    pub(super) fn leave(&mut self, on_notice: &dyn Fn(&str)) {
        self.away_since.get_or_insert_with(Instant::now);
        on_notice(&format!("{} is not there: waiting for it", self.name));
    }

    /// It is back; says whether it is another process, which knows nothing.
    pub(super) fn meet(&mut self, incarnation: u64, on_notice: &dyn Fn(&str)) -> bool {
        let away = self.away_since.take().map(|since| since.elapsed().as_secs_f64());
        let is_another = self.incarnation != Some(incarnation);
        if is_another {
            (self.incarnation, self.version, self.position) = (Some(incarnation), None, None);
        }
        let how = if is_another { "was started again" } else { "is back" };
        let after = away.map(|secs| format!(" after {secs:.1} s")).unwrap_or_default();
        on_notice(&format!("{} {how}{after}", self.name));
        is_another
    }

    pub(super) fn give_up_on_the_missing<'a>(
        mut peers: impl Iterator<Item = &'a Self>,
        limit: Duration,
    ) -> Result<(), WorkerError> {
        let is_lost = |peer: &&Self| peer.away_since.is_some_and(|since| since.elapsed() > limit);
        match peers.find(is_lost) {
            Some(peer) => Err(WorkerError::Gone { peer: peer.name.to_string(), secs: limit.as_secs_f64() }),
            None => Ok(()),
        }
    }
}

/// Tells workers that there is nothing left to play. Whoever is not there need not hear it.
pub fn finish_envs(endpoint: &Endpoint, names: &[Arc<str>]) {
    for name in names {
        let _ = endpoint.send(name, Arc::new(ToEnv::Finish.encode()));
    }
    for name in names {
        let _ = endpoint.flush(name, Duration::from_secs(2));
    }
}

/// Waits until all workers have said what their environments are; returns the whole batch's, and who has which rows.
pub fn wait_for_envs(
    endpoint: &Endpoint,
    names: &[Arc<str>],
    give_up_after: Duration,
    should_stop: &dyn Fn() -> bool,
) -> Result<(EnvSpec, usize, Vec<EnvPeer>), WorkerError> {
    let mut found: Vec<Option<(u64, EnvFacts)>> = vec![None; names.len()];
    let began = Instant::now();
    while let Some(missing) = found.iter().position(Option::is_none) {
        if should_stop() {
            return Err(WorkerError::Stopped);
        }
        if began.elapsed() > give_up_after {
            let (peer, secs) = (names[missing].to_string(), give_up_after.as_secs_f64());
            return Err(WorkerError::Gone { peer, secs });
        }
        let Some((name, event)) = endpoint.recv(names, POLL)? else { continue };
        let rank = names.iter().position(|other| *other == name).unwrap_or(0);
        match event {
            Event::Message(message) => match decode(&name, &message)? {
                FromEnv::Ready(facts) => {
                    let incarnation = endpoint.incarnation(&name).unwrap_or(0);
                    found[rank] = Some((incarnation, *facts));
                }
                // Played for an actor that is gone.
                FromEnv::Played(_) | FromEnv::Need { .. } => {}
                FromEnv::Failed { problem, segment, .. } => {
                    return Err(WorkerError::Failed { peer: name.to_string(), segment, problem });
                }
            },
            Event::Refused { theirs } => return Err(refused(&name, theirs)),
            Event::Down => found[rank] = None,
            Event::Up { .. } => {}
        }
    }
    join_facts(names, found.into_iter().flatten().collect())
}

fn join_facts(
    names: &[Arc<str>],
    found: Vec<(u64, EnvFacts)>,
) -> Result<(EnvSpec, usize, Vec<EnvPeer>), WorkerError> {
    let Some((_, first)) = found.first() else {
        return Err(WorkerError::Gone { peer: "every worker with environments".into(), secs: 0.0 });
    };
    let mut spec = EnvSpec { num_envs: 0, ..first.spec.clone() };
    let context = first.context as usize;
    let mut peers = Vec::new();
    for (name, (incarnation, facts)) in names.iter().zip(found) {
        let misfit = |problem: String| WorkerError::Misfit { peer: name.to_string(), problem };
        if facts.first_row as usize != spec.num_envs {
            let problem = format!("begins with row {}, and {} was due", facts.first_row, spec.num_envs);
            return Err(misfit(problem));
        }
        if (EnvSpec { num_envs: 0, ..facts.spec.clone() }) != (EnvSpec { num_envs: 0, ..spec.clone() }) {
            return Err(misfit(format!("has other environments than `{}`: {:?}", names[0], facts.spec)));
        }
        if facts.context as usize != context {
            return Err(misfit("has another reward".into()));
        }
        let rows = spec.num_envs..spec.num_envs + facts.spec.num_envs;
        spec.num_envs = rows.end;
        peers.push(EnvPeer {
            name: name.clone(),
            rows,
            incarnation: Some(incarnation),
            version: None,
            position: None,
            may_break: facts.may_break,
            away_since: None,
        });
    }
    Ok((spec, context, peers))
}

pub(super) fn decode(peer: &str, message: &[u8]) -> Result<FromEnv, WorkerError> {
    FromEnv::decode(message).map_err(|error| WorkerError::Message { peer: peer.into(), error })
}

/// Environments elsewhere that play in step with the learner.
pub struct RemoteEnvironments {
    endpoint: Endpoint,
    peers: Vec<EnvPeer>,
    names: Vec<Arc<str>>,
    reward: Arc<dyn Reward>,
    context: usize,
    action_width: usize,
    settings: ActorSettings,
    ledger: Ledger,
    version: u64,
}

/// What a step of learning waits for.
struct Round {
    plan: TrainingPlan,
    first_segment: u64,
    /// Where all rows are before it.
    state: RolloutState,
    version: u64,
    params: ExplorerParams,
    /// What each worker has played of it.
    played: Vec<VecDeque<Played>>,
}

impl RemoteEnvironments {
    /// Environments that [`wait_for_envs`] found.
    pub fn new(
        endpoint: Endpoint,
        (spec, context, peers): (&EnvSpec, usize, Vec<EnvPeer>),
        reward: Arc<dyn Reward>,
        settings: ActorSettings,
    ) -> Result<Self, WorkerError> {
        let names = peers.iter().map(|peer| peer.name.clone()).collect();
        let ledger = Ledger::new(settings.next_segment.clone());
        let action_width = spec.actions.width();
        // An actor that was started again counts versions on, as far as it knows, so that whoever watches sees it come further.
        let version = settings.next_segment.first().copied().unwrap_or(0);
        let mut envs =
            Self { endpoint, peers, names, reward, context, action_width, settings, ledger, version };
        envs.record(&LedgerLine::Start { next: envs.ledger.next().to_vec() })?;
        Ok(envs)
    }

    /// Segments that were counted, by worker.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn record(&mut self, line: &LedgerLine) -> Result<(), WorkerError> {
        (self.settings.on_ledger)(line).map_err(WorkerError::Ledger)
    }

    /// Plays a step's rollouts on all workers.
    fn play_round(
        &mut self,
        learner: &dyn Learner,
        plan: TrainingPlan,
        state: RolloutState,
    ) -> Result<Vec<RemoteRollout>, WorkerError> {
        self.version += 1;
        let mut round = Round {
            plan,
            first_segment: self.ledger.next().first().copied().unwrap_or(0),
            state,
            version: self.version,
            params: learner.explorer_params(),
            played: self.peers.iter().map(|_| VecDeque::new()).collect(),
        };
        (0..self.peers.len()).try_for_each(|rank| self.ask(rank, &round))?;
        while round.played.iter().any(|played| played.len() < plan.rollouts) {
            self.wait(&mut round)?;
        }
        self.join(round)
    }

    /// Asks a worker for all that is missing of its rows.
    fn ask(&mut self, rank: usize, round: &Round) -> Result<(), WorkerError> {
        let (context, width) = (self.context, self.action_width);
        let peer = &mut self.peers[rank];
        if peer.incarnation.is_none() {
            return Ok(()); // it will be asked when it is back
        }
        let done = &round.played[rank];
        let mut state = None;
        let start = match peer.position {
            Some(position) => position,
            None => {
                let rows = round.state.rows(peer.rows.clone());
                let now = done.iter().fold(rows, |state, played| {
                    let Experience { segment, decisions, .. } = &played.experience;
                    state.after(segment, decisions, context, width)
                });
                let steps = now.steps;
                state = Some(now);
                steps
            }
        };
        for at in done.len()..round.plan.rollouts {
            let offset = (at - done.len()) as u64 * round.plan.steps as u64;
            let play = Play {
                asker: self.endpoint.own_incarnation(),
                segment: round.first_segment + at as u64,
                start: start + offset,
                steps: round.plan.steps as u64,
                version: round.version,
                params: (peer.version != Some(round.version)).then(|| round.params.clone()),
                state: state.take(),
                refresh: at == 0,
                keep_frames: self.settings.keep_frames,
                keep_facts: self.settings.on_rollout.is_some(),
            };
            let (position, version) = (play.start + play.steps, play.version);
            match self.endpoint.send(&peer.name, Arc::new(ToEnv::Play(Box::new(play)).encode())) {
                // It went this moment, and will be asked when it is back.
                Err(crate::link::LinkError::Down { .. }) => return Ok(()),
                sent => sent?,
            }
            (peer.position, peer.version) = (Some(position), Some(version));
        }
        Ok(())
    }

    /// Waits for something to come from any worker.
    fn wait(&mut self, round: &mut Round) -> Result<(), WorkerError> {
        if (self.settings.should_stop)() {
            return Err(WorkerError::Stopped);
        }
        let Some((name, event)) = self.endpoint.recv(&self.names, POLL)? else {
            return EnvPeer::give_up_on_the_missing(self.peers.iter(), self.settings.give_up_after);
        };
        let Some(rank) = self.names.iter().position(|other| *other == name) else { return Ok(()) };
        match event {
            Event::Message(message) => self.take(rank, decode(&name, &message)?, round),
            Event::Down => {
                self.peers[rank].leave(&*self.settings.on_notice);
                Ok(())
            }
            Event::Up { incarnation } => self.meet(rank, incarnation, round),
            Event::Refused { theirs } => Err(refused(&name, theirs)),
        }
    }

    /// A worker is back: the same process, which goes on, or another, which is asked again.
    fn meet(&mut self, rank: usize, incarnation: u64, round: &Round) -> Result<(), WorkerError> {
        match self.peers[rank].meet(incarnation, &*self.settings.on_notice) {
            true => self.ask(rank, round),
            false => Ok(()),
        }
    }

    fn take(&mut self, rank: usize, message: FromEnv, round: &mut Round) -> Result<(), WorkerError> {
        let peer = self.peers[rank].name.to_string();
        match message {
            FromEnv::Ready(_) => Ok(()), // it was asked when it came
            FromEnv::Need { .. } => {
                let peer = &mut self.peers[rank];
                (peer.version, peer.position) = (None, None);
                self.ask(rank, round)
            }
            FromEnv::Failed { segment, by_reward: false, problem } => {
                Err(WorkerError::Failed { peer, segment, problem })
            }
            FromEnv::Failed { problem, .. } => Err(WorkerError::RewardFailed { peer, problem }),
            FromEnv::Played(played) => self.count(rank, *played, round),
        }
    }

    fn count(&mut self, rank: usize, played: Played, round: &mut Round) -> Result<(), WorkerError> {
        let peer = &self.peers[rank];
        let misfit = |problem: String| WorkerError::Misfit { peer: peer.name.to_string(), problem };
        if played.asker != self.endpoint.own_incarnation() {
            return Ok(()); // it was played for an actor that is gone
        }
        if self.ledger.is_counted(rank, played.segment) {
            self.ledger.duplicates += 1;
            return Ok(()); // it was asked twice, around a restart
        }
        let segment = &played.experience.segment;
        if segment.batch() != peer.rows.len() {
            return Err(misfit(format!("sent {} rows of its {}", segment.batch(), peer.rows.len())));
        }
        if played.version != round.version {
            return Err(misfit(format!("played with version {} of {}", played.version, round.version)));
        }
        self.ledger.take(rank, played.segment).map_err(|error| misfit(error.to_string()))?;
        let line = LedgerLine::Segment {
            rank,
            segment: played.segment,
            start: played.start,
            steps: segment.steps() as u64,
            version: played.version,
            incarnation: peer.incarnation.unwrap_or(0),
        };
        self.record(&line)?;
        round.played[rank].push_back(played);
        Ok(())
    }

    /// The rollouts of all rows.
    fn join(&mut self, mut round: Round) -> Result<Vec<RemoteRollout>, WorkerError> {
        let mut rollouts = Vec::new();
        for at in 0..round.plan.rollouts {
            let (mut parts, mut began_anew, mut reward_secs) = (Vec::new(), Vec::new(), 0.0f64);
            let mut facts = Vec::new();
            for (peer, played) in self.peers.iter().zip(&mut round.played) {
                let Some(played) = played.pop_front() else { continue };
                if played.began_anew {
                    began_anew.extend(peer.rows.clone());
                }
                reward_secs = reward_secs.max(played.reward_secs);
                facts.push((played.facts, peer.rows.len()));
                parts.push(played.experience);
            }
            let segment = round.first_segment + at as u64;
            let experience =
                Experience::join_rows(parts).map_err(|error| WorkerError::Join { segment, error })?;
            let facts = join_facts_of_steps(facts);
            let (rank, first_row) = (0, 0);
            let counted = CountedRollout {
                rank,
                first_row,
                experience: &experience,
                facts: &facts,
                began_anew: &began_anew,
            };
            self.settings.record(counted)?;
            rollouts.push(RemoteRollout { experience, began_anew, reward_secs });
        }
        Ok(rollouts)
    }
}

/// Facts of several workers' rows, one after the other: step by step, by name. A worker that does not know one knows it as 0.
fn join_facts_of_steps(mut parts: Vec<(Vec<Facts>, usize)>) -> Vec<Facts> {
    if parts.len() == 1 {
        return parts.pop().map(|(facts, _)| facts).unwrap_or_default();
    }
    let steps = parts.iter().map(|(steps, _)| steps.len()).max().unwrap_or(0);
    let of_step = |t: usize| {
        let mut joined: Facts = Vec::new();
        let mut before = 0;
        for (steps, rows) in &parts {
            for (name, values) in steps.get(t).into_iter().flatten() {
                let at = joined.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                    joined.push((name.clone(), Vec::new()));
                    joined.len() - 1
                });
                joined[at].1.resize(before, 0.0);
                joined[at].1.extend_from_slice(values);
            }
            before += rows;
        }
        joined.iter_mut().for_each(|(_, values)| values.resize(before, 0.0));
        joined
    };
    (0..steps).map(of_step).collect()
}

impl RemoteRollouts for RemoteEnvironments {
    fn play(
        &mut self,
        learner: &dyn Learner,
        plan: TrainingPlan,
        from: &dyn Fn() -> RolloutState,
    ) -> Result<Vec<RemoteRollout>, TrainingError> {
        self.play_round(learner, plan, from()).map_err(training_error)
    }

    fn refresh(&mut self, learner: &mut dyn Learner) -> Result<Option<usize>, TrainingError> {
        // A model that cannot be read just now is being written: the old one stays in use.
        match self.reward.refresh().unwrap_or(false) {
            true => Ok(Some(learner.relabel(self.reward.as_ref())?)),
            false => Ok(None),
        }
    }
}
