//! What a language model does with tokens, on the CPU, with gradients written by hand.
//!
//! Burn composes each of these of several passes over memory, and its products do not know weights that stay. Other
//! devices run Burn's own operations (see `qwen3_vl/layers.rs`).

#![expect(unreachable_pub, reason = "the extension macro makes its own items as visible as these")]

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::Tensor;

use super::flex::{numbers, packed, tensor};
use crate::kernels::attention::{self, AttentionShape};
use crate::kernels::gemm::{Matrix, PackedRight};
use crate::kernels::{Isa, Precision, norm_rope_softmax, unfilled};

/// The weights of a linear layer that stay as they are, arranged for products.
#[derive(Debug)]
pub struct FixedLinear {
    right: PackedRight,
    bias: Option<Vec<f32>>,
}

impl FixedLinear {
    /// From weights `[outputs, inputs]`.
    pub(crate) fn new(
        weights: &[f32],
        outputs: usize,
        inputs: usize,
        bias: Option<Vec<f32>>,
        precision: Precision,
    ) -> Self {
        let right = PackedRight::new(Isa::best(precision), Matrix::new(weights, outputs, inputs));
        Self { right, bias }
    }
}

/// The angles of RoPE: those of `period` tokens as cosine and sine, `[period, half]`.
#[derive(Clone, Debug)]
pub struct RopeAngles {
    pub(crate) cos: Arc<[f32]>,
    pub(crate) sin: Arc<[f32]>,
    pub(crate) half: usize,
}

