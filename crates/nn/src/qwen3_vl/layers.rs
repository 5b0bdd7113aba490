//! The operations between linear layers.
//!
//! Heads lie token by token, `[batch, token, head, number]`, as linear layers give and take them.

use std::sync::Arc;

use crate::kernels::attention::AttentionShape;
use crate::ops::tokens::{self, RopeAngles};
pub(super) use crate::ops::tokens::{layer_norm, rms_norm, swiglu, tanh_gelu};
use crate::tensor::Tensor;

/// Root mean square normalisation of each head of `[b, s, heads, head]`.
pub(super) fn head_norm(x: Tensor<4>, scale: Tensor<1>, epsilon: f64) -> Tensor<4> {
    let [batch, tokens, heads, width] = x.dims();
    let rows = x.reshape([batch * tokens * heads, width]);
    rms_norm(rows, scale, epsilon).reshape([batch, tokens, heads, width])
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
    /// All but what is true here, `[b, tokens, keys]`.
    Masked(Arc<[bool]>),
}

impl AttentionMask {
    /// For the last `queries` tokens of sequences of these lengths, padded on the left to `tokens`. A padding token
    /// attends to itself, so that its values stay finite.
    pub(super) fn left_padded(lengths: &[usize], queries: usize, tokens: usize) -> Self {
        let hidden = lengths.iter().flat_map(|length| {
            let fill = tokens - length;
            (tokens - queries..tokens).flat_map(move |token| {
                (0..tokens).map(move |key| key > token || (key < fill && key != token))
            })
        });
        Self::Masked(hidden.collect())
    }

    /// What one token of each sequence attends to.
    pub(super) fn of_last(&self, last: &[usize], tokens: usize, keys: usize) -> Self {
        match self {
            Self::All => Self::All,
            Self::Causal if last.iter().all(|token| token + 1 == tokens) => Self::All,
            Self::Causal => {
                let before = keys - tokens;
                let later = last.iter().flat_map(|token| (0..keys).map(move |key| key > token + before));
                Self::Masked(later.collect())
            }
            Self::Masked(hidden) => {
                let rows = last.iter().enumerate().map(|(b, token)| b * tokens + token);
                Self::Masked(rows.flat_map(|row| hidden[row * keys..][..keys].iter().copied()).collect())
            }
        }
    }
}

/// Softmax attention of `[b, s, heads, head]` over keys and values `[b, t, kv_heads, head]`.
pub(super) fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, mask: &AttentionMask) -> Tensor<4> {
    let [batch, tokens, heads, width] = q.dims();
    let [_, keys, kv_heads, _] = k.dims();
    let (causal, hidden) = match mask {
        AttentionMask::All => (false, None),
        AttentionMask::Causal => (true, None),
        AttentionMask::Masked(hidden) => (false, Some(&hidden[..])),
    };
    let shape = AttentionShape { batch, tokens, keys, heads, kv_heads, width, causal };
    let rows = |x: Tensor<4>| {
        let [batch, tokens, heads, width] = x.dims();
        x.reshape([batch * tokens, heads * width])
    };
    tokens::attend([rows(q), rows(k), rows(v)], shape, hidden).reshape([batch, tokens, heads, width])
}
