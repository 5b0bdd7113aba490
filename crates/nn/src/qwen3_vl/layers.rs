//! The operations between linear layers: our own on the CPU, Burn's elsewhere.
//!
//! Heads lie token by token, `[batch, token, head, number]`, as linear layers give and take them.

use std::sync::Arc;

use burn::tensor::activation::{self, softmax};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Device, FloatDType, Int, Tensor, TensorData};

use crate::classifier::is_cpu;
use crate::kernels::attention::AttentionShape;
use crate::ops::tokens::{self, RopeAngles};

/// Whether our kernels take it.
pub(super) fn on_cpu<const D: usize>(x: &Tensor<D>) -> bool {
    is_cpu(&x.device().inner())
}

fn number_type<const D: usize>(x: &Tensor<D>) -> FloatDType {
    FloatDType::from(x.dtype())
}

/// Root mean square normalisation over the last axis, in 32 bits, then a scale.
pub(super) fn rms_norm(x: Tensor<2>, scale: Tensor<1>, epsilon: f64) -> Tensor<2> {
    if on_cpu(&x) {
        return tokens::rms_norm(x, scale, epsilon);
    }
    let dtype = number_type(&x);
    let wide = x.cast(FloatDType::F32);
    let square = (wide.clone() * wide.clone()).mean_dim(1);
    let normal = wide / (square + epsilon).sqrt();
    normal.cast(dtype) * scale.cast(dtype).unsqueeze::<2>()
}

/// The same over each head of `[b, s, heads, head]`.
pub(super) fn head_norm(x: Tensor<4>, scale: Tensor<1>, epsilon: f64) -> Tensor<4> {
    let [batch, tokens, heads, width] = x.dims();
    let rows = x.reshape([batch * tokens * heads, width]);
    rms_norm(rows, scale, epsilon).reshape([batch, tokens, heads, width])
}

/// Layer normalisation over the last axis, in 32 bits.
pub(super) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<2> {
    const EPSILON: f64 = 1e-6;
    if on_cpu(&x) {
        return tokens::token_layer_norm(x, scale, shift, EPSILON);
    }
    let dtype = number_type(&x);
    let wide = x.cast(FloatDType::F32);
    let centred = wide.clone() - wide.mean_dim(1);
    let variance = (centred.clone() * centred.clone()).mean_dim(1);
    let normal = centred / (variance + EPSILON).sqrt();
    normal.cast(dtype) * scale.cast(dtype).unsqueeze::<2>() + shift.cast(dtype).unsqueeze::<2>()
}

/// `silu(gate) * up`
pub(super) fn swiglu(gate: Tensor<2>, up: Tensor<2>) -> Tensor<2> {
    if on_cpu(&gate) { tokens::swiglu(gate, up) } else { activation::silu(gate) * up }
}

/// GELU by the hyperbolic tangent.
pub(super) fn tanh_gelu(x: Tensor<2>) -> Tensor<2> {
    if on_cpu(&x) { tokens::tanh_gelu(x) } else { activation::gelu_approximate(x) }
}

/// Rotary position embeddings (RoPE): angles of tokens.
#[derive(Clone, Debug)]
pub(super) enum Rope {
    /// For the CPU: those of all tokens, or of an image that is repeated.
    Numbers(RopeAngles),
    /// For other devices: cosine and sine of each number of a head, `[b or 1, s, 1, head]`.
    Tensors(Box<[Tensor<4>; 2]>),
}

impl Rope {
    /// From the angles of the first half of each head's numbers, `[batch, tokens, half]`; the other half has the same.
    pub(super) fn new(
        angles: &[f32],
        [batch, tokens, half]: [usize; 3],
        dtype: FloatDType,
        device: &Device,
    ) -> Self {
        if is_cpu(device) {
            let numbers = |number: fn(f32) -> f32| angles.iter().map(|angle| number(*angle)).collect();
            return Self::Numbers(RopeAngles { cos: numbers(f32::cos), sin: numbers(f32::sin), half });
        }
        let twice = |number: fn(f32) -> f32| {
            let rows = angles.chunks_exact(half);
            let numbers: Vec<f32> =
                rows.flat_map(|row| row.iter().chain(row).map(|angle| number(*angle))).collect();
            let data = TensorData::new(numbers, [batch, tokens, 1, 2 * half]);
            Tensor::<4>::from_data(data, device).cast(dtype)
        };
        Self::Tensors(Box::new([twice(f32::cos), twice(f32::sin)]))
    }

