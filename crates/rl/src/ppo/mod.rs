//! Proximal policy optimisation (Schulman et al., 2017).
//!
//! One step of learning, top to bottom:
//!
//! ```text
//! 1  act for T steps in B environments, keep log π_old(a)                    Rollout
//! 2  label every step with a reward                                          Reward
//! 3  V_old ← critic(s)      A, R ← GAE(r, V_old)      A ← (A − mean) / std    samples.rs, gae.rs
//! 4  `update_epochs` times, over the samples in a new order, for each batch:
//!      r = π(a) / π_old(a)
//!      L = max(−A r, −A clip(r, 1 ± ε))             bounded by c |A|          loss.rs
//!        + max(Huber(V − R), Huber(V_clipped − R))
//!        − bonus · H
//!      clip the gradient to a length, one step of AdamW
//!      stop when the policy has moved further than `target_kl`
//! ```
//!
//! A sample is a decision. A policy that decides C actions at once has C log-probabilities per decision; rewards
//! (and values) belong to each action or to the chunk ([`Level`]), and so do ratios and entropies.

mod cloning;
mod gpu;
mod loss;
mod samples;
mod stored_rollout;
#[cfg(test)]
mod torch_parity;

use std::path::Path;
use std::sync::Arc;

use plaudit_core::{Policy, Schedule, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::gpu::{GpuKernels, adam_numbers};
use plaudit_nn::dense::{Adam, AdamSettings, clip_grad_norm, with_spinning_threads};

pub use self::loss::{KlEstimate, LossSettings};
use self::samples::{Sample, Samples, VALUE_BATCH};
use self::stored_rollout::StoredRollout;
use crate::ExplorerParams;
use crate::actor_critic::{
    ActionMode, ActorCritic, ActorCriticSettings, ForwardPass, InferenceBuffers, ParamStatus,
};
use crate::checkpoint::Checkpoint;
use crate::cloning::{Cloning, CloningCallback};
use crate::gae::{Bootstrap, GaeSettings};
use crate::learner::{Experience, LearnError, Learner, Metrics, SettingError};
use crate::naming::WeightsMismatch;
use crate::replay::ObsBuffer;
use crate::vision_encoder::{ObsBatch, VisionEncoder};

/// What a number belongs to when several actions are decided at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Each action.
    Action,
    /// The chunk as a whole.
    Chunk,
}

/// How PPO learns.
#[derive(Debug, Clone, PartialEq)]
pub struct PpoSettings {
    /// How advantages are made.
    pub gae: GaeSettings,
    /// Whether advantages are scaled to mean 0 and deviation 1.
    pub normalize_advantages: bool,
    /// What a reward and a value belong to.
    pub reward_level: Level,
    /// What a ratio belongs to.
    pub log_prob_level: Level,
    /// What an entropy belongs to.
    pub entropy_level: Level,
    /// The bounds of the losses.
    pub loss: LossSettings,
    /// Weight of the entropy bonus.
    pub entropy_bonus: f32,
    /// How far the policy may move before the passes over a rollout stop.
    pub target_kl: Option<f64>,
    /// Passes over each rollout.
    pub update_epochs: usize,
    /// Samples per step of the optimiser.
    pub batch: usize,
    /// Samples that go through the networks at once.
    pub micro_batch: usize,
    /// Constants of the optimiser.
    pub adam: AdamSettings,
    /// Learning rate of the actor, by steps of learning.
    pub lr: Schedule,
    /// Learning rate of the critic.
    pub value_lr: Schedule,
    /// Longest gradient.
    pub clip_grad: f32,
    /// Steps of learning at first in which the actor stays as it is. A critic that knows another reward would
    /// lead it astray.
    pub critic_warmup: u64,
}

impl Default for PpoSettings {
    /// For small tasks with states: few samples, and several passes over each rollout.
    fn default() -> Self {
        Self {
            gae: GaeSettings { gamma: 0.98, lambda: 0.9, bootstrap: Bootstrap::Standard },
            normalize_advantages: true,
            reward_level: Level::Action,
            log_prob_level: Level::Action,
            entropy_level: Level::Action,
            loss: LossSettings::default(),
            entropy_bonus: 0.0,
            target_kl: None,
            update_epochs: 6,
            batch: 128,
            micro_batch: 128,
            adam: AdamSettings::default(),
            lr: Schedule::constant(2e-3),
            value_lr: Schedule::constant(2e-3),
            clip_grad: 0.5,
            critic_warmup: 0,
        }
    }
}

