//! The squashed Gaussian of soft actor-critic: a normal sample, squashed by tanh into the bounds of an action.
//!
//! With `x` the network's second output, `ε ~ N(0, 1)` and one number per dimension of the action:
//!
//! ```text
//! log σ = bound(x)        u = μ + σ ε        t = tanh u        a = scale t + bias
//! log π = Σ  −ε²/2 − log σ − log √2π − log(scale (1 − t²) + 1e-6)
//! ```
//!
//! Everything works on slices of the caller and allocates nothing after the first batch.

use plaudit_core::ActionSpace;
use plaudit_nn::dense::{exp, ln, tanh};

/// Keeps the logarithm finite where tanh is flat.
const EPSILON: f32 = 1e-6;
/// Actions nearer to their bounds than this share of the way count as this near: tanh only reaches them at infinity.
const MAX_TANH: f32 = 0.99;
/// log √2π
const LOG_SQRT_TAU: f32 = 0.918_938_5;

/// How the network's second output becomes a standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StdBounds {
    /// `log σ = low + (high − low)/2 · (tanh x + 1)`: never outside, and never without a gradient.
    Tanh {
        /// Smallest log σ.
        low: f32,
        /// Largest log σ.
        high: f32,
    },
    /// `σ = exp x`, cut off at both ends.
    Clamp {
        /// Smallest σ.
        low: f32,
        /// Largest σ.
        high: f32,
    },
}

impl StdBounds {
    /// Policies on states: `log σ = −5 + 3.5·(tanh x + 1)`.
    pub const STATES: Self = Self::Tanh { low: -5.0, high: 2.0 };
    /// Policies on images: `σ` between 1e-5 and 5.
    pub const IMAGES: Self = Self::Clamp { low: 1e-5, high: 5.0 };

    /// The output of the network for which log σ is this, or as near to it as there is a gradient left.
    fn inverse(self, log_std: f32) -> f32 {
        match self {
            Self::Tanh { low, high } => {
                let squashed = 2.0 * (log_std - low) / (high - low) - 1.0;
                squashed.clamp(-MAX_TANH, MAX_TANH).atanh()
            }
            Self::Clamp { low, high } => log_std.clamp(low.ln(), high.ln()),
        }
    }

    /// From outputs of the network to log σ, in place, and to d log σ / dx.
    pub(super) fn log_std(self, values: &mut [f32], gradients: &mut [f32]) {
        let both = |values: &mut [f32], gradients: &mut [f32], of: &dyn Fn(f32) -> (f32, f32)| {
            let pairs = values.iter_mut().zip(gradients);
            pairs.for_each(|(value, derivative)| (*value, *derivative) = of(*value));
        };
        match self {
            Self::Tanh { low, high } => {
                let half = 0.5 * (high - low);
                tanh(values);
                both(values, gradients, &|squashed| {
                    (low + half * (squashed + 1.0), half * (1.0 - squashed * squashed))
                });
            }
            Self::Clamp { low, high } => {
                exp(values);
                let inside = |std: f32| f32::from(u8::from((low..=high).contains(&std)));
                both(values, gradients, &|std| (std.clamp(low, high), inside(std)));
                ln(values);
            }
        }
    }
}

/// The distribution of actions, given what a network says of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TanhGaussian {
    std_bounds: StdBounds,
    /// Half the width of each dimension's bounds, and their middle.
    scale: Vec<f32>,
    bias: Vec<f32>,
}

/// Sampled actions, with all that their gradients need. Buffers grow once and are kept.
#[derive(Debug, Clone, Default)]
pub struct SampledActions {
    /// Actions, `[N, A]`.
    pub actions: Vec<f32>,
    /// Log-probability of each dimension, `[N, A]`.
    pub log_prob_parts: Vec<f32>,
    /// Log-probability of each whole action, `[N]`.
    pub log_probs: Vec<f32>,
    noise: Vec<f32>,
    std: Vec<f32>,
    /// d log σ / dx.
    std_derivative: Vec<f32>,
    /// tanh u, and its derivative 1 − tanh² u.
    squashed: Vec<f32>,
    derivative: Vec<f32>,
}

impl TanhGaussian {
    /// Actions between the bounds of a continuous space, `chunk` of them at once; unbounded dimensions are
    /// sampled between −1 and 1. A discrete space has no such distribution.
    pub fn new(space: &ActionSpace, chunk: usize, std_bounds: StdBounds) -> Option<Self> {
        let ActionSpace::Continuous { low, high } = space else { return None };
        let bounds = low.iter().zip(high).map(|(&low, &high)| {
            if low.is_finite() && high.is_finite() {
                ((high - low) / 2.0, (high + low) / 2.0)
            } else {
                (1.0, 0.0)
            }
        });
        let (scale, bias): (Vec<f32>, Vec<f32>) = bounds.unzip();
        Some(Self { std_bounds, scale: scale.repeat(chunk), bias: bias.repeat(chunk) })
    }

    /// Numbers per action (per chunk of actions, where they come in chunks).
    pub fn width(&self) -> usize {
        self.scale.len()
    }

