//! First values of parameters, as PyTorch's recipes sample them, each from its own stream of random numbers.

use plaudit_core::{Rng, Seed};
use rayon::prelude::*;

use super::parameters::Spec;

/// How a parameter begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Init {
    /// All zeros.
    Zero,
    /// All ones.
    One,
    /// Normal with this standard deviation.
    Normal(f64),
    /// Uniform between minus and plus this.
    Uniform(f64),
}

impl Init {
    /// He's normal for a layer whose outputs meet a nonlinearity of this gain: `fan` counts what each input reaches.
    pub(crate) fn kaiming_normal(gain: f64, fan: usize) -> Self {
        Self::Normal(gain / (fan as f64).sqrt())
    }

    /// Glorot's uniform.
    pub(crate) fn xavier_uniform(inputs: usize, outputs: usize) -> Self {
        Self::Uniform((6.0 / (inputs + outputs) as f64).sqrt())
    }

    /// What `nn.Linear` samples its weight and bias from by default.
    pub(crate) fn linear_default(inputs: usize) -> Self {
        Self::Uniform(1.0 / (inputs as f64).sqrt())
    }

    /// The same with another standard deviation, where it has one.
    pub(crate) fn with_spread(self, spread: f64) -> Self {
        match self {
            Self::Normal(_) => Self::Normal(spread),
            other => other,
        }
    }

    pub(crate) fn sample(self, count: usize, rng: &mut Rng) -> Vec<f32> {
        match self {
            Self::Zero => vec![0.0; count],
            Self::One => vec![1.0; count],
            Self::Normal(std) => (0..count).map(|_| (rng.normal() * std) as f32).collect(),
            Self::Uniform(bound) => (0..count).map(|_| rng.uniform(-bound, bound) as f32).collect(),
        }
    }
}

/// The first values of all parameters, in PyTorch's order of axes.
pub(crate) fn sample(specs: &[Spec], seed: Seed) -> Vec<Vec<f32>> {
    specs.par_iter().map(|spec| spec.init.sample(spec.len(), &mut seed.purpose(&spec.name).rng())).collect()
}
