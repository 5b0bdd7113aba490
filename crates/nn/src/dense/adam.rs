//! Adam and AdamW over flat parameters, and the clipping of gradients before them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::kernels::adam::{self, AdamStep};

/// The constants of an optimiser. The default is PyTorch's Adam.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamSettings {
    /// How slowly the first and the second moment change.
    pub betas: [f32; 2],
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Decoupled weight decay: AdamW where it is not zero.
    pub weight_decay: f32,
}

impl Default for AdamSettings {
    fn default() -> Self {
        Self { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 }
    }
}

/// The state of an optimiser: all a checkpoint needs, beside the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Its constants.
    pub settings: AdamSettings,
    /// Steps taken.
    pub step: u64,
    /// First moments, one for each parameter.
    pub m: Vec<f32>,
    /// Second moments, one for each parameter.
    pub v: Vec<f32>,
}

impl Adam {
    /// An optimiser that has not yet taken a step, for so many parameters.
    pub fn new(parameters: usize, settings: AdamSettings) -> Self {
        Self { settings, step: 0, m: vec![0.0; parameters], v: vec![0.0; parameters] }
    }

    /// One step for all parameters.
    pub fn step(&mut self, params: &mut [f32], grads: &[f32], lr: f32) {
        self.step_groups(params, grads, &[(0..params.len(), lr)]);
    }

    /// One step for groups of parameters, each with its own learning rate. What is in no group stays as it is.
    pub fn step_groups(&mut self, params: &mut [f32], grads: &[f32], groups: &[(Range<usize>, f32)]) {
        assert!(
            params.len() == self.m.len() && grads.len() == self.m.len(),
            "an optimiser of another network"
        );
        self.step += 1;
        let AdamSettings { betas: [beta1, beta2], eps, weight_decay } = self.settings;
        for (range, lr) in groups {
            let step = AdamStep {
                learning_rate: f64::from(*lr),
                beta1: f64::from(beta1),
                beta2: f64::from(beta2),
                eps: f64::from(eps),
                weight_decay: f64::from(weight_decay),
                step: self.step,
                grad_scale: 1.0,
            };
            let moments = (&mut self.m[range.clone()], &mut self.v[range.clone()]);
            adam::step(&step, &mut params[range.clone()], &grads[range.clone()], moments.0, moments.1);
        }
    }
}

/// Scales gradients so that their norm is at most `max_norm`; returns the norm they had. As PyTorch's, it divides by
/// the norm plus 1e-6. A norm that is not finite is returned and nothing scaled: stopping is for the caller.
pub fn clip_grad_norm(grads: &mut [f32], max_norm: f32) -> f32 {
    let norm = adam::sum_of_squares(grads).sqrt() as f32;
    let scale = max_norm / (norm + 1e-6);
    if norm.is_finite() && scale < 1.0 {
        adam::scale(grads, scale);
    }
    norm
}
