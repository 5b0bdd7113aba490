//! The networks of PPO: one that acts, one that judges.
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
//! On images, both stand on what is seen, and both teach it to see:
//!
//! ```text
//! encoders, state_proj                           see `sight`
//! mix_proj    Linear → layer norm → tanh, twice
//! actor_mean  Linear → C · action width          as above
//! value_head  Linear → ReLU, thrice, Linear      takes what mix_proj gives
//! ```
//!
//! All parameters lie in one slice, `[sight | actor | log-deviations | critic]`, so that one optimiser sees them all.

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{ActionSpace, Decision, Obs, Policy, PolicyError, Seed};
use plaudit_nn::Weights;
use plaudit_nn::dense::encoder::Dropout;
use plaudit_nn::dense::{Activation, Bias, Init, LayerSpec, Mlp, MlpSpec, Scratch, Tape, TensorKind};

use crate::action_head::{ActionHead, Deviation};
use crate::naming::{self, Misfit};
use crate::sight::{self, Look, Sight, SightSettings, SightTape};

/// What log-deviations begin with.
const FIRST_LOG_STD: f32 = -0.5;
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
    pub deviation: Deviation,
    /// Values per state: one for each action of a chunk, or one for all.
    pub values: usize,
}

/// What networks take in.
#[derive(Debug, Clone)]
pub enum Inputs {
    /// States of so many numbers.
    States(usize),
    /// Images, and states beside them.
    Images(SightSettings),
}

impl Inputs {
    /// Numbers in a state.
    pub fn states(&self) -> usize {
        match self {
            Self::States(states) => *states,
            Self::Images(sight) => sight.states,
        }
    }
}

/// What is seen, made into a row that a policy can act on.
#[derive(Debug, Clone)]
struct Seeing {
    sight: Sight,
    mix: Mlp,
}

/// The shapes of both networks. Holds no parameters.
#[derive(Debug, Clone)]
pub struct ActorCritic {
    seeing: Option<Seeing>,
    actor: Mlp,
    critic: Mlp,
    head: ActionHead,
}

/// What a pass over a batch leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Thoughts {
    sight: SightTape,
    mix: Tape,
    mixed: Vec<f32>,
    /// Gradients of what both networks take, from each of them.
    grad_mixed: [Vec<f32>; 2],
    grad_seen: Vec<f32>,
    actor: Tape,
    critic: Tape,
    /// `[n, outputs]`.
    pub outputs: Vec<f32>,
    /// `[n, values]`.
    pub values: Vec<f32>,
}

/// What a backward pass may take for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameters {
    /// Nothing.
    Changed,
    /// The parameters are the same as in the last backward pass over these thoughts.
    Same,
}

