//! AdamW over a network's parameters, with clipping as PyTorch does it.

use std::sync::Arc;

use plaudit_core::{GradientSync, SyncError};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::data_parallel::{DataParallel, Sharding};
use super::parameters::{Id, Parameters, Role, Spec, Value};
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
    /// The other ranks, if there are any.
    ranks: Option<DataParallel>,
}

/// Names of the optimizer's tensors in a saved state.
const STEPS: &str = "optimizer.step";
const FIRST: &str = "optimizer.exp_avg.";
const SECOND: &str = "optimizer.exp_avg_sq.";

impl Optimizer {
    pub(crate) fn new(settings: AdamW, parameters: &Parameters) -> Self {
        let count = parameters.specs.len();
        Self { settings, steps: 0, moments: vec![None; count], gradients: vec![None; count], ranks: None }
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

    /// The numbers of the next step of this rate.
    fn next_step(&self, learning_rate: f64) -> AdamStep {
        self.step_after(learning_rate, 0)
    }

    /// The numbers of a step of this rate after so many more.
    pub(super) fn step_after(&self, learning_rate: f64, more: u32) -> AdamStep {
        let AdamW { betas: (beta1, beta2), eps, weight_decay } = self.settings;
        let step = u64::from(self.steps) + u64::from(more) + 1;
        AdamStep { learning_rate, beta1, beta2, eps, weight_decay, step, grad_scale: 1.0 }
    }

    /// Counts a step that was made elsewhere.
    pub(super) fn count_step(&mut self) {
        self.steps += 1;
    }

    /// Whether a step was made.
    pub(super) fn has_moved(&self) -> bool {
        self.steps > 0
    }

    /// One of the two moments of a parameter.
    pub(super) fn moment(&self, id: Id, which: usize) -> Option<&[f32]> {
        self.moments[id.0].as_ref().map(|moments| &moments[which].numbers()[..])
    }

    /// The same steps with these moments, for saving.
    pub(super) fn with_moments(&self, [first, second]: [Vec<(Id, Vec<f32>)>; 2]) -> Self {
        let mut moments = vec![None; self.moments.len()];
        for ((id, first), (_, second)) in first.into_iter().zip(second) {
            moments[id.0] = Some([first.into(), second.into()]);
        }
        Self { settings: self.settings, steps: self.steps, moments, gradients: Vec::new(), ranks: None }
    }

    /// Leaves moments and gradients to somebody else.
    pub(super) fn forget_moments(&mut self) {
        self.moments.fill(None);
    }

    pub(crate) fn step(&mut self, parameters: &mut Parameters, lr: f64, clip: Option<f64>) -> StepOutcome {
        let grad_norm = self.norm();
        self.step_along(grad_norm, parameters, lr, clip)
    }

    /// A step along the waiting gradients, which are those of this length, or some of them.
    fn step_along(
        &mut self,
        grad_norm: f64,
        parameters: &mut Parameters,
        lr: f64,
        clip: Option<f64>,
    ) -> StepOutcome {
        let gradients = std::mem::take(&mut self.gradients);
        self.gradients = vec![None; gradients.len()];
        if !grad_norm.is_finite() {
            return StepOutcome { grad_norm, skipped: true };
        }
        let factor = clip.map_or(1.0, |clip| (clip / (grad_norm + 1e-6)).min(1.0));
        let step = AdamStep { grad_scale: factor, ..self.next_step(lr) };
        self.count_step();
        for (i, gradient) in gradients.into_iter().enumerate() {
            let Some(gradient) = gradient else { continue };
            let Value::Numbers(value) = &mut parameters.values[i] else { continue };
            let zeros = || Tensor::zeros(gradient.dims());
            let [first, second] = self.moments[i].get_or_insert_with(|| [zeros(), zeros()]);
            ops::adamw(step, [value, first, second], &gradient);
        }
        StepOutcome { grad_norm, skipped: false }
    }

    /// Goes on together with other ranks.
    pub(crate) fn join(&mut self, sync: Arc<dyn GradientSync>, sharding: Sharding, parameters: &Parameters) {
        self.ranks = Some(DataParallel::new(sync, sharding, parameters));
    }

    /// The other ranks, if there are any.
    pub(crate) fn ranks(&self) -> Option<&Arc<dyn GradientSync>> {
        self.ranks.as_ref().map(|ranks| &ranks.sync)
    }

    /// Hands the waiting gradients to the ranks that sum them.
    pub(crate) fn reduce(&mut self, parameters: &Parameters) -> Result<(), SyncError> {
        match &mut self.ranks {
            Some(ranks) => ranks.reduce(&mut self.gradients, parameters),
            None => Ok(()),
        }
    }

    /// A step along the gradients of all ranks.
    pub(crate) fn step_over_ranks(
        &mut self,
        parameters: &mut Parameters,
        lr: f64,
        clip: Option<f64>,
    ) -> Result<StepOutcome, SyncError> {
        let Some(ranks) = &mut self.ranks else { return Ok(self.step(parameters, lr, clip)) };
        match ranks.sharding {
            Sharding::Nothing => {
                self.gradients = ranks.all_gradients(parameters)?;
                Ok(self.step(parameters, lr, clip))
            }
            Sharding::Optimizer => {
                let (gradients, grad_norm) = ranks.own_gradients(parameters, ops::sum_of_squares)?;
                self.gradients = gradients;
                let outcome = self.step_along(grad_norm, parameters, lr, clip);
                if let Some(ranks) = self.ranks.as_mut().filter(|_| !outcome.skipped) {
                    ranks.share_parameters(parameters)?;
                }
                Ok(outcome)
            }
        }
    }

    /// Every rank gets the steps and moments of rank 0, and keeps those it needs.
    pub(crate) fn share(&mut self, parameters: &Parameters) -> Result<(), SyncError> {
        let Some(ranks) = &self.ranks else { return Ok(()) };
        let sync = ranks.sync.clone();
        let mut flags: Vec<f32> =
            self.moments.iter().map(|moments| if moments.is_some() { 1.0 } else { 0.0 }).collect();
        sync.broadcast(0, &mut flags)?;
        let steps = sync.broadcast_text(0, &self.steps.to_string())?;
        self.steps = steps.parse().unwrap_or(self.steps);
        for (i, moments) in self.moments.iter_mut().enumerate() {
            if flags[i] == 0.0 {
                *moments = None;
                continue;
            }
            let zeros = || Tensor::zeros([parameters.specs[i].len()]);
            let both = moments.get_or_insert_with(|| [zeros(), zeros()]);
            for moment in both {
                sync.broadcast(0, moment.numbers_mut())?;
            }
            if !ranks.keeps_moments(i) {
                *moments = None;
            }
        }
        Ok(())
    }

    /// [`save`](Self::save) with what all ranks have, into the state of rank 0; others have none.
    pub(crate) fn save_over_ranks(
        &self,
        parameters: &Parameters,
        state: &mut Option<Weights>,
    ) -> Result<(), SyncError> {
        let Some(ranks) = self.ranks.as_ref().filter(|ranks| ranks.sharding == Sharding::Optimizer) else {
            state.iter_mut().for_each(|state| self.save(parameters, state));
            return Ok(());
        };
        state.iter_mut().for_each(|state| self.save_steps(state));
        for (i, owner) in ranks.with_owners() {
            let spec = &parameters.specs[i];
            let mut flag = [if self.moments[i].is_some() { 1.0 } else { 0.0 }];
            ranks.sync.broadcast(owner, &mut flag)?;
            if flag == [0.0] {
                continue;
            }
            for (which, prefix) in [FIRST, SECOND].into_iter().enumerate() {
                let mut numbers = match &self.moments[i] {
                    Some(moments) => moments[which].numbers().to_vec(),
                    None => vec![0.0; spec.len()],
                };
                ranks.sync.broadcast(owner, &mut numbers)?;
                if let Some(state) = state {
                    state.insert_f32(format!("{prefix}{}", spec.name), &spec.shape, &spec.to_torch(numbers));
                }
            }
        }
        Ok(())
    }

    fn save_steps(&self, state: &mut Weights) {
        state.insert(STEPS, Array::from_number(i64::from(self.steps)));
    }

    /// Adds the optimizer's numbers to a saved state, in the order and shape of memory.
    pub(crate) fn save(&self, parameters: &Parameters, state: &mut Weights) {
        self.save_steps(state);
        let arrays = |(spec, moments): (&Spec, &Option<[Tensor<1>; 2]>)| {
            let moments = moments.as_ref()?;
            Some(moments.each_ref().map(|moment| spec.to_array(moment.numbers())))
        };
        let arrays: Vec<Option<[Array; 2]>> =
            parameters.specs.par_iter().zip(&self.moments).map(arrays).collect();
        for (spec, arrays) in parameters.specs.iter().zip(arrays) {
            for (prefix, array) in [FIRST, SECOND].into_iter().zip(arrays.into_iter().flatten()) {
                state.insert(format!("{prefix}{}", spec.name), array);
            }
        }
    }

    /// The same steps without moments, which are elsewhere.
    pub(super) fn without_moments(&self) -> Self {
        self.with_moments(Default::default())
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
