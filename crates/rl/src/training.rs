//! The loop of learning: act, be paid, learn, and tell of it.

use std::sync::Arc;
use std::time::Instant;

use plaudit_core::{Env, Obs, Policy, Reward, RewardColumn, RewardError, Seed, Segment};
use thiserror::Error;

use crate::learner::{Experience, LearnError, Learner, Metrics};
use crate::{Episode, Played, Rollout, RolloutError, Taken, Whereabouts};

/// How much is done in one step of learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainingPlan {
    /// Steps of each environment in a rollout, T.
    pub steps: usize,
    /// Rollouts before the learner improves.
    pub rollouts: usize,
}

/// A learner in its environments, paid by a reward.
pub struct Training<'a> {
    rollout: Rollout<'a>,
    reward: &'a dyn Reward,
    plan: TrainingPlan,
    judged: JudgedByReward,
    num_envs: usize,
    on_paid: Option<OnPaid<'a>>,
}

/// Hears of every segment and what it was paid.
pub type OnPaid<'a> = Box<dyn FnMut(&Segment, &RewardColumn) + Send + 'a>;

impl<'a> Training<'a> {
    /// Starts the environments; where an earlier run left them, if they can go back there. Tells whether they did.
    pub fn start(
        env: &'a mut dyn Env,
        reward: &'a dyn Reward,
        plan: TrainingPlan,
        seed: Seed,
        left: Option<Whereabouts>,
    ) -> Result<(Self, bool), TrainingError> {
        let num_envs = env.spec().num_envs;
        let mut so_far = left.as_ref().map_or_else(|| vec![false; num_envs], |left| left.solved.clone());
        let (rollout, went_back) = match left {
            Some(left) => Rollout::resume(env, seed, reward.context(), left)?,
            None => (Rollout::start(env, seed, reward.context())?, false),
        };
        if !went_back {
            so_far = vec![false; num_envs];
        }
        let judged = JudgedByReward { so_far, finished: (0, 0) };
        Ok((Self { rollout, reward, plan, judged, num_envs, on_paid: None }, went_back))
    }

    /// Tells somebody of every segment from now on, once, when it is first paid.
    pub fn on_paid(&mut self, on_paid: OnPaid<'a>) {
        self.on_paid = Some(on_paid);
    }

    /// What the environments show now.
    pub fn obs(&self) -> &Obs {
        self.rollout.obs()
    }

    /// Where the environments are, for a later [`Self::start`].
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts { solved: self.judged.so_far.clone(), ..self.rollout.whereabouts() }
    }

    /// One step of learning, with somebody who looks at each step of the environments.
    pub fn step<E: From<TrainingError>>(
        &mut self,
        learner: &mut dyn Learner,
        mut watch: impl FnMut(&Taken) -> Result<(), E>,
    ) -> Result<Metrics, E> {
        let mut told = Told::default();
        let began = Instant::now();
        // A model that cannot be read just now is being written: the old one goes on judging.
        let changed = self.reward.refresh().unwrap_or(false);
        let repaid =
            if changed { Some(learner.repay(self.reward).map_err(TrainingError::from)?) } else { None };
        let mut policy = learner.explorer();
        for _ in 0..self.plan.rollouts {
            let experience = self.play(policy.as_mut(), &mut watch, &mut told)?;
            learner.remember(experience).map_err(TrainingError::from)?;
        }
        let acted = began.elapsed().as_secs_f64();
        let learned = learner.improve().map_err(TrainingError::from)?;
        let env_steps = (self.plan.steps * self.plan.rollouts * self.num_envs) as f64;
        let mut metrics = Metrics::default();
        told.tell(&mut metrics);
        metrics.extend(learned);
        if let Some(repaid) = repaid.filter(|&steps| steps > 0) {
            metrics.push("train/replay_buffer/repaid", repaid as f64);
        }
        let whole = began.elapsed().as_secs_f64();
        metrics.push("time/step", whole);
        metrics.push("time/generate_rollouts", acted - told.paying_secs);
        metrics.push("time/reward/compute_rewards", told.paying_secs);
        metrics.push("time/actor_training", whole - acted);
        metrics.push("time/env_steps_per_second", env_steps / whole);
        Ok(metrics)
    }

    /// One rollout, paid.
    pub(crate) fn play<E: From<TrainingError>>(
        &mut self,
        policy: &mut dyn Policy,
        watch: &mut impl FnMut(&Taken) -> Result<(), E>,
        told: &mut Told,
    ) -> Result<Experience, E> {
        let heard = |taken: &Taken| watch(taken).map_err(Stop::Watcher);
        let played = self.rollout.play_watched(policy, self.plan.steps, heard);
        let Played { segment, decisions } = played.map_err(|stop| match stop {
            Stop::Rollout(error) => TrainingError::Rollout(error).into(),
            Stop::Watcher(error) => error,
        })?;
        let began = Instant::now();
        let reward = self.reward.label(&segment).map_err(TrainingError::from)?;
        told.paying_secs += began.elapsed().as_secs_f64();
        if let Some(on_paid) = &mut self.on_paid {
            on_paid(&segment, &reward);
        }
        told.add_terms(&reward);
        told.episodes.extend(self.rollout.take_finished());
        self.judged.add(&segment, &reward);
        if reward.success.is_some() {
            let (episodes, solved) = std::mem::take(&mut self.judged.finished);
            let judged = told.judged.get_or_insert((0, 0));
            *judged = (judged.0 + episodes, judged.1 + solved);
        }
        Ok(Experience { segment, decisions, reward })
    }
}