/// A policy and a critic that learn by PPO.
pub struct Ppo {
    settings: PpoSettings,
    networks: Arc<ActorCritic>,
    params: Vec<f32>,
    adam: Adam,
    seed: Seed,
    /// Steps of learning so far.
    steps: u64,
    rollouts: Vec<StoredRollout>,
    buffers: UpdateBuffers,
    /// Where the networks compute, if not on the CPU. Parameters and moments are those of the last step of learning here, and
    /// may be newer there.
    gpu: Option<gpu::GpuNetworks>,
}

/// Buffers of an update, kept between updates.
#[derive(Default)]
struct UpdateBuffers {
    obs_buffer: ObsBuffer,
    actions: Vec<f32>,
    forward_pass: ForwardPass,
    grad_outputs: Vec<f32>,
    grad_values: Vec<f32>,
    grads: Vec<f32>,
}

impl Ppo {
    /// Networks with random weights, and an optimiser that has seen nothing.
    pub fn new(
        networks: &ActorCriticSettings,
        settings: PpoSettings,
        seed: Seed,
    ) -> Result<Self, LearnError> {
        if settings.reward_level == Level::Action && settings.log_prob_level == Level::Chunk {
            return Err(SettingError::ChunkRatio.into());
        }
        let expected = if settings.reward_level == Level::Action { networks.chunk } else { 1 };
        if networks.values != expected {
            return Err(LearnError::Width { what: "values", expected, got: networks.values });
        }
        let networks = Arc::new(ActorCritic::new(networks));
        let params = networks.init(seed.purpose("weights"));
        let adam = Adam::new(params.len(), settings.adam);
        let (rollouts, buffers) = (Vec::new(), UpdateBuffers::default());
        Ok(Self { settings, networks, params, adam, seed, steps: 0, rollouts, buffers, gpu: None })
    }

    /// Lets the networks compute on a GPU from now on; what that is called.
    ///
    /// # Errors
    /// If they cannot: on states, above a frozen trunk, or with too little memory.
    pub fn use_gpu(&mut self, kernels: GpuKernels) -> Result<String, LearnError> {
        let rows = self.settings.micro_batch.min(self.settings.batch).max(VALUE_BATCH);
        let gpu = gpu::GpuNetworks::new(kernels, &self.networks, rows)?;
        let name = gpu.name();
        self.gpu = Some(gpu);
        Ok(name)
    }

    /// Gives parameters and moments to the GPU, if there is one that has others.
    fn upload(&mut self) -> Result<(), LearnError> {
        match &mut self.gpu {
            Some(gpu) if !gpu.is_current => Ok(gpu.upload([&self.params, &self.adam.m, &self.adam.v])?),
            _ => Ok(()),
        }
    }

    /// Takes parameters and moments back, if there is a GPU.
    fn download(&mut self) -> Result<(), LearnError> {
        let Some(gpu) = &mut self.gpu else { return Ok(()) };
        Ok(gpu.download(&mut self.params, Some([&mut self.adam.m, &mut self.adam.v]))?)
    }
}

impl Learner for Ppo {
    fn explorer(&self) -> Box<dyn Policy> {
        Box::new(self.networks.policy(&self.params, ActionMode::Explore))
    }

    fn explorer_params(&self) -> ExplorerParams {
        ExplorerParams {
            policy: Arc::new(self.params[self.networks.actor_range()].to_vec()),
            encoder: Arc::default(),
            scale: None,
            trunk: self.networks.vision_encoder().map_or(0, VisionEncoder::trunk_hash),
        }
    }

    fn greedy(&self) -> Box<dyn Policy> {
        Box::new(self.networks.policy(&self.params, ActionMode::Greedy))
    }

