//! What an image network is made of. Images are `[n, h, w, c]`.

use std::sync::Arc;

use crate::kernels::conv::{self as conv_kernels, ConvShape, PackedConv};
use crate::kernels::norm::{self, BatchNormSaved, GroupNorm, GroupNormSaved, NormGrads};
use crate::kernels::pool::{self, PoolShape};
use crate::kernels::{Precision, copy, unfilled};
use crate::tensor::{Numbers, Tensor};

/// Stride and zero padding of a convolution, the same on all sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Step between neighbouring outputs.
    pub(crate) stride: usize,
    /// Zeros around the input.
    pub(crate) padding: usize,
}

/// A convolution with weights `[row, column, in, out]`.
pub(crate) fn conv(
    input: Tensor<4>,
    weights: Tensor<4>,
    Geometry { stride, padding }: Geometry,
    precision: Precision,
) -> Tensor<4> {
    let ([batch, height, width, in_channels], [kernel, _, _, out_channels]) = (input.dims(), weights.dims());
    let shape = ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding };
    let nodes = [input.node(), weights.node()];
    let [input, weights] = [input.numbers().clone(), weights.numbers().clone()];
    let mut output = unfilled(shape.output_len());
    let saved = conv_kernels::forward(&shape, precision, &input, &weights, &mut output);
    Tensor::from_operation(output, output_dims(&shape), nodes, move |gradient, wanted| {
        let mut grad_input = wanted[0].then(|| unfilled(shape.input_len()));
        let mut grad_weights = wanted[1].then(|| unfilled(shape.weights_len()));
        conv_kernels::backward(
            &shape,
            &input,
            &weights,
            &saved,
            &gradient,
            grad_input.as_deref_mut(),
            grad_weights.as_deref_mut(),
        );
        [grad_input, grad_weights].map(|gradient| gradient.map(Numbers::from))
    })
}

fn output_dims(shape: &ConvShape) -> [usize; 4] {
    [shape.batch, shape.out_height(), shape.out_width(), shape.out_channels]
}

/// What a normalisation keeps for its gradient.
struct NormState<S> {
    batch: usize,
    input: Numbers,
    scale: Numbers,
    saved: S,
    /// The output, if it went through ReLU.
    rectified: Option<Numbers>,
}

/// The statistics of a normalisation, and how its gradient comes from them.
trait Norm: Clone + Send + 'static {
    /// `gradient`, of the output, becomes that of the residual if there is one, and else that of the input.
    fn backward(state: &NormState<Self>, gradient: &mut [f32], grad_input: Option<&mut [f32]>) -> NormGrads;
}

impl Norm for BatchNormSaved {
    fn backward(state: &NormState<Self>, gradient: &mut [f32], grad_input: Option<&mut [f32]>) -> NormGrads {
        let NormState { input, scale, saved, rectified, .. } = state;
        norm::batch_norm_act_backward(input, scale, saved, rectified.as_deref(), gradient, grad_input)
    }
}

/// So many groups of channels.
impl Norm for (usize, GroupNormSaved) {
    fn backward(state: &NormState<Self>, gradient: &mut [f32], grad_input: Option<&mut [f32]>) -> NormGrads {
        let NormState { batch, input, scale, saved: (groups, saved), rectified } = state;
        let rectified = rectified.as_deref();
        norm::group_norm_act_backward(*batch, *groups, input, scale, saved, rectified, gradient, grad_input)
    }
}

/// Runs a normalisation: `run(input, [scale, shift], residual, output)`.
fn norm_act<S: Norm>(
    input: Tensor<4>,
    [scale, shift]: [Tensor<1>; 2],
    residual: Option<Tensor<4>>,
    relu: bool,
    run: impl Fn(&[f32], [&[f32]; 2], Option<&[f32]>, &mut [f32]) -> S,
) -> (Tensor<4>, S) {
    let mut output = unfilled(input.numbers().len());
    let residual_numbers = residual.as_ref().map(|residual| &residual.numbers()[..]);
    let saved = run(input.numbers(), [scale.numbers(), shift.numbers()], residual_numbers, &mut output);
    let (output, has_residual) = (Numbers::from(output), residual.is_some());
    let state = NormState {
        batch: input.dims()[0],
        input: input.numbers().clone(),
        scale: scale.numbers().clone(),
        saved: saved.clone(),
        rectified: relu.then(|| output.clone()),
    };
    let nodes = [input.node(), scale.node(), shift.node(), residual.and_then(|residual| residual.node())];
    let output = Tensor::from_operation(output, input.dims(), nodes, move |mut gradient, _| {
        let mut grad_input = has_residual.then(|| unfilled(state.input.len()));
        let NormGrads { gamma, beta } = S::backward(&state, gradient.make_mut(), grad_input.as_deref_mut());
        let [gamma, beta] = [gamma, beta].map(|numbers| Some(numbers.into()));
        match grad_input {
            Some(grad_input) => [Some(grad_input.into()), gamma, beta, Some(gradient)],
            None => [Some(gradient), gamma, beta, None],
        }
    });
    (output, saved)
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
    parameters: [Tensor<1>; 2],
    residual: Option<Tensor<4>>,
    relu: bool,
    epsilon: f64,
) -> BatchNormed {
    let run = |input: &[f32], [scale, shift]: [&[f32]; 2], residual: Option<&[f32]>, output: &mut [f32]| {
        norm::batch_norm_act_forward(input, scale, shift, residual, relu, epsilon as f32, output)
    };
    let (output, BatchNormSaved { mean, variance, .. }) = norm_act(input, parameters, residual, relu, run);
    BatchNormed { output, mean: mean.into(), variance: variance.into() }
}