    /// Half the width of each dimension's bounds.
    pub fn scale(&self) -> &[f32] {
        &self.scale
    }

    /// The middle of each dimension's bounds.
    pub fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// The likeliest actions, without noise: from outputs `[N, 2 A]` (μ first, then x) to actions `[N, A]`.
    pub fn mode(&self, outputs: &[f32], actions: &mut Vec<f32>) {
        let width = self.width();
        actions.clear();
        for row in outputs.chunks_exact(2 * width) {
            let bounds = self.scale.iter().zip(&self.bias);
            actions.extend(row[..width].iter().zip(bounds).map(|(u, (scale, bias))| scale * u.tanh() + bias));
        }
    }

    /// Samples actions with this standard normal `noise`, `[N, A]`, from outputs `[N, 2 A]` (μ first, then x).
    pub fn sample(&self, outputs: &[f32], noise: &[f32], sampled: &mut SampledActions) {
        let width = self.width();
        sampled.resize(noise.len(), width);
        let SampledActions {
            actions,
            log_prob_parts,
            log_probs,
            std,
            std_derivative,
            squashed,
            derivative,
            ..
        } = sampled;
        sampled.noise.copy_from_slice(noise);
        let rows = squashed.chunks_exact_mut(width).zip(std.chunks_exact_mut(width));
        for ((means, x), output) in rows.zip(outputs.chunks_exact(2 * width)) {
            means.copy_from_slice(&output[..width]);
            x.copy_from_slice(&output[width..]);
        }
        self.std_bounds.log_std(std, std_derivative);
        for ((part, noise), log_std) in log_prob_parts.iter_mut().zip(noise).zip(&*std) {
            *part = -0.5 * noise * noise - log_std - LOG_SQRT_TAU;
        }
        exp(std);
        for (((u, derivative), noise), std) in squashed.iter_mut().zip(&mut *derivative).zip(noise).zip(&*std)
        {
            *u += std * noise;
            *derivative = -2.0 * u.abs();
        }
        tanh(squashed);
        // 1 − tanh² u, without the difference of two numbers near 1.
        exp(derivative);
        for small in &mut *derivative {
            *small = 4.0 * *small / ((1.0 + *small) * (1.0 + *small));
        }
        // What the squashing takes from the log-probability, in the place of the actions for now.
        let squashes = actions.chunks_exact_mut(width).zip(derivative.chunks_exact(width));
        for (squash, derivative) in squashes {
            squash
                .iter_mut()
                .zip(&self.scale)
                .zip(derivative)
                .for_each(|((s, scale), derivative)| *s = scale * derivative + EPSILON);
        }
        ln(actions);
        log_prob_parts.iter_mut().zip(&*actions).for_each(|(part, squash)| *part -= squash);
        for (sum, parts) in log_probs.iter_mut().zip(log_prob_parts.chunks_exact(width)) {
            *sum = parts.iter().sum();
        }
        for (actions, squashed) in actions.chunks_exact_mut(width).zip(squashed.chunks_exact(width)) {
            let bounds = self.scale.iter().zip(&self.bias);
            let all = actions.iter_mut().zip(squashed).zip(bounds);
            all.for_each(|((action, squashed), (scale, bias))| *action = scale * squashed + bias);
        }
    }

    /// Backward pass through a sample: from the gradients of the actions, `[N, A]`, and of each log-probability (the
    /// same number for all), to those of the network's outputs, `[N, 2 A]`.
    pub fn backward(
        &self,
        sampled: &SampledActions,
        grad_action: &[f32],
        grad_log_prob: f32,
        grad_output: &mut [f32],
    ) {
        let width = self.width();
        for (row, grad_output) in grad_output.chunks_exact_mut(2 * width).enumerate() {
            for dim in 0..width {
                let at = row * width + dim;
                let (scale, std) = (self.scale[dim], sampled.std[at]);
                let (squashed, derivative) = (sampled.squashed[at], sampled.derivative[at]);
                // d log π / du: the squash's own derivative, as the noise is fixed.
                let dlog_prob_du = 2.0 * scale * squashed * derivative / (scale * derivative + EPSILON);
                let grad_u = grad_action[at] * scale * derivative + grad_log_prob * dlog_prob_du;
                let grad_log_std = grad_u * std * sampled.noise[at] - grad_log_prob;
                grad_output[dim] = grad_u;
                grad_output[width + dim] = grad_log_std * sampled.std_derivative[at];
            }
        }
    }

    /// The x for which actions deviate by `std`, one number of it for each of an action.
    pub fn outputs_for(&self, std: &[f32]) -> Vec<f32> {
        let std = std.iter().cycle().map(|std| std.max(f32::MIN_POSITIVE));
        self.scale.iter().zip(std).map(|(scale, std)| self.std_bounds.inverse((std / scale).ln())).collect()
    }

