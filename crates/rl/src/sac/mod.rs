//! Soft actor-critic (Haarnoja et al., 2018), with what made it learn from little data since: many critics of which
//! few are asked (REDQ, Chen et al., 2021), demonstrations in every batch (RLPD, Ball et al., 2023), and critics
//! without a target network (CrossQ, Bhatt et al., 2024).
//!
//! ```text
//! critics    y = Σ r + γ m (agg_i Q'_i(s', a') − α log π(a'|s'))      a' ~ π(·|s')
//!            L(Q) = mean (Q_i(s, a) − y)²                             over all critics and the batch
//! policy     L(π) = mean (α log π(a|s) − agg_i Q_i(s, a))             a ~ π(·|s)
//! α          L(α) = −α (mean log π(a|s) + H̄)
//! target     Q' ← Q' + τ (Q − Q')
//! ```
//!
//! `m` is 0 where an episode terminated, unless every end is bootstrapped; what a truncated episode led to always has
//! a value. Rewards of a chunk of actions are summed, and the chunk is discounted once.
//!
//! On images, `s` is what an encoder makes of them. The critics' loss teaches it, and so does the distance to what
//! demonstrations did, where that counts; what else the policy would like to see it takes no notice of.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{End, Policy, Reward, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{
    Adam, EnsembleScratch, EnsembleTape, HeadInputs, Scratch, Tape, clip_grad_norm, polyak, together,
};

mod checkpoint;
mod cloning;
mod critics;
mod near_demos;
mod networks;
mod noise;
mod settings;
mod tanh_gaussian;
mod temperature;

pub use critics::Agg;
pub use near_demos::NearDemos;
pub use networks::{CriticKind, SoftNetworkSettings, SoftNetworks, SoftPolicy};
pub use settings::{DemoSettings, Optim, SacSettings};
pub use tanh_gaussian::{Drawn, Spread, TanhGaussian};
pub use temperature::{Temperature, TemperatureKind, TemperatureSettings, TemperatureStep};

use crate::cloning::{ClonedSoFar, Cloning};
use crate::interventions::interventions;
use crate::naming::Misfit;
use crate::replay::{Amount, NewRollout, Replay, Transitions, Views};
use crate::rows::{join, join_more, take_actions, take_seen, zero};
use crate::sight::{Look, Sight, SightTape, shift};
use crate::successes::successes;
use crate::{Bootstrap, Experience, LearnError, Learner, Manner, Metrics, StateScale};
use critics::choose;

/// Soft actor-critic.
pub struct Sac {
    settings: SacSettings,
    networks: Arc<SoftNetworks>,
    policy: Arc<Vec<f32>>,
    critics: Vec<f32>,
    target: Vec<f32>,
    policy_adam: Adam,
    critic_adam: Adam,
    temperature: Temperature,
    replay: Replay,
    demos: Option<Replay>,
    /// Steps of the critics since the start. With the seed, all that chance depends on.
    updates: u64,
    seed: Seed,
    work: Work,
}

/// What an update leaves to chance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chance {
    /// Standard normal noise of the actions after the transitions, `[N, A]`.
    pub next_noise: Vec<f32>,
    /// Standard normal noise of the actions the policy is improved by, `[N, A]`.
    pub noise: Vec<f32>,
    /// The critics whose targets count.
    pub heads: Vec<usize>,
}

/// Memory of an update, kept for the next.
#[derive(Default)]
struct Work {
    batch: Transitions,
    /// Where the batch's demonstrations begin.
    first_demo: usize,
    chance: Chance,
    /// What is seen, with a way back.
    eyes: SightTape,
    /// What is seen, without one.
    glance: SightTape,
    /// Gradients of what is seen.
    by_seen: Vec<f32>,
    drawn: Drawn,
    policy_scratch: Scratch,
    policy_tape: Tape,
    policy_outputs: Vec<f32>,
    policy_grads: Vec<f32>,
    by_output: Vec<f32>,
    /// `[N, inputs + A]`: what critics take.
    critic_inputs: Vec<f32>,
    critic_scratch: EnsembleScratch,
    critic_tape: EnsembleTape,
    critic_grads: Vec<f32>,
    /// `[H, N]`.
    by_value: Vec<f32>,
    by_critic_inputs: Vec<f32>,
    by_action: Vec<f32>,
    /// Q(s, a), `[H, N]`.
    q: Vec<f32>,
    /// Aggregated values, `[N]`.
    values: Vec<f32>,
    /// y, `[N]`.
    targets: Vec<f32>,
    /// Gradients of the distance to what demonstrations did.
    by_shown: Vec<f32>,
    /// What is seen of demonstrations; then gradients of it.
    seen_of_demos: Vec<f32>,
}

