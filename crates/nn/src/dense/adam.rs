//! Adam and AdamW over flat parameters, and the clipping of gradients before them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

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
        let AdamSettings { betas: [b1, b2], eps, weight_decay } = self.settings;
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(self.step as f64);
        let root = correction(b2).sqrt() as f32;
        for (range, lr) in groups {
            let step_size = (f64::from(*lr) / correction(b1)) as f32;
            let keep = 1.0 - lr * weight_decay;
            for i in range.clone() {
                let g = grads[i];
                self.m[i] += (1.0 - b1) * (g - self.m[i]);
                self.v[i] = b2 * self.v[i] + (1.0 - b2) * g * g;
                params[i] = keep * params[i] - step_size * self.m[i] / (self.v[i].sqrt() / root + eps);
            }
        }
    }
}

/// Scales gradients so that their norm is at most `max_norm`; returns the norm they had. As PyTorch's, it divides by
/// the norm plus 1e-6. A norm that is not finite is returned and nothing scaled: stopping is for the caller.
pub fn clip_grad_norm(grads: &mut [f32], max_norm: f32) -> f32 {
    let norm = grads.iter().map(|g| f64::from(*g) * f64::from(*g)).sum::<f64>().sqrt() as f32;
    let scale = max_norm / (norm + 1e-6);
    if norm.is_finite() && scale < 1.0 {
        grads.iter_mut().for_each(|g| *g *= scale);
    }
    norm
}
