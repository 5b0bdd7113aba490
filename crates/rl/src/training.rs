//! The training loop: act, label with rewards, learn, and log metrics.

use std::sync::Arc;
use std::time::Instant;

use plaudit_core::{Env, Obs, Policy, Reward, RewardColumn, RewardError, Seed, Segment};
use thiserror::Error;

use crate::learner::{Experience, LearnError, Learner, Metrics};
use crate::{Episode, PlayedSegment, Rollout, RolloutError, RolloutState, TakenStep};

/// How much is done in one step of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingPlan {
    /// Steps of each environment in a rollout, T.
    pub steps: usize,
    /// Rollouts before the learner improves.
    pub rollouts: usize,
}

/// A learner in its environments, with a reward.
pub struct Training<'a> {
    rollout: Rollout<'a>,
    reward: &'a dyn Reward,
    plan: TrainingPlan,
    reward_success: RewardSuccess,
    num_envs: usize,
    on_labelled: Option<OnLabelled<'a>>,
    /// Where the step of learning began that failed or is under way.
    unfinished: Option<RolloutState>,
}

/// Callback for every labelled segment.
pub type OnLabelled<'a> = Box<dyn FnMut(&Segment, &RewardColumn) + Send + 'a>;

impl<'a> Training<'a> {
    /// Starts the environments, from the state of an earlier run if they can be restored. Returns whether they were.
    pub fn start(
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
        let reward_success = RewardSuccess { so_far, finished: (0, 0) };
        let (on_labelled, unfinished) = (None, None);
        Ok((Self { rollout, reward, plan, reward_success, num_envs, on_labelled, unfinished }, restored))
    }

    /// Calls `on_labelled` for every segment from now on, once, when it is first labelled.
    pub fn on_labelled(&mut self, on_labelled: OnLabelled<'a>) {
        self.on_labelled = Some(on_labelled);
    }

    /// What the environments show now.
    pub fn obs(&self) -> &Obs {
        self.rollout.obs()
    }

    /// The state of the rollout, for a later [`Self::start`]. After a [`step`](Self::step) that failed it is the state
    /// that the step began in, so that a resumed run takes the same step and nothing of it is lost.
    pub fn rollout_state(&self) -> RolloutState {
        self.unfinished.clone().unwrap_or_else(|| self.current_state())
    }

    /// Where the environments are now.
    fn current_state(&self) -> RolloutState {
        RolloutState { solved: self.reward_success.so_far.clone(), ..self.rollout.rollout_state() }
    }

    /// One step of learning, with a callback at each step of the environments. A reward that fails leaves the learner as
    /// it was: it is given the rollouts of the step once all of them have their rewards.
    pub fn step<E: From<TrainingError>>(
        &mut self,
        learner: &mut dyn Learner,
        mut on_step: impl FnMut(&TakenStep) -> Result<(), E>,
    ) -> Result<Metrics, E> {
        let mut stats = RolloutStats::default();
        let began = Instant::now();
        // A model that cannot be read just now is being written: the old one stays in use.
        let changed = self.reward.refresh().unwrap_or(false);
        let relabelled =
            if changed { Some(learner.relabel(self.reward).map_err(TrainingError::from)?) } else { None };
        self.unfinished = Some(self.current_state());
        let mut policy = learner.explorer();
        let rollouts = (0..self.plan.rollouts)
            .map(|_| self.play(policy.as_mut(), &mut on_step, &mut stats))
            .collect::<Result<Vec<_>, E>>()?;
        for experience in rollouts {
            learner.add_experience(experience).map_err(TrainingError::from)?;
        }
        let acted = began.elapsed().as_secs_f64();
        let learned = learner.improve().map_err(TrainingError::from)?;
        self.unfinished = None;
        let env_steps = (self.plan.steps * self.plan.rollouts * self.num_envs) as f64;
        let mut metrics = Metrics::default();
        stats.push_to(&mut metrics);
        metrics.extend(learned);
        if let Some(relabelled) = relabelled.filter(|&steps| steps > 0) {
            metrics.push("train/replay_buffer/relabelled", relabelled as f64);
        }
        let whole = began.elapsed().as_secs_f64();
        metrics.push("time/step", whole);
        metrics.push("time/generate_rollouts", acted - stats.reward_secs);
        metrics.push("time/reward/compute_rewards", stats.reward_secs);
        metrics.push("time/actor_training", whole - acted);
        metrics.push("time/env_steps_per_second", env_steps / whole);
        Ok(metrics)
    }