/// What updates measured, summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    critic_loss: f64,
    critic_grad: f64,
    q_data: f64,
    updates: f64,
    actor_loss: f64,
    actor_grad: f64,
    entropy: f64,
    demo_distance: f64,
    q_pi: f64,
    alpha_loss: f64,
    alpha_grad: f64,
    policy_updates: f64,
}

impl Sac {
    /// A learner that has learned nothing. `demos` are paid already.
    pub fn new(settings: SacSettings, demos: Vec<NewRollout>, seed: Seed) -> Result<Self, LearnError> {
        settings.check()?;
        let Some(mut networks) = SoftNetworks::new(&settings.networks) else {
            let problem =
                "soft actor-critic needs continuous actions, and these are one of several choices; use PPO";
            return Err(LearnError::Setting(problem.into()));
        };
        if networks.sight.is_some() && !networks.has_target() {
            let problem = "CrossQ's critics are for policies on states; set algorithm.q_head_type to default";
            return Err(LearnError::Setting(problem.into()));
        }
        if settings.shift.is_some() && networks.sight.as_ref().is_none_or(|sight| sight.trunk().is_some()) {
            let problem = "algorithm.enable_drq moves images, and this policy keeps none of them: it is for \
                           actor.model.backbone conv";
            return Err(LearnError::Setting(problem.into()));
        }
        if settings.scale_states {
            if !networks.has_target() {
                let problem = "algorithm.scale_states is for critics that have a target network; leave it out, or set \
                               algorithm.q_head_type to default";
                return Err(LearnError::Setting(problem.into()));
            }
            networks.scale = scale_of(&demos);
        }
        let (policy, critics) = (networks.init_policy(seed), networks.init_critics(seed));
        let target = if networks.has_target() { critics.clone() } else { Vec::new() };
        let mut sac = Self {
            policy_adam: Adam::new(policy.len(), settings.policy_optim.adam),
            critic_adam: Adam::new(critics.len(), settings.critic_optim.adam),
            temperature: Temperature::new(settings.temperature),
            replay: Replay::new(settings.replay.clone()),
            demos: settings.demos.as_ref().map(|demos| Replay::new(demos.replay.clone())),
            networks: Arc::new(networks),
            policy: Arc::new(policy),
            critics,
            target,
            updates: 0,
            seed: seed.purpose("sac"),
            work: Work::default(),
            settings,
        };
        sac.add_demos(demos)?;
        Ok(sac)
    }

    /// Adds demonstrations: those to start from, or what a person did when they took over.
    pub fn add_demos(&mut self, new: Vec<NewRollout>) -> Result<(), LearnError> {
        for demo in new {
            self.check_widths(&demo)?;
            if let Some(demos) = &mut self.demos {
                demos.add_seen(demo, self.networks.sight.as_ref())?;
            }
        }
        let (Some(demos), Some(settings)) = (&self.demos, &self.settings.demos) else { return Ok(()) };
        if demos.holds(settings.min) && demos.transitions() > 0 {
            return Ok(());
        }
        let (found, needed) = match settings.min {
            Amount::Rollouts(needed) => (demos.rollouts(), needed),
            Amount::Transitions(needed) => (demos.transitions(), needed),
        };
        let problem = format!(
            "RLPD learns from demonstrations, and there are {found} where {} are needed; \
             set algorithm.demo_buffer.load_path to some, or leave demo_buffer out",
            needed.max(1)
        );
        Err(LearnError::Setting(problem))
    }

    /// α.
    pub fn alpha(&self) -> f32 {
        self.temperature.alpha()
    }

    /// How it learns.
    pub fn settings(&self) -> &SacSettings {
        &self.settings
    }

    /// Experience to learn from.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// One update on a batch, with chance as given.
    pub fn update_on(&mut self, batch: Transitions, chance: Chance) -> Result<Metrics, LearnError> {
        let mut measured = Measured::default();
        self.work.first_demo = batch.len();
        (self.work.batch, self.work.chance) = (batch, chance);
        self.update(&mut measured)?;
        Ok(self.metrics(&measured))
    }

