//! The networks of soft actor-critic: a policy, and several critics of one shape.
//!
//! ```text
//! backbone      Linear → tanh, thrice                  orthogonal, gain √2
//! actor_mean    Linear → C · action width              orthogonal, gain 0.01 √2: it begins near zero
//! actor_logstd  Linear → C · action width              as PyTorch begins
//! q_head.qs.i   [state, action] → Linear → layer norm → tanh, thrice, Linear → 1
//! ```
//!
//! On images, both share an encoder (see `vision_encoder`). The critics' loss trains it, and so do demonstrations where the policy is held
//! near them (see `bc_regularizer`); or the policy's loss does (see [`EncoderLoss`]):
//!
//! ```text
//! mix_proj      Linear → layer norm → tanh, twice      in place of the backbone
//! actor_mean    as above                               actor_logstd   orthogonal, gain √2
//! q_head.qs.i   [encoded, action] → as above
//! ```
//!
//! Both heads of the policy are one layer here, `[μ | x]`, and two in RLinf's files.

use std::sync::Arc;

use plaudit_core::{ActionSpace, Decision, Obs, Policy, PolicyError, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::{
    Activation, BatchNorm, Bias, Ensemble, Init, LayerSpec, Mlp, MlpSpec, Norm, Scratch, Tensor, TensorKind,
};

use super::EncoderLoss;
use super::tanh_gaussian::{SampledActions, StdBounds, TanhGaussian};
use crate::naming::{self, WeightsMismatch};
use crate::vision_encoder::{self, ObsBatch, VisionEncoder, VisionEncoderSettings, VisionEncoderTape};
use crate::{ActionMode, Inputs, StateScale};

const SQRT_2: f32 = std::f32::consts::SQRT_2;
/// PyTorch's gain for tanh.
const TANH_GAIN: f32 = 5.0 / 3.0;

/// What the networks look like.
#[derive(Debug, Clone)]
pub struct SoftNetworkSettings {
    /// What policy and critics take in.
    pub inputs: Inputs,
    /// What an action is; it must be continuous.
    pub actions: ActionSpace,
    /// Actions decided at once, C.
    pub chunk: usize,
    /// Widths of the policy's hidden layers.
    pub policy_hidden: Vec<usize>,
    /// Widths of each critic's hidden layers.
    pub critic_hidden: Vec<usize>,
    /// What follows each product.
    pub activation: Activation,
    /// How many critics.
    pub critics: usize,
    /// What the critics are made of.
    pub critic_kind: CriticKind,
    /// How the policy's deviations are bounded.
    pub std_bounds: StdBounds,
    /// Correlation of exploration noise from one step to the next, 0 to 1. Independent noise cancels out over the steps of an arm
    /// that is moved by small differences; correlated noise moves the arm elsewhere.
    pub noise_correlation: f32,
}

/// What the critics are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CriticKind {
    /// Layer norm, and a target that follows slowly.
    LayerNorm,
    /// No norm, and a target that follows slowly: the original.
    Plain,
    /// CrossQ (Bhatt et al., 2024): batch renormalisation over both halves of a transition, and no target.
    CrossQ,
}

impl SoftNetworkSettings {
    /// RLinf's `mlp_policy` with critics.
    pub fn mlp(states: usize, actions: ActionSpace, chunk: usize, critics: usize) -> Self {
        Self {
            inputs: Inputs::States(states),
            actions,
            chunk,
            policy_hidden: vec![256; 3],
            critic_hidden: vec![256; 3],
            activation: Activation::Tanh,
            critics,
            critic_kind: CriticKind::LayerNorm,
            std_bounds: StdBounds::STATES,
            noise_correlation: 0.0,
        }
    }

    /// RLinf's `cnn_policy` with critics.
    pub fn cnn(
        vision_encoder: VisionEncoderSettings,
        actions: ActionSpace,
        chunk: usize,
        critics: usize,
    ) -> Self {
        Self {
            policy_hidden: vision_encoder.mix.clone(),
            critic_hidden: vec![256; 2],
            std_bounds: StdBounds::IMAGES,
            inputs: Inputs::Images(vision_encoder),
            ..Self::mlp(0, actions, chunk, critics)
        }
    }
}

/// The shapes of policy and critics. Holds no parameters.
#[derive(Debug, Clone)]
pub struct SoftNetworks {
    /// The vision encoder, for policies on images. Its parameters lie before those of the critics.
    pub vision_encoder: Option<VisionEncoder>,
    /// From states or encoded images to `[μ | x]`.
    pub policy: Mlp,
    /// From states or encoded images, and actions, to a value.
    pub critics: Ensemble,
    /// From `[μ | x]` to actions.
    pub gaussian: TanhGaussian,
    /// How states are scaled before anything takes them.
    pub scale: Option<StateScale>,
    kind: CriticKind,
    noise_correlation: f32,
}

