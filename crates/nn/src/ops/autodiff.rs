//! The gradients of the operations on the CPU.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Flex};

use super::extension::{Geometry, ImageOps, Residual};
use super::flex::{self, dims, numbers, numbers_mut, packed, tensor};
use crate::kernels::conv::{self as conv_kernels, ConvSaved, ConvShape};
use crate::kernels::norm::{self, BatchNormSaved, GroupNormSaved, NormGrads};
use crate::kernels::pool::{self, PoolShape};
use crate::kernels::{Precision, unfilled};

/// Hands gradients to those of the parents that want them.
fn register<S, const N: usize>(ops: Ops<S, N>, gradients: [FlexTensor; N], grads: &mut Gradients) {
    for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
        if let Some(parent) = parent {
            grads.register::<Flex>(parent.id, gradient);
        }
    }
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
        let gradient = packed(grads.consume::<Flex>(&ops.node));
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
            grads.register::<Flex>(parent.id, tensor(gradient, dims(&input)));
        }
        if let (Some(parent), Some(gradient)) = (of_weights, grad_weights) {
            grads.register::<Flex>(parent.id, tensor(gradient, dims(&weights)));
        }
    }
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
        norm::group_norm_act_backward(
            dims(input)[0],
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

impl<S> NormAct<S> {
    fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

/// Without a residual: of input, scale and shift.
impl<S: Norm> Backward<Flex, 3> for NormAct<S> {
    type State = NormState<S>;

    fn backward(self, ops: Ops<NormState<S>, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mut gradient = packed(grads.consume::<Flex>(&ops.node));
        let NormGrads { gamma, beta } = S::backward(&ops.state, numbers_mut(&mut gradient), None);
        let channels = gamma.len();
        register(ops, [gradient, tensor(gamma, [channels]), tensor(beta, [channels])], grads);
    }
}

/// With a residual: of input, scale, shift and residual.
impl<S: Norm> Backward<Flex, 4> for NormAct<S> {
    type State = NormState<S>;

    fn backward(self, ops: Ops<NormState<S>, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let mut gradient = packed(grads.consume::<Flex>(&ops.node));
        let shape = dims(&ops.state.input);
        let mut grad_input = unfilled(shape.iter().product());
        let NormGrads { gamma, beta } =
            S::backward(&ops.state, numbers_mut(&mut gradient), Some(&mut grad_input));
        let channels = gamma.len();
        let of_parameters = [tensor(gamma, [channels]), tensor(beta, [channels])];
        let [of_scale, of_shift] = of_parameters;
        register(ops, [tensor(grad_input, shape), of_scale, of_shift, gradient], grads);
    }
}

#[derive(Debug)]
struct MaxPool;

impl Backward<Flex, 1> for MaxPool {
    type State = (PoolShape, Arc<[u8]>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = packed(grads.consume::<Flex>(&ops.node));
        let (shape, max_indices) = &ops.state;
        let PoolShape { batch, height, width, channels } = *shape;
        let mut grad_input = unfilled(batch * height * width * channels);
        pool::max_pool_3x3_s2_p1_backward(shape, max_indices, numbers(&gradient), &mut grad_input);
        register(ops, [tensor(grad_input, [batch, height, width, channels])], grads);
    }
}

#[derive(Debug)]
struct GlobalAvgPool;

impl Backward<Flex, 1> for GlobalAvgPool {
    type State = PoolShape;

    fn backward(self, ops: Ops<PoolShape, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = packed(grads.consume::<Flex>(&ops.node));
        let PoolShape { batch, height, width, channels } = ops.state;
        let mut grad_input = unfilled(batch * height * width * channels);
        pool::global_average_backward(&ops.state, numbers(&gradient), &mut grad_input);
        register(ops, [tensor(grad_input, [batch, height, width, channels])], grads);
    }
}

/// Runs a normalisation, and keeps for its gradient what that will need.
///
/// `run` gives the output and the statistics; which of the two `Backward`s applies depends on the residual.
fn norm_act<S: Norm, C: CheckpointStrategy>(
    [input, scale, shift]: [FloatTensor<Autodiff<Flex, C>>; 3],
    residual: Residual<Autodiff<Flex, C>>,
    groups: usize,
    relu: bool,
    run: impl Fn(&FlexTensor, &FlexTensor, &FlexTensor, Option<FlexTensor>) -> (FlexTensor, S),
) -> (FloatTensor<Autodiff<Flex, C>>, S) {
    let nodes = [input.node(), scale.node(), shift.node()];
    let residual = residual.into_option();
    let residual_node = residual.as_ref().map(|residual| residual.node());
    let (input, scale, shift) =
        (packed(input.into_primitive()), packed(scale.into_primitive()), packed(shift.into_primitive()));
    let (output, saved) = run(&input, &scale, &shift, residual.map(|residual| residual.into_primitive()));
    let state = |output: &FlexTensor| NormState {
        input: input.clone(),
        scale: scale.clone(),
        saved: saved.clone(),
        rectified: relu.then(|| output.clone()),
        groups,
    };
    let [input_node, scale_node, shift_node] = nodes;
    macro_rules! finish {
        ($nodes:expr) => {
            match Backward::prepare::<C>(NormAct::<S>::new(), $nodes).compute_bound().stateful() {
                OpsKind::Tracked(prepared) => {
                    let state = state(&output);
                    prepared.finish(state, output)
                }
                OpsKind::UnTracked(prepared) => prepared.finish(output),
            }
        };
    }
    let output = match residual_node {
        Some(residual) => finish!([input_node, scale_node, shift_node, residual]),
        None => finish!([input_node, scale_node, shift_node]),
    };
    (output, saved)
}

impl<C: CheckpointStrategy> ImageOps for Autodiff<Flex, C> {
    fn conv(
        input: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        geometry: Geometry,
        precision: Precision,
    ) -> FloatTensor<Self> {
        let prepared = Conv.prepare::<C>([input.node(), weights.node()]).compute_bound().stateful();
        let (input, weights) = (packed(input.into_primitive()), packed(weights.into_primitive()));
        let shape = flex::conv_shape(&input, &weights, geometry);
        let (output, saved) = flex::conv(&shape, &input, &weights, precision);
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(ConvState { shape, input, weights, saved }, output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    fn batch_norm_act(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        residual: Residual<Self>,
        relu: bool,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (output, saved) =
            norm_act::<BatchNormSaved, C>([input, scale, shift], residual, 1, relu, |x, scale, shift, r| {
                flex::batch_norm_act(x, scale, shift, r, relu, epsilon)
            });
        let channels = saved.mean.len();
        let constant = |numbers| FloatTensor::<Self>::new(tensor(numbers, [channels]));
        (output, constant(saved.mean), constant(saved.variance))
    }

    fn group_norm_act(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        residual: Residual<Self>,
        groups: usize,
        relu: bool,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        norm_act::<GroupNormSaved, C>([input, scale, shift], residual, groups, relu, |x, scale, shift, r| {
            flex::group_norm_act(x, [scale, shift], r, groups, relu, epsilon)
        })
        .0
    }

    fn max_pool(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = MaxPool.prepare::<C>([input.node()]).compute_bound().stateful();
        let input = packed(input.into_primitive());
        let shape = flex::pool_shape(&input);
        match prepared {
            OpsKind::Tracked(prepared) => {
                let mut max_indices = vec![0; shape.output_len()];
                let output = flex::max_pool(&shape, &input, Some(&mut max_indices));
                prepared.finish((shape, max_indices.into()), output)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(flex::max_pool(&shape, &input, None)),
        }
    }

    fn global_avg_pool(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = GlobalAvgPool.prepare::<C>([input.node()]).compute_bound().stateful();
        let input = packed(input.into_primitive());
        let shape = flex::pool_shape(&input);
        let output = flex::global_avg_pool(&shape, &input);
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(shape, output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }
}
