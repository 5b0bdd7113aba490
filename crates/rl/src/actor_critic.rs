//! The networks of PPO: an actor and a critic.
//!
//! On states, each has a trunk of its own:
//!
//! ```text
//! backbone    Linear → tanh, thrice              orthogonal, gain √2
//! actor_mean  Linear → C · action width          orthogonal, gain 0.01 √2: it begins near zero
//! actor_logstd  one number per output, −0.5      or, by state, further outputs beside actor_mean
//! value_head  Linear → tanh, thrice, Linear      takes the state itself: no trunk is shared
//! ```
//!
//! On images, both share an encoder, and the gradients of both train it:
//!
//! ```text
//! encoders, state_proj                           see `vision_encoder`
//! mix_proj    Linear → layer norm → tanh, twice
//! actor_mean  Linear → C · action width          as above
//! value_head  Linear → ReLU, thrice, Linear      takes what mix_proj gives
//! ```
//!
//! All parameters lie in one slice, `[vision_encoder | actor | log-deviations | critic]`, so that one optimiser sees them all.

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{ActionSpace, Decision, EnvSpec, Obs, Policy, PolicyError, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{Activation, Bias, Init, LayerSpec, Mlp, MlpSpec, Scratch, Tape, TensorKind};

use crate::action_head::{ActionHead, StdKind};
use crate::naming::{self, WeightsMismatch};
use crate::vision_encoder::{self, ObsBatch, VisionEncoder, VisionEncoderSettings, VisionEncoderTape};

/// What log-deviations begin with.
const INITIAL_LOG_STD: f32 = -0.5;
const SQRT_2: f32 = std::f32::consts::SQRT_2;

/// What the networks look like.
#[derive(Debug, Clone)]
pub struct ActorCriticSettings {
    /// What they take in.
    pub inputs: Inputs,
    /// What an action is.
    pub actions: ActionSpace,
    /// Actions decided at once, C.
    pub chunk: usize,
    /// Widths of the hidden layers, of both networks.
    pub hidden: Vec<usize>,
    /// Where standard deviations come from.
    pub std_kind: StdKind,
    /// Values per state: one for each action of a chunk, or one for all.
    pub values: usize,
}

impl ActorCriticSettings {
    /// Networks that take in the states of such environments and decide one action at a time.
    #[must_use]
    pub fn on_states(spec: &EnvSpec, hidden: &[usize]) -> Self {
        Self {
            inputs: Inputs::States(spec.state_width),
            actions: spec.actions.clone(),
            chunk: 1,
            hidden: hidden.to_vec(),
            std_kind: StdKind::Independent,
            values: 1,
        }
    }
}

/// What networks take in.
#[derive(Debug, Clone)]
pub enum Inputs {
    /// States of so many numbers.
    States(usize),
    /// Images, and states beside them.
    Images(VisionEncoderSettings),
}

impl Inputs {
    /// Numbers in a state.
    pub fn states(&self) -> usize {
        match self {
            Self::States(states) => *states,
            Self::Images(vision_encoder) => vision_encoder.states,
        }
    }
}

/// The encoder and the layers that mix its features, shared by actor and critic.
#[derive(Debug, Clone)]
struct ImageBackbone {
    vision_encoder: VisionEncoder,
    mix: Mlp,
}

/// The shapes of both networks. Holds no parameters.
#[derive(Debug, Clone)]
pub struct ActorCritic {
    image_backbone: Option<ImageBackbone>,
    actor: Mlp,
    critic: Mlp,
    head: ActionHead,
}

/// What networks on images are made of, for those who compute them elsewhere.
pub(crate) struct ImageParts<'a> {
    pub(crate) vision_encoder: &'a VisionEncoder,
    pub(crate) mix: &'a Mlp,
    pub(crate) actor: &'a Mlp,
    pub(crate) critic: &'a Mlp,
    /// Where the parameters of the actor's own network lie.
    pub(crate) actor_range: Range<usize>,
}

/// What a forward pass over a batch keeps for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct ForwardPass {
    vision_encoder: VisionEncoderTape,
    mix: Tape,
    mixed: Vec<f32>,
    /// Gradients of the features that both networks take, from each of them.
    grad_mixed: [Vec<f32>; 2],
    grad_encoded: Vec<f32>,
    actor: Tape,
    critic: Tape,
    /// `[n, outputs]`.
    pub outputs: Vec<f32>,
    /// `[n, values]`.
    pub values: Vec<f32>,
}

