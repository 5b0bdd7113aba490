//! Group norm: statistics over the pixels of one image and some neighbouring channels.

use super::NormGrads;
use super::passes::{Apply, ApplyGrad, Gate, GradSums, InputGrad, moments};
use crate::kernels::threads::{Shared, for_each};
use crate::kernels::{Isa, Precision};

/// What a group norm keeps from its forward pass: `[batch, groups]`.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupNormSaved {
    /// Mean over the pixels and channels of a group.
    pub mean: Vec<f32>,
    /// `1 / sqrt(variance + eps)` over the same.
    pub inv_std: Vec<f32>,
}

/// The parameters of a group norm.
#[derive(Debug, Clone, Copy)]
pub struct GroupNorm<'a> {
    /// Groups of neighbouring channels.
    pub groups: usize,
    /// What normalised channels are multiplied with.
    pub gamma: &'a [f32],
    /// What is added to them.
    pub beta: &'a [f32],
    /// Added to variances.
    pub eps: f32,
}

impl GroupNorm<'_> {
    /// What each channel of an image is multiplied with, and what is added, and the statistics of the groups.
    fn of_image(&self, isa: Isa, image: &[f32]) -> (Vec<f32>, Vec<f32>, Vec<(f64, f64)>) {
        let channels = self.gamma.len();
        let statistics = statistics(isa, self.groups, image, channels, self.eps);
        let (mut scale, mut shift) = (Vec::with_capacity(channels), Vec::with_capacity(channels));
        for (channel, (&gamma, &beta)) in self.gamma.iter().zip(self.beta).enumerate() {
            let (mean, inv_std) = statistics[channel / (channels / self.groups)];
            scale.push((inv_std * f64::from(gamma)) as f32);
            shift.push((f64::from(beta) - mean * inv_std * f64::from(gamma)) as f32);
        }
        (scale, shift, statistics)
    }

    /// Normalises an image, with ReLU.
    ///
    /// # Safety
    /// As many numbers as the image has can be written to `output`.
    pub(in crate::kernels) unsafe fn normalise(&self, isa: Isa, image: &[f32], output: *mut f32) {
        let (scale, shift, _) = self.of_image(isa, image);
        isa.run(Apply { input: image, scale: &scale, shift: &shift, residual: None, relu: true, output });
    }
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
    forward_on(Isa::best(Precision::F32), batch, groups, input, gamma, beta, residual, relu, eps, output)
}

/// Numbers of an image, after a check that the sizes agree.
fn image_len(batch: usize, groups: usize, input: &[f32], gamma: &[f32]) -> usize {
    let channels = gamma.len();
    assert!(groups > 0 && channels.is_multiple_of(groups), "{channels} channels in {groups} groups");
    assert!(
        batch > 0 && input.len().is_multiple_of(batch * channels),
        "{batch} images of {channels} channels"
    );
    input.len() / batch
}

#[expect(clippy::too_many_arguments, reason = "those of the public function, and the instruction set")]
pub(super) fn forward_on(
    isa: Isa,
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
    let len = image_len(batch, groups, input, gamma);
    assert_eq!(beta.len(), gamma.len(), "a shift for every channel");
    assert_eq!(output.len(), input.len(), "an output for every input");
    assert!(residual.is_none_or(|residual| residual.len() == input.len()), "a residual for every input");
    let mut saved = GroupNormSaved { mean: vec![0.0; batch * groups], inv_std: vec![0.0; batch * groups] };
    let (means, inv_stds) = (Shared::of(&mut saved.mean), Shared::of(&mut saved.inv_std));
    let target = Shared::of(output);
    let norm = GroupNorm { groups, gamma, beta, eps };
    for_each(batch, |image| {
        let numbers = image * len..(image + 1) * len;
        let (scale, shift, statistics) = norm.of_image(isa, &input[numbers.clone()]);
        for (group, &(mean, inv_std)) in statistics.iter().enumerate() {
            // SAFETY: each image has its own places.
            unsafe {
                *means.at(image * groups + group) = mean as f32;
                *inv_stds.at(image * groups + group) = inv_std as f32;
            }
        }
        isa.run(Apply {
            input: &input[numbers.clone()],
            scale: &scale,
            shift: &shift,
            residual: residual.map(|residual| &residual[numbers.clone()]),
            relu,
            // SAFETY: inside the output, and each image has its own part.
            output: unsafe { target.at(numbers.start) },
        });
    });
    saved
}

/// Mean and inverse deviation of each group of an image.
fn statistics(isa: Isa, groups: usize, image: &[f32], channels: usize, eps: f32) -> Vec<(f64, f64)> {
    let moments = moments(isa, image, channels);
    let (width, pixels) = (channels / groups, (image.len() / channels) as f64);
    let channels_of = |group: usize| group * width..(group + 1) * width;
    let group = |group: usize| {
        let mean = moments.mean[channels_of(group)].iter().sum::<f64>() / width as f64;
        let apart =
            |channel: usize| moments.squares[channel] + pixels * (moments.mean[channel] - mean).powi(2);
        let variance = channels_of(group).map(apart).sum::<f64>() / (pixels * width as f64);
        (mean, 1.0 / (variance + f64::from(eps)).sqrt())
    };
    (0..groups).map(group).collect()
}