    /// All updates of a step of learning.
    fn update_often(&mut self, measured: &mut Measured) -> Result<(), LearnError> {
        for _ in 0..self.settings.updates {
            self.draw_batch();
            self.draw_chance();
            self.update(measured)?;
        }
        Ok(())
    }

    /// Whether there is enough to learn from.
    fn is_ready(&self) -> bool {
        self.replay.holds(self.settings.min_replay) && self.replay.transitions() > 0
    }

    /// Draws the batch of this update: half of it demonstrations, where there are any.
    fn draw_batch(&mut self) {
        let batch = &mut self.work.batch;
        batch.clear();
        let mut rng = self.seed.purpose("batch").index(self.updates).rng();
        let half = self.settings.batch_size / 2;
        match &self.demos {
            None => self.replay.sample(self.settings.batch_size, &mut rng, batch),
            Some(demos) => {
                self.replay.sample(self.settings.batch_size - half, &mut rng, batch);
                self.work.first_demo = batch.len();
                demos.sample(half, &mut rng, batch);
            }
        }
        if let Some(scale) = &self.networks.scale {
            scale.apply(&mut batch.seen.states);
            scale.apply(&mut batch.outcome.states);
        }
        if let Some(reach) = self.settings.shift {
            let seed = self.seed.purpose("shift").index(self.updates);
            for (moment, views) in [&mut batch.seen, &mut batch.outcome].into_iter().enumerate() {
                for (camera, (_, shape, pixels)) in views.images.iter_mut().enumerate() {
                    shift(pixels, *shape, reach, seed.index(moment as u64).index(camera as u64));
                }
            }
        }
    }

    /// Draws all that this update leaves to chance.
    fn draw_chance(&mut self) {
        let work = &mut self.work;
        let width = work.batch.len() * self.networks.gaussian.width();
        let rng = |purpose: &str| self.seed.purpose(purpose).index(self.updates).rng();
        noise::fill(&mut rng("next action"), width, &mut work.chance.next_noise);
        noise::fill(&mut rng("action"), width, &mut work.chance.noise);
        let (heads, count) = (self.networks.critics.heads(), self.settings.critic_subsample);
        choose(heads, count, &mut rng("heads"), &mut work.chance.heads);
    }

    fn update(&mut self, measured: &mut Measured) -> Result<(), LearnError> {
        self.improve_critics(measured)?;
        let is_policys_turn = self.updates.is_multiple_of(self.settings.critic_actor_ratio);
        if is_policys_turn && self.updates >= self.settings.train_actor_steps {
            self.improve_policy(measured)?;
        }
        self.updates += 1;
        if self.networks.has_target() && self.updates.is_multiple_of(self.settings.target_update_freq) {
            polyak(&mut self.target, &self.critics, self.settings.tau);
        }
        Ok(())
    }

    /// One step of all critics towards y.
    fn improve_critics(&mut self, measured: &mut Measured) -> Result<(), LearnError> {
        let networks = self.networks.clone();
        self.draw_next_actions();
        match networks.has_target() {
            true => self.judge_by_target(),
            false => self.judge_at_once(),
        }
        let (loss, mean) = self.critic_errors();
        self.check(loss, "the loss of the critics")?;
        let work = &mut self.work;
        work.critic_grads.resize(self.critics.len(), 0.0);
        let grads = &mut work.critic_grads[networks.eyes()..];
        let (eyes, critics) = self.critics.split_at_mut(networks.eyes());
        let tape = &mut work.critic_tape;
        match &networks.sight {
            None => networks.critics.backward_anew(critics, tape, &work.by_value, grads, None),
            Some(sight) => {
                work.by_critic_inputs.resize(work.critic_inputs.len(), 0.0);
                let by_inputs = &mut work.by_critic_inputs;
                networks.critics.backward_anew(critics, tape, &work.by_value, grads, Some(by_inputs));
                let n = work.batch.len();
                take_seen(by_inputs, networks.gaussian.width(), n, &mut work.by_seen);
                if let Some(near) = &self.settings.near_demos {
                    work.add_demo_slopes_of_sight(&networks, &self.policy, near);
                }
                let look = Look::from(&work.batch.seen);
                let eye_grads = &mut work.critic_grads[..networks.eyes()];
                eye_grads.fill(0.0);
                sight.backward(eyes, &look, &mut work.eyes, &work.by_seen, eye_grads);
            }
        }
        if !networks.has_target() {
            networks.critics.update_statistics(critics, &work.critic_tape);
        }
        let grads = &mut work.critic_grads;
        let optim = &self.settings.critic_optim;
        let norm = clip_grad_norm(grads, optim.clip_grad);
        let lr = optim.schedule.at(self.updates) as f32;
        self.check(f64::from(norm), "the gradient of the critics")?;
        self.critic_adam.step(&mut self.critics, &self.work.critic_grads, lr);
        measured.critic_loss += loss;
        measured.critic_grad += f64::from(norm);
        measured.q_data += mean;
        measured.updates += 1.0;
        Ok(())
    }

