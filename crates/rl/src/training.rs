//! The training loop: act, label with rewards, learn, and log metrics.

use std::time::{Duration, Instant};

use plaudit_core::{Env, Obs, Policy, Reward, RewardColumn, RewardError, Seed, Segment};
use thiserror::Error;

use crate::control_stats::ControlStats;
use crate::learner::{Experience, LearnError, Learner, Metrics};
use crate::rollout_progress::RolloutProgress;
use crate::rollout_stats::RolloutStats;
use crate::{PlayedSegment, Rollout, RolloutError, RolloutState, TakenStep};

/// How much is done in one step of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingPlan {
    /// Steps of each environment in a rollout, T.
    pub steps: usize,
    /// Rollouts before the learner improves.
    pub rollouts: usize,
}

/// A learner, and the source of its labelled rollouts: environments of this process, or of others.
pub struct Training<'a> {
    source: Source<'a>,
    plan: TrainingPlan,
    /// Where the step of learning began that failed or is under way.
    unfinished: Option<RolloutState>,
}

/// Where rollouts come from.
enum Source<'a> {
    Local(Box<LocalRollouts<'a>>),
    Remote(RemoteSource<'a>),
}

/// Callback for every labelled segment.
pub type OnLabelled<'a> = Box<dyn FnMut(&Segment, &RewardColumn) + Send + 'a>;

/// Environments of other processes that play in step with the learner.
///
/// What comes back must not depend on how rows are spread over processes, nor on how often one of them was started again.
pub trait RemoteRollouts: Send {
    /// The next `plan.rollouts` rollouts of all rows, labelled, all of them played with the learner's explorer as it is
    /// now. `from` is where the environments are: processes that have just been started begin there.
    fn play(
        &mut self,
        learner: &dyn Learner,
        plan: TrainingPlan,
        from: &dyn Fn() -> RolloutState,
    ) -> Result<Vec<RemoteRollout>, TrainingError>;

    /// Notices whether the reward has changed, as [`Reward::refresh`] does, and relabels what the learner stores.
    fn refresh(&mut self, learner: &mut dyn Learner) -> Result<Option<usize>, TrainingError>;
}

/// A labelled rollout of all rows.
#[derive(Debug)]
pub struct RemoteRollout {
    /// What was played, and its rewards.
    pub experience: Experience,
    /// Rows whose environments could not be restored after their process was started again: they began anew.
    pub began_anew: Vec<usize>,
    /// How long the reward took, where that took longest.
    pub reward_secs: f64,
}

/// What the environments of other processes are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteEnvs {
    /// Rows, over all processes.
    pub num_envs: usize,
    /// Numbers per action.
    pub action_width: usize,
    /// Observations before a segment that the reward asks for.
    pub context: usize,
}

impl<'a> Training<'a> {
    /// Starts the environments, from the state of an earlier run if they can be restored. Returns whether they were.
    pub fn start(
        env: &'a mut dyn Env,
        reward: &'a dyn Reward,
        plan: TrainingPlan,
        seed: Seed,
        resume_from: Option<RolloutState>,
    ) -> Result<(Self, bool), TrainingError> {
        let (rollouts, restored) = LocalRollouts::start(env, reward, plan, seed, resume_from)?;
        Ok((Self { source: Source::Local(Box::new(rollouts)), plan, unfinished: None }, restored))
    }

    /// Learns from environments elsewhere, from the state of an earlier run if there is one.
    pub fn start_remote(
        rollouts: Box<dyn RemoteRollouts + 'a>,
        envs: RemoteEnvs,
        plan: TrainingPlan,
        resume_from: Option<RolloutState>,
    ) -> Self {
        let remote =
            RemoteSource { rollouts, tracker: RemoteTracker::new(envs, resume_from), on_labelled: None };
        Self { source: Source::Remote(remote), plan, unfinished: None }
    }

    /// Calls `on_labelled` for every segment from now on, once, when it is first labelled.
    pub fn on_labelled(&mut self, on_labelled: OnLabelled<'a>) {
        match &mut self.source {
            Source::Local(rollouts) => rollouts.on_labelled = Some(on_labelled),
            Source::Remote(remote) => remote.on_labelled = Some(on_labelled),
        }
    }

