//! Soft actor-critic (Haarnoja et al., 2018), with what made it learn from little data since: many critics of which
//! few are sampled (REDQ, Chen et al., 2021), demonstrations in every batch (RLPD, Ball et al., 2023), and critics
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
//! On images, `s` is the output of an encoder. The critics' loss trains it, and so does the behaviour-cloning
//! loss, where there is one (`bc_regularizer`); the rest of the policy's loss does not.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{End, Policy, Reward, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{
    Adam, EnsembleScratch, EnsembleTape, HeadInputs, Scratch, Tape, clip_grad_norm, polyak,
    with_spinning_threads,
};

mod bc_regularizer;
mod checkpoint;
mod cloning;
mod critics;
mod networks;
mod noise;
mod settings;
mod tanh_gaussian;
mod temperature;

pub use bc_regularizer::BcRegularizer;
pub use critics::Agg;
pub use networks::{CriticKind, SoftNetworkSettings, SoftNetworks, SoftPolicy};
pub use settings::{DemoSettings, Optim, SacSettings};
pub use tanh_gaussian::{SampledActions, StdBounds, TanhGaussian};
pub use temperature::{Temperature, TemperatureKind, TemperatureSettings, TemperatureStep};

use crate::cloning::{Cloning, CloningCallback};
use crate::interventions::interventions;
use crate::naming::WeightsMismatch;
use crate::replay::{Amount, NewRollout, ObsBuffer, Replay, Transitions};
use crate::row_ops::{join, join_more, take_actions, take_encoded, zero};
use crate::successes::successes;
use crate::vision_encoder::{ObsBatch, VisionEncoder, VisionEncoderTape, shift};
use crate::{
    ActionMode, Bootstrap, Experience, ExplorerParams, LearnError, Learner, Metrics, SettingError, StateScale,
};
use critics::choose;

/// Soft actor-critic.
pub struct Sac {
    settings: SacSettings,
    networks: Arc<SoftNetworks>,
    policy: Arc<Vec<f32>>,
    /// The moving average of the policy, where that one acts.
    average: Option<Arc<Vec<f32>>>,
    critics: Vec<f32>,
    target: Vec<f32>,
    policy_adam: Adam,
    critic_adam: Adam,
    temperature: Temperature,
    replay: Replay,
    demos: Option<Replay>,
    /// Steps of the critics since the start. With the seed, all that randomness depends on.
    updates: u64,
    seed: Seed,
    buffers: UpdateBuffers,
}

/// The random numbers of an update.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateNoise {
    /// Standard normal noise of the actions after the transitions, `[N, A]`.
    pub next_noise: Vec<f32>,
    /// Standard normal noise of the actions the policy is improved by, `[N, A]`.
    pub noise: Vec<f32>,
    /// The critics whose targets count.
    pub heads: Vec<usize>,
}

/// Buffers of an update, kept between updates.
#[derive(Default)]
struct UpdateBuffers {
    batch: Transitions,
    /// Where the batch's demonstrations begin.
    first_demo: usize,
    update_noise: UpdateNoise,
    /// The encoder, with a backward pass.
    encoder_tape: VisionEncoderTape,
    /// The encoder, without one.
    inference_tape: VisionEncoderTape,
    /// Gradients of encoded observations.
    grad_encoded: Vec<f32>,
    sampled: SampledActions,
    policy_scratch: Scratch,
    policy_tape: Tape,
    policy_outputs: Vec<f32>,
    policy_grads: Vec<f32>,
    grad_output: Vec<f32>,
    /// `[N, inputs + A]`: the inputs of critics.
    critic_inputs: Vec<f32>,
    critic_scratch: EnsembleScratch,
    critic_tape: EnsembleTape,
    critic_grads: Vec<f32>,
    /// `[H, N]`.
    grad_value: Vec<f32>,
    grad_critic_inputs: Vec<f32>,
    grad_action: Vec<f32>,
    /// Q(s, a), `[H, N]`.
    q: Vec<f32>,
    /// Aggregated values, `[N]`.
    values: Vec<f32>,
    /// y, `[N]`.
    targets: Vec<f32>,
    /// Gradients of the behaviour-cloning loss.
    bc_grads: Vec<f32>,
    /// Encoded observations of demonstrations; then their gradients.
    encoded_demos: Vec<f32>,
}