/// Why playing stopped: of itself, or because whoever looked on had enough.
enum Stop<E> {
    Rollout(RolloutError),
    Watcher(E),
}

impl<E> From<RolloutError> for Stop<E> {
    fn from(error: RolloutError) -> Self {
        Self::Rollout(error)
    }
}

/// Episodes as the reward sees them: whether it ever saw the task solved. Never the environment's truth.
#[derive(Debug)]
struct JudgedByReward {
    so_far: Vec<bool>,
    finished: (u64, u64),
}

impl JudgedByReward {
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

/// What one step of learning tells of its rollouts.
#[derive(Default)]
pub(crate) struct Told {
    episodes: Vec<Episode>,
    /// Episodes the reward judged, and those it saw solved.
    judged: Option<(u64, u64)>,
    terms: Vec<(Arc<str>, f64, usize)>,
    paying_secs: f64,
}

impl Told {
    fn add_terms(&mut self, reward: &RewardColumn) {
        for term in &reward.terms {
            let sum: f64 = term.values.iter().map(|&value| f64::from(value)).sum();
            match self.terms.iter_mut().find(|(name, ..)| *name == term.name) {
                Some((_, total, count)) => (*total, *count) = (*total + sum, *count + term.values.len()),
                None => self.terms.push((term.name.clone(), sum, term.values.len())),
            }
        }
    }

    /// Adds what another rollout told.
    pub(crate) fn merge(&mut self, other: Self) {
        self.episodes.extend(other.episodes);
        self.paying_secs += other.paying_secs;
        for (name, sum, count) in other.terms {
            match self.terms.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, total, values)) => (*total, *values) = (*total + sum, *values + count),
                None => self.terms.push((name, sum, count)),
            }
        }
        if let Some((episodes, solved)) = other.judged {
            let judged = self.judged.get_or_insert((0, 0));
            *judged = (judged.0 + episodes, judged.1 + solved);
        }
    }

    /// Means over the episodes that ended, under RLinf's names, and each term of the reward.
    pub(crate) fn tell(&self, metrics: &mut Metrics) {
        let n = self.episodes.len() as f64;
        if !self.episodes.is_empty() {
            let mean = |of: fn(&Episode) -> f64| self.episodes.iter().map(of).sum::<f64>() / n;
            let once = mean(|episode| f64::from(u8::from(episode.success_once)));
            metrics.push("env/success_once", once);
            metrics.push("env/success_at_end", mean(|episode| f64::from(u8::from(episode.success_at_end))));
            metrics.push("env/return", mean(|episode| episode.env_return));
            metrics.push("env/episode_len", mean(|episode| episode.length as f64));
            metrics.push("env/reward", mean(|episode| episode.env_return / episode.length as f64));
            if let Some((judged, solved)) = self.judged.filter(|(judged, _)| *judged > 0) {
                metrics.push("env/success_true", once);
                metrics.push("env/success_by_model", solved as f64 / judged as f64);
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
    /// Whoever looked on.
    #[error(transparent)]
    Onlooker(Box<dyn std::error::Error + Send + Sync>),
}