    /// Applies rotary position embeddings to `[b, s, heads, head]`.
    pub(super) fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, count, heads, width] = x.dims();
        match self {
            Self::Numbers(angles) => {
                let rows = x.reshape([batch * count, heads * width]);
                tokens::apply_rope(rows, heads, angles.clone()).reshape([batch, count, heads, width])
            }
            Self::Tensors(angles) => {
                let [cos, sin] = (**angles).clone();
                let dtype = number_type(&x);
                let x = x.cast(number_type(&cos));
                let low = x.clone().narrow(3, 0, width / 2);
                let high = x.clone().narrow(3, width / 2, width / 2);
                (x * cos + Tensor::cat(vec![high.neg(), low], 3) * sin).cast(dtype)
            }
        }
    }

    /// The angles of one token of each sequence of `tokens`.
    pub(super) fn at(&self, chosen: &[usize], tokens: usize) -> Self {
        match self {
            Self::Numbers(RopeAngles { cos, sin, half }) => {
                let pick = |numbers: &Arc<[f32]>| {
                    let rows = chosen.iter().enumerate().map(|(b, token)| b * tokens + token);
                    rows.flat_map(|row| numbers[row * half..][..*half].iter().copied()).collect()
                };
                Self::Numbers(RopeAngles { cos: pick(cos), sin: pick(sin), half: *half })
            }
            Self::Tensors(angles) => {
                let pick = |x: &Tensor<4>| {
                    let rows = chosen.iter().enumerate();
                    let rows = rows.map(|(b, token)| x.clone().narrow(0, b, 1).narrow(1, *token, 1));
                    Tensor::cat(rows.collect(), 0)
                };
                Self::Tensors(Box::new([pick(&angles[0]), pick(&angles[1])]))
            }
        }
    }
}

/// What tokens attend to.
#[derive(Clone, Debug)]
pub(super) enum AttentionMask {
    /// Everything.
    All,
    /// What stands before them, and themselves; with fewer tokens than keys, the tokens are the last ones.
    Causal,
    /// All but what is true here, `[b, 1, tokens, keys]`.
    Masked(Box<Tensor<4, Bool>>),
}

impl AttentionMask {
    /// What one token of each sequence attends to.
    pub(super) fn of_last(&self, last: &[usize], tokens: usize, keys: usize, device: &Device) -> Self {
        match self {
            Self::All => Self::All,
            Self::Causal if last.iter().all(|token| token + 1 == tokens) => Self::All,
            Self::Causal => {
                let before = keys - tokens;
                let later = last.iter().flat_map(|token| (0..keys).map(move |key| key > token + before));
                let data = TensorData::new(later.collect::<Vec<bool>>(), [last.len(), 1, 1, keys]);
                Self::Masked(Box::new(Tensor::from_data(data, device)))
            }
            Self::Masked(mask) => {
                let rows = last.iter().enumerate();
                let rows = rows.map(|(b, token)| (**mask).clone().narrow(0, b, 1).narrow(2, *token, 1));
                Self::Masked(Box::new(Tensor::cat(rows.collect(), 0)))
            }
        }
    }
}

/// Softmax attention of `[b, s, heads, head]` over keys and values `[b, t, kv_heads, head]`.
pub(super) fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, attend: &AttentionMask) -> Tensor<4> {
    let [batch, tokens, heads, width] = q.dims();
    let [_, keys, kv_heads, _] = k.dims();
    if on_cpu(&q) && !matches!(attend, AttentionMask::Masked(_)) {
        let causal = matches!(attend, AttentionMask::Causal);
        let shape = AttentionShape { batch, tokens, keys, heads, kv_heads, width, causal };
        let rows = |x: Tensor<4>| {
            let [batch, tokens, heads, width] = x.dims();
            x.reshape([batch * tokens, heads * width])
        };
        return tokens::attend([rows(q), rows(k), rows(v)], shape).reshape([batch, tokens, heads, width]);
    }
    let [q, k, v] = [q, k, v].map(|x| x.swap_dims(1, 2));
    attend_by_heads(q, k, v, attend).swap_dims(1, 2)
}

/// The same of `[b, heads, s, head]`, by Burn's operations.
fn attend_by_heads(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, attend: &AttentionMask) -> Tensor<4> {
    let [batch, heads, tokens, width] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let mask = match attend {
        AttentionMask::All => None,
        AttentionMask::Causal => Some(later_keys(tokens, keys, &q.device().inner())),
        AttentionMask::Masked(mask) => Some((**mask).clone()),
    };
    let mask = mask.map(|mask| mask.expand([batch, heads, tokens, keys]));
    if !q.is_autodiff() && !k.is_autodiff() && !v.is_autodiff() {
        let causal = matches!(attend, AttentionMask::Causal);
        let options = AttentionModuleOptions { is_causal: causal, ..Default::default() };
        return attention(q, k, v, mask.filter(|_| !causal), None, options);
    }
    // Heads that share keys become rows, so that keys need not be repeated.
    let group = heads / kv_heads;
    let rows = q.reshape([batch, kv_heads, group * tokens, width]) * (width as f64).powf(-0.5);
    let scores = rows.matmul(k.swap_dims(2, 3)).reshape([batch, heads, tokens, keys]);
    let scores = match mask {
        Some(mask) => scores.mask_fill(mask, f32::NEG_INFINITY),
        None => scores,
    };
    let mixed = softmax(scores, 3).reshape([batch, kv_heads, group * tokens, keys]).matmul(v);
    mixed.reshape([batch, heads, tokens, width])
}

fn later_keys(tokens: usize, keys: usize, device: &Device) -> Tensor<4, Bool> {
    let before = keys - tokens;
    let later = (0..tokens).flat_map(|token| (0..keys).map(move |key| key > token + before));
    let data = TensorData::new(later.collect::<Vec<bool>>(), [1, 1, tokens, keys]);
    Tensor::from_data(data, device)
}

/// Whole numbers as indices.
pub(super) fn indices(numbers: impl IntoIterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let numbers: Vec<i32> = numbers.into_iter().map(|number| number as i32).collect();
    let count = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [count]), device)
}
