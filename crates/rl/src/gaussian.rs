//! The diagonal normal distribution: each dimension of an action has its own mean and deviation.
//!
//! ```text
//! a = μ + σ ε        log π(a) = Σ −((a − μ)/σ)²/2 − log σ − log √2π        H = Σ log σ + log √2π + 1/2
//! ```
//!
//! Actions are not squashed: environments clip what they cannot do, and the probability is that of the unclipped sample.

use plaudit_core::Rng;

/// log √2π
const LOG_SQRT_TAU: f32 = 0.918_938_5;

/// One row's distribution: a mean and the logarithm of a deviation for each dimension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normal<'a> {
    /// μ.
    pub(crate) mean: &'a [f32],
    /// log σ.
    pub(crate) log_std: &'a [f32],
}

impl Normal<'_> {
    /// Samples an action, and writes the log-probability of each dimension.
    pub(crate) fn sample(&self, rng: &mut Rng, action: &mut [f32], log_probs: &mut [f32]) {
        for (d, (action, log_prob)) in action.iter_mut().zip(log_probs).enumerate() {
            let noise = rng.normal() as f32;
            *action = self.mean[d] + self.log_std[d].exp() * noise;
            *log_prob = -0.5 * noise * noise - self.log_std[d] - LOG_SQRT_TAU;
        }
    }

    /// log π(action), summed over the dimensions.
    pub(crate) fn log_prob(&self, action: &[f32]) -> f32 {
        let mut sum = 0.0;
        for (d, action) in action.iter().enumerate() {
            let away = (action - self.mean[d]) * (-self.log_std[d]).exp();
            sum -= 0.5 * away * away + self.log_std[d] + LOG_SQRT_TAU;
        }
        sum
    }

    /// H, summed over the dimensions.
    pub(crate) fn entropy(&self) -> f32 {
        self.log_std.iter().map(|log_std| log_std + LOG_SQRT_TAU + 0.5).sum()
    }

    /// Adds the gradients of μ and log σ, given those of log π and of H.
    pub(crate) fn backward(
        &self,
        action: &[f32],
        grad_log_prob: f32,
        grad_entropy: f32,
        grad_mean: &mut [f32],
        grad_log_std: &mut [f32],
    ) {
        for (d, action) in action.iter().enumerate() {
            let inverse = (-self.log_std[d]).exp();
            let away = (action - self.mean[d]) * inverse;
            grad_mean[d] += grad_log_prob * away * inverse;
            grad_log_std[d] += grad_log_prob * (away * away - 1.0) + grad_entropy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::Seed;

    #[test]
    fn a_sample_has_the_log_probability_that_is_reported() {
        let normal = Normal { mean: &[0.5, -2.0], log_std: &[-0.5, 1.0] };
        let (mut action, mut log_probs) = ([0.0; 2], [0.0; 2]);
        for row in 0..100 {
            normal.sample(&mut Seed::new(1).index(row).rng(), &mut action, &mut log_probs);
            let log_prob: f32 = log_probs.iter().sum();
            assert!((log_prob - normal.log_prob(&action)).abs() < 1e-5);
        }
    }

    /// Against central differences.
    #[test]
    fn gradients_match_finite_differences() {
        let (mean, log_std, action) = ([0.3f32, -1.0], [-0.4f32, 0.2], [0.9f32, 0.1]);
        let loss = |mean: &[f32], log_std: &[f32]| {
            let normal = Normal { mean, log_std };
            1.5 * f64::from(normal.log_prob(&action)) - 0.7 * f64::from(normal.entropy())
        };
        let (mut grad_mean, mut grad_log_std) = ([0.0; 2], [0.0; 2]);
        let normal = Normal { mean: &mean, log_std: &log_std };
        normal.backward(&action, 1.5, -0.7, &mut grad_mean, &mut grad_log_std);
        for d in 0..2 {
            let step = 1e-2f32;
            let moved = |values: [f32; 2], by: f32| -> [f32; 2] {
                std::array::from_fn(|i| values[i] + if i == d { by } else { 0.0 })
            };
            let difference = |ahead: f64, behind: f64| ((ahead - behind) / f64::from(2.0 * step)) as f32;
            let along_mean =
                difference(loss(&moved(mean, step), &log_std), loss(&moved(mean, -step), &log_std));
            let along_std =
                difference(loss(&mean, &moved(log_std, step)), loss(&mean, &moved(log_std, -step)));
            assert!((along_mean - grad_mean[d]).abs() < 1e-3, "{along_mean} {}", grad_mean[d]);
            assert!((along_std - grad_log_std[d]).abs() < 1e-3, "{along_std} {}", grad_log_std[d]);
        }
    }
}