/// Whether the parameters changed since the last backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamStatus {
    /// They may have changed.
    Changed,
    /// They are the same as in the last backward pass with these buffers.
    Unchanged,
}

impl ActorCritic {
    /// Networks of these shapes.
    pub fn new(settings: &ActorCriticSettings) -> Self {
        let head = ActionHead::new(&settings.actions, settings.chunk, settings.std_kind);
        let last = LayerSpec {
            bias: Bias::Zero,
            init: match head.outputs() - head.centers() {
                0 => near_zero(),
                deviations => Init::Rows(vec![(head.centers(), near_zero()), (deviations, near_zero())]),
            },
            ..LayerSpec::linear(head.outputs())
        };
        let value = LayerSpec {
            bias: Bias::None,
            init: Init::Normal { std: 0.02 },
            ..LayerSpec::linear(settings.values)
        };
        let stack = |inputs: usize, activation: Activation, init: Init, last: LayerSpec| {
            let hidden = |&width: &usize| LayerSpec {
                activation,
                bias: Bias::Zero,
                init: init.clone(),
                ..LayerSpec::linear(width)
            };
            let layers = settings.hidden.iter().map(hidden).chain([last]).collect();
            Mlp::new(MlpSpec { inputs, layers })
        };
        match &settings.inputs {
            Inputs::States(states) => {
                let (actor_init, critic_init) =
                    (Init::Orthogonal { gain: SQRT_2 }, Init::KaimingNormalFanOut { gain: 5.0 / 3.0 });
                let actor = stack(*states, Activation::Tanh, actor_init, last);
                let critic = stack(*states, Activation::Tanh, critic_init, value);
                Self { image_backbone: None, actor, critic, head }
            }
            Inputs::Images(settings) => {
                let image_backbone = ImageBackbone::new(settings);
                let inputs = image_backbone.mix.outputs();
                let critic_init = Init::KaimingNormalFanOut { gain: SQRT_2 };
                let actor = Mlp::new(MlpSpec { inputs, layers: vec![last] });
                let critic = stack(inputs, Activation::Relu, critic_init, value);
                Self { image_backbone: Some(image_backbone), actor, critic, head }
            }
        }
    }

    /// How outputs become actions.
    pub fn head(&self) -> ActionHead {
        self.head
    }

    /// Numbers in a state.
    pub fn states(&self) -> usize {
        self.vision_encoder().map_or(self.actor.inputs(), VisionEncoder::states)
    }

    /// The vision encoder, for policies on images.
    pub fn vision_encoder(&self) -> Option<&VisionEncoder> {
        self.image_backbone.as_ref().map(|image_backbone| &image_backbone.vision_encoder)
    }

