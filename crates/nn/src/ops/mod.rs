//! The operations that decide how fast an image network is, on images `[n, h, w, c]`.
//!
//! Burn composes batch normalisation, a shortcut and ReLU from a dozen passes over memory, and its convolution knows
//! no prepared weights; on the CPU that takes four times as long as it could. So these few operations extend
//! Burn's backends (`extension.rs`): the CPU has our kernels for them, with gradients written by hand
//! (`flex.rs`, `autodiff.rs`), every other device Burn's own operations. A network calls them like any other operation.

mod autodiff;
mod extension;
mod flex;
pub(crate) mod tokens;

use std::sync::Arc;

use burn::backend::Dispatch;
use burn::tensor::{Device, FloatDType, Tensor};

pub(crate) use self::extension::Geometry;
use self::extension::{ImageOps, Residual, Weights};
use crate::kernels::Precision;
pub(crate) use crate::kernels::adam::AdamStep;
use crate::kernels::conv::PackedConv;

fn residual_of(residual: Option<Tensor<4>>) -> Residual<Dispatch> {
    residual.map_or(Residual::Nothing, |residual| Residual::Add(residual.into_dispatch()))
}

/// A convolution with weights `[row, column, in, out]`.
pub(crate) fn conv(
    input: Tensor<4>,
    weights: Tensor<4>,
    geometry: Geometry,
    precision: Precision,
) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::conv(input.into_dispatch(), weights.into_dispatch(), geometry, precision))
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
    let (input, scale, shift) = (input.into_dispatch(), scale.into_dispatch(), shift.into_dispatch());
    let (output, mean, variance) =
        Dispatch::batch_norm_act(input, scale, shift, residual_of(residual), relu, epsilon);
    BatchNormed {
        output: Tensor::from_dispatch(output),
        mean: Tensor::from_dispatch(mean),
        variance: Tensor::from_dispatch(variance),
    }
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
    let (input, scale, shift) = (input.into_dispatch(), scale.into_dispatch(), shift.into_dispatch());
    let residual = residual_of(residual);
    Tensor::from_dispatch(Dispatch::group_norm_act(input, scale, shift, residual, groups, relu, epsilon))
}

/// The largest of 3x3 pixels at every other pixel.
pub(crate) fn max_pool(input: Tensor<4>) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::max_pool(input.into_dispatch()))
}

/// What `part(first, count)` makes of some images at a time, for all of them.
pub(crate) fn in_chunks(
    count: usize,
    at_a_time: usize,
    mut part: impl FnMut(usize, usize) -> Tensor<4>,
) -> Tensor<4> {
    let mut all = None;
    for first in (0..count).step_by(at_a_time) {
        let images = part(first, at_a_time.min(count - first)).into_dispatch();
        let others = all.map_or(Residual::Nothing, Residual::Add);
        all = Some(Dispatch::append_images(images, others, first, count));
    }
    Tensor::from_dispatch(all.unwrap_or_else(|| part(0, 0).into_dispatch()))
}

/// `[n, h, w, c]` to the mean of each channel, `[n, c]`.
pub(crate) fn global_avg_pool(input: Tensor<4>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::global_avg_pool(input.into_dispatch()))
}

/// A convolution whose weights stay as they are, with bias.
#[derive(Clone, Debug)]
pub(crate) struct FixedConv {
    weights: FixedWeights,
    geometry: Geometry,
}

#[derive(Clone, Debug)]
enum FixedWeights {
    /// For the CPU.
    Packed(Arc<PackedConv>),
    /// For other devices.
    Plain(Box<(Tensor<4>, Tensor<1>)>),
}

impl FixedConv {
    /// From weights `[row, column, in, out]` of these sizes: for the CPU, in numbers that its kernels choose by
    /// `precision`; for others, in numbers of type `dtype`.
    pub(crate) fn new(
        weights: &[f32],
        dims: [usize; 4],
        bias: &[f32],
        geometry: Geometry,
        precision: Precision,
        dtype: FloatDType,
        device: &Device,
    ) -> Self {
        let [kernel, _, inputs, outputs] = dims;
        let Geometry { stride, padding } = geometry;
        let weights = if *device == Device::flex() {
            FixedWeights::Packed(Arc::new(PackedConv::new(
                kernel, stride, padding, inputs, outputs, weights, bias, precision,
            )))
        } else {
            let weights = Tensor::<1>::from_data(weights, device).reshape(dims).cast(dtype);
            FixedWeights::Plain(Box::new((weights, Tensor::<1>::from_data(bias, device).cast(dtype))))
        };
        Self { weights, geometry }
    }

    /// The convolution, plus bias and `residual`, then ReLU if asked for.
    pub(crate) fn forward(&self, input: Tensor<4>, residual: Option<Tensor<4>>, relu: bool) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::fixed_conv(
            input.into_dispatch(),
            self.weights(),
            residual_of(residual),
            self.geometry,
            relu,
        ))
    }

    /// The convolution, plus bias, then ReLU and [`max_pool`].
    pub(crate) fn forward_pooled(&self, input: Tensor<4>) -> Tensor<4> {
        let input = input.into_dispatch();
        Tensor::from_dispatch(Dispatch::fixed_conv_pooled(input, self.weights(), self.geometry))
    }

    /// The convolution, then group normalisation with ReLU and [`max_pool`].
    pub(crate) fn forward_group_norm_pooled(
        &self,
        input: Tensor<4>,
        groups: usize,
        scale: Tensor<1>,
        shift: Tensor<1>,
        epsilon: f64,
    ) -> Tensor<4> {
        Tensor::from_dispatch(Dispatch::fixed_conv_group_norm_pooled(
            input.into_dispatch(),
            self.weights(),
            scale.into_dispatch(),
            shift.into_dispatch(),
            self.geometry,
            groups,
            epsilon,
        ))
    }

    fn weights(&self) -> Weights<Dispatch> {
        match &self.weights {
            FixedWeights::Packed(packed) => Weights::Packed(packed.clone()),
            FixedWeights::Plain(plain) => {
                Weights::Plain(plain.0.clone().into_dispatch(), plain.1.clone().into_dispatch())
            }
        }
    }
}

/// Parameters and the two moments of their gradients, moved by one step of AdamW.
pub(crate) fn adamw(
    step: AdamStep,
    [parameters, first, second]: [Tensor<1>; 3],
    gradients: Tensor<1>,
) -> [Tensor<1>; 3] {
    let (parameters, gradients) = (parameters.into_dispatch(), gradients.into_dispatch());
    let (parameters, first, second) =
        Dispatch::adamw(parameters, gradients, first.into_dispatch(), second.into_dispatch(), step);
    [parameters, first, second].map(Tensor::from_dispatch)
}

/// The sum of squares.
pub(crate) fn sum_of_squares(numbers: Tensor<1>) -> f64 {
    let sum: Tensor<1> = Tensor::from_dispatch(Dispatch::sum_of_squares(numbers.into_dispatch()));
    f64::from(sum.into_scalar::<f32>())
}