    /// a' ~ π(·|s'), with log π.
    fn draw_next_actions(&mut self) {
        let SoftNetworks { sight, policy, gaussian, .. } = &*self.networks;
        let work = &mut self.work;
        let n = work.batch.len();
        let eyes = &self.critics[..self.networks.eyes()];
        let seen = see(sight.as_ref(), eyes, &work.batch.outcome, n, &mut work.glance);
        let outputs = policy.infer(&self.policy, seen, n, &mut work.policy_scratch);
        gaussian.draw(outputs, &work.chance.next_noise, &mut work.drawn);
    }

    /// Q(s, a) by the critics, and Q'(s', a') by their target.
    fn judge_by_target(&mut self) {
        let SoftNetworks { sight, critics, .. } = &*self.networks;
        let work = &mut self.work;
        let n = work.batch.len();
        let (eyes, target) = self.target.split_at(self.networks.eyes());
        let seen = see(sight.as_ref(), eyes, &work.batch.outcome, n, &mut work.glance);
        join(seen, &work.drawn.actions, n, &mut work.critic_inputs);
        let scratch = &mut work.critic_scratch;
        let next = critics.infer(target, &work.chance.heads, &work.critic_inputs, n, scratch);
        work.values.resize(n, 0.0);
        self.settings.agg_q.values(next, &mut work.values);
        let (eyes, online) = self.critics.split_at(self.networks.eyes());
        let seen = match sight {
            None => &work.batch.seen.states[..],
            Some(sight) => {
                let dropout = Dropout::On(self.seed.purpose("dropout").index(self.updates));
                sight.forward(eyes, &Look::from(&work.batch.seen), n, dropout, &mut work.eyes)
            }
        };
        join(seen, &work.batch.actions, n, &mut work.critic_inputs);
        let inputs = HeadInputs::Shared(&work.critic_inputs);
        let now = critics.forward(online, inputs, n, &mut work.critic_tape);
        work.q.clear();
        work.q.extend_from_slice(now);
    }

    /// CrossQ: both halves of the transitions in one batch, whose statistics then fit both. `Q'` is `Q`.
    fn judge_at_once(&mut self) {
        let critics = &self.networks.critics;
        let work = &mut self.work;
        let n = work.batch.len();
        join(&work.batch.seen.states, &work.batch.actions, n, &mut work.critic_inputs);
        join_more(&work.batch.outcome.states, &work.drawn.actions, n, &mut work.critic_inputs);
        let inputs = HeadInputs::Shared(&work.critic_inputs);
        let both = critics.forward(&self.critics, inputs, 2 * n, &mut work.critic_tape);
        work.q.clear();
        work.by_value.clear();
        for head in both.chunks_exact(2 * n) {
            work.q.extend_from_slice(&head[..n]);
        }
        for head in &work.chance.heads {
            work.by_value.extend_from_slice(&both[(2 * head + 1) * n..(2 * head + 2) * n]);
        }
        work.values.resize(n, 0.0);
        self.settings.agg_q.values(&work.by_value, &mut work.values);
    }

    /// L(Q) and the mean of Q; leaves behind what L moves by with each output of the critics.
    fn critic_errors(&mut self) -> (f64, f64) {
        let SacSettings { gamma, bootstrap, target_range: range, backup_entropy, .. } = self.settings;
        let alpha = if backup_entropy { self.temperature.alpha() } else { 0.0 };
        let work = &mut self.work;
        let rule = TargetRule { gamma, bootstrap, range, alpha };
        rule.targets(&work.batch, &work.drawn.log_probs, &work.values, &mut work.targets);
        let n = work.batch.len();
        let (heads, scale) = (work.q.len() / n, 1.0 / work.q.len() as f32);
        // Of CrossQ's joint batch, the second half is not in the loss.
        let rows = if self.networks.has_target() { n } else { 2 * n };
        zero(&mut work.by_value, heads * rows);
        let (mut loss, mut sum) = (0.0, 0.0);
        for (values, by_value) in work.q.chunks_exact(n).zip(work.by_value.chunks_exact_mut(rows)) {
            for ((value, target), by_value) in values.iter().zip(&work.targets).zip(by_value) {
                let error = value - target;
                loss += f64::from(error * error);
                sum += f64::from(*value);
                *by_value = 2.0 * error * scale;
            }
        }
        (loss * f64::from(scale), sum * f64::from(scale))
    }