    /// What it is made of, on images.
    pub(crate) fn image_parts(&self) -> Option<ImageParts<'_>> {
        let ImageBackbone { vision_encoder, mix } = self.image_backbone.as_ref()?;
        let actor_range = self.actor_net_range();
        Some(ImageParts { vision_encoder, mix, actor: &self.actor, critic: &self.critic, actor_range })
    }

    /// The cameras whose images the networks take: none on states, or above a frozen trunk.
    pub fn image_cameras(&self) -> &[Arc<str>] {
        self.vision_encoder().map_or(&[], VisionEncoder::image_cameras)
    }

    /// Observations as the networks take them; `features` is what the frozen trunk made of them, if there is one.
    pub fn obs_batch<'a>(&self, obs: &'a Obs, features: &'a [f32]) -> Result<ObsBatch<'a>, PolicyError> {
        if let Some(vision_encoder) = self.vision_encoder() {
            return vision_encoder.obs_batch(obs, features);
        }
        if obs.state_width() != self.actor.inputs() {
            let expected = format!("states of {} numbers", self.actor.inputs());
            return Err(PolicyError::Observation { expected, got: obs.state_width().to_string() });
        }
        Ok(ObsBatch { states: &obs.state, ..ObsBatch::default() })
    }

    /// Values per state.
    pub fn value_outputs(&self) -> usize {
        self.critic.outputs()
    }

    /// How many parameters there are.
    #[allow(clippy::len_without_is_empty)] // networks without parameters cannot be made
    pub fn len(&self) -> usize {
        self.critic_range().end
    }

    /// Parameters of the encoder, for both networks; empty on states.
    fn image_backbone_range(&self) -> Range<usize> {
        0..self.image_backbone.as_ref().map_or(0, ImageBackbone::len)
    }

    /// Parameters of the actor network, without those of the encoder.
    fn actor_net_range(&self) -> Range<usize> {
        let start = self.image_backbone_range().end;
        start..start + self.actor.len()
    }

    /// Parameters of the actor: encoder, network and independent deviations.
    pub fn actor_range(&self) -> Range<usize> {
        0..self.log_std_range().end
    }

    /// Parameters of the critic.
    pub fn critic_range(&self) -> Range<usize> {
        let start = self.log_std_range().end;
        start..start + self.critic.len()
    }

    /// Independent log-deviations; empty if they come by state.
    pub fn log_std_range(&self) -> Range<usize> {
        let start = self.actor_net_range().end;
        start..start + self.head.independent()
    }

    /// Parameters to begin with.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params =
            self.image_backbone.as_ref().map_or(Vec::new(), |image_backbone| image_backbone.init(seed));
        params.extend(self.actor.init(seed.purpose("actor")));
        self.set_initial_std(&mut params[self.actor_net_range()]);
        params.extend(std::iter::repeat_n(INITIAL_LOG_STD, self.head.independent()));
        params.extend(self.critic.init(seed.purpose("critic")));
        params
    }

    /// Deviations by state begin where independent ones do.
    fn set_initial_std(&self, actor: &mut [f32]) {
        let last = self.actor.spec().layers.len() - 1;
        let is_bias =
            |tensor: &plaudit_nn::dense::Tensor| tensor.layer == last && tensor.kind == TensorKind::Bias;
        if let Some(bias) = self.actor.tensors().find(is_bias) {
            let mut values = self.actor.export(actor, &bias);
            values[self.head.centers()..].fill(INITIAL_LOG_STD);
            self.actor.import(actor, &bias, &values);
        }
    }

    /// Sets the standard deviation of the policy, the same in every state. Choices have none.
    pub fn set_std(&self, params: &mut [f32], std: &[f32]) {
        let log_std = std.iter().cycle().map(|std| std.max(f32::MIN_POSITIVE).ln());
        let by_state = self.head.outputs() - self.head.centers();
        let held: Vec<f32> = log_std.clone().take(by_state).collect();
        self.actor.set_constant_outputs(&mut params[self.actor_net_range()], self.head.centers(), &held);
        params[self.log_std_range()].iter_mut().zip(log_std).for_each(|(own, asked)| *own = asked);
    }

    /// Rows of a batch that are best done at once, on states: what both networks keep for the backward pass then stays in
    /// the cache. Gradients of such pieces add up to those of the batch, bit-exact.
    pub fn micro_batch_rows(&self) -> Option<usize> {
        let rows = self.actor.micro_batch_rows().min(self.critic.micro_batch_rows());
        self.image_backbone.is_none().then_some(rows)
    }

    /// Both networks on `n` observations, with what [`Self::backward`] needs.
    pub fn forward(
        &self,
        params: &[f32],
        obs_batch: &ObsBatch<'_>,
        n: usize,
        forward_pass: &mut ForwardPass,
    ) {
        let ForwardPass { vision_encoder, mix, mixed, actor, critic, outputs, values, .. } = forward_pass;
        let taken = match &self.image_backbone {
            None => obs_batch.states,
            Some(image_backbone) => {
                let (encoder_params, above) =
                    params[self.image_backbone_range()].split_at(image_backbone.vision_encoder.len());
                let encoded = image_backbone.vision_encoder.forward(
                    encoder_params,
                    obs_batch,
                    n,
                    Dropout::Off,
                    vision_encoder,
                );
                mixed.clear();
                mixed.extend_from_slice(image_backbone.mix.forward(above, encoded, n, mix));
                mixed
            }
        };
        outputs.clear();
        outputs.extend_from_slice(self.actor.forward(&params[self.actor_net_range()], taken, n, actor));
        values.clear();
        values.extend_from_slice(self.critic.forward(&params[self.critic_range()], taken, n, critic));
    }

    /// Adds the gradients of both networks, given those of their outputs on the observations of the last forward
    /// pass; independent deviations are the caller's.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        &self,
        params: &[f32],
        param_status: ParamStatus,
        obs_batch: &ObsBatch<'_>,
        forward_pass: &mut ForwardPass,
        grad_outputs: &[f32],
        grad_values: &[f32],
        grads: &mut [f32],
    ) {
        let ForwardPass {
            vision_encoder,
            mix,
            mixed,
            grad_mixed: [grad_from_actor, grad_from_critic],
            grad_encoded,
            ..
        } = forward_pass;
        grad_from_actor.resize(mixed.len(), 0.0);
        grad_from_critic.resize(mixed.len(), 0.0);
        let mut back = |net: &Mlp, place: Range<usize>, tape: &mut Tape, grad: &[f32], into: &mut [f32]| {
            let into = self.image_backbone.is_some().then_some(into);
            let (params, grads) = (&params[place.clone()], &mut grads[place]);
            match param_status {
                ParamStatus::Unchanged => net.backward_same_params(params, tape, grad, grads, into),
                ParamStatus::Changed => net.backward(params, tape, grad, grads, into),
            }
        };
        back(&self.actor, self.actor_net_range(), &mut forward_pass.actor, grad_outputs, grad_from_actor);
        back(&self.critic, self.critic_range(), &mut forward_pass.critic, grad_values, grad_from_critic);
        let Some(image_backbone) = &self.image_backbone else { return };
        grad_from_actor.iter_mut().zip(&*grad_from_critic).for_each(|(sum, more)| *sum += more);
        let n = obs_batch.states.len() / image_backbone.vision_encoder.states();
        grad_encoded.resize(n * image_backbone.vision_encoder.outputs(), 0.0);
        let (encoder_params, above) =
            params[self.image_backbone_range()].split_at(image_backbone.vision_encoder.len());
        let (encoder_grads, above_grads) =
            grads[self.image_backbone_range()].split_at_mut(image_backbone.vision_encoder.len());
        image_backbone.mix.backward(above, mix, grad_from_actor, above_grads, Some(grad_encoded));
        image_backbone.vision_encoder.backward(
            encoder_params,
            obs_batch,
            vision_encoder,
            grad_encoded,
            encoder_grads,
        );
    }

    /// The critic's values, `[n, values]`.
    pub fn values<'s>(
        &self,
        params: &[f32],
        obs_batch: &ObsBatch<'_>,
        n: usize,
        buffers: &'s mut InferenceBuffers,
    ) -> &'s [f32] {
        let InferenceBuffers { vision_encoder, mix, net } = buffers;
        let taken = self.encode(params, obs_batch, n, vision_encoder, mix);
        self.critic.infer(&params[self.critic_range()], taken, n, net)
    }

    /// The outputs of the actor, `[n, outputs]`; `params` need not go beyond those of the actor.
    fn decide<'s>(
        &self,
        params: &[f32],
        obs_batch: &ObsBatch<'_>,
        n: usize,
        buffers: &'s mut InferenceBuffers,
    ) -> &'s [f32] {
        let InferenceBuffers { vision_encoder, mix, net } = buffers;
        let taken = self.encode(params, obs_batch, n, vision_encoder, mix);
        self.actor.infer(&params[self.actor_net_range()], taken, n, net)
    }

    /// The features that both networks take, without a backward pass.
    fn encode<'s>(
        &self,
        params: &[f32],
        obs_batch: &'s ObsBatch<'_>,
        n: usize,
        vision_encoder: &'s mut VisionEncoderTape,
        mix: &'s mut Scratch,
    ) -> &'s [f32] {
        let Some(image_backbone) = &self.image_backbone else { return obs_batch.states };
        let (encoder_params, above) =
            params[self.image_backbone_range()].split_at(image_backbone.vision_encoder.len());
        let encoded = image_backbone.vision_encoder.infer(encoder_params, obs_batch, n, vision_encoder);
        image_backbone.mix.infer(above, encoded, n, mix)
    }

    /// All tensors that learn, under RLinf's names.
    pub fn export(&self, params: &[f32]) -> Weights {
        let mut weights = Weights::new();
        if let Some(image_backbone) = &self.image_backbone {
            image_backbone.export(&params[self.image_backbone_range()], &mut weights);
        }
        let actor = &params[self.actor_net_range()];
        let mut stacked = Weights::new();
        naming::export(&self.actor, actor, &self.actor_names(), &mut stacked);
        for (name, tensor) in stacked.iter() {
            match self.is_two_heads(name) {
                false => weights.insert(name, tensor.clone()),
                true => self.split_heads(name, &tensor.to_f32().unwrap_or_default(), &mut weights),
            }
        }
        if self.head.independent() > 0 {
            weights.insert_f32("actor_logstd", &[1, self.head.independent()], &params[self.log_std_range()]);
        }
        naming::export(&self.critic, &params[self.critic_range()], &critic_names, &mut weights);
        weights
    }

    /// Takes the tensors of both networks.
    pub fn import(&self, params: &mut [f32], weights: &Weights) -> Result<(), WeightsMismatch> {
        self.import_actor(params, weights)?;
        naming::import(&self.critic, &mut params[self.critic_range()], &critic_names, weights)
    }

    /// Takes the tensors that acting needs.
    pub fn import_actor(&self, params: &mut [f32], weights: &Weights) -> Result<(), WeightsMismatch> {
        if let Some(image_backbone) = &self.image_backbone {
            image_backbone.import(&mut params[self.image_backbone_range()], weights)?;
        }
        let stacked = self.stack_heads(weights)?;
        let place = self.actor_net_range();
        naming::import(&self.actor, &mut params[place], &self.actor_names(), &stacked)?;
        if self.head.independent() > 0 {
            let values = naming::take(weights, "actor_logstd", &[1, self.head.independent()])?;
            params[self.log_std_range()].copy_from_slice(&values);
        }
        Ok(())
    }

    fn actor_names(&self) -> impl Fn(usize, TensorKind) -> String {
        let last = self.actor.spec().layers.len() - 1;
        move |layer, kind| match layer == last {
            true => format!("actor_mean.{}", naming::leaf(kind)),
            false => format!("backbone.{}.{}", 2 * layer, naming::leaf(kind)),
        }
    }

    /// Whether a tensor holds means and deviations by state, one after the other.
    fn is_two_heads(&self, name: &str) -> bool {
        self.head.outputs() > self.head.centers() && name.starts_with("actor_mean.")
    }

    /// `actor_mean` and `actor_logstd` are layers of their own in RLinf's files.
    fn split_heads(&self, name: &str, values: &[f32], into: &mut Weights) {
        let (means, deviations) = values.split_at(values.len() / 2);
        let centers = self.head.centers();
        let shape = |values: &[f32]| match name.ends_with(".bias") {
            true => vec![centers],
            false => vec![centers, values.len() / centers],
        };
        into.insert_f32(name, &shape(means), means);
        into.insert_f32(name.replace("actor_mean", "actor_logstd"), &shape(deviations), deviations);
    }

    /// The inverse of [`Self::split_heads`].
    fn stack_heads(&self, weights: &Weights) -> Result<Weights, WeightsMismatch> {
        let mut stacked = weights.clone();
        let centers = self.head.centers();
        if self.head.outputs() == centers {
            return Ok(stacked);
        }
        let last = self.actor.spec().layers.len() - 1;
        for tensor in self.actor.tensors().filter(|tensor| tensor.layer == last) {
            let name = format!("actor_mean.{}", naming::leaf(tensor.kind));
            let mut shape = tensor.shape.clone();
            shape[0] = centers;
            let mut values = naming::take(weights, &name, &shape)?;
            values.extend(naming::take(weights, &name.replace("actor_mean", "actor_logstd"), &shape)?);
            stacked.insert_f32(name, &tensor.shape, &values);
        }
        Ok(stacked)
    }

    /// A policy that acts with a copy of these parameters.
    pub fn policy(self: &Arc<Self>, params: &[f32], action_mode: ActionMode) -> ActorPolicy {
        let params = params[self.actor_range()].to_vec();
        ActorPolicy { networks: self.clone(), params, action_mode, buffers: InferenceBuffers::default() }
    }
}

