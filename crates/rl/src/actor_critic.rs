//! The networks of PPO on state vectors: one that acts, one that judges.
//!
//! ```text
//! backbone    Linear → tanh, thrice              orthogonal, gain √2
//! actor_mean  Linear → C · action width          orthogonal, gain 0.01 √2: it begins near zero
//! actor_logstd  one number per output, −0.5      or, by state, further outputs beside actor_mean
//! value_head  Linear → tanh, thrice, Linear      takes the state itself: no trunk is shared
//! ```
//!
//! All parameters lie in one slice, `[actor | log-deviations | critic]`, so that one optimiser sees them all.

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{ActionSpace, Decision, Obs, Policy, PolicyError, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::{Activation, Bias, Init, LayerSpec, Mlp, MlpSpec, Scratch, Tape, TensorKind};

use crate::action_head::{ActionHead, Deviation};
use crate::naming::{self, Misfit};

/// What log-deviations begin with.
const FIRST_LOG_STD: f32 = -0.5;
const SQRT_2: f32 = std::f32::consts::SQRT_2;

/// What the networks look like.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorCriticSettings {
    /// Numbers in a state.
    pub states: usize,
    /// What an action is.
    pub actions: ActionSpace,
    /// Actions decided at once, C.
    pub chunk: usize,
    /// Widths of the hidden layers, of both networks.
    pub hidden: Vec<usize>,
    /// Where standard deviations come from.
    pub deviation: Deviation,
    /// Values per state: one for each action of a chunk, or one for all.
    pub values: usize,
}

/// The shapes of both networks. Holds no parameters.
#[derive(Debug, Clone)]
pub struct ActorCritic {
    actor: Mlp,
    critic: Mlp,
    head: ActionHead,
}

/// What a pass over a batch leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Thoughts {
    actor: Tape,
    critic: Tape,
    /// `[n, outputs]`.
    pub outputs: Vec<f32>,
    /// `[n, values]`.
    pub values: Vec<f32>,
}

impl ActorCritic {
    /// Networks of these shapes.
    pub fn new(settings: &ActorCriticSettings) -> Self {
        let head = ActionHead::new(&settings.actions, settings.chunk, settings.deviation);
        let hidden = |width: usize, init: Init| LayerSpec {
            activation: Activation::Tanh,
            bias: Bias::Zero,
            init,
            ..LayerSpec::linear(width)
        };
        let stack = |init: &dyn Fn() -> Init, last: LayerSpec| {
            let mut layers: Vec<_> = settings.hidden.iter().map(|&width| hidden(width, init())).collect();
            layers.push(last);
            Mlp::new(MlpSpec { inputs: settings.states, layers })
        };
        let near_zero = || Init::Orthogonal { gain: 0.01 * SQRT_2 };
        let last = LayerSpec {
            bias: Bias::Zero,
            init: match head.outputs() - head.centers() {
                0 => near_zero(),
                deviations => Init::Rows(vec![(head.centers(), near_zero()), (deviations, near_zero())]),
            },
            ..LayerSpec::linear(head.outputs())
        };
        let actor = stack(&|| Init::Orthogonal { gain: SQRT_2 }, last);
        let last = LayerSpec {
            bias: Bias::None,
            init: Init::Normal { std: 0.02 },
            ..LayerSpec::linear(settings.values)
        };
        let critic = stack(&|| Init::KaimingNormalFanOut { gain: 5.0 / 3.0 }, last);
        Self { actor, critic, head }
    }

    /// How outputs become actions.
    pub fn head(&self) -> ActionHead {
        self.head
    }

    /// Numbers in a state.
    pub fn states(&self) -> usize {
        self.actor.inputs()
    }

    /// Values per state.
    pub fn values(&self) -> usize {
        self.critic.outputs()
    }

    /// How many parameters there are.
    #[allow(clippy::len_without_is_empty)] // networks without parameters cannot be made
    pub fn len(&self) -> usize {
        self.critic_range().end
    }

    /// Parameters that act: the network and independent deviations.
    pub fn actor_range(&self) -> Range<usize> {
        0..self.log_std_range().end
    }

    /// Parameters that judge.
    pub fn critic_range(&self) -> Range<usize> {
        let start = self.log_std_range().end;
        start..start + self.critic.len()
    }

    /// Independent log-deviations; empty if they come by state.
    pub fn log_std_range(&self) -> Range<usize> {
        self.actor.len()..self.actor.len() + self.head.independent()
    }