    /// One step of the policy, and of α after it.
    fn improve_policy(&mut self, measured: &mut Measured) -> Result<(), LearnError> {
        let networks = self.networks.clone();
        let SoftNetworks { sight, policy, critics, gaussian, .. } = &*networks;
        let work = &mut self.work;
        let (n, alpha) = (work.batch.len(), self.temperature.alpha());
        let (eyes, online) = self.critics.split_at(networks.eyes());
        let seen = see(sight.as_ref(), eyes, &work.batch.seen, n, &mut work.glance);
        // a ~ π(·|s)
        work.policy_outputs.clear();
        work.policy_outputs.extend_from_slice(policy.forward(&self.policy, seen, n, &mut work.policy_tape));
        gaussian.draw(&work.policy_outputs, &work.chance.noise, &mut work.drawn);
        // Q(s, a) and its slope along the action
        join(seen, &work.drawn.actions, n, &mut work.critic_inputs);
        let inputs = HeadInputs::Shared(&work.critic_inputs);
        let outputs = critics.forward_frozen(online, inputs, n, &mut work.critic_tape);
        work.values.resize(n, 0.0);
        self.settings.actor_agg_q.values(outputs, &mut work.values);
        work.by_value.resize(outputs.len(), 0.0);
        let each = 1.0 / n as f32;
        self.settings.actor_agg_q.backward(outputs, n, -each, &mut work.by_value);
        work.by_critic_inputs.resize(work.critic_inputs.len(), 0.0);
        critics.backward_inputs(online, &mut work.critic_tape, &work.by_value, &mut work.by_critic_inputs);
        take_actions(&work.by_critic_inputs, gaussian.width(), n, &mut work.by_action);
        // and back through the draw to the policy
        work.by_output.resize(work.policy_outputs.len(), 0.0);
        let (drawn, by_action) = (&work.drawn, &work.by_action);
        gaussian.backward(drawn, by_action, alpha * each, &mut work.by_output);
        if let Some(near) = &self.settings.near_demos {
            measured.demo_distance += work.add_demo_slopes(gaussian, near);
        }
        work.policy_grads.resize(self.policy.len(), 0.0);
        let grads = &mut work.policy_grads;
        policy.backward_anew(&self.policy, &mut work.policy_tape, &work.by_output, grads, None);
        let mean = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / n as f64;
        let (log_prob, value) = (mean(&work.drawn.log_probs), mean(&work.values));
        let loss = f64::from(alpha) * log_prob - value;
        let optim = &self.settings.policy_optim;
        let norm = clip_grad_norm(&mut work.policy_grads, optim.clip_grad);
        let lr = optim.schedule.at(self.updates) as f32;
        self.check(loss, "the loss of the policy")?;
        self.check(f64::from(norm), "the gradient of the policy")?;
        self.policy_adam.step(Arc::make_mut(&mut self.policy).as_mut_slice(), &self.work.policy_grads, lr);
        let tuned = self.temperature.step(log_prob);
        measured.actor_loss += loss;
        measured.actor_grad += f64::from(norm);
        measured.entropy -= log_prob;
        measured.q_pi += value;
        measured.alpha_loss += tuned.loss;
        measured.alpha_grad += tuned.gradient.abs();
        measured.policy_updates += 1.0;
        Ok(())
    }

    fn check(&self, value: f64, what: &'static str) -> Result<(), LearnError> {
        if value.is_finite() {
            Ok(())
        } else {
            Err(LearnError::Diverged { what, value, updates: self.updates })
        }
    }