/// Statistics of updates, summed up.
#[derive(Debug, Clone, Copy, Default)]
struct UpdateStats {
    critic_loss: f64,
    critic_grad: f64,
    q_data: f64,
    updates: f64,
    actor_loss: f64,
    actor_grad: f64,
    entropy: f64,
    bc_loss: f64,
    q_pi: f64,
    alpha_loss: f64,
    alpha_grad: f64,
    policy_updates: f64,
}

impl Sac {
    /// A learner that has learned nothing. `demos` are labelled already.
    pub fn new(settings: SacSettings, demos: Vec<NewRollout>, seed: Seed) -> Result<Self, LearnError> {
        settings.check()?;
        let Some(mut networks) = SoftNetworks::new(&settings.networks) else {
            return Err(SettingError::DiscreteActions.into());
        };
        if networks.vision_encoder.is_some() && !networks.has_target() {
            return Err(SettingError::CrossQOnImages.into());
        }
        if settings.shift.is_some()
            && networks.vision_encoder.as_ref().is_none_or(|vision_encoder| vision_encoder.trunk().is_some())
        {
            return Err(SettingError::ShiftWithoutImages.into());
        }
        if settings.scale_states {
            if !networks.has_target() {
                return Err(SettingError::ScaledStatesWithoutTarget.into());
            }
            networks.scale = scale_of(&demos);
        }
        if settings.average_policy && !networks.has_target() {
            return Err(SettingError::AverageWithoutTarget.into());
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
            average: settings.average_policy.then(|| Arc::new(policy.clone())),
            policy: Arc::new(policy),
            critics,
            target,
            updates: 0,
            seed: seed.purpose("sac"),
            buffers: UpdateBuffers::default(),
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
                demos.add_encoded(demo, self.networks.vision_encoder.as_ref())?;
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
        Err(SettingError::TooFewDemos { found, needed: needed.max(1) }.into())
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

    /// One update on a batch, with the given random numbers.
    pub fn update_on(
        &mut self,
        batch: Transitions,
        update_noise: UpdateNoise,
    ) -> Result<Metrics, LearnError> {
        let mut stats = UpdateStats::default();
        self.buffers.first_demo = batch.len();
        (self.buffers.batch, self.buffers.update_noise) = (batch, update_noise);
        self.update(&mut stats)?;
        Ok(self.metrics(&stats))
    }

    /// All updates of a step of learning.
    fn update_often(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        for _ in 0..self.settings.updates {
            self.sample_batch();
            self.sample_noise();
            self.update(stats)?;
        }
        Ok(())
    }

    /// Whether there is enough to learn from.
    fn is_ready(&self) -> bool {
        self.replay.holds(self.settings.min_replay) && self.replay.transitions() > 0
    }

    /// Samples the batch of this update: half of it demonstrations, where there are any.
    fn sample_batch(&mut self) {
        let batch = &mut self.buffers.batch;
        batch.clear();
        let mut rng = self.seed.purpose("batch").index(self.updates).rng();
        let half = self.settings.batch_size / 2;
        match &self.demos {
            None => self.replay.sample(self.settings.batch_size, &mut rng, batch),
            Some(demos) => {
                self.replay.sample(self.settings.batch_size - half, &mut rng, batch);
                self.buffers.first_demo = batch.len();
                demos.sample(half, &mut rng, batch);
            }
        }
        if let Some(scale) = &self.networks.scale {
            scale.apply(&mut batch.obs.states);
            scale.apply(&mut batch.next_obs.states);
        }
        if let Some(reach) = self.settings.shift {
            let seed = self.seed.purpose("shift").index(self.updates);
            for (moment, obs_buffer) in [&mut batch.obs, &mut batch.next_obs].into_iter().enumerate() {
                for (camera, (_, shape, pixels)) in obs_buffer.images.iter_mut().enumerate() {
                    shift(pixels, *shape, reach, seed.index(moment as u64).index(camera as u64));
                }
            }
        }
    }

    /// Samples the random numbers of this update.
    fn sample_noise(&mut self) {
        let buffers = &mut self.buffers;
        let width = buffers.batch.len() * self.networks.gaussian.width();
        let rng = |purpose: &str| self.seed.purpose(purpose).index(self.updates).rng();
        noise::fill(&mut rng("next action"), width, &mut buffers.update_noise.next_noise);
        noise::fill(&mut rng("action"), width, &mut buffers.update_noise.noise);
        let (heads, count) = (self.networks.critics.heads(), self.settings.critic_subsample);
        choose(heads, count, &mut rng("heads"), &mut buffers.update_noise.heads);
    }

    fn update(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        self.improve_critics(stats)?;
        let is_policys_turn = self.updates.is_multiple_of(self.settings.critic_actor_ratio);
        if is_policys_turn && self.updates >= self.settings.train_actor_steps {
            self.improve_policy(stats)?;
        }
        self.updates += 1;
        if self.networks.has_target() && self.updates.is_multiple_of(self.settings.target_update_freq) {
            polyak(&mut self.target, &self.critics, self.settings.tau);
            if let Some(average) = &mut self.average {
                polyak(Arc::make_mut(average).as_mut_slice(), &self.policy, self.settings.tau);
            }
        }
        Ok(())
    }

    /// One step of all critics towards y.
    fn improve_critics(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        let networks = self.networks.clone();
        self.sample_next_actions();
        match networks.has_target() {
            true => self.q_with_target(),
            false => self.q_without_target(),
        }
        let (loss, mean) = self.critic_errors();
        self.check(loss, "the loss of the critics")?;
        let buffers = &mut self.buffers;
        buffers.critic_grads.resize(self.critics.len(), 0.0);
        let grads = &mut buffers.critic_grads[networks.encoder_len()..];
        let (encoder_params, critics) = self.critics.split_at_mut(networks.encoder_len());
        let tape = &mut buffers.critic_tape;
        match &networks.vision_encoder {
            None => networks.critics.backward_overwrite(critics, tape, &buffers.grad_value, grads, None),
            Some(vision_encoder) => {
                buffers.grad_critic_inputs.resize(buffers.critic_inputs.len(), 0.0);
                let grad_inputs = &mut buffers.grad_critic_inputs;
                networks.critics.backward_overwrite(
                    critics,
                    tape,
                    &buffers.grad_value,
                    grads,
                    Some(grad_inputs),
                );
                let n = buffers.batch.len();
                take_encoded(grad_inputs, networks.gaussian.width(), n, &mut buffers.grad_encoded);
                if let Some(regularizer) = &self.settings.bc_regularizer {
                    buffers.add_bc_encoder_gradients(&networks, &self.policy, regularizer);
                }
                let obs_batch = ObsBatch::from(&buffers.batch.obs);
                let encoder_grads = &mut buffers.critic_grads[..networks.encoder_len()];
                encoder_grads.fill(0.0);
                vision_encoder.backward(
                    encoder_params,
                    &obs_batch,
                    &mut buffers.encoder_tape,
                    &buffers.grad_encoded,
                    encoder_grads,
                );
            }
        }
        if !networks.has_target() {
            networks.critics.update_statistics(critics, &buffers.critic_tape);
        }
        let grads = &mut buffers.critic_grads;
        let optim = &self.settings.critic_optim;
        let norm = clip_grad_norm(grads, optim.clip_grad);
        let lr = optim.schedule.at(self.updates) as f32;
        self.check(f64::from(norm), "the gradient of the critics")?;
        self.critic_adam.step(&mut self.critics, &self.buffers.critic_grads, lr);
        stats.critic_loss += loss;
        stats.critic_grad += f64::from(norm);
        stats.q_data += mean;
        stats.updates += 1.0;
        Ok(())
    }

    /// a' ~ π(·|s'), with log π.
    fn sample_next_actions(&mut self) {
        let SoftNetworks { vision_encoder, policy, gaussian, .. } = &*self.networks;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        let encoder_params = &self.critics[..self.networks.encoder_len()];
        let encoded = encode_obs(
            vision_encoder.as_ref(),
            encoder_params,
            &buffers.batch.next_obs,
            n,
            &mut buffers.inference_tape,
        );
        let outputs = policy.infer(&self.policy, encoded, n, &mut buffers.policy_scratch);
        gaussian.sample(outputs, &buffers.update_noise.next_noise, &mut buffers.sampled);
    }

    /// Q(s, a) by the critics, and Q'(s', a') by their target.
    fn q_with_target(&mut self) {
        let SoftNetworks { vision_encoder, critics, .. } = &*self.networks;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        let (encoder_params, target) = self.target.split_at(self.networks.encoder_len());
        let encoded = encode_obs(
            vision_encoder.as_ref(),
            encoder_params,
            &buffers.batch.next_obs,
            n,
            &mut buffers.inference_tape,
        );
        join(encoded, &buffers.sampled.actions, n, &mut buffers.critic_inputs);
        let scratch = &mut buffers.critic_scratch;
        let next = critics.infer(target, &buffers.update_noise.heads, &buffers.critic_inputs, n, scratch);
        buffers.values.resize(n, 0.0);
        self.settings.agg_q.values(next, &mut buffers.values);
        let (encoder_params, online) = self.critics.split_at(self.networks.encoder_len());
        let encoded = match vision_encoder {
            None => &buffers.batch.obs.states[..],
            Some(vision_encoder) => {
                let dropout = Dropout::On(self.seed.purpose("dropout").index(self.updates));
                vision_encoder.forward(
                    encoder_params,
                    &ObsBatch::from(&buffers.batch.obs),
                    n,
                    dropout,
                    &mut buffers.encoder_tape,
                )
            }
        };
        join(encoded, &buffers.batch.actions, n, &mut buffers.critic_inputs);
        let inputs = HeadInputs::Shared(&buffers.critic_inputs);
        let now = critics.forward(online, inputs, n, &mut buffers.critic_tape);
        buffers.q.clear();
        buffers.q.extend_from_slice(now);
    }

    /// CrossQ: both halves of the transitions in one batch, whose statistics then fit both. `Q'` is `Q`.
    fn q_without_target(&mut self) {
        let critics = &self.networks.critics;
        let buffers = &mut self.buffers;
        let n = buffers.batch.len();
        join(&buffers.batch.obs.states, &buffers.batch.actions, n, &mut buffers.critic_inputs);
        join_more(&buffers.batch.next_obs.states, &buffers.sampled.actions, n, &mut buffers.critic_inputs);
        let inputs = HeadInputs::Shared(&buffers.critic_inputs);
        let both = critics.forward(&self.critics, inputs, 2 * n, &mut buffers.critic_tape);
        buffers.q.clear();
        buffers.grad_value.clear();
        for head in both.chunks_exact(2 * n) {
            buffers.q.extend_from_slice(&head[..n]);
        }
        for head in &buffers.update_noise.heads {
            buffers.grad_value.extend_from_slice(&both[(2 * head + 1) * n..(2 * head + 2) * n]);
        }
        buffers.values.resize(n, 0.0);
        self.settings.agg_q.values(&buffers.grad_value, &mut buffers.values);
    }

    /// L(Q) and the mean of Q; leaves the gradient of each output of the critics in the buffers.
    fn critic_errors(&mut self) -> (f64, f64) {
        let SacSettings { gamma, bootstrap, target_range: range, backup_entropy, .. } = self.settings;
        let alpha = if backup_entropy { self.temperature.alpha() } else { 0.0 };
        let buffers = &mut self.buffers;
        let rule = TdTarget { gamma, bootstrap, range, alpha };
        rule.targets(&buffers.batch, &buffers.sampled.log_probs, &buffers.values, &mut buffers.targets);
        let n = buffers.batch.len();
        let (heads, scale) = (buffers.q.len() / n, 1.0 / buffers.q.len() as f32);
        // Of CrossQ's joint batch, the second half is not in the loss.
        let rows = if self.networks.has_target() { n } else { 2 * n };
        zero(&mut buffers.grad_value, heads * rows);
        let (mut loss, mut sum) = (0.0, 0.0);
        for (values, grad_value) in buffers.q.chunks_exact(n).zip(buffers.grad_value.chunks_exact_mut(rows)) {
            for ((value, target), grad_value) in values.iter().zip(&buffers.targets).zip(grad_value) {
                let error = value - target;
                loss += f64::from(error * error);
                sum += f64::from(*value);
                *grad_value = 2.0 * error * scale;
            }
        }
        (loss * f64::from(scale), sum * f64::from(scale))
    }

    /// One step of the policy, and of α after it.
    fn improve_policy(&mut self, stats: &mut UpdateStats) -> Result<(), LearnError> {
        let networks = self.networks.clone();
        let SoftNetworks { vision_encoder, policy, critics, gaussian, .. } = &*networks;
        let buffers = &mut self.buffers;
        let (n, alpha) = (buffers.batch.len(), self.temperature.alpha());
        let (encoder_params, online) = self.critics.split_at(networks.encoder_len());
        let encoded = encode_obs(
            vision_encoder.as_ref(),
            encoder_params,
            &buffers.batch.obs,
            n,
            &mut buffers.inference_tape,
        );
        // a ~ π(·|s)
        buffers.policy_outputs.clear();
        buffers.policy_outputs.extend_from_slice(policy.forward(
            &self.policy,
            encoded,
            n,
            &mut buffers.policy_tape,
        ));
        gaussian.sample(&buffers.policy_outputs, &buffers.update_noise.noise, &mut buffers.sampled);
        // Q(s, a) and its gradient by the action
        join(encoded, &buffers.sampled.actions, n, &mut buffers.critic_inputs);
        let inputs = HeadInputs::Shared(&buffers.critic_inputs);
        let outputs = critics.forward_eval(online, inputs, n, &mut buffers.critic_tape);
        buffers.values.resize(n, 0.0);
        self.settings.actor_agg_q.values(outputs, &mut buffers.values);
        buffers.grad_value.resize(outputs.len(), 0.0);
        let each = 1.0 / n as f32;
        self.settings.actor_agg_q.backward(outputs, n, -each, &mut buffers.grad_value);
        buffers.grad_critic_inputs.resize(buffers.critic_inputs.len(), 0.0);
        critics.backward_inputs(
            online,
            &mut buffers.critic_tape,
            &buffers.grad_value,
            &mut buffers.grad_critic_inputs,
        );
        take_actions(&buffers.grad_critic_inputs, gaussian.width(), n, &mut buffers.grad_action);
        // and back through the sampled action to the policy
        buffers.grad_output.resize(buffers.policy_outputs.len(), 0.0);
        let (sampled, grad_action) = (&buffers.sampled, &buffers.grad_action);
        gaussian.backward(sampled, grad_action, alpha * each, &mut buffers.grad_output);
        if let Some(regularizer) = &self.settings.bc_regularizer {
            stats.bc_loss += buffers.add_bc_gradients(gaussian, regularizer);
        }
        buffers.policy_grads.resize(self.policy.len(), 0.0);
        let grads = &mut buffers.policy_grads;
        policy.backward_overwrite(&self.policy, &mut buffers.policy_tape, &buffers.grad_output, grads, None);
        let mean = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>() / n as f64;
        let (log_prob, value) = (mean(&buffers.sampled.log_probs), mean(&buffers.values));
        let loss = f64::from(alpha) * log_prob - value;
        let optim = &self.settings.policy_optim;
        let norm = clip_grad_norm(&mut buffers.policy_grads, optim.clip_grad);
        let lr = optim.schedule.at(self.updates) as f32;
        self.check(loss, "the loss of the policy")?;
        self.check(f64::from(norm), "the gradient of the policy")?;
        self.policy_adam.step(Arc::make_mut(&mut self.policy).as_mut_slice(), &self.buffers.policy_grads, lr);
        let tuned = self.temperature.step(log_prob);
        stats.actor_loss += loss;
        stats.actor_grad += f64::from(norm);
        stats.entropy -= log_prob;
        stats.q_pi += value;
        stats.alpha_loss += tuned.loss;
        stats.alpha_grad += tuned.gradient.abs();
        stats.policy_updates += 1.0;
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
        if let Some(vision_encoder) = &networks.vision_encoder {
            let last = rollout.segment.last.iter().map(|(_, _, obs)| obs);
            for obs in rollout.segment.obs.iter().chain(last) {
                vision_encoder.obs_batch(obs, &[])?;
            }
        }
        let expected = networks.gaussian.width() / self.settings.networks.chunk;
        let got = segment.actions.first().map_or(expected, |actions| actions.len() / segment.batch());
        if got != expected {
            return Err(LearnError::Width { what: "actions", expected, got });
        }
        Ok(())
    }

    fn acting(&self, action_mode: ActionMode) -> Box<dyn Policy> {
        let (policy, critics) = self.shown();
        let encoder_params = &critics[..self.networks.encoder_len()];
        Box::new(SoftPolicy::new(self.networks.clone(), policy.clone(), encoder_params, action_mode))
    }

    /// The policy that acts and is saved, and the critics whose encoder it uses.
    fn shown(&self) -> (&Arc<Vec<f32>>, &[f32]) {
        match &self.average {
            Some(average) => (average, &self.target),
            None => (&self.policy, &self.critics),
        }
    }

    /// Averages begin anew, from where the networks are.
    fn restart_averages(&mut self) {
        if self.networks.has_target() {
            self.target.copy_from_slice(&self.critics);
        }
        self.average = self.settings.average_policy.then(|| self.policy.clone());
    }

    fn metrics(&self, stats: &UpdateStats) -> Metrics {
        let mut metrics = Metrics::default();
        let last = self.updates.saturating_sub(1);
        let per_update = |sum: f64| sum / stats.updates;
        metrics.push("train/sac/critic_loss", per_update(stats.critic_loss));
        metrics.push("train/critic/q_data", per_update(stats.q_data));
        metrics.push("train/critic/grad_norm", per_update(stats.critic_grad));
        metrics.push("train/critic/lr", self.settings.critic_optim.schedule.at(last));
        if stats.policy_updates > 0.0 {
            let per_update = |sum: f64| sum / stats.policy_updates;
            metrics.push("train/sac/actor_loss", per_update(stats.actor_loss));
            metrics.push("train/sac/alpha_loss", per_update(stats.alpha_loss));
            metrics.push("train/actor/entropy", per_update(stats.entropy));
            if self.settings.bc_regularizer.is_some() {
                metrics.push("train/actor/bc_loss", per_update(stats.bc_loss));
            }
            metrics.push("train/actor/q_pi", per_update(stats.q_pi));
            metrics.push("train/actor/grad_norm", per_update(stats.actor_grad));
            metrics.push("train/actor/lr", self.settings.policy_optim.schedule.at(last));
            metrics.push("train/alpha/grad_norm", per_update(stats.alpha_grad));
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
        self.acting(ActionMode::Explore)
    }

    fn explorer_params(&self) -> ExplorerParams {
        let (policy, critics) = self.shown();
        ExplorerParams {
            policy: policy.clone(),
            encoder: Arc::new(critics[..self.networks.encoder_len()].to_vec()),
            scale: self.networks.scale.clone(),
            trunk: self.networks.vision_encoder.as_ref().map_or(0, VisionEncoder::trunk_hash),
        }
    }

    fn greedy(&self) -> Box<dyn Policy> {
        self.acting(ActionMode::Greedy)
    }

    fn add_experience(&mut self, experience: Experience) -> Result<(), LearnError> {
        let mut new_demos = interventions(&experience);
        let min_reward = self.settings.demos.as_ref().and_then(|demos| demos.self_imitation_min_reward);
        new_demos.extend(min_reward.into_iter().flat_map(|min_reward| successes(&experience, min_reward)));
        let Experience { segment, decisions, reward } = experience;
        let new = NewRollout {
            segment,
            starts_chunk: decisions.starts_chunk,
            invalid: decisions.invalid,
            reward: reward.total,
            version: reward.version,
        };
        self.check_widths(&new)?;
        let vision_encoder = self.networks.vision_encoder.as_ref();
        self.replay.add_encoded(new, vision_encoder)?;
        if let Some(demos) = &mut self.demos {
            new_demos.into_iter().try_for_each(|demo| demos.add_encoded(demo, vision_encoder))?;
        }
        Ok(())
    }

    fn improve(&mut self) -> Result<Metrics, LearnError> {
        if !self.is_ready() {
            return Ok(Metrics::default());
        }
        let mut stats = UpdateStats::default();
        match self.networks.vision_encoder {
            // An update is many small products: threads that slept between them would take longer to wake than to work.
            None => with_spinning_threads(|| self.update_often(&mut stats))?,
            // Convolutions need the threads themselves.
            Some(_) => self.update_often(&mut stats)?,
        }
        Ok(self.metrics(&stats))
    }

    fn relabel(&mut self, reward: &dyn Reward) -> Result<usize, LearnError> {
        let replayed = self.replay.relabel(reward)?;
        let demos = self.demos.as_mut().map_or(Ok(0), |demos| demos.relabel(reward))?;
        Ok(replayed + demos)
    }

    fn imitate(&mut self, cloning: &Cloning, callback: CloningCallback<'_>) -> Result<(), LearnError> {
        self.clone_demos(cloning, callback)?;
        self.restart_averages();
        Ok(())
    }

    fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        let (policy, critics) = self.shown();
        self.networks.export_policy(&self.networks.plain_policy(policy), &mut weights);
        self.networks.export_critics(&self.networks.plain_critics(critics), &mut weights);
        if let Some(vision_encoder) = &self.networks.vision_encoder {
            vision_encoder.export_trunk(&mut weights);
        }
        weights
    }

    /// Critics are taken where they are there.
    fn load(&mut self, weights: &Weights) -> Result<(), WeightsMismatch> {
        let (mut policy, mut critics) = (self.policy.to_vec(), self.critics.clone());
        self.networks.import_policy(&mut policy, weights)?;
        if weights.names().any(|name| name.starts_with("q_head.")) {
            self.networks.import_critics(&mut critics, weights)?;
        } else {
            self.networks.import_encoder(&mut critics[..self.networks.encoder_len()], weights)?;
        }
        self.networks.scaled_policy(&mut policy);
        self.networks.scaled_critics(&mut critics);
        self.policy_adam = Adam::new(policy.len(), self.settings.policy_optim.adam);
        self.critic_adam = Adam::new(critics.len(), self.settings.critic_optim.adam);
        (self.policy, self.critics) = (Arc::new(policy), critics);
        self.restart_averages();
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<(), LearnError> {
        checkpoint::save(self, folder)
    }

    fn restore(&mut self, folder: &Path) -> Result<(), LearnError> {
        checkpoint::restore(self, folder)
    }
}

/// How y is made of the reward and the next value.
struct TdTarget {
    gamma: f32,
    bootstrap: Bootstrap,
    range: Option<[f32; 2]>,
    alpha: f32,
}

impl TdTarget {
    /// y, `[N]`, from the next values.
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

/// The features that policy and critics take, without a backward pass: states, or encoded images.
fn encode_obs<'a>(
    vision_encoder: Option<&VisionEncoder>,
    encoder_params: &[f32],
    obs_buffer: &'a ObsBuffer,
    n: usize,
    tape: &'a mut VisionEncoderTape,
) -> &'a [f32] {
    match vision_encoder {
        None => &obs_buffer.states,
        Some(vision_encoder) => vision_encoder.infer(encoder_params, &ObsBatch::from(obs_buffer), n, tape),
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
            let rule = TdTarget { gamma: 0.9, bootstrap, range, alpha: 0.4 };
            rule.targets(&batch, &log_probs, &values, &mut y);
            let close = y.iter().zip(expected).all(|(y, expected): (&f32, f32)| (y - expected).abs() < 1e-6);
            assert!(close, "{bootstrap:?} {range:?}: {y:?}");
        }
    }
}
