//! Normalisation with what follows it in a residual network: the sum with a shortcut, and ReLU.

/// What a batch norm keeps from its forward pass, per channel.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchNormSaved {
    /// Mean over the batch and all pixels.
    pub mean: Vec<f32>,
    /// Variance over the same, divided by their number: what the pictures were normalised with.
    pub variance: Vec<f32>,
    /// `1 / sqrt(variance + eps)`.
    pub inv_std: Vec<f32>,
    /// Numbers per channel.
    pub count: usize,
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
    let channels = gamma.len();
    let count = input.len() / channels;
    let mut sums = vec![0.0f64; channels];
    for row in input.chunks(channels) {
        sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    let mean: Vec<f64> = sums.iter().map(|sum| sum / count as f64).collect();
    let mut squares = vec![0.0f64; channels];
    for row in input.chunks(channels) {
        for channel in 0..channels {
            squares[channel] += (f64::from(row[channel]) - mean[channel]).powi(2);
        }
    }
    let variance: Vec<f32> = squares.iter().map(|sum| (sum / count as f64) as f32).collect();
    let mean: Vec<f32> = mean.iter().map(|&mean| mean as f32).collect();
    let inv_std: Vec<f32> = variance.iter().map(|variance| 1.0 / (variance + eps).sqrt()).collect();
    for (i, out) in output.iter_mut().enumerate() {
        let channel = i % channels;
        let normal = (input[i] - mean[channel]) * inv_std[channel] * gamma[channel] + beta[channel];
        let sum = normal + residual.map_or(0.0, |residual| residual[i]);
        *out = if relu { sum.max(0.0) } else { sum };
    }
    BatchNormSaved { mean, variance, inv_std, count }
}

/// Gradients of the parameters of a normalisation.
#[derive(Debug, Clone, PartialEq)]
pub struct NormGrads {
    /// Of the scale, per channel.
    pub gamma: Vec<f32>,
    /// Of the shift, per channel.
    pub beta: Vec<f32>,
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
    let channels = gamma.len();
    if let Some(output) = relu_output {
        for (grad, &output) in grad.iter_mut().zip(output) {
            *grad = if output > 0.0 { *grad } else { 0.0 };
        }
    }
    let (mut shifts, mut scales) = (vec![0.0f64; channels], vec![0.0f64; channels]);
    for (row, grad) in input.chunks(channels).zip(grad.chunks(channels)) {
        for c in 0..channels {
            shifts[c] += f64::from(grad[c]);
            scales[c] += f64::from(grad[c] * (row[c] - saved.mean[c]) * saved.inv_std[c]);
        }
    }
    let count = saved.count as f32;
    let input_grad = |i: usize, grad: f32| {
        let c = i % channels;
        let normal = (input[i] - saved.mean[c]) * saved.inv_std[c];
        gamma[c] * saved.inv_std[c] * (grad - (shifts[c] as f32 + normal * scales[c] as f32) / count)
    };
    match grad_input {
        Some(out) => {
            out.iter_mut().zip(&*grad).enumerate().for_each(|(i, (out, &g))| *out = input_grad(i, g))
        }
        None => grad.iter_mut().enumerate().for_each(|(i, g)| *g = input_grad(i, *g)),
    }
    let narrow = |sums: &[f64]| sums.iter().map(|&sum| sum as f32).collect();
    NormGrads { gamma: narrow(&scales), beta: narrow(&shifts) }
}

/// What a group norm keeps from its forward pass: `[batch, groups]`.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupNormSaved {
    /// Mean over the pixels and channels of a group.
    pub mean: Vec<f32>,
    /// `1 / sqrt(variance + eps)` over the same.
    pub inv_std: Vec<f32>,
}