    fn add_experience(&mut self, experience: Experience) -> Result<(), LearnError> {
        let states = experience.segment.obs[0].state_width();
        if states != self.networks.states() {
            return Err(LearnError::Width { what: "states", expected: self.networks.states(), got: states });
        }
        let expected = experience.reward.total.len() * self.networks.head().action_width();
        let got = experience.decisions.log_probs.len();
        if got != expected {
            return Err(LearnError::Width { what: "log-probabilities", expected, got });
        }
        self.rollouts.push(StoredRollout::new(experience, &self.networks)?);
        Ok(())
    }

    fn improve(&mut self) -> Result<Metrics, LearnError> {
        let rollouts = std::mem::take(&mut self.rollouts);
        if rollouts.is_empty() {
            return Ok(Metrics::default());
        }
        self.upload()?;
        let mut samples = self.samples(&rollouts)?;
        let mut metrics = Metrics::default();
        push_rollout_metrics(&rollouts, &samples, &mut metrics);
        if self.settings.normalize_advantages {
            samples.normalize();
        }
        let update_stats = match self.networks.vision_encoder() {
            // An update is many small products: threads that slept between them would take longer to wake than to work.
            None => with_spinning_threads(|| self.update_often(&rollouts, &samples))?,
            // Convolutions need the threads themselves.
            Some(_) => self.update_often(&rollouts, &samples)?,
        };
        self.download()?;
        update_stats.push_to(&samples, self, &mut metrics);
        self.steps += 1;
        Ok(metrics)
    }

    fn imitate(&mut self, cloning: &Cloning, callback: CloningCallback<'_>) -> Result<(), LearnError> {
        self.clone_demos(cloning, callback)
    }

    fn weights(&self) -> Weights {
        let mut weights = self.networks.export(&self.params);
        if let Some(vision_encoder) = self.networks.vision_encoder() {
            vision_encoder.export_trunk(&mut weights);
        }
        weights
    }

    fn load(&mut self, weights: &Weights) -> Result<(), WeightsMismatch> {
        let mut params = self.params.clone();
        self.networks.import(&mut params, weights)?;
        self.params = params;
        self.gpu.iter_mut().for_each(|gpu| gpu.is_current = false);
        Ok(())
    }

    fn save(&self, folder: &Path) -> Result<(), LearnError> {
        let mut checkpoint = Checkpoint::default();
        checkpoint.tensors("policy", self.networks.export(&self.params));
        checkpoint.tensors("adam.m", self.networks.export(&self.adam.m));
        checkpoint.tensors("adam.v", self.networks.export(&self.adam.v));
        checkpoint.count("adam.step", self.adam.step);
        checkpoint.count("steps", self.steps);
        checkpoint.trunk(self.networks.vision_encoder());
        checkpoint.write(folder)
    }

    fn restore(&mut self, folder: &Path) -> Result<(), LearnError> {
        let checkpoint = Checkpoint::read(folder)?;
        checkpoint.same_trunk(self.networks.vision_encoder())?;
        let fill = |name: &str, into: &[f32]| {
            let mut into = into.to_vec();
            let fitted = self.networks.import(&mut into, &checkpoint.under(name));
            fitted.map(|()| into).map_err(|mismatch| checkpoint.mismatch(mismatch))
        };
        let (params, m, v) =
            (fill("policy", &self.params)?, fill("adam.m", &self.adam.m)?, fill("adam.v", &self.adam.v)?);
        let (step, steps) = (checkpoint.counted("adam.step")?, checkpoint.counted("steps")?);
        self.params = params;
        self.adam = Adam { m, v, step, ..self.adam.clone() };
        self.steps = steps;
        self.gpu.iter_mut().for_each(|gpu| gpu.is_current = false);
        Ok(())
    }
}

impl Ppo {
    /// All decisions of rollouts, with values by the critic and advantages.
    fn samples(&mut self, rollouts: &[StoredRollout]) -> Result<Samples, LearnError> {
        let Self { networks, params, settings, gpu, .. } = self;
        let mut inference = InferenceBuffers::default();
        let (mut outputs, mut values) = (Vec::new(), Vec::new());
        Samples::of(rollouts, networks, settings, &mut |obs_buffer, n| match gpu {
            None => Ok(networks.values(params, &ObsBatch::from(obs_buffer), n, &mut inference).to_vec()),
            Some(gpu) => {
                gpu.forward(networks, obs_buffer, n, &mut outputs, &mut values)?;
                Ok(values.clone())
            }
        })
    }

