//! AdamW over a network's parameters, with clipping as PyTorch does it.

use serde::{Deserialize, Serialize};

use super::parameters::{Id, Parameters, Role, Value};
use crate::kernels::adam::AdamStep;
use crate::ops;
use crate::tensor::Tensor;
use crate::weights::{Array, Weights};

/// The settings of AdamW, with PyTorch's defaults. The decay applies to every parameter, normalisation included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamW {
    /// How much of the running mean of gradients, and of their squares, is kept at each step.
    pub betas: (f64, f64),
    /// Added to the root of the mean square.
    pub eps: f64,
    /// Share of a parameter that is taken off at each step, times the learning rate.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.01 }
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepOutcome {
    /// Length of the gradient before clipping.
    pub grad_norm: f64,
    /// Whether nothing was changed because the gradient was not finite.
    pub skipped: bool,
}

/// Running means of gradients, and those waiting for the next step.
#[derive(Debug)]
pub(crate) struct Optimizer {
    settings: AdamW,
    steps: u32,
    moments: Vec<Option<[Tensor<1>; 2]>>,
    pub(crate) gradients: Vec<Option<Tensor<1>>>,
}

/// Names of the optimizer's tensors in a saved state.
const STEPS: &str = "optimizer.step";
const FIRST: &str = "optimizer.exp_avg.";
const SECOND: &str = "optimizer.exp_avg_sq.";

impl Optimizer {
    pub(crate) fn new(settings: AdamW, parameters: &Parameters) -> Self {
        let count = parameters.specs.len();
        Self { settings, steps: 0, moments: vec![None; count], gradients: vec![None; count] }
    }

    /// Adds a gradient to those waiting.
    pub(crate) fn add(&mut self, id: Id, gradient: Tensor<1>) {
        let waiting = &mut self.gradients[id.0];
        *waiting = Some(match waiting.take() {
            Some(sum) => sum + gradient,
            None => gradient,
        });
    }

    /// Length of the waiting gradient.
    fn norm(&self) -> f64 {
        let squares = self.gradients.iter().flatten().map(ops::sum_of_squares);
        squares.sum::<f64>().sqrt()
    }

    pub(crate) fn step(&mut self, parameters: &mut Parameters, lr: f64, clip: Option<f64>) -> StepOutcome {
        let grad_norm = self.norm();
        let gradients = std::mem::take(&mut self.gradients);
        self.gradients = vec![None; gradients.len()];
        if !grad_norm.is_finite() {
            return StepOutcome { grad_norm, skipped: true };
        }
        let factor = clip.map_or(1.0, |clip| (clip / (grad_norm + 1e-6)).min(1.0));
        self.steps += 1;
        let AdamW { betas: (beta1, beta2), eps, weight_decay } = self.settings;
        let (step, grad_scale) = (u64::from(self.steps), factor);
        let step = AdamStep { learning_rate: lr, beta1, beta2, eps, weight_decay, step, grad_scale };
        for (i, gradient) in gradients.into_iter().enumerate() {
            let Some(gradient) = gradient else { continue };
            let Value::Numbers(value) = &mut parameters.values[i] else { continue };
            let zeros = || Tensor::zeros(gradient.dims());
            let [first, second] = self.moments[i].get_or_insert_with(|| [zeros(), zeros()]);
            ops::adamw(step, [value, first, second], &gradient);
        }
        StepOutcome { grad_norm, skipped: false }
    }

    /// Adds the optimizer's numbers to a saved state, in the order and shape of memory.
    pub(crate) fn save(&self, parameters: &Parameters, state: &mut Weights) {
        state.insert(STEPS, Array::from_number(i64::from(self.steps)));
        for (spec, moments) in parameters.specs.iter().zip(&self.moments) {
            let Some([first, second]) = moments else { continue };
            for (prefix, moment) in [(FIRST, first), (SECOND, second)] {
                let numbers = spec.to_torch(moment.numbers().to_vec());
                state.insert_f32(format!("{prefix}{}", spec.name), &spec.shape, &numbers);
            }
        }
    }

    /// Takes the optimizer's numbers from a saved state; what is not there begins anew.
    pub(crate) fn restore(&mut self, parameters: &Parameters, state: &Weights) {
        let steps = state.get(STEPS).and_then(Array::to_i64).and_then(|steps| steps.first().copied());
        self.steps = steps.and_then(|steps| u32::try_from(steps).ok()).unwrap_or(0);
        self.gradients.fill(None);
        for (spec, moments) in parameters.specs.iter().zip(&mut self.moments) {
            let moment = |prefix: &str| {
                let stored = state
                    .get(&format!("{prefix}{}", spec.name))
                    .filter(|stored| stored.shape() == spec.shape)?;
                Some(spec.to_own(stored.to_f32()?).into())
            };
            *moments =
                (spec.role == Role::Trained).then(|| Some([moment(FIRST)?, moment(SECOND)?])).flatten();
        }
    }
}