/// The gradients of [`group_norm_act_forward`]; the arguments mean what those of [`super::batch_norm_act_backward`] do.
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
    backward_on(Isa::best(Precision::F32), batch, groups, input, gamma, saved, relu_output, grad, grad_input)
}

#[expect(clippy::too_many_arguments, reason = "those of the public function, and the instruction set")]
pub(super) fn backward_on(
    isa: Isa,
    batch: usize,
    groups: usize,
    input: &[f32],
    gamma: &[f32],
    saved: &GroupNormSaved,
    relu_output: Option<&[f32]>,
    grad: &mut [f32],
    grad_input: Option<&mut [f32]>,
) -> NormGrads {
    let len = image_len(batch, groups, input, gamma);
    let channels = gamma.len();
    assert_eq!(saved.mean.len(), batch * groups, "statistics of another input");
    assert_eq!(grad.len(), input.len(), "a gradient for every input");
    assert!(grad_input.as_deref().is_none_or(|grad| grad.len() == input.len()), "a gradient for every input");
    assert!(relu_output.is_none_or(|output| output.len() == input.len()), "an output for every input");
    let grads = Shared::of(grad);
    let targets = grad_input.map_or(grads, Shared::of);
    // Per image and channel: the sum of gradients, and of their products with the distance from the mean.
    let mut sums = vec![0.0; batch * 2 * channels];
    let all_sums = Shared::of(&mut sums);
    for_each(batch, |image| {
        let numbers = image * len..(image + 1) * len;
        let of_group = |values: &[f32]| values[image * groups..(image + 1) * groups].to_vec();
        let (means, inv_stds) = (of_group(&saved.mean), of_group(&saved.inv_std));
        let mean: Vec<f32> = (0..channels).map(|channel| means[channel / (channels / groups)]).collect();
        let gate = relu_output.map_or(Gate::Open, |output| Gate::Output(&output[numbers.clone()]));
        let write = relu_output.is_some();
        let input = &input[numbers.clone()];
        // SAFETY: inside all of them, and each image has its own part.
        unsafe {
            let (grad, grad_input) = (grads.at(numbers.start), targets.at(numbers.start));
            let sums = all_sums.at(image * 2 * channels);
            isa.run(GradSums { input, mean: &mean, gate, grad, write, sums, products: sums.add(channels) });
            let sums = std::slice::from_raw_parts(sums, 2 * channels);
            let by = input_grad(sums, gamma, &means, &inv_stds, len / channels);
            isa.run(ApplyGrad { input, gate: Gate::Open, grad, by: &by, grad_input });
        }
    });
    of_parameters(&sums, channels, groups, saved)
}

/// How the gradient of an image follows from its sums.
fn input_grad(sums: &[f32], gamma: &[f32], means: &[f32], inv_stds: &[f32], pixels: usize) -> InputGrad {
    let channels = gamma.len();
    let (sums, products) = sums.split_at(channels);
    let width = channels / means.len();
    let mut by = InputGrad::default();
    for (group, (&mean, &inv_std)) in means.iter().zip(inv_stds).enumerate() {
        let here = group * width..(group + 1) * width;
        let weighted = |values: &[f32]| {
            let pairs = values[here.clone()].iter().zip(&gamma[here.clone()]);
            pairs.map(|(&x, &gamma)| f64::from(x) * f64::from(gamma)).sum::<f64>() / (pixels * width) as f64
        };
        let inv_std = f64::from(inv_std);
        let input_factor = -inv_std * inv_std * inv_std * weighted(products);
        let offset = -inv_std * weighted(sums) - input_factor * f64::from(mean);
        for channel in here.clone() {
            by.factor.push((inv_std * f64::from(gamma[channel])) as f32);
            by.input_factor.push(input_factor as f32);
            by.offset.push(offset as f32);
        }
    }
    by
}

/// The gradients of scale and shift, over all images.
fn of_parameters(sums: &[f32], channels: usize, groups: usize, saved: &GroupNormSaved) -> NormGrads {
    let (mut gamma, mut beta) = (vec![0.0f64; channels], vec![0.0f64; channels]);
    for (image, sums) in sums.chunks(2 * channels).enumerate() {
        for channel in 0..channels {
            let inv_std = saved.inv_std[image * groups + channel / (channels / groups)];
            beta[channel] += f64::from(sums[channel]);
            gamma[channel] += f64::from(sums[channels + channel]) * f64::from(inv_std);
        }
    }
    let narrow = |numbers: &[f64]| numbers.iter().map(|&x| x as f32).collect();
    NormGrads { gamma: narrow(&gamma), beta: narrow(&beta) }
}