    /// All passes over the samples of a step of learning.
    fn update_often(
        &mut self,
        rollouts: &[StoredRollout],
        samples: &Samples,
    ) -> Result<UpdateStats, LearnError> {
        let mut update_stats = UpdateStats::default();
        for pass in 0..self.settings.update_epochs {
            let mut order: Vec<u32> = (0..samples.decisions.len() as u32).collect();
            let seed = self.seed.purpose("order").index(self.steps).index(pass as u64);
            seed.rng().shuffle(&mut order);
            for batch in order.chunks(self.settings.batch) {
                let batch_stats = self.gradients(rollouts, samples, batch)?;
                update_stats.add(&batch_stats);
                if self.settings.target_kl.is_some_and(|limit| batch_stats.approx_kl() > limit) {
                    return Ok(update_stats);
                }
                update_stats.grad_norm += self.descend()?;
                update_stats.updates += 1;
            }
        }
        Ok(update_stats)
    }

    /// The loss of a batch. Its gradient is left in the buffers.
    fn gradients(
        &mut self,
        rollouts: &[StoredRollout],
        samples: &Samples,
        batch: &[u32],
    ) -> Result<BatchStats, LearnError> {
        let sizes = Sizes::of(samples, batch, &self.settings);
        self.buffers.grads.clear();
        self.buffers.grads.resize(self.params.len(), 0.0);
        let mut param_status = ParamStatus::Changed;
        let mut batch_stats = BatchStats::default();
        let at_once = self.networks.micro_batch_rows().unwrap_or(usize::MAX);
        let pieces = batch.chunks(self.settings.micro_batch).flat_map(|micro| micro.chunks(at_once));
        for micro in pieces {
            self.gather(rollouts, samples, micro);
            self.forward(micro.len())?;
            self.ppo_loss(samples, micro, sizes, &mut batch_stats);
            self.backward(param_status)?;
            param_status = ParamStatus::Unchanged;
        }
        batch_stats.scale(sizes, self.settings.entropy_bonus);
        Ok(batch_stats)
    }

    /// Outputs and values of the observations in the buffers.
    fn forward(&mut self, n: usize) -> Result<(), LearnError> {
        let UpdateBuffers { obs_buffer, forward_pass, .. } = &mut self.buffers;
        match &mut self.gpu {
            None => self.networks.forward(&self.params, &ObsBatch::from(&*obs_buffer), n, forward_pass),
            Some(gpu) => {
                let ForwardPass { outputs, values, .. } = forward_pass;
                gpu.forward(&self.networks, obs_buffer, n, outputs, values)?;
            }
        }
        Ok(())
    }

    /// Adds the gradients of the last forward pass. On a GPU the first ones of a batch replace what is there.
    fn backward(&mut self, param_status: ParamStatus) -> Result<(), LearnError> {
        let UpdateBuffers { obs_buffer, forward_pass, grad_outputs, grad_values, grads, .. } =
            &mut self.buffers;
        if let Some(gpu) = &mut self.gpu {
            return Ok(gpu.backward(grad_outputs, grad_values, param_status == ParamStatus::Unchanged)?);
        }
        let obs_batch = ObsBatch::from(&*obs_buffer);
        self.networks.backward(
            &self.params,
            param_status,
            &obs_batch,
            forward_pass,
            grad_outputs,
            grad_values,
            grads,
        );
        Ok(())
    }

    /// Observations, and actions `[n, C, width]`, of some samples.
    fn gather(&mut self, rollouts: &[StoredRollout], samples: &Samples, chosen: &[u32]) {
        let head = self.networks.head();
        let width = head.action_width();
        let UpdateBuffers { obs_buffer, actions, .. } = &mut self.buffers;
        obs_buffer.clear();
        actions.clear();
        for &index in chosen {
            let Sample { rollout, step, row, length, .. } = samples.decisions[index as usize];
            let (stored_rollout, step, row) = (&rollouts[rollout as usize], step as usize, row as usize);
            stored_rollout.push_obs(step, row, &self.networks, obs_buffer);
            let segment = &stored_rollout.experience.segment;
            for later in 0..length as usize {
                actions.extend_from_slice(&segment.actions[step + later][row * width..(row + 1) * width]);
            }
            // Actions that were decided and not done do not count: their place is filled with what is never read.
            actions.resize(actions.len() + (head.chunk - length as usize) * width, 0.0);
        }
    }

