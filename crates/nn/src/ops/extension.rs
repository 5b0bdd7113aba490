//! The operations as an extension of Burn's backends, with bodies of Burn's own operations for every device that has
//! nothing better.

#![expect(unreachable_pub, reason = "the extension macro makes its own items as visible as these")]

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
#[cfg(feature = "cuda")]
use burn::backend::{Autodiff, Cube};
use burn::backend::{Backend, ExtensionType, Scalar, TensorMetadata, backend_extension};
use burn::tensor::Shape;
use burn::tensor::ops::ConvOptions;

use super::AdamStep;
use crate::kernels::Precision;
use crate::kernels::conv::PackedConv;

/// What a layer adds to its output.
#[derive(ExtensionType)]
pub enum Residual<B: Backend> {
    /// This.
    Add(FloatTensor<B>),
    /// Nothing.
    Nothing,
}

impl<B: Backend> Residual<B> {
    pub(super) fn into_option(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Add(tensor) => Some(tensor),
            Self::Nothing => None,
        }
    }
}

/// The weights of a convolution that stay as they are.
#[derive(ExtensionType)]
pub enum Weights<B: Backend> {
    /// Arranged for the kernels of the CPU, bias included.
    Packed(Arc<PackedConv>),
    /// `[row, column, in, out]`, and a bias.
    Plain(FloatTensor<B>, FloatTensor<B>),
}

/// Stride and zero padding of a convolution, the same on all sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Step between neighbouring outputs.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: usize,
}

/// What an image network is made of. Images are `[n, h, w, c]`.
#[backend_extension(Flex, Cube: cfg(feature = "cuda"), Autodiff)]
pub trait ImageOps: Backend {
    /// A convolution with weights `[row, column, in, out]`.
    fn conv(
        input: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        geometry: Geometry,
        _precision: Precision,
    ) -> FloatTensor<Self> {
        plain_conv::<Self>(input, weights, None, geometry)
    }

    /// Batch normalisation as it trains, then the residual and ReLU: output, mean, and variance divided by the number
    /// of pixels.
    fn batch_norm_act(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        #[extension_type] residual: Residual<Self>,
        relu: bool,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let normed = Self::batch_norm_train(channels_first::<Self>(input), scale, shift, epsilon);
        let output = add_and_rectify::<Self>(channels_last::<Self>(normed.output), residual, relu);
        (output, normed.mean, normed.variance)
    }

    /// Normalisation over groups of channels of each image, then the residual and ReLU.
    fn group_norm_act(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        #[extension_type] residual: Residual<Self>,
        groups: usize,
        relu: bool,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let normed = plain_group_norm::<Self>(input, scale, shift, groups, epsilon);
        add_and_rectify::<Self>(normed, residual, relu)
    }

    /// The largest of 3x3 pixels at every other pixel.
    fn max_pool(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let input = channels_first::<Self>(input);
        channels_last::<Self>(Self::max_pool2d(input, [3, 3], [2, 2], [1, 1], [1, 1], false))
    }

    /// The mean of each channel: `[n, c]`.
    fn global_avg_pool(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let [n, h, w, c] = input.shape().dims();
        let rows = Self::float_reshape(input, Shape::new([n, h * w, c]));
        Self::float_reshape(Self::float_mean_dim(rows, 1), Shape::new([n, c]))
    }

    /// A convolution with weights that stay as they are, then the residual and ReLU.
    fn fixed_conv(
        input: FloatTensor<Self>,
        #[extension_type] weights: Weights<Self>,
        #[extension_type] residual: Residual<Self>,
        geometry: Geometry,
        relu: bool,
    ) -> FloatTensor<Self> {
        let Weights::Plain(weights, bias) = weights else {
            unreachable!("weights are arranged for the CPU only where its kernels run")
        };
        let output = plain_conv::<Self>(input, weights, Some(bias), geometry);
        add_and_rectify::<Self>(output, residual, relu)
    }

    /// A convolution with weights that stay as they are, then ReLU and [`ImageOps::max_pool`].
    fn fixed_conv_pooled(
        input: FloatTensor<Self>,
        #[extension_type] weights: Weights<Self>,
        geometry: Geometry,
    ) -> FloatTensor<Self> {
        Self::max_pool(Self::fixed_conv(input, weights, Residual::Nothing, geometry, true))
    }

    /// A convolution with weights that stay as they are, then [`ImageOps::group_norm_act`] with ReLU and
    /// [`ImageOps::max_pool`].
    fn fixed_conv_group_norm_pooled(
        input: FloatTensor<Self>,
        #[extension_type] weights: Weights<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        geometry: Geometry,
        groups: usize,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let output = Self::fixed_conv(input, weights, Residual::Nothing, geometry, false);
        let normed = Self::group_norm_act(output, scale, shift, Residual::Nothing, groups, true, epsilon);
        Self::max_pool(normed)
    }