impl ActorCritic {
    /// Networks of these shapes.
    pub fn new(settings: &ActorCriticSettings) -> Self {
        let head = ActionHead::new(&settings.actions, settings.chunk, settings.deviation);
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
                let (acts, judges) =
                    (Init::Orthogonal { gain: SQRT_2 }, Init::KaimingNormalFanOut { gain: 5.0 / 3.0 });
                let actor = stack(*states, Activation::Tanh, acts, last);
                let critic = stack(*states, Activation::Tanh, judges, value);
                Self { seeing: None, actor, critic, head }
            }
            Inputs::Images(settings) => {
                let seeing = Seeing::new(settings);
                let inputs = seeing.mix.outputs();
                let judges = Init::KaimingNormalFanOut { gain: SQRT_2 };
                let actor = Mlp::new(MlpSpec { inputs, layers: vec![last] });
                let critic = stack(inputs, Activation::Relu, judges, value);
                Self { seeing: Some(seeing), actor, critic, head }
            }
        }
    }

    /// How outputs become actions.
    pub fn head(&self) -> ActionHead {
        self.head
    }

    /// Numbers in a state.
    pub fn states(&self) -> usize {
        self.sight().map_or(self.actor.inputs(), Sight::states)
    }

    /// What sees, if it looks at images.
    pub fn sight(&self) -> Option<&Sight> {
        self.seeing.as_ref().map(|seeing| &seeing.sight)
    }

    /// The cameras whose pictures the networks take: none on states, or above a frozen trunk.
    pub fn pictured(&self) -> &[Arc<str>] {
        self.sight().map_or(&[], Sight::pictured)
    }

    /// Observations as the networks take them; `features` is what the frozen trunk made of them, if there is one.
    pub fn look<'a>(&self, obs: &'a Obs, features: &'a [f32]) -> Result<Look<'a>, PolicyError> {
        if let Some(sight) = self.sight() {
            return sight.look(obs, features);
        }
        if obs.state_width() != self.actor.inputs() {
            let expected = format!("states of {} numbers", self.actor.inputs());
            return Err(PolicyError::Observation { expected, got: obs.state_width().to_string() });
        }
        Ok(Look { states: &obs.state, ..Look::default() })
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

    /// Parameters that see, for both networks; empty on states.
    fn seeing_range(&self) -> Range<usize> {
        0..self.seeing.as_ref().map_or(0, Seeing::len)
    }

    /// Parameters of the network that acts, without those that see.
    fn actor_net_range(&self) -> Range<usize> {
        let start = self.seeing_range().end;
        start..start + self.actor.len()
    }

    /// Parameters that act: what sees, the network and independent deviations.
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
        let start = self.actor_net_range().end;
        start..start + self.head.independent()
    }

    /// Parameters to begin with.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = self.seeing.as_ref().map_or(Vec::new(), |seeing| seeing.init(seed));
        params.extend(self.actor.init(seed.purpose("actor")));
        self.set_first_deviations(&mut params[self.actor_net_range()]);
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

    /// Has the policy deviate by this much whatever it sees. Choices have no deviations.
    pub fn set_deviations(&self, params: &mut [f32], std: &[f32]) {
        let log_std = std.iter().cycle().map(|std| std.max(f32::MIN_POSITIVE).ln());
        let by_state = self.head.outputs() - self.head.centers();
        let held: Vec<f32> = log_std.clone().take(by_state).collect();
        self.actor.hold_outputs(&mut params[self.actor_net_range()], self.head.centers(), &held);
        params[self.log_std_range()].iter_mut().zip(log_std).for_each(|(own, asked)| *own = asked);
    }

    /// Rows of a batch that are best done at once, on states: what both networks leave for the way back then stays in
    /// the cache. Gradients of such pieces add up to those of the batch, to the last bit.
    pub fn rows_at_once(&self) -> Option<usize> {
        let rows = self.actor.rows_at_once().min(self.critic.rows_at_once());
        self.seeing.is_none().then_some(rows)
    }

    /// Both networks on `n` observations, with what [`Self::backward`] needs.
    pub fn forward(&self, params: &[f32], look: &Look<'_>, n: usize, thoughts: &mut Thoughts) {
        let Thoughts { sight, mix, mixed, actor, critic, outputs, values, .. } = thoughts;
        let taken = match &self.seeing {
            None => look.states,
            Some(seeing) => {
                let (eyes, above) = params[self.seeing_range()].split_at(seeing.sight.len());
                let seen = seeing.sight.forward(eyes, look, n, Dropout::Off, sight);
                mixed.clear();
                mixed.extend_from_slice(seeing.mix.forward(above, seen, n, mix));
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
        since: Parameters,
        look: &Look<'_>,
        thoughts: &mut Thoughts,
        grad_outputs: &[f32],
        grad_values: &[f32],
        grads: &mut [f32],
    ) {
        let Thoughts { sight, mix, mixed, grad_mixed: [by_actor, by_critic], grad_seen, .. } = thoughts;
        by_actor.resize(mixed.len(), 0.0);
        by_critic.resize(mixed.len(), 0.0);
        let mut back = |net: &Mlp, place: Range<usize>, tape: &mut Tape, grad: &[f32], into: &mut [f32]| {
            let into = self.seeing.is_some().then_some(into);
            let (params, grads) = (&params[place.clone()], &mut grads[place]);
            match since {
                Parameters::Same => net.backward_again(params, tape, grad, grads, into),
                Parameters::Changed => net.backward(params, tape, grad, grads, into),
            }
        };
        back(&self.actor, self.actor_net_range(), &mut thoughts.actor, grad_outputs, by_actor);
        back(&self.critic, self.critic_range(), &mut thoughts.critic, grad_values, by_critic);
        let Some(seeing) = &self.seeing else { return };
        by_actor.iter_mut().zip(&*by_critic).for_each(|(sum, more)| *sum += more);
        let n = look.states.len() / seeing.sight.states();
        grad_seen.resize(n * seeing.sight.outputs(), 0.0);
        let (eyes, above) = params[self.seeing_range()].split_at(seeing.sight.len());
        let (eye_grads, above_grads) = grads[self.seeing_range()].split_at_mut(seeing.sight.len());
        seeing.mix.backward(above, mix, by_actor, above_grads, Some(grad_seen));
        seeing.sight.backward(eyes, look, sight, grad_seen, eye_grads);
    }

    /// Values alone, `[n, values]`.
    pub fn judge<'s>(&self, params: &[f32], look: &Look<'_>, n: usize, musing: &'s mut Musing) -> &'s [f32] {
        let Musing { sight, mix, net } = musing;
        let taken = self.take_in(params, look, n, sight, mix);
        self.critic.infer(&params[self.critic_range()], taken, n, net)
    }

    /// What the actor gives, `[n, outputs]`; `params` need not go beyond what acts.
    fn decide<'s>(&self, params: &[f32], look: &Look<'_>, n: usize, musing: &'s mut Musing) -> &'s [f32] {
        let Musing { sight, mix, net } = musing;
        let taken = self.take_in(params, look, n, sight, mix);
        self.actor.infer(&params[self.actor_net_range()], taken, n, net)
    }

    /// What both networks take, without a way back.
    fn take_in<'s>(
        &self,
        params: &[f32],
        look: &'s Look<'_>,
        n: usize,
        sight: &'s mut SightTape,
        mix: &'s mut Scratch,
    ) -> &'s [f32] {
        let Some(seeing) = &self.seeing else { return look.states };
        let (eyes, above) = params[self.seeing_range()].split_at(seeing.sight.len());
        let seen = seeing.sight.infer(eyes, look, n, sight);
        seeing.mix.infer(above, seen, n, mix)
    }

    /// All tensors that learn, under RLinf's names.
    pub fn export(&self, params: &[f32]) -> Weights {
        let mut weights = Weights::new();
        if let Some(seeing) = &self.seeing {
            seeing.export(&params[self.seeing_range()], &mut weights);
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
    pub fn import(&self, params: &mut [f32], weights: &Weights) -> Result<(), Misfit> {
        self.import_actor(params, weights)?;
        naming::import(&self.critic, &mut params[self.critic_range()], &critic_names, weights)
    }

    /// Takes the tensors that acting needs.
    pub fn import_actor(&self, params: &mut [f32], weights: &Weights) -> Result<(), Misfit> {
        if let Some(seeing) = &self.seeing {
            seeing.import(&mut params[self.seeing_range()], weights)?;
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
        ActorPolicy { networks: self.clone(), params, manner, musing: Musing::default() }
    }
}

impl Seeing {
    fn new(settings: &SightSettings) -> Self {
        let sight = Sight::new(settings);
        let layers = settings.mix.iter().map(|&width| sight::squashed(width)).collect();
        let mix = Mlp::new(MlpSpec { inputs: sight.outputs(), layers });
        Self { sight, mix }
    }

    fn len(&self) -> usize {
        self.sight.len() + self.mix.len()
    }

    fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = self.sight.init(seed.purpose("sight"));
        params.extend(self.mix.init(seed.purpose("mix")));
        params
    }

    fn export(&self, params: &[f32], into: &mut Weights) {
        let (sight, mix) = params.split_at(self.sight.len());
        self.sight.export(sight, into);
        naming::export(&self.mix, mix, &sight::squashed_names("mix_proj"), into);
    }

    fn import(&self, params: &mut [f32], from: &Weights) -> Result<(), Misfit> {
        let (sight, mix) = params.split_at_mut(self.sight.len());
        self.sight.import(sight, from)?;
        naming::import(&self.mix, mix, &sight::squashed_names("mix_proj"), from)
    }
}

fn near_zero() -> Init {
    Init::Orthogonal { gain: 0.01 * SQRT_2 }
}

/// Memory of a pass that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct Musing {
    sight: SightTape,
    mix: Scratch,
    net: Scratch,
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
    musing: Musing,
}

