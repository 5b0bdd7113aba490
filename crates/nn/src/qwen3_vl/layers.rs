//! The operations between linear layers.
//!
//! Heads lie token by token, `[batch, token, head, number]`, as linear layers give and take them.

use std::sync::Arc;

use burn_tensor::activation::softmax;
use burn_tensor::module::attention;
use burn_tensor::ops::AttentionModuleOptions;
use burn_tensor::{Bool, Device, Int, Tensor, TensorData};

use crate::kernels::attention::AttentionShape;
use crate::ops::tokens::{self, RopeAngles};
pub(super) use crate::ops::tokens::{linear, rms_norm, swiglu, tanh_gelu};

/// Root mean square normalisation of each head of `[b, s, heads, head]`.
pub(super) fn head_norm(x: Tensor<4>, scale: Tensor<1>, epsilon: f64) -> Tensor<4> {
    let [batch, tokens, heads, width] = x.dims();
    let rows = x.reshape([batch * tokens * heads, width]);
    rms_norm(rows, scale, epsilon).reshape([batch, tokens, heads, width])
}

/// Layer normalisation of rows.
pub(super) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<2> {
    const EPSILON: f64 = 1e-6;
    tokens::layer_norm(x, scale, shift, EPSILON)
}

/// Rotary position embeddings (RoPE): the angles of all tokens, or of an image that is repeated.
#[derive(Clone, Debug)]
pub(super) struct Rope(RopeAngles);

impl Rope {
    /// From the angles of the first half of each head's numbers, `[tokens, half]`; the other half has the same.
    pub(super) fn new(angles: &[f32], half: usize) -> Self {
        let numbers = |number: fn(f32) -> f32| angles.iter().map(|angle| number(*angle)).collect();
        Self(RopeAngles { cos: numbers(f32::cos), sin: numbers(f32::sin), half })
    }

    /// Applies rotary position embeddings to `[b, s, heads, head]`.
    pub(super) fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, count, heads, width] = x.dims();
        let rows = x.reshape([batch * count, heads * width]);
        tokens::apply_rope(rows, heads, self.0.clone()).reshape([batch, count, heads, width])
    }

    /// The angles of one token of each sequence of `tokens`.
    pub(super) fn at(&self, chosen: &[usize], tokens: usize) -> Self {
        let RopeAngles { cos, sin, half } = &self.0;
        let pick = |numbers: &Arc<[f32]>| {
            let rows = chosen.iter().enumerate().map(|(b, token)| b * tokens + token);
            rows.flat_map(|row| numbers[row * half..][..*half].iter().copied()).collect()
        };
        Self(RopeAngles { cos: pick(cos), sin: pick(sin), half: *half })
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
    if let AttentionMask::Masked(mask) = attend {
        let [q, k, v] = [q, k, v].map(|x| x.swap_dims(1, 2));
        return attend_masked(q, k, v, mask).swap_dims(1, 2);
    }
    let causal = matches!(attend, AttentionMask::Causal);
    let shape = AttentionShape { batch, tokens, keys, heads, kv_heads, width, causal };
    let rows = |x: Tensor<4>| {
        let [batch, tokens, heads, width] = x.dims();
        x.reshape([batch * tokens, heads * width])
    };
    tokens::attend([rows(q), rows(k), rows(v)], shape).reshape([batch, tokens, heads, width])
}

/// The same of `[b, heads, s, head]` with a mask of any form, by Burn's operations: prompts of different lengths are rare.
fn attend_masked(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, mask: &Tensor<4, Bool>) -> Tensor<4> {
    let [batch, heads, tokens, width] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let mask = mask.clone().expand([batch, heads, tokens, keys]);
    if !q.is_autodiff() && !k.is_autodiff() && !v.is_autodiff() {
        return attention(q, k, v, Some(mask), None, AttentionModuleOptions::default());
    }
    // Heads that share keys become rows, so that keys need not be repeated.
    let group = heads / kv_heads;
    let rows = q.reshape([batch, kv_heads, group * tokens, width]) * (width as f64).powf(-0.5);
    let scores = rows.matmul(k.swap_dims(2, 3)).reshape([batch, heads, tokens, keys]);
    let mixed = softmax(scores.mask_fill(mask, f32::NEG_INFINITY), 3)
        .reshape([batch, kv_heads, group * tokens, keys])
        .matmul(v);
    mixed.reshape([batch, heads, tokens, width])
}

/// Whole numbers as indices.
pub(super) fn indices(numbers: impl IntoIterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let numbers: Vec<i32> = numbers.into_iter().map(|number| number as i32).collect();
    let count = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [count]), device)
}