    /// Appends images to the first `first` of `others`, or writes them to new memory for `count`. Call it in
    /// order, until all are there.
    fn append_images(
        images: FloatTensor<Self>,
        #[extension_type] others: Residual<Self>,
        _first: usize,
        _count: usize,
    ) -> FloatTensor<Self> {
        match others.into_option() {
            Some(others) => Self::float_cat(vec![others, images], 0),
            None => images,
        }
    }

    /// The sum of squares of all numbers: `[1]`.
    fn sum_of_squares(numbers: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_sum(Self::float_mul(numbers.clone(), numbers))
    }

    /// One step of AdamW on parameters, with the means of gradients and of their squares: all three, moved.
    fn adamw(
        parameters: FloatTensor<Self>,
        gradients: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        plain_adamw::<Self>(parameters, gradients, first, second, step)
    }
}

#[cfg(feature = "cuda")]
impl ImageOps for Cube {}
#[cfg(feature = "cuda")]
impl<C: burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy> ImageOps for Autodiff<Cube, C> {}

/// `[n, h, w, c]` to PyTorch's `[n, c, h, w]`.
fn channels_first<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_permute(x, &[0, 3, 1, 2])
}

/// `[n, c, h, w]` to `[n, h, w, c]`.
fn channels_last<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    B::float_permute(x, &[0, 2, 3, 1])
}

fn add_and_rectify<B: Backend>(x: FloatTensor<B>, residual: Residual<B>, relu: bool) -> FloatTensor<B> {
    let sum = match residual {
        Residual::Add(residual) => B::float_add(x, residual),
        Residual::Nothing => x,
    };
    if relu { B::relu(sum) } else { sum }
}

fn plain_conv<B: Backend>(
    input: FloatTensor<B>,
    weights: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    Geometry { stride, padding }: Geometry,
) -> FloatTensor<B> {
    let options = ConvOptions::new([stride, stride], [padding, padding], [1, 1], 1);
    let weights = B::float_permute(weights, &[3, 2, 0, 1]);
    channels_last::<B>(B::conv2d(channels_first::<B>(input), weights, bias, options))
}

fn plain_group_norm<B: Backend>(
    input: FloatTensor<B>,
    scale: FloatTensor<B>,
    shift: FloatTensor<B>,
    groups: usize,
    epsilon: f64,
) -> FloatTensor<B> {
    let [n, h, w, c] = input.shape().dims();
    let grouped = B::float_reshape(input, Shape::new([n, h * w, groups, c / groups]));
    let grouped = B::float_permute(grouped, &[0, 2, 1, 3]);
    let grouped = B::float_reshape(grouped, Shape::new([n, groups, h * w * c / groups]));
    let centred = B::float_sub(grouped.clone(), B::float_mean_dim(grouped, 2));
    let variance = B::float_mean_dim(B::float_mul(centred.clone(), centred.clone()), 2);
    let spread = B::float_sqrt(B::float_add_scalar(variance, Scalar::from(epsilon)));
    let normal = B::float_div(centred, spread);
    let normal = B::float_reshape(normal, Shape::new([n, groups, h * w, c / groups]));
    let normal = B::float_permute(normal, &[0, 2, 1, 3]);
    let normal = B::float_reshape(normal, Shape::new([n, h, w, c]));
    let per_channel = Shape::new([1, 1, 1, c]);
    let scaled = B::float_mul(normal, B::float_reshape(scale, per_channel.clone()));
    B::float_add(scaled, B::float_reshape(shift, per_channel))
}

fn plain_adamw<B: Backend>(
    parameters: FloatTensor<B>,
    gradients: FloatTensor<B>,
    first: FloatTensor<B>,
    second: FloatTensor<B>,
    step: AdamStep,
) -> (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>) {
    let times = |tensor: FloatTensor<B>, factor: f64| B::float_mul_scalar(tensor, Scalar::from(factor));
    let AdamStep { learning_rate, beta1, beta2, eps, weight_decay, step, grad_scale } = step;
    let correction = |beta: f64| 1.0 - beta.powf(f64::from(step));
    let gradients = times(gradients, grad_scale);
    let first = B::float_add(times(first, beta1), times(gradients.clone(), 1.0 - beta1));
    let squares = B::float_mul(gradients.clone(), gradients);
    let second = B::float_add(times(second, beta2), times(squares, 1.0 - beta2));
    let spread = times(B::float_sqrt(second.clone()), 1.0 / correction(beta2).sqrt());
    let spread = B::float_add_scalar(spread, Scalar::from(eps));
    let change = times(B::float_div(first.clone(), spread), learning_rate / correction(beta1));
    let parameters = B::float_sub(times(parameters, 1.0 - learning_rate * weight_decay), change);
    (parameters, first, second)
}
