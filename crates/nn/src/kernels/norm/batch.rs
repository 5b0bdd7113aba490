//! Batch norm as it is trained: statistics over the batch.

use super::NormGrads;
use super::passes::{Apply, ApplyGrad, Blocks, Gate, GradSums, InputGrad, moments};
use crate::kernels::threads::{Shared, for_each};
use crate::kernels::{Isa, Precision};

/// What a batch norm keeps from its forward pass, per channel.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchNormSaved {
    /// Mean over the batch and all pixels.
    pub mean: Vec<f32>,
    /// Variance over the same, divided by their number: what the images were normalised with.
    pub variance: Vec<f32>,
    /// `1 / sqrt(variance + eps)`.
    pub inv_std: Vec<f32>,
    /// Numbers per channel.
    pub count: usize,
    /// `input * scale + shift` is what was done.
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl BatchNormSaved {
    /// The variance divided by one less than the number of numbers: what goes into the running statistics.
    #[must_use]
    pub fn unbiased_variance(&self) -> Vec<f32> {
        let correction = self.count as f32 / self.count.saturating_sub(1).max(1) as f32;
        self.variance.iter().map(|variance| variance * correction).collect()
    }
}

/// Training batch norm of `[pixels, channels]`, then `+ residual` and ReLU where asked for.
///
/// # Panics
/// When a slice has another length than `gamma` (one per channel) and `input` imply.
pub fn batch_norm_act_forward(
    input: &[f32],
    gamma: &[f32],
    beta: &[f32],
    residual: Option<&[f32]>,
    relu: bool,
    eps: f32,
    output: &mut [f32],
) -> BatchNormSaved {
    forward_on(Isa::best(Precision::F32), input, gamma, beta, residual, relu, eps, output)
}

#[expect(clippy::too_many_arguments, reason = "those of the public function, and the instruction set")]
pub(super) fn forward_on(
    isa: Isa,
    input: &[f32],
    gamma: &[f32],
    beta: &[f32],
    residual: Option<&[f32]>,
    relu: bool,
    eps: f32,
    output: &mut [f32],
) -> BatchNormSaved {
    let channels = gamma.len();
    assert!(channels > 0 && input.len().is_multiple_of(channels), "pixels of {channels} channels");
    assert_eq!(beta.len(), channels, "a shift for every channel");
    assert_eq!(output.len(), input.len(), "an output for every input");
    assert!(residual.is_none_or(|residual| residual.len() == input.len()), "a residual for every input");
    let saved = statistics(isa, input, gamma, beta, eps);
    let blocks = Blocks::of(saved.count, channels);
    let target = Shared::of(output);
    for_each(blocks.count(), |block| {
        let numbers = blocks.numbers(block);
        isa.run(Apply {
            input: &input[numbers.clone()],
            scale: &saved.scale,
            shift: &saved.shift,
            residual: residual.map(|residual| &residual[numbers.clone()]),
            relu,
            // SAFETY: inside the output, and each block has its own part.
            output: unsafe { target.at(numbers.start) },
        });
    });
    saved
}

fn statistics(isa: Isa, input: &[f32], gamma: &[f32], beta: &[f32], eps: f32) -> BatchNormSaved {
    let count = input.len() / gamma.len();
    let moments = moments(isa, input, gamma.len());
    let variance: Vec<f64> = moments.squares.iter().map(|squares| squares / count.max(1) as f64).collect();
    let inv_std: Vec<f64> =
        variance.iter().map(|variance| 1.0 / (variance + f64::from(eps)).sqrt()).collect();
    let scale: Vec<f64> =
        inv_std.iter().zip(gamma).map(|(inv_std, &gamma)| inv_std * f64::from(gamma)).collect();
    let shift = (moments.mean.iter().zip(&scale).zip(beta))
        .map(|((mean, scale), &beta)| (f64::from(beta) - mean * scale) as f32)
        .collect();
    let narrow = |numbers: &[f64]| numbers.iter().map(|&x| x as f32).collect();
    BatchNormSaved {
        mean: narrow(&moments.mean),
        variance: narrow(&variance),
        inv_std: narrow(&inv_std),
        count,
        scale: narrow(&scale),
        shift,
    }
}