/// Group norm of `[batch, pixels, channels]`, then `+ residual` and ReLU where asked for.
///
/// # Panics
/// When `groups` does not divide the channels, or a slice has another length than `gamma` and `input` imply.
#[expect(clippy::too_many_arguments, reason = "the parameters of a group norm and what follows it")]
pub fn group_norm_act_forward(
    batch: usize,
    groups: usize,
    input: &[f32],
    gamma: &[f32],
    beta: &[f32],
    residual: Option<&[f32]>,
    relu: bool,
    eps: f32,
    output: &mut [f32],
) -> GroupNormSaved {
    let channels = gamma.len();
    let pixels = input.len() / channels / batch;
    let width = channels / groups;
    let count = (pixels * width) as f64;
    let mut saved = GroupNormSaved { mean: vec![0.0; batch * groups], inv_std: vec![0.0; batch * groups] };
    let place = |picture: usize, group: usize, i: usize| {
        (picture * pixels + i / width) * channels + group * width + i % width
    };
    for (picture, group) in (0..batch).flat_map(|p| (0..groups).map(move |g| (p, g))) {
        let values = || (0..pixels * width).map(|i| f64::from(input[place(picture, group, i)]));
        let mean = values().sum::<f64>() / count;
        let variance = values().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let inv_std = 1.0 / (variance + f64::from(eps)).sqrt();
        for at in (0..pixels * width).map(|i| place(picture, group, i)) {
            let channel = at % channels;
            let normal = ((f64::from(input[at]) - mean) * inv_std) as f32 * gamma[channel] + beta[channel];
            let sum = normal + residual.map_or(0.0, |residual| residual[at]);
            output[at] = if relu { sum.max(0.0) } else { sum };
        }
        saved.mean[picture * groups + group] = mean as f32;
        saved.inv_std[picture * groups + group] = inv_std as f32;
    }
    saved
}

/// The gradients of [`group_norm_act_forward`]; the arguments mean what those of [`batch_norm_act_backward`] do.
///
/// # Panics
/// When a slice has another length than `gamma`, `saved` and `input` imply.
#[expect(clippy::too_many_arguments, reason = "what the forward pass took, kept and is asked for")]
#[must_use]
pub fn group_norm_act_backward(
    batch: usize,
    groups: usize,
    input: &[f32],
    gamma: &[f32],
    saved: &GroupNormSaved,
    relu_output: Option<&[f32]>,
    grad: &mut [f32],
    grad_input: Option<&mut [f32]>,
) -> NormGrads {
    let channels = gamma.len();
    let pixels = input.len() / channels / batch;
    let width = channels / groups;
    let count = (pixels * width) as f64;
    if let Some(output) = relu_output {
        for (grad, &output) in grad.iter_mut().zip(output) {
            *grad = if output > 0.0 { *grad } else { 0.0 };
        }
    }
    let group_of = |i: usize| i / channels / pixels * groups + i % channels / width;
    let normal = |i: usize| f64::from((input[i] - saved.mean[group_of(i)]) * saved.inv_std[group_of(i)]);
    let (mut shifts, mut scales) = (vec![0.0f64; channels], vec![0.0f64; channels]);
    let (mut means, mut slopes) = (vec![0.0f64; batch * groups], vec![0.0f64; batch * groups]);
    for (i, &g) in grad.iter().enumerate() {
        let (c, group, g) = (i % channels, group_of(i), f64::from(g));
        shifts[c] += g;
        scales[c] += g * normal(i);
        means[group] += g * f64::from(gamma[c]) / count;
        slopes[group] += g * f64::from(gamma[c]) * normal(i) / count;
    }
    let input_grad = |i: usize, grad: f32| {
        let group = group_of(i);
        let own = f64::from(grad * gamma[i % channels]);
        (f64::from(saved.inv_std[group]) * (own - means[group] - normal(i) * slopes[group])) as f32
    };
    match grad_input {
        Some(out) => {
            out.iter_mut().zip(&*grad).enumerate().for_each(|(i, (out, &g))| *out = input_grad(i, g))
        }
        None => grad.iter_mut().enumerate().for_each(|(i, g)| *g = input_grad(i, *g)),
    }
    let narrow = |sums: &[f64]| sums.iter().map(|&sum| sum as f32).collect();
    NormGrads { gamma: narrow(&scales), beta: narrow(&shifts) }
}