/// The operations. All tensors are `f32`, rows of tokens.
#[backend_extension(Flex, Autodiff)]
pub trait TokenOps: Backend {
    /// `x [m, k]` times the transpose of `weights [n, k]`.
    fn linear(x: FloatTensor<Self>, weights: FloatTensor<Self>) -> FloatTensor<Self>;
    /// A linear layer whose weights stay as they are.
    fn fixed_linear(x: FloatTensor<Self>, layer: Arc<FixedLinear>) -> FloatTensor<Self>;
    /// Root mean square normalisation of rows as long as `scale`.
    fn rms_norm(x: FloatTensor<Self>, scale: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self>;
    /// Layer normalisation of rows as long as `scale`.
    fn token_layer_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self>;
    /// RoPE: heads rotated by the angles of their tokens.
    fn apply_rope(x: FloatTensor<Self>, heads: usize, angles: RopeAngles) -> FloatTensor<Self>;
    /// Softmax attention.
    fn attend(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        shape: AttentionShape,
    ) -> FloatTensor<Self>;
    /// `silu(gate) * up`
    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self>;
    /// GELU by the hyperbolic tangent.
    fn tanh_gelu(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

fn dims2(tensor: &FlexTensor) -> [usize; 2] {
    tensor.layout().shape().dims()
}

fn matrix(tensor: &FlexTensor) -> Matrix<'_> {
    let [rows, columns] = dims2(tensor);
    Matrix::new(numbers(tensor), rows, columns)
}

/// A tensor of other numbers in the shape of another.
fn like(tensor: &FlexTensor, numbers: Vec<f32>) -> FlexTensor {
    let layout = burn::backend::flex::Layout::contiguous(tensor.shape());
    FlexTensor::new(burn::tensor::Bytes::from_elems(numbers), layout, burn::backend::DType::F32)
}

/// `left * rightᵀ`
fn product(left: Matrix<'_>, right: Matrix<'_>, [rows, columns]: [usize; 2]) -> FlexTensor {
    let mut output = unfilled(rows * columns);
    PackedRight::new(Isa::best(Precision::F32), right).multiply(left, None, &mut output);
    tensor(output, [rows, columns])
}

impl TokenOps for Flex {
    fn linear(x: FlexTensor, weights: FlexTensor) -> FlexTensor {
        let (x, weights) = (packed(x), packed(weights));
        product(matrix(&x), matrix(&weights), [dims2(&x)[0], dims2(&weights)[0]])
    }

    fn fixed_linear(x: FlexTensor, layer: Arc<FixedLinear>) -> FlexTensor {
        let x = packed(x);
        let (rows, columns) = (dims2(&x)[0], layer.right.rows());
        let mut output = unfilled(rows * columns);
        layer.right.multiply(matrix(&x), layer.bias.as_deref(), &mut output);
        tensor(output, [rows, columns])
    }

    fn rms_norm(x: FlexTensor, scale: FlexTensor, epsilon: f64) -> FlexTensor {
        let (x, scale) = (packed(x), packed(scale));
        let mut output = unfilled(numbers(&x).len());
        let _ = norm_rope_softmax::rms_norm(numbers(&x), numbers(&scale), epsilon as f32, &mut output);
        like(&x, output)
    }

    fn token_layer_norm(x: FlexTensor, scale: FlexTensor, shift: FlexTensor, epsilon: f64) -> FlexTensor {
        let (x, scale, shift) = (packed(x), packed(scale), packed(shift));
        let mut output = unfilled(numbers(&x).len());
        let _ = norm_rope_softmax::layer_norm(
            numbers(&x),
            numbers(&scale),
            numbers(&shift),
            epsilon as f32,
            &mut output,
        );
        like(&x, output)
    }

    fn apply_rope(x: FlexTensor, heads: usize, angles: RopeAngles) -> FlexTensor {
        rotated(packed(x), heads, &angles, false)
    }

    fn attend(
        queries: FlexTensor,
        keys: FlexTensor,
        values: FlexTensor,
        shape: AttentionShape,
    ) -> FlexTensor {
        let (queries, keys, values) = (packed(queries), packed(keys), packed(values));
        let mut output = unfilled(shape.queries_len());
        attention::forward(&shape, [&queries, &keys, &values].map(numbers), &mut output, None);
        like(&queries, output)
    }

    fn swiglu(gate: FlexTensor, up: FlexTensor) -> FlexTensor {
        let (gate, up) = (packed(gate), packed(up));
        let mut output = unfilled(numbers(&gate).len());
        norm_rope_softmax::swiglu(numbers(&gate), numbers(&up), &mut output);
        like(&gate, output)
    }

    fn tanh_gelu(x: FlexTensor) -> FlexTensor {
        let x = packed(x);
        let mut output = unfilled(numbers(&x).len());
        norm_rope_softmax::gelu(numbers(&x), &mut output);
        like(&x, output)
    }
}

fn rotated(x: FlexTensor, heads: usize, angles: &RopeAngles, back: bool) -> FlexTensor {
    let mut output = unfilled(numbers(&x).len());
    norm_rope_softmax::rope(numbers(&x), heads, [&angles.cos, &angles.sin], angles.half, back, &mut output);
    like(&x, output)
}

/// Hands a gradient to a parent that wants it.
fn register_gradient<P>(
    parent: Option<P>,
    id: impl Fn(&P) -> burn::backend::autodiff::NodeId,
    grads: &mut Gradients,
    gradient: impl FnOnce() -> FlexTensor,
) {
    if let Some(parent) = parent {
        grads.register::<Flex>(id(&parent), gradient());
    }
}

/// An operation with a gradient: its name, its parents, what it keeps, and the gradients of its parents.
macro_rules! gradients {
    ($name:ident, $parents:literal, $state:ty, |$saved:ident, $gradient:ident| [$($of:expr),+ $(,)?]) => {
        #[derive(Debug)]
        struct $name;

        impl Backward<Flex, $parents> for $name {
            type State = $state;

            fn backward(self, ops: Ops<$state, $parents>, grads: &mut Gradients, _: &mut Checkpointer) {
                let $gradient = packed(grads.consume::<Flex>(&ops.node));
                let $saved = ops.state;
                let mut parents = ops.parents.into_iter();
                $(register_gradient(parents.next().flatten(), |parent| parent.id, grads, || $of);)+
            }
        }
    };
}

gradients!(Linear, 2, [FlexTensor; 2], |saved, gradient| [
    product(matrix(&gradient), matrix(&saved[1]).transposed(), dims2(&saved[0])),
    product(matrix(&gradient).transposed(), matrix(&saved[0]).transposed(), dims2(&saved[1])),
]);
gradients!(ApplyRope, 1, (usize, RopeAngles), |saved, gradient| [rotated(
    gradient.clone(),
    saved.0,
    &saved.1,
    true
)]);
gradients!(TanhGelu, 1, FlexTensor, |saved, gradient| [like(
    &saved,
    norm_rope_softmax::gelu_backward(numbers(&saved), numbers(&gradient))
)]);

#[derive(Debug)]
struct RmsNorm;

impl Backward<Flex, 2> for RmsNorm {
    type State = ([FlexTensor; 2], Vec<f32>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = packed(grads.consume::<Flex>(&ops.node));
        let ([x, scale], inverse) = ops.state;
        let [of_x, of_scale] =
            norm_rope_softmax::rms_norm_backward(numbers(&x), numbers(&scale), &inverse, numbers(&gradient));
        let [to_x, to_scale] = ops.parents;
        register_gradient(to_x, |parent| parent.id, grads, || like(&x, of_x));
        register_gradient(to_scale, |parent| parent.id, grads, || like(&scale, of_scale));
    }
}

#[derive(Debug)]
struct TokenNorm;

impl Backward<Flex, 3> for TokenNorm {
    type State = ([FlexTensor; 2], Vec<[f32; 2]>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = packed(grads.consume::<Flex>(&ops.node));
        let ([x, scale], moments) = ops.state;
        let found = norm_rope_softmax::layer_norm_backward(
            numbers(&x),
            numbers(&scale),
            &moments,
            numbers(&gradient),
        );
        let [of_x, of_scale, of_shift] = found;
        let [to_x, to_scale, to_shift] = ops.parents;
        register_gradient(to_x, |parent| parent.id, grads, || like(&x, of_x));
        register_gradient(to_scale, |parent| parent.id, grads, || like(&scale, of_scale));
        register_gradient(to_shift, |parent| parent.id, grads, || like(&scale, of_shift));
    }
}

#[derive(Debug)]
struct Attend;

impl Backward<Flex, 3> for Attend {
    type State = ([FlexTensor; 3], Arc<[f32]>, AttentionShape);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = packed(grads.consume::<Flex>(&ops.node));
        let (saved, probs, shape) = ops.state;
        let qkv = [&saved[0], &saved[1], &saved[2]].map(numbers);
        let found = attention::backward(&shape, qkv, &probs, numbers(&gradient));
        for ((parent, found), saved) in ops.parents.into_iter().zip(found).zip(&saved) {
            register_gradient(parent, |parent| parent.id, grads, || like(saved, found));
        }
    }
}

#[derive(Debug)]
struct Swiglu;

impl Backward<Flex, 2> for Swiglu {
    type State = [FlexTensor; 2];

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = packed(grads.consume::<Flex>(&ops.node));
        let [gate, up] = ops.state;
        let [of_gate, of_up] =
            norm_rope_softmax::swiglu_backward(numbers(&gate), numbers(&up), numbers(&gradient));
        let [to_gate, to_up] = ops.parents;
        register_gradient(to_gate, |parent| parent.id, grads, || like(&gate, of_gate));
        register_gradient(to_up, |parent| parent.id, grads, || like(&up, of_up));
    }
}

