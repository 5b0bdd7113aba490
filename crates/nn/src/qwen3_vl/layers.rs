//! The operations between linear layers.

use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Device, FloatDType, Int, Tensor, TensorData};

/// Root mean square normalisation over the last axis, in 32 bits, then a scale.
pub(super) fn rms_norm<const D: usize>(x: Tensor<D>, scale: Tensor<1>, epsilon: f64) -> Tensor<D> {
    let dtype = number_type(&x);
    let wide = x.cast(FloatDType::F32);
    let square = (wide.clone() * wide.clone()).mean_dim(D - 1);
    let normal = wide / (square + epsilon).sqrt();
    normal.cast(dtype) * scale.unsqueeze::<D>()
}

/// Layer normalisation over the last axis, in 32 bits.
pub(super) fn layer_norm(x: Tensor<2>, scale: Tensor<1>, shift: Tensor<1>) -> Tensor<2> {
    const EPSILON: f64 = 1e-6;
    let dtype = number_type(&x);
    let wide = x.cast(FloatDType::F32);
    let centred = wide.clone() - wide.mean_dim(1);
    let variance = (centred.clone() * centred.clone()).mean_dim(1);
    let normal = centred / (variance + EPSILON).sqrt();
    normal.cast(dtype) * scale.unsqueeze::<2>() + shift.unsqueeze::<2>()
}

fn number_type<const D: usize>(x: &Tensor<D>) -> FloatDType {
    FloatDType::from(x.dtype())
}

/// Angles of positions, as the cosine and sine of each number of a head: `[b or 1, 1, s, head]`.
#[derive(Clone, Debug)]
pub(super) struct Rope {
    cos: Tensor<4>,
    sin: Tensor<4>,
}

impl Rope {
    /// From the angles of the first half of each head's numbers, `[batch, tokens, half]`; the other half has the same.
    pub(super) fn new(
        angles: &[f32],
        [batch, tokens, half]: [usize; 3],
        dtype: FloatDType,
        device: &Device,
    ) -> Self {
        let twice = |number: fn(f32) -> f32| {
            let rows = angles.chunks_exact(half);
            let numbers: Vec<f32> =
                rows.flat_map(|row| row.iter().chain(row).map(|angle| number(*angle))).collect();
            let data = TensorData::new(numbers, [batch, 1, tokens, 2 * half]);
            Tensor::<4>::from_data(data, device).cast(dtype)
        };
        Self { cos: twice(f32::cos), sin: twice(f32::sin) }
    }

    /// Turns `[b, heads, s, head]` by the angles of its tokens.
    pub(super) fn turn(&self, x: Tensor<4>) -> Tensor<4> {
        let width = x.dims()[3];
        let low = x.clone().narrow(3, 0, width / 2);
        let high = x.clone().narrow(3, width / 2, width / 2);
        x * self.cos.clone() + Tensor::cat(vec![high.neg(), low], 3) * self.sin.clone()
    }

    /// The angles of one token of each sequence.
    pub(super) fn at(&self, tokens: &[usize]) -> Self {
        let pick = |x: &Tensor<4>| {
            let rows =
                tokens.iter().enumerate().map(|(b, token)| x.clone().narrow(0, b, 1).narrow(2, *token, 1));
            Tensor::cat(rows.collect(), 0)
        };
        Self { cos: pick(&self.cos), sin: pick(&self.sin) }
    }
}

/// What tokens look at.
#[derive(Clone, Debug)]
pub(super) enum Attend {
    /// Everything.
    All,
    /// What stands before them, and themselves; with fewer tokens than keys, the tokens are the last ones.
    Causal,
    /// All but what is true here, `[b, 1, tokens, keys]`.
    Masked(Box<Tensor<4, Bool>>),
}

impl Attend {
    /// What one token of each sequence looks at.
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

/// Softmax attention of `[b, heads, s, head]` over keys and values `[b, kv_heads, t, head]`.
pub(super) fn attend(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, attend: &Attend) -> Tensor<4> {
    let [batch, heads, tokens, width] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let options =
        AttentionModuleOptions { is_causal: matches!(attend, Attend::Causal), ..Default::default() };
    if !q.is_autodiff() && !k.is_autodiff() && !v.is_autodiff() {
        let mask = match attend {
            Attend::Masked(mask) => Some((**mask).clone().expand([batch, heads, tokens, keys])),
            _ => None,
        };
        return attention(q, k, v, mask, None, options);
    }
    // Heads that share keys become rows, so that keys need not be repeated.
    let group = heads / kv_heads;
    let rows = q.reshape([batch, kv_heads, group * tokens, width]) * (width as f64).powf(-0.5);
    let scores = rows.matmul(k.swap_dims(2, 3)).reshape([batch, heads, tokens, keys]);
    let scores = match attend {
        Attend::All => scores,
        Attend::Causal => {
            let later = later_keys(tokens, keys, &scores.device());
            scores.mask_fill(later.expand([batch, heads, tokens, keys]), f32::NEG_INFINITY)
        }
        Attend::Masked(mask) => {
            scores.mask_fill((**mask).clone().expand([batch, heads, tokens, keys]), f32::NEG_INFINITY)
        }
    };
    let weights = burn::tensor::activation::softmax(scores, 3);
    let mixed = weights.reshape([batch, kv_heads, group * tokens, keys]).matmul(v);
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
