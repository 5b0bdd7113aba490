//! What a language model does with rows of tokens.

use std::sync::Arc;

use crate::kernels::attention::{self, AttentionShape};
use crate::kernels::gemm::{Matrix, PackedRight};
use crate::kernels::norm_rope_softmax;
use crate::kernels::{Isa, Precision, unfilled};
use crate::tensor::{Numbers, Tensor};

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
        let ([rows, inputs], columns) = (x.dims(), self.right.rows());
        let mut output = unfilled(rows * columns);
        self.right.multiply(Matrix::new(x.numbers(), rows, inputs), self.bias.as_deref(), &mut output);
        Tensor::new(output, [rows, columns])
    }
}

/// Root mean square normalisation of rows as long as `scale`.
pub(crate) fn rms_norm(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let (shape, nodes) = (x.dims(), [x.node(), scale.node()]);
    let [x, scale] = [x.numbers().clone(), scale.numbers().clone()];
    let mut output = unfilled(x.len());
    let inverse = norm_rope_softmax::rms_norm(&x, &scale, epsilon as f32, &mut output);
    Tensor::from_operation(output, shape, nodes, move |gradient, _| {
        let found = norm_rope_softmax::rms_norm_backward(&x, &scale, &inverse, &gradient);
        found.map(|numbers| Some(numbers.into()))
    })
}

/// Layer normalisation of rows as long as `scale`.
pub(crate) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>, epsilon: f64) -> Tensor<2> {
    let nodes = [x.node(), scale.node(), shift.node()];
    let wants_gradient = nodes.iter().any(Option::is_some);
    let mut output = unfilled(x.numbers().len());
    let affine = [&scale.numbers()[..], &shift.numbers()[..]];
    let saved =
        norm_rope_softmax::layer_norm(x.numbers(), affine, epsilon as f32, &mut output, wants_gradient);
    let scale = scale.numbers().clone();
    Tensor::from_operation(output, x.dims(), nodes, move |gradient, _| {
        let Some(saved) = saved else { unreachable!("kept, as a gradient was wanted") };
        let found = norm_rope_softmax::layer_norm_backward(&scale, &saved, &gradient);
        found.map(|numbers| Some(numbers.into()))
    })
}

/// The angles of RoPE: those of `period` tokens as cosine and sine, `[period, half]`.
#[derive(Clone, Debug)]
pub(crate) struct RopeAngles {
    pub(crate) cos: Arc<[f32]>,
    pub(crate) sin: Arc<[f32]>,
    pub(crate) half: usize,
}

impl RopeAngles {
    fn rotate(&self, x: &[f32], heads: usize, back: bool) -> Numbers {
        let mut output = unfilled(x.len());
        norm_rope_softmax::rope(x, heads, [&self.cos, &self.sin], self.half, back, &mut output);
        output.into()
    }
}

/// RoPE: heads rotated by the angles of their tokens.
pub(crate) fn apply_rope(x: Tensor<2>, heads: usize, angles: RopeAngles) -> Tensor<2> {
    let output = angles.rotate(x.numbers(), heads, false);
    Tensor::from_operation(output, x.dims(), [x.node()], move |gradient, _| {
        [Some(angles.rotate(&gradient, heads, true))]
    })
}

/// Softmax attention; keys are hidden from a token where `hidden` `[sequence, token, key]` says so.
pub(crate) fn attend(qkv: [Tensor<2>; 3], shape: AttentionShape, hidden: Option<&[bool]>) -> Tensor<2> {
    let (dims, nodes) = (qkv[0].dims(), qkv.each_ref().map(Tensor::node));
    let wants_gradient = nodes.iter().any(Option::is_some);
    let qkv = qkv.map(|x| x.numbers().clone());
    let mut output = unfilled(shape.queries_len());
    let mut probs = wants_gradient.then(|| unfilled(shape.probs_len()));
    attention::forward(&shape, qkv.each_ref().map(|x| &x[..]), hidden, &mut output, probs.as_deref_mut());
    let probs = probs.unwrap_or_default();
    Tensor::from_operation(output, dims, nodes, move |gradient, _| {
        let found = attention::backward(&shape, qkv.each_ref().map(|x| &x[..]), &probs, &gradient);
        found.map(|numbers| Some(numbers.into()))
    })
}

/// `silu(gate) * up`
pub(crate) fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    let (shape, nodes) = (gate.dims(), [gate.node(), up.node()]);
    let [gate, up] = [gate, up].map(|x| x.numbers().clone());
    let mut output = unfilled(gate.len());
    norm_rope_softmax::swiglu(&gate, &up, &mut output);
    Tensor::from_operation(output, shape, nodes, move |gradient, _| {
        norm_rope_softmax::swiglu_backward(&gate, &up, &gradient).map(|numbers| Some(numbers.into()))
    })
}

/// GELU by the hyperbolic tangent.
pub(crate) fn tanh_gelu(x: Tensor<2>) -> Tensor<2> {
    let mut output = unfilled(x.numbers().len());
    norm_rope_softmax::gelu(x.numbers(), &mut output);
    let saved = x.numbers().clone();
    Tensor::from_operation(output, x.dims(), [x.node()], move |gradient, _| {
        [Some(norm_rope_softmax::gelu_backward(&saved, &gradient).into())]
    })
}
