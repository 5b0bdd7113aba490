//! What an image network is made of. Images are `[n, h, w, c]`.

use std::sync::Arc;

use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops};
use burn_flex::{Flex, FlexTensor};
use burn_tensor::Tensor;

use super::graph::{
    Operand, differentiable, dims, like, numbers, numbers_mut, output_gradient, plain, record, register,
    tensor, wrap,
};
use crate::kernels::conv::{self as conv_kernels, ConvSaved, ConvShape, PackedConv};
use crate::kernels::norm::{self, BatchNormSaved, GroupNorm, GroupNormSaved, NormGrads};
use crate::kernels::pool::{self, PoolShape};
use crate::kernels::{Precision, copy, unfilled};

/// Stride and zero padding of a convolution, the same on all sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Step between neighbouring outputs.
    pub(crate) stride: usize,
    /// Zeros around the input.
    pub(crate) padding: usize,
}

#[derive(Debug)]
struct Conv;

#[derive(Clone, Debug)]
struct ConvState {
    shape: ConvShape,
    input: FlexTensor,
    weights: FlexTensor,
    saved: ConvSaved,
}

impl Backward<Flex, 2> for Conv {
    type State = ConvState;

    fn backward(self, ops: Ops<ConvState, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = output_gradient(&ops, grads);
        let ConvState { shape, input, weights, saved } = ops.state;
        let [of_input, of_weights] = ops.parents;
        let mut grad_input = of_input.is_some().then(|| unfilled(shape.input_len()));
        let mut grad_weights = of_weights.is_some().then(|| unfilled(shape.weights_len()));
        conv_kernels::backward(
            &shape,
            numbers(&input),
            numbers(&weights),
            &saved,
            numbers(&gradient),
            grad_input.as_deref_mut(),
            grad_weights.as_deref_mut(),
        );
        if let (Some(parent), Some(gradient)) = (of_input, grad_input) {
            grads.register::<Flex>(parent.id, like(&input, gradient));
        }
        if let (Some(parent), Some(gradient)) = (of_weights, grad_weights) {
            grads.register::<Flex>(parent.id, like(&weights, gradient));
        }
    }
}

/// A convolution with weights `[row, column, in, out]`.
pub(crate) fn conv(
    input: Tensor<4>,
    weights: Tensor<4>,
    Geometry { stride, padding }: Geometry,
    precision: Precision,
) -> Tensor<4> {
    let (input, weights) = (Operand::of(input), Operand::of(weights));
    let ([batch, height, width, in_channels], [kernel, _, _, out_channels]) =
        (dims(&input.values), dims(&weights.values));
    let shape = ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding };
    let mut output = unfilled(shape.output_len());
    let saved = conv_kernels::forward(&shape, precision, input.numbers(), weights.numbers(), &mut output);
    record(Conv, [&input, &weights], tensor(output, output_dims(&shape)), || ConvState {
        shape,
        input: input.values.clone(),
        weights: weights.values.clone(),
        saved,
    })
}

fn output_dims(shape: &ConvShape) -> [usize; 4] {
    [shape.batch, shape.out_height(), shape.out_width(), shape.out_channels]
}

/// What both normalisations keep.
#[derive(Clone, Debug)]
struct NormState<S> {
    input: FlexTensor,
    scale: FlexTensor,
    saved: S,
    /// The output, if it went through ReLU.
    rectified: Option<FlexTensor>,
    groups: usize,
}

/// The statistics of a normalisation, and how its gradient comes from them.
trait Norm: Clone + std::fmt::Debug + Send + 'static {
    fn backward(state: &NormState<Self>, gradient: &mut [f32], grad_input: Option<&mut [f32]>) -> NormGrads;
}

impl Norm for BatchNormSaved {
    fn backward(state: &NormState<Self>, gradient: &mut [f32], grad_input: Option<&mut [f32]>) -> NormGrads {
        let NormState { input, scale, saved, rectified, .. } = state;
        let rectified = rectified.as_ref().map(numbers);
        norm::batch_norm_act_backward(numbers(input), numbers(scale), saved, rectified, gradient, grad_input)
    }
}

