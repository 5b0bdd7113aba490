//! What a language model does with rows of tokens.

use std::sync::Arc;

use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops};
use burn_flex::{Flex, FlexTensor};
use burn_tensor::Tensor;

use super::graph::{
    Operand, differentiable, dims, like, numbers, output_gradient, plain, record, tensor, wrap,
};
use crate::kernels::attention::{self, AttentionShape};
use crate::kernels::gemm::{Matrix, PackedRight};
use crate::kernels::norm_rope_softmax::{self, LayerNormSaved};
use crate::kernels::{Isa, Precision, unfilled};

/// The weights of a linear layer that stay as they are, arranged for products.
#[derive(Debug)]
pub(crate) struct FixedLinear {
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

    /// The layer's outputs for `x [rows, inputs]`. No gradient goes back.
    pub(crate) fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = plain(x.inner());
        let ([rows, _], columns) = (dims::<2>(&x), self.right.rows());
        let mut output = unfilled(rows * columns);
        self.right.multiply(matrix(&x), self.bias.as_deref(), &mut output);
        wrap(tensor(output, [rows, columns]))
    }
}

fn matrix(tensor: &FlexTensor) -> Matrix<'_> {
    let [rows, columns] = dims(tensor);
    Matrix::new(numbers(tensor), rows, columns)
}

/// `left * rightᵀ`
fn product(left: Matrix<'_>, right: Matrix<'_>, [rows, columns]: [usize; 2]) -> FlexTensor {
    let mut output = unfilled(rows * columns);
    PackedRight::new(Isa::best(Precision::F32), right).multiply(left, None, &mut output);
    tensor(output, [rows, columns])
}

#[derive(Debug)]
struct Linear;

impl Backward<Flex, 2> for Linear {
    type State = [FlexTensor; 2];

    /// Frozen weights have no gradient, nor has what comes into the first layer.
    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = output_gradient(&ops, grads);
        let ([x, weights], [to_x, to_weights]) = (ops.state, ops.parents);
        if let Some(parent) = to_x {
            let of_x = product(matrix(&gradient), matrix(&weights).transposed(), dims(&x));
            grads.register::<Flex>(parent.id, of_x);
        }
        if let Some(parent) = to_weights {
            let of_weights = product(matrix(&gradient).transposed(), matrix(&x).transposed(), dims(&weights));
            grads.register::<Flex>(parent.id, of_weights);
        }
    }
}

/// `x [m, k]` times the transpose of `weights [n, k]`.
pub(crate) fn linear(x: Tensor<2>, weights: Tensor<2>) -> Tensor<2> {
    let (x, weights) = (Operand::of(x), Operand::of(weights));
    let ([rows, _], [columns, _]) = (dims::<2>(&x.values), dims::<2>(&weights.values));
    let output = product(matrix(&x.values), matrix(&weights.values), [rows, columns]);
    record(Linear, [&x, &weights], output, || [x.values.clone(), weights.values.clone()])
}

differentiable!(RmsNorm, 2, ([FlexTensor; 2], Vec<f32>), |saved, gradient| {
    let ([x, scale], inverse) = saved;
    let [of_x, of_scale] =
        norm_rope_softmax::rms_norm_backward(numbers(x), numbers(scale), inverse, numbers(&gradient));
    [like(x, of_x), like(scale, of_scale)]
});

/// Root mean square normalisation of rows as long as `scale`.
pub(crate) fn rms_norm(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let (x, scale) = (Operand::of(x), Operand::of(scale));
    let mut output = unfilled(x.numbers().len());
    let inverse = norm_rope_softmax::rms_norm(x.numbers(), scale.numbers(), epsilon as f32, &mut output);
    record(RmsNorm, [&x, &scale], like(&x.values, output), || {
        ([x.values.clone(), scale.values.clone()], inverse)
    })
}

differentiable!(LayerNorm, 3, (FlexTensor, Option<LayerNormSaved>), |saved, gradient| {
    let (scale, Some(normed)) = saved else { unreachable!("a norm that was recorded kept what it needs") };
    let [of_x, of_scale, of_shift] =
        norm_rope_softmax::layer_norm_backward(numbers(scale), normed, numbers(&gradient));
    [like(&gradient, of_x), like(scale, of_scale), like(scale, of_shift)]
});