    /// The losses of samples that went through the networks, and their gradients by outputs and values.
    fn ppo_loss(&mut self, samples: &Samples, chosen: &[u32], sizes: Sizes, batch_stats: &mut BatchStats) {
        let (settings, head) = (&self.settings, self.networks.head());
        let log_std_range = self.networks.log_std_range();
        let log_std = &self.params[log_std_range.clone()];
        let UpdateBuffers { actions, forward_pass, grad_outputs, grad_values, grads, .. } = &mut self.buffers;
        let grad_log_std = &mut grads[log_std_range];
        grad_outputs.clear();
        grad_outputs.resize(forward_pass.outputs.len(), 0.0);
        grad_values.clear();
        grad_values.resize(forward_pass.values.len(), 0.0);
        let (outputs, values, wide) =
            (head.outputs(), self.networks.value_outputs(), head.chunk * head.action_width());
        for (at, &index) in chosen.iter().enumerate() {
            let sample = &samples.decisions[index as usize];
            let out = &forward_pass.outputs[at * outputs..(at + 1) * outputs];
            let acted = &actions[at * wide..(at + 1) * wide];
            let grad_out = &mut grad_outputs[at * outputs..(at + 1) * outputs];
            let units = samples.units(sample, settings.reward_level);

            // − bonus · H, with H per action or per chunk.
            let grad_entropy = -settings.entropy_bonus / sizes.entropies;
            let (actions_at, length) = (sample.actions_at as usize, sample.length as usize);
            let old = &samples.log_prob[actions_at..actions_at + length];
            match settings.log_prob_level {
                Level::Action => {
                    for (action, &old) in old.iter().enumerate() {
                        let (log_prob, entropy) = head.measure(out, log_std, acted, action);
                        let unit = if units.len() == length { units.start + action } else { units.start };
                        let made = settings.loss.policy(log_prob, old, samples.advantage[unit]);
                        batch_stats.policy(&made, log_prob - old);
                        batch_stats.entropy += f64::from(entropy);
                        let grad_log_prob = made.grad / sizes.ratios;
                        head.backward(
                            out,
                            log_std,
                            acted,
                            action,
                            grad_log_prob,
                            grad_entropy,
                            grad_out,
                            grad_log_std,
                        );
                    }
                }
                Level::Chunk => {
                    let measured = (0..length).map(|action| head.measure(out, log_std, acted, action));
                    let (log_prob, entropy) =
                        measured.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                    let old: f32 = old.iter().sum();
                    let made = settings.loss.policy(log_prob, old, samples.advantage[units.start]);
                    batch_stats.policy(&made, log_prob - old);
                    batch_stats.entropy += f64::from(entropy);
                    let grad_log_prob = made.grad / sizes.ratios;
                    for action in 0..length {
                        head.backward(
                            out,
                            log_std,
                            acted,
                            action,
                            grad_log_prob,
                            grad_entropy,
                            grad_out,
                            grad_log_std,
                        );
                    }
                }
            }
            for (place, unit) in units.enumerate() {
                let value = forward_pass.values[at * values + place];
                let made = settings.loss.value(value, samples.value[unit], samples.target[unit]);
                batch_stats.value_loss += f64::from(made.loss);
                batch_stats.value_clipped += f64::from(u8::from(made.is_clipped));
                grad_values[at * values + place] = made.grad / sizes.values;
            }
        }
    }