impl Norm for GroupNormSaved {
    fn backward(state: &NormState<Self>, gradient: &mut [f32], grad_input: Option<&mut [f32]>) -> NormGrads {
        let NormState { input, scale, saved, rectified, groups } = state;
        let [batch, ..]: [usize; 4] = dims(input);
        norm::group_norm_act_backward(
            batch,
            *groups,
            numbers(input),
            numbers(scale),
            saved,
            rectified.as_ref().map(numbers),
            gradient,
            grad_input,
        )
    }
}

#[derive(Debug)]
struct NormAct<S>(std::marker::PhantomData<S>);

/// Without a residual: of input, scale and shift.
impl<S: Norm> Backward<Flex, 3> for NormAct<S> {
    type State = NormState<S>;

    fn backward(self, ops: Ops<NormState<S>, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mut gradient = output_gradient(&ops, grads);
        let NormGrads { gamma, beta } = S::backward(&ops.state, numbers_mut(&mut gradient), None);
        let [gamma, beta] = [gamma, beta].map(|numbers| like(&ops.state.scale, numbers));
        register(ops, [gradient, gamma, beta], grads);
    }
}

/// With a residual: of input, scale, shift and residual.
impl<S: Norm> Backward<Flex, 4> for NormAct<S> {
    type State = NormState<S>;

    fn backward(self, ops: Ops<NormState<S>, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mut gradient = output_gradient(&ops, grads);
        let mut grad_input = unfilled(numbers(&ops.state.input).len());
        let NormGrads { gamma, beta } =
            S::backward(&ops.state, numbers_mut(&mut gradient), Some(&mut grad_input));
        let [gamma, beta] = [gamma, beta].map(|numbers| like(&ops.state.scale, numbers));
        let grad_input = like(&ops.state.input, grad_input);
        register(ops, [grad_input, gamma, beta, gradient], grads);
    }
}

/// Runs a normalisation: `run(input, scale, shift, residual, output)`. Which of the two `Backward`s applies depends on
/// the residual.
fn norm_act<S: Norm>(
    input: Tensor<4>,
    [scale, shift]: [Tensor<1>; 2],
    residual: Option<Tensor<4>>,
    groups: usize,
    relu: bool,
    run: impl Fn(&[f32], [&[f32]; 2], Option<&[f32]>, &mut [f32]) -> S,
) -> (Tensor<4>, S) {
    let (input, scale, shift) = (Operand::of(input), Operand::of(scale), Operand::of(shift));
    let residual = residual.map(Operand::of);
    let mut output = unfilled(input.numbers().len());
    let parameters = [scale.numbers(), shift.numbers()];
    let saved = run(input.numbers(), parameters, residual.as_ref().map(Operand::numbers), &mut output);
    let output = like(&input.values, output);
    let state = || NormState {
        input: input.values.clone(),
        scale: scale.values.clone(),
        saved: saved.clone(),
        rectified: relu.then(|| output.clone()),
        groups,
    };
    let act = NormAct::<S>(std::marker::PhantomData);
    let output = match &residual {
        Some(residual) => record(act, [&input, &scale, &shift, residual], output.clone(), state),
        None => record(act, [&input, &scale, &shift], output.clone(), state),
    };
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
    let (output, BatchNormSaved { mean, variance, .. }) = norm_act(input, parameters, residual, 1, relu, run);
    let [mean, variance] = [mean, variance].map(|numbers| {
        let channels = numbers.len();
        wrap(tensor(numbers, [channels]))
    });
    BatchNormed { output, mean, variance }
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
        norm::group_norm_act_forward(batch, groups, input, scale, shift, residual, relu, epsilon, output)
    };
    norm_act(input, parameters, residual, groups, relu, run).0
}

fn pool_shape(input: &FlexTensor) -> PoolShape {
    let [batch, height, width, channels] = dims(input);
    PoolShape { batch, height, width, channels }
}