impl ImageBackbone {
    fn new(settings: &VisionEncoderSettings) -> Self {
        let vision_encoder = VisionEncoder::new(settings);
        let layers = settings.mix.iter().map(|&width| vision_encoder::squashed(width)).collect();
        let mix = Mlp::new(MlpSpec { inputs: vision_encoder.outputs(), layers });
        Self { vision_encoder, mix }
    }

    fn len(&self) -> usize {
        self.vision_encoder.len() + self.mix.len()
    }

    fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = self.vision_encoder.init(seed.purpose("sight"));
        params.extend(self.mix.init(seed.purpose("mix")));
        params
    }

    fn export(&self, params: &[f32], into: &mut Weights) {
        let (vision_encoder, mix) = params.split_at(self.vision_encoder.len());
        self.vision_encoder.export(vision_encoder, into);
        naming::export(&self.mix, mix, &vision_encoder::squashed_names("mix_proj"), into);
    }

    fn import(&self, params: &mut [f32], from: &Weights) -> Result<(), WeightsMismatch> {
        let (vision_encoder, mix) = params.split_at_mut(self.vision_encoder.len());
        self.vision_encoder.import(vision_encoder, from)?;
        naming::import(&self.mix, mix, &vision_encoder::squashed_names("mix_proj"), from)
    }
}