impl SoftNetworks {
    /// Networks of these shapes; nothing for actions that are one of several choices.
    pub fn new(settings: &SoftNetworkSettings) -> Option<Self> {
        let gaussian = TanhGaussian::new(&settings.actions, settings.chunk, settings.std_bounds)?;
        let (vision_encoder, inputs) = match &settings.inputs {
            Inputs::States(states) => (None, *states),
            Inputs::Images(settings) => {
                let vision_encoder = VisionEncoder::new(settings);
                let outputs = vision_encoder.outputs();
                (Some(vision_encoder), outputs)
            }
        };
        let policy = policy(settings, inputs, gaussian.width());
        let critics = Ensemble::new(critic(settings, inputs + gaussian.width()), settings.critics);
        Some(Self {
            vision_encoder,
            policy,
            critics,
            gaussian,
            scale: None,
            kind: settings.critic_kind,
            noise_correlation: settings.noise_correlation,
        })
    }

    /// Numbers in a state.
    pub fn states(&self) -> usize {
        self.vision_encoder.as_ref().map_or(self.policy.inputs(), VisionEncoder::states)
    }

    /// How many of the critics' parameters are those of the encoder: the first ones.
    pub fn encoder_len(&self) -> usize {
        self.vision_encoder.as_ref().map_or(0, VisionEncoder::len)
    }

    /// The encoder, if it is the policy's loss that trains it.
    pub(super) fn trained_by_policy(&self, encoder_loss: EncoderLoss) -> Option<&VisionEncoder> {
        self.vision_encoder.as_ref().filter(|_| encoder_loss == EncoderLoss::Policy)
    }

    /// Whether the critics are trained towards a target network.
    pub fn has_target(&self) -> bool {
        self.kind != CriticKind::CrossQ
    }

    /// The policy's parameters to begin with.
    pub fn init_policy(&self, seed: Seed) -> Vec<f32> {
        let mut params = self.policy.init(seed.purpose("policy"));
        for tensor in self.last_layer().filter(|tensor| tensor.kind == TensorKind::Bias) {
            let mut bias = self.policy.export(&params, &tensor);
            bias[..self.gaussian.width()].fill(0.0);
            self.policy.import(&mut params, &tensor, &bias);
        }
        params
    }

    /// Sets the standard deviation of the policy, the same in every state.
    pub fn set_std(&self, params: &mut [f32], std: &[f32]) {
        if !std.is_empty() {
            self.policy.set_constant_outputs(params, self.gaussian.width(), &self.gaussian.outputs_for(std));
        }
    }

    /// The critics' parameters to begin with.
    pub fn init_critics(&self, seed: Seed) -> Vec<f32> {
        let vision_encoder = self.vision_encoder.as_ref();
        let mut params =
            vision_encoder.map_or(Vec::new(), |vision_encoder| vision_encoder.init(seed.purpose("sight")));
        params.extend(self.critics.init(seed.purpose("critics")));
        params
    }

    /// Puts the policy's tensors among the weights, under RLinf's names.
    pub fn export_policy(&self, params: &[f32], into: &mut Weights) {
        let mut stacked = Weights::new();
        naming::export(&self.policy, params, &self.policy_names(), &mut stacked);
        let width = self.gaussian.width();
        for (name, tensor) in stacked.iter() {
            match name.strip_prefix(HEADS) {
                None => into.insert(name, tensor.clone()),
                Some(leaf) => {
                    let values = tensor.to_f32().unwrap_or_default();
                    let mut shape = tensor.shape().to_vec();
                    shape[0] = width;
                    let (mean, deviation) = values.split_at(values.len() / 2);
                    into.insert_f32(format!("actor_mean{leaf}"), &shape, mean);
                    into.insert_f32(format!("actor_logstd{leaf}"), &shape, deviation);
                }
            }
        }
        into.insert_f32("action_scale", &[width], self.gaussian.scale());
        into.insert_f32("action_bias", &[width], self.gaussian.bias());
    }