impl<C: CheckpointStrategy> TokenOps for Autodiff<Flex, C> {
    fn linear(x: FloatTensor<Self>, weights: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = Linear.prepare::<C>([x.node(), weights.node()]).compute_bound().stateful();
        let (x, weights) = (packed(x.into_primitive()), packed(weights.into_primitive()));
        let output = Flex::linear(x.clone(), weights.clone());
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish([x, weights], output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    fn fixed_linear(x: FloatTensor<Self>, layer: Arc<FixedLinear>) -> FloatTensor<Self> {
        FloatTensor::<Self>::new(Flex::fixed_linear(x.into_primitive(), layer))
    }

    fn rms_norm(x: FloatTensor<Self>, scale: FloatTensor<Self>, epsilon: f64) -> FloatTensor<Self> {
        let prepared = RmsNorm.prepare::<C>([x.node(), scale.node()]).compute_bound().stateful();
        let (x, scale) = (packed(x.into_primitive()), packed(scale.into_primitive()));
        let mut output = unfilled(numbers(&x).len());
        let inverse = norm_rope_softmax::rms_norm(numbers(&x), numbers(&scale), epsilon as f32, &mut output);
        let output = like(&x, output);
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(([x, scale], inverse), output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    fn token_layer_norm(
        x: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), scale.node(), shift.node()];
        let prepared = TokenNorm.prepare::<C>(nodes).compute_bound().stateful();
        let (x, scale, shift) =
            (packed(x.into_primitive()), packed(scale.into_primitive()), packed(shift.into_primitive()));
        let mut output = unfilled(numbers(&x).len());
        let (of_scale, of_shift) = (numbers(&scale), numbers(&shift));
        let moments =
            norm_rope_softmax::layer_norm(numbers(&x), of_scale, of_shift, epsilon as f32, &mut output);
        let output = like(&x, output);
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(([x, scale], moments), output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    fn apply_rope(x: FloatTensor<Self>, heads: usize, angles: RopeAngles) -> FloatTensor<Self> {
        let prepared = ApplyRope.prepare::<C>([x.node()]).compute_bound().stateful();
        let output = rotated(packed(x.into_primitive()), heads, &angles, false);
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish((heads, angles), output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    fn attend(
        queries: FloatTensor<Self>,
        keys: FloatTensor<Self>,
        values: FloatTensor<Self>,
        shape: AttentionShape,
    ) -> FloatTensor<Self> {
        let prepared =
            Attend.prepare::<C>([queries.node(), keys.node(), values.node()]).compute_bound().stateful();
        let saved = [queries, keys, values].map(|tensor| packed(tensor.into_primitive()));
        let mut output = unfilled(shape.queries_len());
        let qkv = [&saved[0], &saved[1], &saved[2]].map(numbers);
        match prepared {
            OpsKind::Tracked(prepared) => {
                let mut probs = unfilled(shape.probs_len());
                attention::forward(&shape, qkv, &mut output, Some(&mut probs));
                let output = like(&saved[0], output);
                prepared.finish((saved, probs.into(), shape), output)
            }
            OpsKind::UnTracked(prepared) => {
                attention::forward(&shape, qkv, &mut output, None);
                prepared.finish(like(&saved[0], output))
            }
        }
    }

    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = Swiglu.prepare::<C>([gate.node(), up.node()]).compute_bound().stateful();
        let (gate, up) = (packed(gate.into_primitive()), packed(up.into_primitive()));
        let output = Flex::swiglu(gate.clone(), up.clone());
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish([gate, up], output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }

    fn tanh_gelu(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let prepared = TanhGelu.prepare::<C>([x.node()]).compute_bound().stateful();
        let x = packed(x.into_primitive());
        let output = Flex::tanh_gelu(x.clone());
        match prepared {
            OpsKind::Tracked(prepared) => prepared.finish(x, output),
            OpsKind::UnTracked(prepared) => prepared.finish(output),
        }
    }
}

/// All followed, if one of them is: an operation takes tensors of one kind.
fn alike<const N: usize>(tensors: [Tensor<2>; N]) -> [Tensor<2>; N] {
    if tensors.iter().any(Tensor::is_autodiff) { tensors.map(Tensor::autodiff) } else { tensors }
}

/// `x [m, k]` times the transpose of `weights [n, k]`.
pub(crate) fn linear(x: Tensor<2>, weights: Tensor<2>) -> Tensor<2> {
    let [x, weights] = alike([x, weights]).map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::linear(x, weights))
}

/// A linear layer whose weights stay as they are.
pub(crate) fn fixed_linear(x: Tensor<2>, layer: &Arc<FixedLinear>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::fixed_linear(x.into_dispatch(), layer.clone()))
}

/// Root mean square normalisation of rows as long as `scale`.
pub(crate) fn rms_norm(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let [x, scale] = alike([x, scale.unsqueeze()]).map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::rms_norm(x, scale, epsilon))
}

/// Layer normalisation of rows as long as `scale`.
pub(crate) fn token_layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let [x, scale, shift] = alike([x, scale.unsqueeze(), shift.unsqueeze()]).map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::token_layer_norm(x, scale, shift, epsilon))
}

/// RoPE: heads rotated by the angles of their tokens.
pub(crate) fn apply_rope(x: Tensor<2>, heads: usize, angles: RopeAngles) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::apply_rope(x.into_dispatch(), heads, angles))
}

/// Softmax attention.
pub(crate) fn attend([queries, keys, values]: [Tensor<2>; 3], shape: AttentionShape) -> Tensor<2> {
    let [queries, keys, values] = alike([queries, keys, values]).map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::attend(queries, keys, values, shape))
}

/// `silu(gate) * up`
pub(crate) fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    let [gate, up] = alike([gate, up]).map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::swiglu(gate, up))
}

/// GELU by the hyperbolic tangent.
pub(crate) fn tanh_gelu(x: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::tanh_gelu(x.into_dispatch()))
}