/// Group normalisation, plus `residual`, then ReLU if asked for.
pub(crate) fn group_norm_act(
    input: Tensor<4>,
    groups: usize,
    parameters: [Tensor<1>; 2],
    residual: Option<Tensor<4>>,
    relu: bool,
    epsilon: f64,
) -> Tensor<4> {
    let (batch, epsilon) = (input.dims()[0], epsilon as f32);
    let run = |input: &[f32], [scale, shift]: [&[f32]; 2], residual: Option<&[f32]>, output: &mut [f32]| {
        let saved =
            norm::group_norm_act_forward(batch, groups, input, scale, shift, residual, relu, epsilon, output);
        (groups, saved)
    };
    norm_act(input, parameters, residual, relu, run).0
}

fn pool_shape(input: &Tensor<4>) -> PoolShape {
    let [batch, height, width, channels] = input.dims();
    PoolShape { batch, height, width, channels }
}

/// The largest of 3x3 pixels at every other pixel.
pub(crate) fn max_pool(input: Tensor<4>) -> Tensor<4> {
    let shape = pool_shape(&input);
    let mut output = unfilled(shape.output_len());
    let mut max_indices = input.is_tracked().then(|| vec![0; shape.output_len()]);
    pool::max_pool_3x3_s2_p1(&shape, input.numbers(), &mut output, max_indices.as_deref_mut());
    let max_indices = max_indices.unwrap_or_default();
    Tensor::from_operation(output, pooled_dims(&shape), [input.node()], move |gradient, _| {
        let mut of_input = unfilled(input_len(&shape));
        pool::max_pool_3x3_s2_p1_backward(&shape, &max_indices, &gradient, &mut of_input);
        [Some(of_input.into())]
    })
}

fn pooled_dims(shape: &PoolShape) -> [usize; 4] {
    [shape.batch, shape.out_height(), shape.out_width(), shape.channels]
}

fn input_len(shape: &PoolShape) -> usize {
    shape.batch * shape.height * shape.width * shape.channels
}

/// `[n, h, w, c]` to the mean of each channel, `[n, c]`.
pub(crate) fn global_avg_pool(input: Tensor<4>) -> Tensor<2> {
    let shape = pool_shape(&input);
    let mut output = unfilled(shape.batch * shape.channels);
    pool::global_average(&shape, input.numbers(), &mut output);
    Tensor::from_operation(output, [shape.batch, shape.channels], [input.node()], move |gradient, _| {
        let mut of_input = unfilled(input_len(&shape));
        pool::global_average_backward(&shape, &gradient, &mut of_input);
        [Some(of_input.into())]
    })
}

/// What `part(first, count)` makes of some images at a time, for all of them; without gradients.
pub(crate) fn in_chunks(
    count: usize,
    at_a_time: usize,
    mut part: impl FnMut(usize, usize) -> Tensor<4>,
) -> Tensor<4> {
    if count <= at_a_time {
        return part(0, count);
    }
    let (mut all, mut shape) = (Vec::new(), [count, 0, 0, 0]);
    for first in (0..count).step_by(at_a_time) {
        let images = part(first, at_a_time.min(count - first));
        let [_, height, width, channels] = images.dims();
        let len = height * width * channels;
        if all.is_empty() {
            (all, shape) = (unfilled(count * len), [count, height, width, channels]);
        }
        let from = images.numbers();
        copy(from, &mut all[first * len..][..from.len()]);
    }
    Tensor::new(all, shape)
}

/// A convolution whose weights stay as they are, with bias. No gradient goes back through it.
#[derive(Clone, Debug)]
pub(crate) struct FixedConv(Arc<PackedConv>);

impl FixedConv {
    /// From weights `[row, column, in, out]` of these sizes.
    pub(crate) fn new(
        weights: &[f32],
        dims: [usize; 4],
        bias: &[f32],
        Geometry { stride, padding }: Geometry,
        precision: Precision,
    ) -> Self {
        let [kernel, _, inputs, outputs] = dims;
        Self(Arc::new(PackedConv::new(kernel, stride, padding, inputs, outputs, weights, bias, precision)))
    }

    /// The convolution, plus bias and `residual`, then ReLU if asked for.
    pub(crate) fn forward(&self, input: Tensor<4>, residual: Option<Tensor<4>>, relu: bool) -> Tensor<4> {
        let [batch, height, width, _] = input.dims();
        let shape = self.0.shape(batch, height, width);
        let mut output = unfilled(shape.output_len());
        let residual = residual.as_ref().map(|residual| &residual.numbers()[..]);
        self.0.run(input.numbers(), batch, height, width, residual, relu, &mut output);
        Tensor::new(output, output_dims(&shape))
    }

    /// The convolution, plus bias, then ReLU and [`max_pool`].
    pub(crate) fn forward_pooled(&self, input: Tensor<4>) -> Tensor<4> {
        self.then_pooled(input, |input, [batch, height, width], output| {
            self.0.run_pooled(input, batch, height, width, output);
        })
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
        let (gamma, beta) = (scale.numbers(), shift.numbers());
        let norm = GroupNorm { groups, gamma, beta, eps: epsilon as f32 };
        self.then_pooled(input, |input, [batch, height, width], output| {
            self.0.run_normed_pooled(input, batch, height, width, &norm, output);
        })
    }

    fn then_pooled(&self, input: Tensor<4>, run: impl FnOnce(&[f32], [usize; 3], &mut [f32])) -> Tensor<4> {
        let [batch, height, width, _] = input.dims();
        let [batch, out_height, out_width, channels] = output_dims(&self.0.shape(batch, height, width));
        let shape = PoolShape { batch, height: out_height, width: out_width, channels };
        let mut output = unfilled(shape.output_len());
        run(input.numbers(), [batch, height, width], &mut output);
        Tensor::new(output, pooled_dims(&shape))
    }
}