    /// Takes the policy's tensors from the weights.
    pub fn import_policy(&self, params: &mut [f32], from: &Weights) -> Result<(), WeightsMismatch> {
        let mut stacked = from.clone();
        for tensor in self.last_layer() {
            let leaf = naming::leaf(tensor.kind);
            let mut shape = tensor.shape.clone();
            shape[0] = self.gaussian.width();
            let mut values = naming::take(from, &format!("actor_mean.{leaf}"), &shape)?;
            values.extend(naming::take(from, &format!("actor_logstd.{leaf}"), &shape)?);
            stacked.insert_f32(format!("{HEADS}.{leaf}"), &tensor.shape, &values);
        }
        naming::import(&self.policy, params, &self.policy_names(), &stacked)
    }

    /// Puts the critics' tensors among the weights, under RLinf's names.
    pub fn export_critics(&self, params: &[f32], into: &mut Weights) {
        let (encoder_params, params) = params.split_at(self.encoder_len());
        if let Some(vision_encoder) = &self.vision_encoder {
            vision_encoder.export(encoder_params, into);
        }
        for head in 0..self.critics.heads() {
            let params = &params[self.critics.range(head)];
            naming::export(self.critics.head(), params, &critic_names(self.critics.head(), head), into);
        }
    }

    /// Takes the critics' tensors from the weights.
    pub fn import_critics(&self, params: &mut [f32], from: &Weights) -> Result<(), WeightsMismatch> {
        let (encoder_params, params) = params.split_at_mut(self.encoder_len());
        self.import_encoder(encoder_params, from)?;
        for head in 0..self.critics.heads() {
            let range = self.critics.range(head);
            let naming = critic_names(self.critics.head(), head);
            naming::import(self.critics.head(), &mut params[range], &naming, from)?;
        }
        Ok(())
    }

    /// Takes the tensors of the encoder from the weights.
    pub fn import_encoder(&self, params: &mut [f32], from: &Weights) -> Result<(), WeightsMismatch> {
        self.vision_encoder.as_ref().map_or(Ok(()), |vision_encoder| vision_encoder.import(params, from))
    }

    /// The policy's parameters as of one that takes plain states.
    pub fn plain_policy(&self, params: &[f32]) -> Vec<f32> {
        let mut params = params.to_vec();
        if let (Some(scale), None) = (&self.scale, &self.vision_encoder) {
            scale.fold(&self.policy, &mut params);
        }
        params
    }

    /// The critics' parameters as of ones that take plain states.
    pub fn plain_critics(&self, params: &[f32]) -> Vec<f32> {
        let mut params = params.to_vec();
        self.change_scale(&mut params, StateScale::fold);
        params
    }

    /// From parameters of a policy that takes plain states to what is trained here.
    pub fn scaled_policy(&self, params: &mut [f32]) {
        if let (Some(scale), None) = (&self.scale, &self.vision_encoder) {
            scale.unfold(&self.policy, params);
        }
    }

    /// From parameters of critics that take plain states to what is trained here.
    pub fn scaled_critics(&self, params: &mut [f32]) {
        self.change_scale(params, StateScale::unfold);
    }

    /// On images the state goes through a layer of the encoder; without, straight into every critic.
    fn change_scale(&self, params: &mut [f32], change: fn(&StateScale, &Mlp, &mut [f32])) {
        let Some(scale) = &self.scale else { return };
        if let Some(vision_encoder) = &self.vision_encoder {
            let (state_proj, place) = vision_encoder.state_layer();
            return change(scale, state_proj, &mut params[place]);
        }
        for head in 0..self.critics.heads() {
            change(scale, self.critics.head(), &mut params[self.critics.range(head)]);
        }
    }

    fn last_layer(&self) -> impl Iterator<Item = Tensor> + '_ {
        let last = self.policy.spec().layers.len() - 1;
        self.policy.tensors().filter(move |tensor| tensor.layer == last)
    }

    fn policy_names(&self) -> impl Fn(usize, TensorKind) -> String {
        let (last, has_encoder) = (self.policy.spec().layers.len() - 1, self.vision_encoder.is_some());
        let mix = vision_encoder::squashed_names("mix_proj");
        move |layer, kind| match layer == last {
            true => format!("{HEADS}.{}", naming::leaf(kind)),
            false if has_encoder => mix(layer, kind),
            false => format!("backbone.{}.{}", 2 * layer, naming::leaf(kind)),
        }
    }
}

/// What both heads of the policy are called while they are one layer.
const HEADS: &str = "actor_heads";