    fn check_widths(&self, rollout: &NewRollout) -> Result<(), LearnError> {
        let (segment, networks) = (&rollout.segment, &self.networks);
        let got = segment.obs[0].state_width();
        let expected = networks.states();
        if got != expected {
            return Err(LearnError::Width { what: "states", expected, got });
        }
        if let Some(sight) = &networks.sight {
            let last = rollout.segment.last.iter().map(|(_, _, obs)| obs);
            for obs in rollout.segment.obs.iter().chain(last) {
                sight.look(obs, &[])?;
            }
        }
        let expected = networks.gaussian.width() / self.settings.networks.chunk;
        let got = segment.actions.first().map_or(expected, |actions| actions.len() / segment.batch());
        if got != expected {
            return Err(LearnError::Width { what: "actions", expected, got });
        }
        Ok(())
    }

    fn acting(&self, manner: Manner) -> Box<dyn Policy> {
        let eyes = &self.critics[..self.networks.eyes()];
        Box::new(SoftPolicy::new(self.networks.clone(), self.policy.clone(), eyes, manner))
    }

    fn metrics(&self, measured: &Measured) -> Metrics {
        let mut metrics = Metrics::default();
        let last = self.updates.saturating_sub(1);
        let per_update = |sum: f64| sum / measured.updates;
        metrics.push("train/sac/critic_loss", per_update(measured.critic_loss));
        metrics.push("train/critic/q_data", per_update(measured.q_data));
        metrics.push("train/critic/grad_norm", per_update(measured.critic_grad));
        metrics.push("train/critic/lr", self.settings.critic_optim.schedule.at(last));
        if measured.policy_updates > 0.0 {
            let per_update = |sum: f64| sum / measured.policy_updates;
            metrics.push("train/sac/actor_loss", per_update(measured.actor_loss));
            metrics.push("train/sac/alpha_loss", per_update(measured.alpha_loss));
            metrics.push("train/actor/entropy", per_update(measured.entropy));
            if self.settings.near_demos.is_some() {
                metrics.push("train/actor/demo_distance", per_update(measured.demo_distance));
            }
            metrics.push("train/actor/q_pi", per_update(measured.q_pi));
            metrics.push("train/actor/grad_norm", per_update(measured.actor_grad));
            metrics.push("train/actor/lr", self.settings.policy_optim.schedule.at(last));
            metrics.push("train/alpha/grad_norm", per_update(measured.alpha_grad));
        }
        metrics.push("train/sac/alpha", f64::from(self.temperature.alpha()));
        metrics.push("train/replay_buffer/num_trajectories", self.replay.rollouts() as f64);
        metrics.push("train/replay_buffer/total_samples", self.replay.transitions() as f64);
        if let Some(demos) = &self.demos {
            metrics.push("train/demo_buffer/num_trajectories", demos.rollouts() as f64);
            metrics.push("train/demo_buffer/total_samples", demos.transitions() as f64);
        }
        metrics
    }
}

impl Learner for Sac {
    fn explorer(&self) -> Box<dyn Policy> {
        self.acting(Manner::Explore)
    }

    fn greedy(&self) -> Box<dyn Policy> {
        self.acting(Manner::Greedy)
    }

    fn remember(&mut self, experience: Experience) -> Result<(), LearnError> {
        let mut shown = interventions(&experience);
        let worth = self.settings.demos.as_ref().and_then(|demos| demos.keep_paid);
        shown.extend(worth.into_iter().flat_map(|worth| successes(&experience, worth)));
        let Experience { segment, decisions, reward } = experience;
        let new =
            NewRollout { segment, fresh: decisions.fresh, reward: reward.total, version: reward.version };
        self.check_widths(&new)?;
        let sight = self.networks.sight.as_ref();
        self.replay.add_seen(new, sight)?;
        if let Some(demos) = &mut self.demos {
            shown.into_iter().try_for_each(|demo| demos.add_seen(demo, sight))?;
        }
        Ok(())
    }

    fn improve(&mut self) -> Result<Metrics, LearnError> {
        if !self.is_ready() {
            return Ok(Metrics::default());
        }
        let mut measured = Measured::default();
        match self.networks.sight {
            // An update is many small products: threads that slept between them would take longer to wake than to work.
            None => together(|| self.update_often(&mut measured))?,
            // Convolutions need the threads themselves.
            Some(_) => self.update_often(&mut measured)?,
        }
        Ok(self.metrics(&measured))
    }

    fn repay(&mut self, reward: &dyn Reward) -> Result<usize, LearnError> {
        let paid = self.replay.repay(reward)?;
        let demos = self.demos.as_mut().map_or(Ok(0), |demos| demos.repay(reward))?;
        Ok(paid + demos)
    }