    /// One step of the optimiser along the gradient in the buffers. Returns its norm before clipping.
    fn descend(&mut self) -> Result<f64, LearnError> {
        let (lr, value_lr) = self.learning_rates();
        let (clip, log_std) = (self.settings.clip_grad, self.networks.log_std_range());
        let norm = match &mut self.gpu {
            None => clip_grad_norm(&mut self.buffers.grads, clip),
            Some(gpu) => {
                let numbers = |lr: f64| adam_numbers(self.adam.settings, self.adam.step + 1, lr as f32, clip);
                let steps = [Some(numbers(lr)), Some(numbers(value_lr))];
                gpu.step(&self.buffers.grads[log_std.clone()], steps, &mut self.params[log_std])?
            }
        };
        if !norm.is_finite() {
            let updates = self.adam.step;
            return Err(LearnError::Diverged { what: "the gradient", value: norm.into(), updates });
        }
        if self.gpu.is_some() {
            self.adam.step += 1;
            return Ok(norm.into());
        }
        let groups =
            [(self.networks.actor_range(), lr as f32), (self.networks.critic_range(), value_lr as f32)];
        self.adam.step_groups(&mut self.params, &self.buffers.grads, &groups);
        Ok(norm.into())
    }

    fn learning_rates(&self) -> (f64, f64) {
        let is_warming_up = self.steps < self.settings.critic_warmup;
        let lr = if is_warming_up { 0.0 } else { self.settings.lr.at(self.steps) };
        (lr, self.settings.value_lr.at(self.steps))
    }
}

/// How many numbers each mean of a batch is over.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    ratios: f32,
    entropies: f32,
    values: f32,
}

impl Sizes {
    fn of(samples: &Samples, batch: &[u32], settings: &PpoSettings) -> Self {
        let decisions = batch.len() as f32;
        let actions: u32 = batch.iter().map(|&index| samples.decisions[index as usize].length).sum();
        let by = |level: Level| if level == Level::Action { actions as f32 } else { decisions };
        Self {
            ratios: by(settings.log_prob_level),
            entropies: by(settings.entropy_level),
            values: by(settings.reward_level),
        }
    }
}

/// Statistics of one batch: sums at first, means after [`BatchStats::scale`].
#[derive(Debug, Clone, Copy, Default)]
struct BatchStats {
    policy_loss: f64,
    policy_loss_abs: f64,
    ratio: f64,
    ratio_abs: f64,
    clipped_ratio: f64,
    dual_clipped: f64,
    clipped: f64,
    kl: f64,
    entropy: f64,
    value_loss: f64,
    value_clipped: f64,
    total_loss: f64,
}

impl BatchStats {
    fn policy(&mut self, made: &loss::PolicyLoss, log_ratio: f32) {
        let share = |is: bool| f64::from(u8::from(is));
        self.policy_loss += f64::from(made.loss);
        self.policy_loss_abs += f64::from(made.loss.abs());
        self.ratio += f64::from(made.ratio);
        self.ratio_abs += f64::from((made.ratio - 1.0).abs());
        self.clipped_ratio += f64::from(made.clipped_ratio);
        self.clipped += share(made.is_clipped);
        self.dual_clipped += share(made.is_dual_clipped);
        self.kl += f64::from(made.ratio) - 1.0 - f64::from(log_ratio);
    }

    fn scale(&mut self, sizes: Sizes, bonus: f32) {
        let [ratios, entropies, values] = [sizes.ratios, sizes.entropies, sizes.values].map(f64::from);
        for sum in [
            &mut self.policy_loss,
            &mut self.policy_loss_abs,
            &mut self.ratio,
            &mut self.ratio_abs,
            &mut self.clipped_ratio,
            &mut self.clipped,
            &mut self.dual_clipped,
            &mut self.kl,
        ] {
            *sum /= ratios;
        }
        self.entropy /= entropies;
        self.value_loss /= values;
        self.value_clipped /= values;
        self.total_loss = self.policy_loss + self.value_loss - f64::from(bonus) * self.entropy;
    }

    /// How far the policy has moved: the mean of r − 1 − log r.
    fn approx_kl(&self) -> f64 {
        self.kl
    }
}

/// Sums over the batches of a step of learning.
#[derive(Debug, Default)]
struct UpdateStats {
    batches: f64,
    updates: u64,
    grad_norm: f64,
    sum: BatchStats,
    last_kl: f64,
}