    /// One rollout, labelled.
    pub(crate) fn play<E: From<TrainingError>>(
        &mut self,
        policy: &mut dyn Policy,
        on_step: &mut impl FnMut(&TakenStep) -> Result<(), E>,
        stats: &mut RolloutStats,
    ) -> Result<Experience, E> {
        let callback = |taken: &TakenStep| on_step(taken).map_err(Stop::Callback);
        let played = self.rollout.play_with_callback(policy, self.plan.steps, callback);
        let PlayedSegment { segment, decisions } = played.map_err(|stop| match stop {
            Stop::Rollout(error) => TrainingError::Rollout(error).into(),
            Stop::Callback(error) => error,
        })?;
        let began = Instant::now();
        let reward = self.reward.label(&segment).map_err(TrainingError::from)?;
        stats.reward_secs += began.elapsed().as_secs_f64();
        if let Some(on_labelled) = &mut self.on_labelled {
            on_labelled(&segment, &reward);
        }
        stats.add_terms(&reward);
        stats.episodes.extend(self.rollout.take_finished());
        self.reward_success.add(&segment, &reward);
        if reward.success.is_some() {
            let (episodes, solved) = std::mem::take(&mut self.reward_success.finished);
            let counts = stats.reward_success.get_or_insert((0, 0));
            *counts = (counts.0 + episodes, counts.1 + solved);
        }
        Ok(Experience { segment, decisions, reward })
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

/// Statistics of the rollouts of one step of learning.
#[derive(Default)]
pub(crate) struct RolloutStats {
    episodes: Vec<Episode>,
    /// Episodes that the reward scored, and those it saw solved.
    reward_success: Option<(u64, u64)>,
    terms: Vec<(Arc<str>, f64, usize)>,
    reward_secs: f64,
}

impl RolloutStats {
    fn add_terms(&mut self, reward: &RewardColumn) {
        for term in &reward.terms {
            let sum: f64 = term.values.iter().map(|&value| f64::from(value)).sum();
            match self.terms.iter_mut().find(|(name, ..)| *name == term.name) {
                Some((_, total, count)) => (*total, *count) = (*total + sum, *count + term.values.len()),
                None => self.terms.push((term.name.clone(), sum, term.values.len())),
            }
        }
    }

    /// Adds the statistics of another rollout.
    pub(crate) fn merge(&mut self, other: Self) {
        self.episodes.extend(other.episodes);
        self.reward_secs += other.reward_secs;
        for (name, sum, count) in other.terms {
            match self.terms.iter_mut().find(|(other, ..)| *other == name) {
                Some((_, total, values)) => (*total, *values) = (*total + sum, *values + count),
                None => self.terms.push((name, sum, count)),
            }
        }
        if let Some((episodes, solved)) = other.reward_success {
            let counts = self.reward_success.get_or_insert((0, 0));
            *counts = (counts.0 + episodes, counts.1 + solved);
        }
    }

    /// Means over the episodes that ended, under RLinf's names, and each term of the reward.
    pub(crate) fn push_to(&self, metrics: &mut Metrics) {
        let n = self.episodes.len() as f64;
        if !self.episodes.is_empty() {
            let mean = |of: fn(&Episode) -> f64| self.episodes.iter().map(of).sum::<f64>() / n;
            let once = mean(|episode| f64::from(u8::from(episode.success_once)));
            metrics.push("env/success_once", once);
            metrics.push("env/success_at_end", mean(|episode| f64::from(u8::from(episode.success_at_end))));
            metrics.push("env/return", mean(|episode| episode.env_return));
            metrics.push("env/episode_len", mean(|episode| episode.length as f64));
            metrics.push("env/reward", mean(|episode| episode.env_return / episode.length as f64));
            if let Some((scored, solved)) = self.reward_success.filter(|(scored, _)| *scored > 0) {
                metrics.push("env/success_true", once);
                metrics.push("env/success_by_model", solved as f64 / scored as f64);
            }
        }
        metrics.push("env/num_trajectories", n);
        for (name, sum, count) in &self.terms {
            metrics.push(format!("reward/{name}"), sum / (*count).max(1) as f64);
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
    /// The callback.
    #[error(transparent)]
    Callback(Box<dyn std::error::Error + Send + Sync>),
}