    fn imitate(&mut self, cloning: &Cloning, told: ClonedSoFar<'_>) -> Result<(), LearnError> {
        self.clone_demos(cloning, told)
    }

    fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        self.networks.export_policy(&self.networks.plain_policy(&self.policy), &mut weights);
        self.networks.export_critics(&self.networks.plain_critics(&self.critics), &mut weights);
        if let Some(sight) = &self.networks.sight {
            sight.export_trunk(&mut weights);
        }
        weights
    }

    /// Critics are taken where they are there.
    fn load(&mut self, weights: &Weights) -> Result<(), Misfit> {
        let (mut policy, mut critics) = (self.policy.to_vec(), self.critics.clone());
        self.networks.import_policy(&mut policy, weights)?;
        if weights.names().any(|name| name.starts_with("q_head.")) {
            self.networks.import_critics(&mut critics, weights)?;
        } else {
            self.networks.import_eyes(&mut critics[..self.networks.eyes()], weights)?;
        }
        self.networks.scaled_policy(&mut policy);
        self.networks.scaled_critics(&mut critics);
        if self.networks.has_target() {
            self.target.copy_from_slice(&critics);
        }
        self.policy_adam = Adam::new(policy.len(), self.settings.policy_optim.adam);
        self.critic_adam = Adam::new(critics.len(), self.settings.critic_optim.adam);
        (self.policy, self.critics) = (Arc::new(policy), critics);
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<(), LearnError> {
        checkpoint::save(self, folder)
    }

    fn restore(&mut self, folder: &Path) -> Result<(), LearnError> {
        checkpoint::restore(self, folder)
    }
}

/// How y is made of what was paid and of what followed.
struct TargetRule {
    gamma: f32,
    bootstrap: Bootstrap,
    range: Option<[f32; 2]>,
    alpha: f32,
}

impl TargetRule {
    /// y, `[N]`, from the values of what followed.
    fn targets(&self, batch: &Transitions, log_probs: &[f32], values: &[f32], into: &mut Vec<f32>) {
        into.clear();
        let rows = batch.rewards.iter().zip(&batch.ends).zip(values.iter().zip(log_probs));
        into.extend(rows.map(|((reward, end), (value, log_prob))| {
            let goes_on = *end != End::Terminated || self.bootstrap == Bootstrap::Always;
            let followed = if goes_on { value - self.alpha * log_prob } else { 0.0 };
            let target = reward + self.gamma * followed;
            self.range.map_or(target, |[low, high]| target.clamp(low, high))
        }));
    }
}

/// The scale of all states that demonstrations have.
fn scale_of(demos: &[NewRollout]) -> Option<StateScale> {
    let states = demos.iter().flat_map(|demo| &demo.segment.obs);
    StateScale::of(states.flat_map(|obs| obs.state.chunks_exact(obs.state_width().max(1))))
}

/// What policy and critics take of some observations, without a way back: states, or what is made of images.
fn see<'a>(
    sight: Option<&Sight>,
    eyes: &[f32],
    views: &'a Views,
    n: usize,
    tape: &'a mut SightTape,
) -> &'a [f32] {
    match sight {
        None => &views.states,
        Some(sight) => sight.infer(eyes, &Look::from(views), n, tape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_end_where_episodes_terminate_and_stay_in_their_range() {
        let batch = Transitions {
            rewards: vec![0.0, 1.0, 0.5, 0.0],
            ends: vec![End::No, End::Terminated, End::Truncated, End::No],
            ..Transitions::default()
        };
        let (values, log_probs) = ([1.0, 9.0, 2.0, -3.0], [0.5, 0.5, 0.0, 0.0]);
        for (bootstrap, range, expected) in [
            (Bootstrap::Standard, None, [0.72, 1.0, 2.3, -2.7]),
            (Bootstrap::Always, None, [0.72, 8.92, 2.3, -2.7]),
            (Bootstrap::Standard, Some([0.0, 1.0]), [0.72, 1.0, 1.0, 0.0]),
        ] {
            let mut y = Vec::new();
            let rule = TargetRule { gamma: 0.9, bootstrap, range, alpha: 0.4 };
            rule.targets(&batch, &log_probs, &values, &mut y);
            let close = y.iter().zip(expected).all(|(y, expected): (&f32, f32)| (y - expected).abs() < 1e-6);
            assert!(close, "{bootstrap:?} {range:?}: {y:?}");
        }
    }
}