impl Policy for ActorPolicy {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let (networks, head) = (&*self.networks, self.networks.head);
        let features = match networks.sight() {
            Some(sight) => sight.look_through_trunk(obs)?,
            None => Vec::new(),
        };
        let look = networks.look(obs, &features)?;
        let log_std = &self.params[networks.log_std_range()];
        let outputs = networks.decide(&self.params, &look, obs.batch(), &mut self.musing);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_that_is_set_is_the_same_whatever_is_seen() {
        let asked = [0.1f32, 0.4].map(f32::ln);
        let states = [0.5, -1.0, 2.0, 0.0, 3.0, -2.0];
        for deviation in [Deviation::Independent, Deviation::ByState] {
            let networks = ActorCritic::new(&ActorCriticSettings {
                inputs: Inputs::States(3),
                actions: ActionSpace::Continuous { low: vec![-1.0; 2], high: vec![1.0; 2] },
                chunk: 2,
                hidden: vec![8],
                deviation,
                values: 1,
            });
            let mut params = networks.init(Seed::new(1));
            let look = Look { states: &states, ..Look::default() };
            let outputs = |params: &[f32]| networks.decide(params, &look, 2, &mut Musing::default()).to_vec();
            let (before, begun) = (outputs(&params), params.clone());
            networks.set_deviations(&mut params, &[]);
            assert_eq!(params, begun, "nothing asked for");
            networks.set_deviations(&mut params, &[0.1, 0.4]);
            let width = networks.head.outputs();
            let after = outputs(&params);
            for (row, before) in after.chunks_exact(width).zip(before.chunks_exact(width)) {
                assert_eq!(row[..4], before[..4], "means stay as they are");
                let own = match deviation {
                    Deviation::Independent => &params[networks.log_std_range()],
                    Deviation::ByState => &row[4..],
                };
                assert_eq!(own, [asked, asked].concat(), "both actions of the chunk, {deviation:?}");
            }
        }
    }
}