    /// Parameters to begin with.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = self.actor.init(seed.purpose("actor"));
        self.set_first_deviations(&mut params);
        params.extend(std::iter::repeat_n(FIRST_LOG_STD, self.head.independent()));
        params.extend(self.critic.init(seed.purpose("critic")));
        params
    }

    /// Deviations by state begin where independent ones do.
    fn set_first_deviations(&self, actor: &mut [f32]) {
        let last = self.actor.spec().layers.len() - 1;
        let is_bias =
            |tensor: &plaudit_nn::dense::Tensor| tensor.layer == last && tensor.kind == TensorKind::Bias;
        if let Some(bias) = self.actor.tensors().find(is_bias) {
            let mut values = self.actor.export(actor, &bias);
            values[self.head.centers()..].fill(FIRST_LOG_STD);
            self.actor.import(actor, &bias, &values);
        }
    }

    /// Both networks on `n` states, with what [`Self::backward`] needs.
    pub fn forward(&self, params: &[f32], states: &[f32], n: usize, thoughts: &mut Thoughts) {
        let Thoughts { actor, critic, outputs, values } = thoughts;
        outputs.clear();
        outputs.extend_from_slice(self.actor.forward(&params[..self.actor.len()], states, n, actor));
        values.clear();
        values.extend_from_slice(self.critic.forward(&params[self.critic_range()], states, n, critic));
    }

    /// Adds the gradients of both networks, given those of their outputs; independent deviations are the
    /// caller's.
    pub fn backward(
        &self,
        params: &[f32],
        thoughts: &mut Thoughts,
        grad_outputs: &[f32],
        grad_values: &[f32],
        grads: &mut [f32],
    ) {
        let (actor, critic) = (0..self.actor.len(), self.critic_range());
        let (tape, into) = (&mut thoughts.actor, &mut grads[actor.clone()]);
        self.actor.backward(&params[actor], tape, grad_outputs, into, None);
        let (tape, into) = (&mut thoughts.critic, &mut grads[critic.clone()]);
        self.critic.backward(&params[critic], tape, grad_values, into, None);
    }

    /// Values alone, `[n, values]`.
    pub fn judge<'s>(&self, params: &[f32], states: &[f32], n: usize, scratch: &'s mut Scratch) -> &'s [f32] {
        self.critic.infer(&params[self.critic_range()], states, n, scratch)
    }

    /// All tensors under RLinf's names.
    pub fn export(&self, params: &[f32]) -> Weights {
        let mut weights = Weights::new();
        let actor = &params[..self.actor.len()];
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
    pub fn import(&self, params: &mut [f32], weights: &Weights) -> Result<(), Misfit> {
        self.import_actor(params, weights)?;
        naming::import(&self.critic, &mut params[self.critic_range()], &critic_names, weights)
    }

    /// Takes the tensors that acting needs.
    pub fn import_actor(&self, params: &mut [f32], weights: &Weights) -> Result<(), Misfit> {
        let stacked = self.stack_heads(weights)?;
        naming::import(&self.actor, &mut params[..self.actor.len()], &self.actor_names(), &stacked)?;
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

    /// The way back from [`Self::split_heads`].
    fn stack_heads(&self, weights: &Weights) -> Result<Weights, Misfit> {
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
    pub fn policy(self: &Arc<Self>, params: &[f32], manner: Manner) -> ActorPolicy {
        let params = params[self.actor_range()].to_vec();
        ActorPolicy { networks: self.clone(), params, manner, scratch: Scratch::default() }
    }
}

fn critic_names(layer: usize, kind: TensorKind) -> String {
    format!("value_head.mlp.{}.{}", 2 * layer, naming::leaf(kind))
}

/// How a policy acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It draws from its distribution and tells how likely the draw was.
    Explore,
    /// It does what is likeliest.
    Greedy,
}

/// The actor as a policy.
#[derive(Debug, Clone)]
pub struct ActorPolicy {
    networks: Arc<ActorCritic>,
    params: Vec<f32>,
    manner: Manner,
    scratch: Scratch,
}

impl Policy for ActorPolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let ActorCritic { actor, head, .. } = &*self.networks;
        if obs.state_width() != actor.inputs() {
            let expected = format!("states of {} numbers", actor.inputs());
            return Err(PolicyError::Observation { expected, got: obs.state_width().to_string() });
        }
        let (params, log_std) = self.params.split_at(actor.len());
        let outputs = actor.infer(params, &obs.state, obs.batch(), &mut self.scratch);
        let width = head.chunk * head.action_width();
        let mut actions = vec![0.0; obs.batch() * width];
        if self.manner == Manner::Greedy {
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