    /// What the environments show now, where they are in this process.
    pub fn obs(&self) -> Option<&Obs> {
        match &self.source {
            Source::Local(rollouts) => Some(rollouts.obs()),
            Source::Remote(_) => None,
        }
    }

    /// The state of the rollout, for a later [`Self::start`]. After a [`step`](Self::step) that failed it is the state
    /// that the step began in, so that a resumed run takes the same step and nothing of it is lost.
    pub fn rollout_state(&self) -> RolloutState {
        self.unfinished.clone().unwrap_or_else(|| self.source.rollout_state())
    }

    /// One step of learning, with a callback at each step of the environments of this process. A reward that fails leaves
    /// the learner as it was: it is given the rollouts of the step once all of them have their rewards.
    pub fn step<E: From<TrainingError>>(
        &mut self,
        learner: &mut dyn Learner,
        mut on_step: impl FnMut(&TakenStep) -> Result<(), E>,
    ) -> Result<Metrics, E> {
        let mut stats = RolloutStats::default();
        let began = Instant::now();
        let relabelled = self.source.refresh(learner)?;
        self.unfinished = Some(self.source.rollout_state());
        let rollouts = match &mut self.source {
            Source::Local(rollouts) => {
                let mut policy = learner.explorer();
                let mut play = |_| rollouts.play_labelled(policy.as_mut(), &mut on_step, &mut stats);
                let played = (0..self.plan.rollouts).map(&mut play).collect::<Result<Vec<_>, E>>()?;
                played.into_iter().flatten().collect()
            }
            Source::Remote(remote) => remote.play(learner, self.plan, &mut stats)?,
        };
        for experience in rollouts {
            learner.add_experience(experience).map_err(TrainingError::from)?;
        }
        let acted = began.elapsed().as_secs_f64();
        let learned = learner.improve().map_err(TrainingError::from)?;
        self.unfinished = None;
        let mut metrics = Metrics::default();
        stats.push_to(&mut metrics);
        metrics.extend(learned);
        if let Some(relabelled) = relabelled.filter(|&steps| steps > 0) {
            metrics.push("train/replay_buffer/relabelled", relabelled as f64);
        }
        let whole = began.elapsed().as_secs_f64();
        metrics.push("time/step", whole);
        metrics.push("time/generate_rollouts", acted - stats.reward_secs());
        metrics.push("time/reward/compute_rewards", stats.reward_secs());
        metrics.push("time/actor_training", whole - acted);
        metrics.push("time/env_steps_per_second", stats.env_steps() as f64 / whole);
        Ok(metrics)
    }
}

impl Source<'_> {
    /// Where the environments are now.
    fn rollout_state(&self) -> RolloutState {
        match self {
            Self::Local(rollouts) => rollouts.rollout_state(),
            Self::Remote(remote) => remote.tracker.rollout_state(),
        }
    }

    /// Relabels what the learner stores if the reward has changed; says how many steps.
    fn refresh(&mut self, learner: &mut dyn Learner) -> Result<Option<usize>, TrainingError> {
        match self {
            Self::Local(rollouts) => {
                let reward = rollouts.labeller.reward;
                // A model that cannot be read just now is being written: the old one stays in use.
                match reward.refresh().unwrap_or(false) {
                    true => Ok(Some(learner.relabel(reward)?)),
                    false => Ok(None),
                }
            }
            Self::Remote(remote) => remote.rollouts.refresh(learner),
        }
    }
}

/// Rollouts of other processes, and how far their environments are.
struct RemoteSource<'a> {
    rollouts: Box<dyn RemoteRollouts + 'a>,
    tracker: RemoteTracker,
    on_labelled: Option<OnLabelled<'a>>,
}

impl RemoteSource<'_> {
    fn play(
        &mut self,
        learner: &dyn Learner,
        plan: TrainingPlan,
        stats: &mut RolloutStats,
    ) -> Result<Vec<Experience>, TrainingError> {
        let Self { rollouts, tracker, on_labelled } = self;
        let played = rollouts.play(learner, plan, &|| tracker.rollout_state())?;
        let experiences: Vec<Experience> =
            played.into_iter().filter_map(|rollout| tracker.take(rollout, stats)).collect();
        if let Some(on_labelled) = on_labelled {
            experiences.iter().for_each(|experience| on_labelled(&experience.segment, &experience.reward));
        }
        Ok(experiences)
    }
}