fn near_zero() -> Init {
    Init::Orthogonal { gain: 0.01 * SQRT_2 }
}

/// Buffers of a pass without gradients.
#[derive(Debug, Clone, Default)]
pub struct InferenceBuffers {
    vision_encoder: VisionEncoderTape,
    mix: Scratch,
    net: Scratch,
}

fn critic_names(layer: usize, kind: TensorKind) -> String {
    format!("value_head.mlp.{}.{}", 2 * layer, naming::leaf(kind))
}

/// How a policy acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionMode {
    /// It samples from its distribution and reports the log-probability.
    Explore,
    /// It takes the most likely action.
    Greedy,
}

/// The actor as a policy.
#[derive(Debug, Clone)]
pub struct ActorPolicy {
    networks: Arc<ActorCritic>,
    params: Vec<f32>,
    action_mode: ActionMode,
    buffers: InferenceBuffers,
}

impl Policy for ActorPolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let (networks, head) = (&*self.networks, self.networks.head);
        let features = match networks.vision_encoder() {
            Some(vision_encoder) => vision_encoder.trunk_features(obs)?,
            None => Vec::new(),
        };
        let obs_batch = networks.obs_batch(obs, &features)?;
        let log_std = &self.params[networks.log_std_range()];
        let outputs = networks.decide(&self.params, &obs_batch, obs.batch(), &mut self.buffers);
        let width = head.chunk * head.action_width();
        let mut actions = vec![0.0; obs.batch() * width];
        if self.action_mode == ActionMode::Greedy {
            for (outputs, actions) in
                outputs.chunks_exact(head.outputs()).zip(actions.chunks_exact_mut(width))
            {
                head.mode(outputs, actions);
            }
            return Ok(Decision { actions, ..Decision::default() });
        }
        let mut log_probs = vec![0.0; actions.len()];
        let rows = actions.chunks_exact_mut(width).zip(log_probs.chunks_exact_mut(width));
        for (row, (outputs, (actions, log_probs))) in
            outputs.chunks_exact(head.outputs()).zip(rows).enumerate()
        {
            head.sample(outputs, log_std, &mut seed.index(row as u64).rng(), actions, log_probs);
        }
        Ok(Decision { actions, log_probs, values: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_that_is_set_is_the_same_whatever_is_seen() {
        let asked = [0.1f32, 0.4].map(f32::ln);
        let states = [0.5, -1.0, 2.0, 0.0, 3.0, -2.0];
        for std_kind in [StdKind::Independent, StdKind::StateDependent] {
            let networks = ActorCritic::new(&ActorCriticSettings {
                inputs: Inputs::States(3),
                actions: ActionSpace::Continuous { low: vec![-1.0; 2], high: vec![1.0; 2] },
                chunk: 2,
                hidden: vec![8],
                std_kind,
                values: 1,
            });
            let mut params = networks.init(Seed::new(1));
            let obs_batch = ObsBatch { states: &states, ..ObsBatch::default() };
            let outputs = |params: &[f32]| {
                networks.decide(params, &obs_batch, 2, &mut InferenceBuffers::default()).to_vec()
            };
            let (before, begun) = (outputs(&params), params.clone());
            networks.set_std(&mut params, &[]);
            assert_eq!(params, begun, "nothing asked for");
            networks.set_std(&mut params, &[0.1, 0.4]);
            let width = networks.head.outputs();
            let after = outputs(&params);
            for (row, before) in after.chunks_exact(width).zip(before.chunks_exact(width)) {
                assert_eq!(row[..4], before[..4], "means stay as they are");
                let own = match std_kind {
                    StdKind::Independent => &params[networks.log_std_range()],
                    StdKind::StateDependent => &row[4..],
                };
                assert_eq!(own, [asked, asked].concat(), "both actions of the chunk, {std_kind:?}");
            }
        }
    }
}
