//! The operations that decide how fast an image network is, on pictures `[n, h, w, c]`.

use burn::tensor::activation::relu as rectify;
use burn::tensor::ops::{ConvOptions, MaxPoolOptions};
use burn::tensor::{Tensor, module};

/// `[n, h, w, c]` to PyTorch's `[n, c, h, w]`.
fn channels_first(x: Tensor<4>) -> Tensor<4> {
    x.permute([0, 3, 1, 2])
}

/// `[n, c, h, w]` to `[n, h, w, c]`.
fn channels_last(x: Tensor<4>) -> Tensor<4> {
    x.permute([0, 2, 3, 1])
}

/// A convolution with weights `[row, column, in, out]`.
pub(crate) fn conv(input: Tensor<4>, weights: Tensor<4>, stride: usize, padding: usize) -> Tensor<4> {
    let options = ConvOptions::new([stride, stride], [padding, padding], [1, 1], 1);
    channels_last(module::conv2d(channels_first(input), weights.permute([3, 2, 0, 1]), None, options))
}

/// What follows a normalisation: the sum with a shortcut, and ReLU.
fn add_and_rectify(x: Tensor<4>, residual: Option<Tensor<4>>, relu: bool) -> Tensor<4> {
    let sum = match residual {
        Some(residual) => x + residual,
        None => x,
    };
    if relu { rectify(sum) } else { sum }
}

/// A batch, normalised.
pub(crate) struct BatchNormed {
    pub(crate) output: Tensor<4>,
    /// Mean of each channel over the batch.
    pub(crate) mean: Tensor<1>,
    /// Variance of each channel over the batch, divided by the number of pixels.
    pub(crate) variance: Tensor<1>,
}

/// Batch normalisation as it trains, plus `residual`, then ReLU if asked for.
pub(crate) fn batch_norm_act(
    input: Tensor<4>,
    scale: Tensor<1>,
    shift: Tensor<1>,
    residual: Option<Tensor<4>>,
    relu: bool,
    epsilon: f64,
) -> BatchNormed {
    let normed = module::batch_norm_train(channels_first(input), scale, shift, epsilon);
    let output = add_and_rectify(channels_last(normed.output), residual, relu);
    BatchNormed { output, mean: normed.mean, variance: normed.variance }
}

/// Group normalisation, plus `residual`, then ReLU if asked for.
pub(crate) fn group_norm_act(
    input: Tensor<4>,
    groups: usize,
    scale: Tensor<1>,
    shift: Tensor<1>,
    residual: Option<Tensor<4>>,
    relu: bool,
    epsilon: f64,
) -> Tensor<4> {
    let [n, h, w, c] = input.dims();
    let grouped = input.reshape([n, h * w, groups, c / groups]).permute([0, 2, 1, 3]);
    let grouped = grouped.reshape([n, groups, h * w * c / groups]);
    let (variance, mean) = grouped.clone().var_mean_bias(2);
    let normal = (grouped - mean) / (variance + epsilon).sqrt();
    let normal = normal.reshape([n, groups, h * w, c / groups]).permute([0, 2, 1, 3]).reshape([n, h, w, c]);
    let output = normal * scale.reshape([1, 1, 1, c]) + shift.reshape([1, 1, 1, c]);
    add_and_rectify(output, residual, relu)
}

/// The largest of 3x3 pixels at every other pixel.
pub(crate) fn max_pool(input: Tensor<4>) -> Tensor<4> {
    let options = MaxPoolOptions::new([3, 3]).with_stride([2, 2]).with_padding([1, 1]);
    channels_last(module::max_pool2d(channels_first(input), options))
}

/// `[n, h, w, c]` to the mean of each channel, `[n, c]`.
pub(crate) fn mean_of_places(input: Tensor<4>) -> Tensor<2> {
    let [n, h, w, c] = input.dims();
    input.reshape([n, h * w, c]).mean_dim(1).reshape([n, c])
}

/// A convolution whose weights stay as they are, with bias.
#[derive(Clone, Debug)]
pub(crate) struct FixedConv {
    weights: Tensor<4>,
    bias: Tensor<1>,
    stride: usize,
    padding: usize,
}

impl FixedConv {
    /// From weights `[row, column, in, out]`.
    pub(crate) fn new(weights: Tensor<4>, bias: Tensor<1>, stride: usize, padding: usize) -> Self {
        Self { weights, bias, stride, padding }
    }

    /// The convolution, plus bias and `residual`, then ReLU if asked for.
    pub(crate) fn forward(&self, input: Tensor<4>, residual: Option<Tensor<4>>, relu: bool) -> Tensor<4> {
        let channels = self.bias.dims()[0];
        let output = conv(input, self.weights.clone(), self.stride, self.padding);
        add_and_rectify(output + self.bias.clone().reshape([1, 1, 1, channels]), residual, relu)
    }
}

/// One step of AdamW.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamStep {
    pub(crate) learning_rate: f64,
    pub(crate) betas: (f64, f64),
    pub(crate) epsilon: f64,
    pub(crate) weight_decay: f64,
    /// Counted from 1.
    pub(crate) step: u32,
    /// Gradients are multiplied by it first.
    pub(crate) gradient_scale: f64,
}

/// Parameters and the two moments of their gradients, moved by one step.
pub(crate) fn adamw(
    step: AdamStep,
    [parameters, first, second]: [Tensor<1>; 3],
    gradients: Tensor<1>,
) -> [Tensor<1>; 3] {
    let (beta1, beta2) = step.betas;
    let gradients = gradients * step.gradient_scale;
    let correction = |beta: f64| 1.0 - beta.powi(i32::try_from(step.step).unwrap_or(i32::MAX));
    let first = first * beta1 + gradients.clone() * (1.0 - beta1);
    let second = second * beta2 + gradients.square() * (1.0 - beta2);
    let spread = second.clone().sqrt() / correction(beta2).sqrt() + step.epsilon;
    let kept = parameters * (1.0 - step.learning_rate * step.weight_decay);
    let parameters = kept - first.clone() / spread * (step.learning_rate / correction(beta1));
    [parameters, first, second]
}

/// The sum of squares.
pub(crate) fn sum_of_squares(numbers: Tensor<1>) -> f64 {
    f64::from(numbers.square().sum().into_scalar::<f32>())
}