impl UpdateStats {
    fn add(&mut self, batch_stats: &BatchStats) {
        self.batches += 1.0;
        self.last_kl = batch_stats.kl;
        let BatchStats { policy_loss, policy_loss_abs, ratio, ratio_abs, clipped_ratio, .. } = *batch_stats;
        let BatchStats { dual_clipped, clipped, kl, entropy, value_loss, value_clipped, total_loss, .. } =
            *batch_stats;
        let sum = &mut self.sum;
        for (sum, value) in [
            (&mut sum.policy_loss, policy_loss),
            (&mut sum.policy_loss_abs, policy_loss_abs),
            (&mut sum.ratio, ratio),
            (&mut sum.ratio_abs, ratio_abs),
            (&mut sum.clipped_ratio, clipped_ratio),
            (&mut sum.dual_clipped, dual_clipped),
            (&mut sum.clipped, clipped),
            (&mut sum.kl, kl),
            (&mut sum.entropy, entropy),
            (&mut sum.value_loss, value_loss),
            (&mut sum.value_clipped, value_clipped),
            (&mut sum.total_loss, total_loss),
        ] {
            *sum += value;
        }
    }

    /// Means over the batches, under RLinf's names.
    fn push_to(&self, samples: &Samples, ppo: &Ppo, metrics: &mut Metrics) {
        let (lr, value_lr) = ppo.learning_rates();
        let mean = |sum: f64| sum / self.batches.max(1.0);
        for (name, value) in [
            ("train/actor/policy_loss", mean(self.sum.policy_loss)),
            ("train/actor/policy_loss_abs", mean(self.sum.policy_loss_abs)),
            ("train/actor/ratio", mean(self.sum.ratio)),
            ("train/actor/ratio_abs", mean(self.sum.ratio_abs)),
            ("train/actor/clipped_ratio", mean(self.sum.clipped_ratio)),
            ("train/actor/dual_cliped_ratio", mean(self.sum.dual_clipped)),
            ("train/actor/approx_kl", mean(self.sum.kl)),
            ("train/actor/clip_fraction", mean(self.sum.clipped)),
            ("train/actor/entropy_loss", mean(self.sum.entropy)),
            ("train/actor/total_loss", mean(self.sum.total_loss)),
            ("train/actor/grad_norm", self.grad_norm / (self.updates.max(1)) as f64),
            ("train/actor/updates", self.updates as f64),
            ("train/actor/lr", lr),
            ("train/critic/value_loss", mean(self.sum.value_loss)),
            ("train/critic/value_clip_ratio", mean(self.sum.value_clipped)),
            ("train/critic/explained_variance", explained_variance(&samples.value, &samples.target)),
            ("train/critic/lr", value_lr),
        ] {
            metrics.push(name, value);
        }
    }
}

/// 1 − Var(R − V) / Var(R): 1 where values are right, 0 where a constant would do as well.
fn explained_variance(value: &[f32], target: &[f32]) -> f64 {
    let variance = |of: &mut dyn Iterator<Item = f64>| {
        let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for x in of {
            (n, sum, squares) = (n + 1.0, sum + x, squares + x * x);
        }
        squares / n - (sum / n) * (sum / n)
    };
    let all = variance(&mut target.iter().map(|&target| f64::from(target)));
    let left = variance(&mut value.iter().zip(target).map(|(&v, &r)| f64::from(r) - f64::from(v)));
    if all > 0.0 { 1.0 - left / all } else { 0.0 }
}

/// Rewards, advantages and returns of the rollouts, under RLinf's names.
fn push_rollout_metrics(rollouts: &[StoredRollout], samples: &Samples, metrics: &mut Metrics) {
    let rewards = rollouts.iter().flat_map(|stored_rollout| &stored_rollout.experience.reward.total);
    let count =
        rollouts.iter().map(|stored_rollout| stored_rollout.experience.reward.total.len()).sum::<usize>();
    let mean = |sum: f64, n: usize| sum / n.max(1) as f64;
    metrics.push("rollout/rewards", mean(rewards.map(|&reward| f64::from(reward)).sum(), count));
    for (name, column) in [("advantages", &samples.advantage), ("returns", &samples.target)] {
        let sum = column.iter().map(|&value| f64::from(value)).sum();
        let most = column.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let least = column.iter().copied().fold(f32::INFINITY, f32::min);
        metrics.push(format!("rollout/{name}_mean"), mean(sum, column.len()));
        metrics.push(format!("rollout/{name}_max"), most.into());
        metrics.push(format!("rollout/{name}_min"), least.into());
    }
}