/// How far environments elsewhere are, from what they have played.
pub(crate) struct RemoteTracker {
    progress: RolloutProgress,
    success: RewardSuccess,
}

impl RemoteTracker {
    /// At the state of an earlier run, or at the start.
    pub(crate) fn new(envs: RemoteEnvs, resume_from: Option<RolloutState>) -> Self {
        let RemoteEnvs { num_envs, action_width, context } = envs;
        let so_far = resume_from.as_ref().map_or_else(|| vec![false; num_envs], |state| state.solved.clone());
        let progress = match resume_from {
            Some(state) => RolloutProgress::at(state, context, action_width),
            None => RolloutProgress::new(num_envs, context),
        };
        Self { progress, success: RewardSuccess { so_far, finished: (0, 0) } }
    }

    pub(crate) fn rollout_state(&self) -> RolloutState {
        RolloutState { solved: self.success.so_far.clone(), ..self.progress.state() }
    }

    /// Takes note of a rollout; nothing comes of one that is worthless.
    pub(crate) fn take(&mut self, rollout: RemoteRollout, stats: &mut RolloutStats) -> Option<Experience> {
        let RemoteRollout { experience, began_anew, reward_secs } = rollout;
        let Experience { segment, decisions, reward } = &experience;
        for row in began_anew {
            self.progress.begin_anew(row);
            self.success.so_far[row] = false;
        }
        let finished = self.progress.record_segment(segment, decisions);
        stats.add_rollout(segment.steps() * segment.batch(), finished);
        if decisions.are_all_invalid() {
            return None;
        }
        self.success.add(segment, reward);
        let counts = reward.success.is_some().then(|| std::mem::take(&mut self.success.finished));
        stats.add_reward(reward, counts, Duration::from_secs_f64(reward_secs.max(0.0)));
        Some(experience)
    }
}

/// Environments of this process that are stepped and labelled.
pub(crate) struct LocalRollouts<'a> {
    rollout: Rollout<'a>,
    labeller: RewardLabeller<'a>,
    plan: TrainingPlan,
    num_envs: usize,
    on_labelled: Option<OnLabelled<'a>>,
    control_stats: ControlStats,
}

impl<'a> LocalRollouts<'a> {
    /// Starts the environments, from the state of an earlier run if they can be restored. Returns whether they were.
    pub(crate) fn start(
        env: &'a mut dyn Env,
        reward: &'a dyn Reward,
        plan: TrainingPlan,
        seed: Seed,
        resume_from: Option<RolloutState>,
    ) -> Result<(Self, bool), TrainingError> {
        let num_envs = env.spec().num_envs;
        let mut so_far = resume_from
            .as_ref()
            .map_or_else(|| vec![false; num_envs], |resume_from| resume_from.solved.clone());
        let (rollout, restored) = match resume_from {
            Some(resume_from) => Rollout::resume(env, seed, reward.context(), resume_from)?,
            None => (Rollout::start(env, seed, reward.context())?, false),
        };
        if !restored {
            so_far = vec![false; num_envs];
        }
        let mut labeller = RewardLabeller::new(reward, num_envs);
        labeller.success.so_far = so_far;
        let control_stats = ControlStats::default();
        Ok((Self { rollout, labeller, plan, num_envs, on_labelled: None, control_stats }, restored))
    }

    /// What the environments show now.
    pub(crate) fn obs(&self) -> &Obs {
        self.rollout.obs()
    }

    /// Where the environments are now.
    pub(crate) fn rollout_state(&self) -> RolloutState {
        RolloutState { solved: self.labeller.success.so_far.clone(), ..self.rollout.rollout_state() }
    }

    /// One rollout, labelled; nothing if all of it is worthless.
    fn play_labelled<E: From<TrainingError>>(
        &mut self,
        policy: &mut dyn Policy,
        on_step: &mut impl FnMut(&TakenStep) -> Result<(), E>,
        stats: &mut RolloutStats,
    ) -> Result<Option<Experience>, E> {
        let Some(PlayedSegment { segment, decisions }) = self.play(policy, on_step, stats)? else {
            return Ok(None);
        };
        let reward = self.label(&segment, stats)?;
        Ok(Some(Experience { segment, decisions, reward }))
    }