/// `q_head.qs.{head}.net.{module}.{leaf}`: a layer is a product, its norm if any, and an activation.
fn critic_names(mlp: &Mlp, head: usize) -> impl Fn(usize, TensorKind) -> String {
    let modules: Vec<usize> = mlp
        .spec()
        .layers
        .iter()
        .scan(0, |next, layer| {
            let first = *next;
            *next += 1
                + usize::from(layer.input_norm.is_some())
                + usize::from(layer.norm != Norm::None)
                + usize::from(layer.activation != Activation::None);
            Some(first)
        })
        .collect();
    let normed: Vec<bool> = mlp.spec().layers.iter().map(|layer| layer.input_norm.is_some()).collect();
    move |layer, kind| {
        let product = modules[layer] + usize::from(normed[layer]);
        let module = match kind {
            TensorKind::Weight | TensorKind::Bias => product,
            TensorKind::NormWeight | TensorKind::NormBias => product + 1,
            _ => modules[layer],
        };
        format!("q_head.qs.{head}.net.{module}.{}", naming::leaf(kind))
    }
}

fn policy(settings: &SoftNetworkSettings, inputs: usize, width: usize) -> Mlp {
    let near_zero = Init::Orthogonal { gain: 0.01 * SQRT_2 };
    let (hidden, deviations): (&dyn Fn(usize) -> LayerSpec, Init) = match settings.inputs {
        Inputs::Images(_) => (&vision_encoder::squashed, Init::Orthogonal { gain: SQRT_2 }),
        Inputs::States(_) => (
            &|width| LayerSpec {
                activation: settings.activation,
                bias: Bias::Zero,
                init: Init::Orthogonal { gain: SQRT_2 },
                ..LayerSpec::linear(width)
            },
            Init::TorchDefault,
        ),
    };
    let heads = LayerSpec {
        init: Init::Rows(vec![(width, near_zero), (width, deviations)]),
        ..LayerSpec::linear(2 * width)
    };
    let layers = settings.policy_hidden.iter().map(|&width| hidden(width)).chain([heads]).collect();
    Mlp::new(MlpSpec { inputs, layers })
}

fn critic(settings: &SoftNetworkSettings, inputs: usize) -> Mlp {
    let (norm, input_norm) = match settings.critic_kind {
        CriticKind::LayerNorm => (Norm::Layer, None),
        CriticKind::Plain => (Norm::None, None),
        CriticKind::CrossQ => (Norm::None, Some(BatchNorm::crossq())),
    };
    let hidden = |&width: &usize| LayerSpec {
        activation: settings.activation,
        norm,
        input_norm,
        bias: Bias::Zero,
        init: Init::XavierUniform { gain: TANH_GAIN },
        ..LayerSpec::linear(width)
    };
    let value =
        LayerSpec { input_norm, bias: Bias::Zero, init: Init::Normal { std: 0.02 }, ..LayerSpec::linear(1) };
    let layers = settings.critic_hidden.iter().map(hidden).chain([value]).collect();
    Mlp::new(MlpSpec { inputs, layers })
}

/// The policy acting, with a copy of its parameters.
#[derive(Debug, Clone)]
pub struct SoftPolicy {
    networks: Arc<SoftNetworks>,
    params: Arc<Vec<f32>>,
    /// Of the encoder; empty on states.
    encoder_params: Vec<f32>,
    action_mode: ActionMode,
    /// As the networks take them.
    states: Vec<f32>,
    vision_encoder: VisionEncoderTape,
    scratch: Scratch,
    sampled: SampledActions,
    /// Of the last step, which the next one depends on where noise is correlated.
    noise: Vec<f32>,
}

impl SoftPolicy {
    /// A policy of these parameters; `encoder_params` are those of the encoder, empty on states.
    pub fn new(
        networks: Arc<SoftNetworks>,
        params: Arc<Vec<f32>>,
        encoder_params: &[f32],
        action_mode: ActionMode,
    ) -> Self {
        Self {
            networks,
            params,
            encoder_params: encoder_params.to_vec(),
            action_mode,
            states: Vec::new(),
            vision_encoder: VisionEncoderTape::default(),
            scratch: Scratch::default(),
            sampled: SampledActions::default(),
            noise: Vec::new(),
        }
    }
}

impl SoftPolicy {
    /// The noise of the next step: ε ← ρ ε + √(1 − ρ²) ξ with ξ ~ N(0, 1). Each row samples from its own stream of the seed.
    fn sample_noise(&mut self, rows: usize, seed: Seed) {
        let (width, rho) = (self.networks.gaussian.width(), self.networks.noise_correlation);
        let goes_on = rho > 0.0 && self.noise.len() == rows * width;
        let (keep, add) = if goes_on { (rho, (1.0 - rho * rho).sqrt()) } else { (0.0, 1.0) };
        self.noise.resize(rows * width, 0.0);
        for (row, noise) in self.noise.chunks_exact_mut(width).enumerate() {
            let mut rng = seed.index(row as u64).rng();
            noise.iter_mut().for_each(|noise| *noise = keep * *noise + add * rng.normal() as f32);
        }
    }
}

