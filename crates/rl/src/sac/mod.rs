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
//! loss, where there is one (`bc_regularizer`); the rest of the policy's loss does not. Or the whole of the policy's loss trains
//! it, and the gradients of the critics' loss stop there ([`EncoderLoss`]).

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{Policy, Reward, Rng, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::{Adam, EnsembleScratch, EnsembleTape, Scratch, Tape, with_spinning_threads};

mod bc_regularizer;
mod checkpoint;
mod cloning;
mod cpu_passes;
mod critics;
mod gpu;
mod gpu_passes;
mod networks;
mod noise;
mod settings;
mod tanh_gaussian;
mod temperature;
mod update;

pub use bc_regularizer::BcRegularizer;
pub use critics::Agg;
pub use networks::{CriticKind, SoftNetworkSettings, SoftNetworks, SoftPolicy};
pub use settings::{DemoSettings, EncoderLoss, Optim, SacSettings};
pub use tanh_gaussian::{SampledActions, StdBounds, TanhGaussian};
pub use temperature::{Temperature, TemperatureKind, TemperatureSettings, TemperatureStep};

use crate::cloning::{Cloning, CloningCallback};
use crate::interventions::interventions;
use crate::naming::WeightsMismatch;
use crate::replay::{Amount, NewRollout, Replay, Transitions};
use crate::successes::successes;
use crate::vision_encoder::{VisionEncoder, VisionEncoderTape, shift, shifts};
use crate::{ActionMode, Experience, ExplorerParams, LearnError, Learner, Metrics, SettingError, StateScale};
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
    /// Own successes, which are demonstrations too and never evict those that were given.
    successes: Option<Replay>,
    /// Steps of the critics since the start. With the seed, all that randomness depends on.
    updates: u64,
    seed: Seed,
    buffers: UpdateBuffers,
    /// Where the networks compute, if not on the CPU. Parameters and moments are those of the last step of learning here, and
    /// may be newer there.
    gpu: Option<gpu::GpuNetworks>,
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
    /// Rows and columns that a GPU shifts each image of the batch by; on the CPU they are shifted.
    shifts: Vec<i32>,
    /// Where the batch's demonstrations begin.
    first_demo: usize,
    update_noise: UpdateNoise,
    /// The encoder, with a backward pass.
    encoder_tape: VisionEncoderTape,
    /// The encoder, without one.
    inference_tape: VisionEncoderTape,
    /// Encoded observations that the policy is improved on.
    encoded: Vec<f32>,
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
    /// Q'(s', a') of all critics by a GPU, `[H, N]`.
    next_values: Vec<f32>,
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
        if settings.encoder_loss == EncoderLoss::Policy && networks.vision_encoder.is_none() {
            return Err(SettingError::EncoderLossWithoutImages.into());
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
            successes: settings
                .demos
                .as_ref()
                .filter(|demos| demos.self_imitation_min_reward.is_some())
                .map(|demos| Replay::new(demos.replay.clone())),
            networks: Arc::new(networks),
            average: settings.average_policy.then(|| Arc::new(policy.clone())),
            policy: Arc::new(policy),
            critics,
            target,
            updates: 0,
            seed: seed.purpose("sac"),
            buffers: UpdateBuffers::default(),
            gpu: None,
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
        self.buffers.shifts.clear();
        (self.buffers.batch, self.buffers.update_noise) = (batch, update_noise);
        self.update(&mut stats)?;
        self.download()?;
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
                sample_both(demos, self.successes.as_ref(), half, &mut rng, batch);
            }
        }
        if let Some(scale) = &self.networks.scale {
            scale.apply(&mut batch.obs.states);
            scale.apply(&mut batch.next_obs.states);
        }
        if let Some(reach) = self.settings.shift {
            let (seed, n) = (self.seed.purpose("shift").index(self.updates), batch.len());
            self.buffers.shifts.clear();
            for (moment, obs_buffer) in [&mut batch.obs, &mut batch.next_obs].into_iter().enumerate() {
                for (camera, (_, shape, pixels)) in obs_buffer.images.iter_mut().enumerate() {
                    let seed = seed.index(moment as u64).index(camera as u64);
                    match self.gpu {
                        None => shift(pixels, *shape, reach, seed),
                        Some(_) => self.buffers.shifts.extend(shifts(n, reach, seed).flatten()),
                    }
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
        if let Some(gpu) = &mut self.gpu {
            gpu.is_current = false;
        }
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
            let own = self.successes.as_ref().map_or((0, 0), |own| (own.rollouts(), own.transitions()));
            metrics.push("train/demo_buffer/num_trajectories", (demos.rollouts() + own.0) as f64);
            metrics.push("train/demo_buffer/total_samples", (demos.transitions() + own.1) as f64);
            if self.successes.is_some() {
                metrics.push("train/demo_buffer/own_successes", own.0 as f64);
            }
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
        let new_demos = interventions(&experience);
        let min_reward = self.settings.demos.as_ref().and_then(|demos| demos.self_imitation_min_reward);
        let own = min_reward.map_or(Vec::new(), |min_reward| successes(&experience, min_reward));
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
        for (buffer, new) in [(&mut self.demos, new_demos), (&mut self.successes, own)] {
            if let Some(buffer) = buffer {
                new.into_iter().try_for_each(|demo| buffer.add_encoded(demo, vision_encoder))?;
            }
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
        self.download()?;
        Ok(self.metrics(&stats))
    }

    fn relabel(&mut self, reward: &dyn Reward) -> Result<usize, LearnError> {
        let buffers = std::iter::once(&mut self.replay).chain(&mut self.demos).chain(&mut self.successes);
        buffers.map(|buffer| buffer.relabel(reward)).sum()
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

/// Samples `count` transitions uniformly from given demonstrations and own successes together.
fn sample_both(given: &Replay, own: Option<&Replay>, count: usize, rng: &mut Rng, batch: &mut Transitions) {
    let Some(own) = own.filter(|own| own.window() > 0) else { return given.sample(count, rng, batch) };
    let all = given.window() + own.window();
    let count = count.min(all);
    let of_given = (0..count).filter(|_| rng.below(all) < given.window()).count();
    given.sample(of_given, rng, batch);
    own.sample(count - of_given, rng, batch);
}

/// The scale of all states that demonstrations have.
fn scale_of(demos: &[NewRollout]) -> Option<StateScale> {
    let states = demos.iter().flat_map(|demo| &demo.segment.obs);
    StateScale::of(states.flat_map(|obs| obs.state.chunks_exact(obs.state_width().max(1))))
}