    /// One rollout; nothing if all of it belongs to an episode that broke.
    pub(crate) fn play<E: From<TrainingError>>(
        &mut self,
        policy: &mut dyn Policy,
        on_step: &mut impl FnMut(&TakenStep) -> Result<(), E>,
        stats: &mut RolloutStats,
    ) -> Result<Option<PlayedSegment>, E> {
        let control_stats = &mut self.control_stats;
        let callback = |taken: &TakenStep| {
            control_stats.add(&taken.step);
            on_step(taken).map_err(Stop::Callback)
        };
        let played = self.rollout.play_with_callback(policy, self.plan.steps, callback);
        let played = played.map_err(|stop| match stop {
            Stop::Rollout(error) => TrainingError::Rollout(error).into(),
            Stop::Callback(error) => error,
        })?;
        stats.add_rollout(played.segment.steps() * self.num_envs, self.rollout.take_finished());
        if self.rollout.may_break() {
            stats.add_breakable(self.rollout.steps(), &self.control_stats);
        }
        Ok((!played.decisions.are_all_invalid()).then_some(played))
    }

    /// The rewards of a rollout.
    pub(crate) fn label(
        &mut self,
        segment: &Segment,
        stats: &mut RolloutStats,
    ) -> Result<RewardColumn, TrainingError> {
        let reward = self.labeller.label(segment, stats)?;
        if let Some(on_labelled) = &mut self.on_labelled {
            on_labelled(segment, &reward);
        }
        Ok(reward)
    }

    /// Whether an episode may turn out to be worthless.
    pub(crate) fn may_break(&self) -> bool {
        self.rollout.may_break()
    }
}

/// A reward, and which episodes it saw solved.
pub(crate) struct RewardLabeller<'a> {
    reward: &'a dyn Reward,
    success: RewardSuccess,
}

impl<'a> RewardLabeller<'a> {
    /// For environments at the start of their episodes.
    pub(crate) fn new(reward: &'a dyn Reward, num_envs: usize) -> Self {
        Self { reward, success: RewardSuccess { so_far: vec![false; num_envs], finished: (0, 0) } }
    }

    /// The rewards of a rollout.
    pub(crate) fn label(
        &mut self,
        segment: &Segment,
        stats: &mut RolloutStats,
    ) -> Result<RewardColumn, TrainingError> {
        let began = Instant::now();
        let reward = self.reward.label(segment)?;
        self.success.add(segment, &reward);
        let counts = reward.success.is_some().then(|| std::mem::take(&mut self.success.finished));
        stats.add_reward(&reward, counts, began.elapsed());
        Ok(reward)
    }
}

/// Why playing stopped: an error of the rollout, or of the callback.
enum Stop<E> {
    Rollout(RolloutError),
    Callback(E),
}

impl<E> From<RolloutError> for Stop<E> {
    fn from(error: RolloutError) -> Self {
        Self::Rollout(error)
    }
}

/// Episodes as the reward sees them: whether it ever saw the task solved. Never the environment's ground truth.
#[derive(Debug)]
struct RewardSuccess {
    so_far: Vec<bool>,
    finished: (u64, u64),
}

impl RewardSuccess {
    fn add(&mut self, segment: &Segment, reward: &RewardColumn) {
        let Some(success) = &reward.success else { return };
        for (at, (&success, end)) in success.iter().zip(&segment.end).enumerate() {
            let so_far = &mut self.so_far[at % segment.batch()];
            *so_far |= success;
            if end.is_end() {
                let (episodes, solved) = &mut self.finished;
                *episodes += 1;
                *solved += u64::from(std::mem::take(so_far));
            }
        }
    }
}

/// Why training stopped.
#[derive(Debug, Error)]
pub enum TrainingError {
    /// The environments or the policy.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The reward.
    #[error(transparent)]
    Reward(#[from] RewardError),
    /// The learner.
    #[error(transparent)]
    Learner(#[from] LearnError),
    /// Environments elsewhere. The learner is as the step before left it.
    #[error(transparent)]
    Remote(Box<dyn std::error::Error + Send + Sync>),
    /// The callback.
    #[error(transparent)]
    Callback(Box<dyn std::error::Error + Send + Sync>),
}