impl Policy for SoftPolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let batch = obs.batch();
        if self.action_mode != ActionMode::Greedy {
            self.sample_noise(batch, seed);
        }
        let SoftNetworks { vision_encoder, policy, gaussian, scale, .. } = &*self.networks;
        self.states.clear();
        self.states.extend_from_slice(&obs.state);
        if let Some(scale) = scale.as_ref().filter(|scale| scale.mean.len() == obs.state_width()) {
            scale.apply(&mut self.states);
        }
        let encoded = match vision_encoder {
            None if obs.state_width() == policy.inputs() => &self.states[..],
            None => {
                let expected = format!("states of {} numbers", policy.inputs());
                return Err(PolicyError::Observation { expected, got: obs.state_width().to_string() });
            }
            Some(vision_encoder) => {
                let features = vision_encoder.trunk_features(obs)?;
                let obs_batch =
                    ObsBatch { states: &self.states, ..vision_encoder.obs_batch(obs, &features)? };
                vision_encoder.infer(&self.encoder_params, &obs_batch, batch, &mut self.vision_encoder)
            }
        };
        let outputs = policy.infer(&self.params, encoded, batch, &mut self.scratch);
        if self.action_mode == ActionMode::Greedy {
            let mut actions = Vec::new();
            gaussian.mode(outputs, &mut actions);
            return Ok(Decision { actions, ..Decision::default() });
        }
        gaussian.sample(outputs, &self.noise, &mut self.sampled);
        let SampledActions { actions, log_prob_parts, .. } = &self.sampled;
        Ok(Decision { actions: actions.clone(), log_probs: log_prob_parts.clone(), values: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_its_deviation_and_its_correlation_from_step_to_step() {
        let actions = ActionSpace::Continuous { low: vec![-1.0; 2], high: vec![1.0; 2] };
        for rho in [0.0, 0.9] {
            let settings = SoftNetworkSettings {
                noise_correlation: rho,
                ..SoftNetworkSettings::mlp(3, actions.clone(), 1, 1)
            };
            let networks = Arc::new(SoftNetworks::new(&settings).unwrap());
            let params = Arc::new(networks.init_policy(Seed::new(1)));
            let mut policy = SoftPolicy::new(networks, params, &[], ActionMode::Explore);
            let (rows, steps) = (500, 40);
            let (mut square, mut product, mut before) = (0.0, 0.0, Vec::new());
            for step in 0..steps {
                policy.sample_noise(rows, Seed::new(7).index(step));
                square += policy.noise.iter().map(|noise| f64::from(*noise).powi(2)).sum::<f64>();
                let pairs = policy.noise.iter().zip(&before);
                product += pairs.map(|(now, before): (&f32, &f32)| f64::from(now * before)).sum::<f64>();
                before.clone_from(&policy.noise);
            }
            let n = 2.0 * rows as f64;
            let (square, product) = (square / (n * steps as f64), product / (n * (steps - 1) as f64));
            // Four standard errors of 40,000 numbers, of which one in ten is independent.
            assert!(
                (square - 1.0).abs() < 0.09 && (product - f64::from(rho)).abs() < 0.09,
                "{square} {product}"
            );
        }
    }

    #[test]
    fn a_deviation_that_is_set_is_the_same_whatever_is_seen() {
        let actions = ActionSpace::Continuous { low: vec![-1.0, 0.0], high: vec![1.0, 4.0] };
        let networks = SoftNetworks::new(&SoftNetworkSettings::mlp(3, actions, 2, 1)).unwrap();
        let mut params = networks.init_policy(Seed::new(1));
        let states = [0.5, -1.0, 2.0, 0.0, 3.0, -2.0];
        let outputs =
            |params: &[f32]| networks.policy.infer(params, &states, 2, &mut Scratch::default()).to_vec();
        let before = outputs(&params);
        networks.set_std(&mut params, &[]);
        assert_eq!(outputs(&params), before, "nothing asked for");
        networks.set_std(&mut params, &[0.1, 0.4]);
        let asked = networks.gaussian.outputs_for(&[0.1, 0.4]);
        for (row, before) in outputs(&params).chunks_exact(8).zip(before.chunks_exact(8)) {
            assert_eq!(row[..4], before[..4], "means stay as they are");
            assert_eq!(row[4..], asked, "deviations of both actions of the chunk");
        }
    }
}