fn input_gradient(shape: &PoolShape, run: impl FnOnce(&mut [f32])) -> FlexTensor {
    let PoolShape { batch, height, width, channels } = *shape;
    let mut gradient = unfilled(batch * height * width * channels);
    run(&mut gradient);
    tensor(gradient, [batch, height, width, channels])
}

differentiable!(MaxPool, 1, (PoolShape, Arc<[u8]>), |saved, gradient| {
    let (shape, max_indices) = saved;
    [input_gradient(shape, |to| {
        pool::max_pool_3x3_s2_p1_backward(shape, max_indices, numbers(&gradient), to);
    })]
});

/// The largest of 3x3 pixels at every other pixel.
pub(crate) fn max_pool(input: Tensor<4>) -> Tensor<4> {
    let input = Operand::of(input);
    let shape = pool_shape(&input.values);
    let mut output = unfilled(shape.output_len());
    let mut max_indices = input.is_tracked().then(|| vec![0; shape.output_len()]);
    pool::max_pool_3x3_s2_p1(&shape, input.numbers(), &mut output, max_indices.as_deref_mut());
    let output = pooled(output, &shape);
    record(MaxPool, [&input], output, || (shape, max_indices.unwrap_or_default().into()))
}

fn pooled(output: Vec<f32>, shape: &PoolShape) -> FlexTensor {
    tensor(output, [shape.batch, shape.out_height(), shape.out_width(), shape.channels])
}

differentiable!(GlobalAvgPool, 1, PoolShape, |shape, gradient| {
    [input_gradient(shape, |to| pool::global_average_backward(shape, numbers(&gradient), to))]
});

/// `[n, h, w, c]` to the mean of each channel, `[n, c]`.
pub(crate) fn global_avg_pool(input: Tensor<4>) -> Tensor<2> {
    let input = Operand::of(input);
    let shape = pool_shape(&input.values);
    let mut output = unfilled(shape.batch * shape.channels);
    pool::global_average(&shape, input.numbers(), &mut output);
    record(GlobalAvgPool, [&input], tensor(output, [shape.batch, shape.channels]), || shape)
}

/// What `part(first, count)` makes of some images at a time, for all of them.
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
        let images = plain(part(first, at_a_time.min(count - first)));
        let [_, height, width, channels] = dims(&images);
        let len = height * width * channels;
        if all.is_empty() {
            (all, shape) = (unfilled(count * len), [count, height, width, channels]);
        }
        let from = numbers(&images);
        copy(from, &mut all[first * len..][..from.len()]);
    }
    wrap(tensor(all, shape))
}

/// A convolution whose weights stay as they are, with bias.
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
        let (input, residual) = (plain(input), residual.map(plain));
        let [batch, height, width, _] = dims(&input);
        let shape = self.0.shape(batch, height, width);
        let mut output = unfilled(shape.output_len());
        let residual = residual.as_ref().map(numbers);
        self.0.run(numbers(&input), batch, height, width, residual, relu, &mut output);
        wrap(tensor(output, output_dims(&shape)))
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
        let (scale, shift) = (plain(scale), plain(shift));
        let norm = GroupNorm { groups, gamma: numbers(&scale), beta: numbers(&shift), eps: epsilon as f32 };
        self.then_pooled(input, |input, [batch, height, width], output| {
            self.0.run_normed_pooled(input, batch, height, width, &norm, output);
        })
    }

    fn then_pooled(&self, input: Tensor<4>, run: impl FnOnce(&[f32], [usize; 3], &mut [f32])) -> Tensor<4> {
        let input = plain(input);
        let [batch, height, width, _] = dims(&input);
        let [batch, out_height, out_width, channels] = output_dims(&self.0.shape(batch, height, width));
        let shape = PoolShape { batch, height: out_height, width: out_width, channels };
        let mut output = unfilled(shape.output_len());
        run(numbers(&input), [batch, height, width], &mut output);
        wrap(pooled(output, &shape))
    }
}