/// The gradients of [`batch_norm_act_forward`].
///
/// `relu_output` is its output if it ended in ReLU. `grad` comes in as the gradient of the output. With a
/// `grad_input` (there was a residual) `grad` leaves as the residual's gradient; without, as the input's.
///
/// # Panics
/// When a slice has another length than `gamma` (one per channel) and `input` imply.
#[must_use]
pub fn batch_norm_act_backward(
    input: &[f32],
    gamma: &[f32],
    saved: &BatchNormSaved,
    relu_output: Option<&[f32]>,
    grad: &mut [f32],
    grad_input: Option<&mut [f32]>,
) -> NormGrads {
    backward_on(Isa::best(Precision::F32), input, gamma, saved, relu_output, grad, grad_input)
}

pub(super) fn backward_on(
    isa: Isa,
    input: &[f32],
    gamma: &[f32],
    saved: &BatchNormSaved,
    relu_output: Option<&[f32]>,
    grad: &mut [f32],
    grad_input: Option<&mut [f32]>,
) -> NormGrads {
    let channels = gamma.len();
    assert_eq!(
        (saved.mean.len(), saved.count * channels),
        (channels, input.len()),
        "statistics of another input"
    );
    assert_eq!(grad.len(), input.len(), "a gradient for every input");
    assert!(grad_input.as_deref().is_none_or(|grad| grad.len() == input.len()), "a gradient for every input");
    assert!(relu_output.is_none_or(|output| output.len() == input.len()), "an output for every input");
    let (write, gate) = match (relu_output, grad_input.is_some()) {
        (None, _) => (false, Gate::Open),
        (Some(output), true) => (true, Gate::Output(output)),
        (Some(_), false) => (false, Gate::Recomputed { scale: &saved.scale, shift: &saved.shift }),
    };
    let blocks = Blocks::of(saved.count, channels);
    let grads = Shared::of(grad);
    let parts = blocks.pairs(|block, [sums, products]| {
        let numbers = blocks.numbers(block);
        let (input, gate) = (&input[numbers.clone()], gate.of(numbers.clone()));
        // SAFETY: inside the gradient, and each block has its own part.
        let grad = unsafe { grads.at(numbers.start) };
        isa.run(GradSums { input, mean: &saved.mean, gate, grad, write, sums, products });
    });
    let (beta, gamma_grads, by) = of_parameters(&parts, gamma, saved);
    // What the gate let pass was written back, or has to pass it again.
    let gate = if write { Gate::Open } else { gate };
    let targets = grad_input.map_or(grads, Shared::of);
    for_each(blocks.count(), |block| {
        let numbers = blocks.numbers(block);
        let (input, gate) = (&input[numbers.clone()], gate.of(numbers.clone()));
        // SAFETY: inside both, and each block has its own part.
        let (grad, grad_input) = unsafe { (grads.at(numbers.start), targets.at(numbers.start)) };
        isa.run(ApplyGrad { input, gate, grad, by: &by, grad_input });
    });
    NormGrads { gamma: gamma_grads, beta }
}

/// The gradients of shift and scale from the sums of all blocks, and how the input's follows.
fn of_parameters(parts: &[f32], gamma: &[f32], saved: &BatchNormSaved) -> (Vec<f32>, Vec<f32>, InputGrad) {
    let channels = gamma.len();
    let mut totals = vec![0.0f64; 2 * channels];
    for part in parts.chunks(2 * channels) {
        totals.iter_mut().zip(part).for_each(|(total, &x)| *total += f64::from(x));
    }
    let (sums, products) = totals.split_at(channels);
    let mut by = InputGrad::default();
    for channel in 0..channels {
        let inv_std = f64::from(saved.inv_std[channel]);
        let factor = f64::from(gamma[channel]) * inv_std;
        let input_factor = -factor * inv_std * inv_std * products[channel] / saved.count as f64;
        let offset =
            -factor * sums[channel] / saved.count as f64 - input_factor * f64::from(saved.mean[channel]);
        by.factor.push(factor as f32);
        by.input_factor.push(input_factor as f32);
        by.offset.push(offset as f32);
    }
    let beta = sums.iter().map(|&sum| sum as f32).collect();
    let gamma = products
        .iter()
        .zip(&saved.inv_std)
        .map(|(product, &inv)| (product * f64::from(inv)) as f32)
        .collect();
    (beta, gamma, by)
}