/// Layer normalisation of rows as long as `scale`.
pub(crate) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let (x, scale, shift) = (Operand::of(x), Operand::of(scale), Operand::of(shift));
    let mut output = unfilled(x.numbers().len());
    let tracked = [&x, &scale, &shift].into_iter().any(Operand::is_tracked);
    let affine = [scale.numbers(), shift.numbers()];
    let saved = norm_rope_softmax::layer_norm(x.numbers(), affine, epsilon as f32, &mut output, tracked);
    record(LayerNorm, [&x, &scale, &shift], like(&x.values, output), || (scale.values.clone(), saved))
}

/// The angles of RoPE: those of `period` tokens as cosine and sine, `[period, half]`.
#[derive(Clone, Debug)]
pub(crate) struct RopeAngles {
    pub(crate) cos: Arc<[f32]>,
    pub(crate) sin: Arc<[f32]>,
    pub(crate) half: usize,
}

impl RopeAngles {
    fn rotate(&self, x: &FlexTensor, heads: usize, back: bool) -> FlexTensor {
        let mut output = unfilled(numbers(x).len());
        norm_rope_softmax::rope(numbers(x), heads, [&self.cos, &self.sin], self.half, back, &mut output);
        like(x, output)
    }
}

differentiable!(ApplyRope, 1, (usize, RopeAngles), |saved, gradient| {
    [saved.1.rotate(&gradient, saved.0, true)]
});

/// RoPE: heads rotated by the angles of their tokens.
pub(crate) fn apply_rope(x: Tensor<2>, heads: usize, angles: RopeAngles) -> Tensor<2> {
    let x = Operand::of(x);
    let output = angles.rotate(&x.values, heads, false);
    record(ApplyRope, [&x], output, || (heads, angles))
}

differentiable!(Attend, 3, ([FlexTensor; 3], Arc<[f32]>, AttentionShape), |saved, gradient| {
    let (qkv, probs, shape) = saved;
    let found = attention::backward(shape, qkv.each_ref().map(numbers), probs, numbers(&gradient));
    let mut qkv = qkv.iter();
    found.map(|found| qkv.next().map_or_else(|| unreachable!("three of each"), |saved| like(saved, found)))
});

/// Softmax attention.
pub(crate) fn attend(qkv: [Tensor<2>; 3], shape: AttentionShape) -> Tensor<2> {
    let qkv = qkv.map(Operand::of);
    let mut output = unfilled(shape.queries_len());
    let tracked = qkv.iter().any(Operand::is_tracked);
    let mut probs = tracked.then(|| unfilled(shape.probs_len()));
    let [q, k, v] = &qkv;
    attention::forward(&shape, [q, k, v].map(Operand::numbers), &mut output, probs.as_deref_mut());
    record(Attend, [q, k, v], like(&q.values, output), || {
        ([q, k, v].map(|operand| operand.values.clone()), probs.unwrap_or_default().into(), shape)
    })
}

differentiable!(Swiglu, 2, [FlexTensor; 2], |saved, gradient| {
    let [gate, up] = saved;
    let found = norm_rope_softmax::swiglu_backward(numbers(gate), numbers(up), numbers(&gradient));
    found.map(|numbers| like(gate, numbers))
});

/// `silu(gate) * up`
pub(crate) fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    let (gate, up) = (Operand::of(gate), Operand::of(up));
    let mut output = unfilled(gate.numbers().len());
    norm_rope_softmax::swiglu(gate.numbers(), up.numbers(), &mut output);
    record(Swiglu, [&gate, &up], like(&gate.values, output), || [gate.values.clone(), up.values.clone()])
}

differentiable!(TanhGelu, 1, FlexTensor, |x, gradient| {
    [like(x, norm_rope_softmax::gelu_backward(numbers(x), numbers(&gradient)))]
});

/// GELU by the hyperbolic tangent.
pub(crate) fn tanh_gelu(x: Tensor<2>) -> Tensor<2> {
    let x = Operand::of(x);
    let mut output = unfilled(x.numbers().len());
    norm_rope_softmax::gelu(x.numbers(), &mut output);
    record(TanhGelu, [&x], like(&x.values, output), || x.values.clone())
}