    /// How far the likeliest actions of outputs `[N, 2 A]` are from these, `[N, A]`, as shares of each dimension's scale:
    /// half the square, summed over dimensions, the mean over rows. Writes gradients that lead there: by μ those of
    /// log cosh μ − a μ, which is least at the same place and, unlike the square, large where tanh is flat; by x
    /// there are none.
    pub fn imitate(&self, outputs: &[f32], actions: &[f32], grad_output: &mut [f32]) -> f64 {
        let width = self.width();
        let each = width as f32 / actions.len() as f32;
        let rows = outputs.chunks_exact(2 * width).zip(grad_output.chunks_exact_mut(2 * width));
        let mut sum = 0.0;
        for ((output, grad_output), action) in rows.zip(actions.chunks_exact(width)) {
            let (grad_mean, grad_std) = grad_output.split_at_mut(width);
            grad_std.fill(0.0);
            for dim in 0..width {
                let reached = (action[dim] - self.bias[dim]) / self.scale[dim];
                let away = output[dim].tanh() - reached.clamp(-MAX_TANH, MAX_TANH);
                sum += f64::from(0.5 * away * away);
                grad_mean[dim] = each * away;
            }
        }
        sum * f64::from(each)
    }

    /// Writes gradients by x of outputs `[N, 2 A]`, the mean over rows, that lead σ to `std`, one number of it for each of
    /// an action: those of the mean likelihood of samples that deviate by as much.
    pub fn hold(&self, outputs: &[f32], std: &[f32], grad_output: &mut [f32]) {
        let width = self.width();
        let each = 2.0 * width as f32 / outputs.len() as f32;
        let rows = outputs.chunks_exact(2 * width).zip(grad_output.chunks_exact_mut(2 * width));
        let (mut log_std, mut derivative) = (vec![0.0; width], vec![0.0; width]);
        for (output, grad_output) in rows {
            log_std.copy_from_slice(&output[width..]);
            self.std_bounds.log_std(&mut log_std, &mut derivative);
            for (dim, std) in std.iter().cycle().take(width).enumerate() {
                let part = std / self.scale[dim] * (-log_std[dim]).exp();
                grad_output[width + dim] = each * (1.0 - part * part) * derivative[dim];
            }
        }
    }
}

impl SampledActions {
    fn resize(&mut self, values: usize, width: usize) {
        for buffer in [
            &mut self.actions,
            &mut self.log_prob_parts,
            &mut self.noise,
            &mut self.std,
            &mut self.std_derivative,
            &mut self.squashed,
            &mut self.derivative,
        ] {
            buffer.resize(values, 0.0);
        }
        self.log_probs.resize(values / width, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gradient descent leads μ to the actions and σ to the deviation.
    #[test]
    fn what_imitates_does_as_shown_and_explores_as_far_as_asked() {
        let space = ActionSpace::Continuous { low: vec![-1.0, 0.0], high: vec![1.0, 4.0] };
        let actions = [0.4, 1.0, -0.9, 3.0];
        for std_bounds in [StdBounds::STATES, StdBounds::IMAGES] {
            let Some(gaussian) = TanhGaussian::new(&space, 1, std_bounds) else { panic!("continuous") };
            let mut outputs = [0.2f32, -0.5, 0.1, -0.3, 1.0, 2.0, 0.4, 0.0];
            let mut gradients = [0.0; 8];
            for step in 0..40_000 {
                gaussian.imitate(&outputs, &actions, &mut gradients);
                gaussian.hold(&outputs, &[0.1, 0.4], &mut gradients);
                let lr = 0.05 * (1.0 - step as f32 / 40_000.0);
                outputs.iter_mut().zip(&gradients).for_each(|(output, gradient)| *output -= lr * gradient);
            }
            let mut likeliest = Vec::new();
            gaussian.mode(&outputs, &mut likeliest);
            for (action, shown) in likeliest.iter().zip(&actions) {
                assert!((action - shown).abs() < 1e-3, "{likeliest:?}");
            }
            for (at, part) in [(2, 0.1f32), (3, 0.2), (6, 0.1), (7, 0.2)] {
                let (mut log_std, mut derivative) = ([outputs[at]], [0.0]);
                std_bounds.log_std(&mut log_std, &mut derivative);
                let std = log_std[0].exp();
                assert!((std / part - 1.0).abs() < 1e-3, "{std} instead of {part}");
            }
        }
    }

    /// The outputs for a deviation lead to that deviation, and its gradient there is zero.
    #[test]
    fn a_deviation_that_was_set_is_there_at_once() {
        let space = ActionSpace::Continuous { low: vec![-1.0, 0.0], high: vec![1.0, 4.0] };
        for std_bounds in [StdBounds::STATES, StdBounds::IMAGES] {
            let Some(gaussian) = TanhGaussian::new(&space, 1, std_bounds) else { panic!("continuous") };
            let std = [0.1, 0.4];
            let outputs = [vec![0.2, -0.5], gaussian.outputs_for(&std)].concat();
            let mut gradients = [9.0; 4];
            gaussian.hold(&outputs, &std, &mut gradients);
            assert!(gradients[2].abs() < 1e-5 && gradients[3].abs() < 1e-5, "{gradients:?}");
        }
    }
}
