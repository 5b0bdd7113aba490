//! Softmax attention and its gradient.
//!
//! Numbers lie token by token, `[sequence, token, head, number]`, as linear layers give and take them. Query heads share
//! keys and values in groups.

use super::gemm::{Matrix, PackedRight};
use super::norm_rope_softmax::{softmax_backward, softmax_rows};
use super::sums::add_to;
use super::threads::{Shared, for_each};
use super::{Isa, Precision, unfilled};

/// The sizes of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: usize,
    /// Query tokens.
    pub tokens: usize,
    /// Key tokens.
    pub keys: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub width: usize,
    /// Whether attention is causal: each token attends to the tokens up to itself, the last to all.
    pub causal: bool,
}

impl AttentionShape {
    /// Numbers of queries and of the output.
    #[must_use]
    pub fn queries_len(&self) -> usize {
        self.batch * self.tokens * self.heads * self.width
    }

    /// Numbers of keys, and of values.
    #[must_use]
    pub fn keys_len(&self) -> usize {
        self.batch * self.keys * self.kv_heads * self.width
    }

    /// Numbers of the attention probabilities.
    #[must_use]
    pub fn probs_len(&self) -> usize {
        self.batch * self.heads * self.tokens * self.keys
    }

    fn scale(&self) -> f32 {
        (self.width as f32).powf(-0.5)
    }

    /// How many keys the first token attends to, and how many more each next one.
    fn visible_keys(&self) -> [usize; 2] {
        if self.causal { [1 + self.keys - self.tokens, 1] } else { [self.keys, 0] }
    }

    /// The queries of a head.
    fn query_matrix<'a>(&self, numbers: &'a [f32], sequence: usize, head: usize) -> Matrix<'a> {
        let row = self.heads * self.width;
        let from = sequence * self.tokens * row + head * self.width;
        Matrix::strided(&numbers[from..], self.tokens, self.width, row)
    }

    /// The keys or values of a head.
    fn key_matrix<'a>(&self, numbers: &'a [f32], sequence: usize, head: usize) -> Matrix<'a> {
        let row = self.kv_heads * self.width;
        let from = sequence * self.keys * row + head * self.width;
        Matrix::strided(&numbers[from..], self.keys, self.width, row)
    }
}

/// Attention. Keys are hidden from a token where `hidden` `[sequence, token, key]` says so, and must not all be. The
/// probabilities are written to `probs` `[sequence, head, token, key]`, if wanted.
///
/// # Panics
/// When a slice has another length than the sizes say.
pub fn forward(
    shape: &AttentionShape,
    [queries, keys, values]: [&[f32]; 3],
    hidden: Option<&[bool]>,
    output: &mut [f32],
    probs: Option<&mut [f32]>,
) {
    assert_eq!((queries.len(), output.len()), (shape.queries_len(), shape.queries_len()));
    assert_eq!((keys.len(), values.len()), (shape.keys_len(), shape.keys_len()));
    assert!(probs.as_ref().is_none_or(|probs| probs.len() == shape.probs_len()));
    assert!(hidden.is_none_or(|hidden| hidden.len() * shape.heads == shape.probs_len()));
    let isa = Isa::best(Precision::F32);
    let group = shape.heads / shape.kv_heads;
    let (output, wanted) = (Shared::of(output), probs.is_some());
    let probs = probs.map(Shared::of);
    for_each(shape.batch * shape.kv_heads, |task| {
        let (sequence, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        let keys = PackedRight::new(isa, shape.key_matrix(keys, sequence, kv_head));
        let values = PackedRight::new(isa, shape.key_matrix(values, sequence, kv_head).transposed());
        let size = shape.tokens * shape.keys;
        let mut own = if wanted { Vec::new() } else { unfilled(size) };
        let mut mixed = unfilled(shape.tokens * shape.width);
        for head in kv_head * group..(kv_head + 1) * group {
            let scores = match probs {
                // SAFETY: each head of each sequence has its own part.
                Some(probs) => unsafe {
                    let start = probs.at((sequence * shape.heads + head) * size);
                    std::slice::from_raw_parts_mut(start, size)
                },
                None => &mut own[..],
            };
            keys.multiply(shape.query_matrix(queries, sequence, head), None, scores);
            if let Some(hidden) = hidden {
                let hidden = scores.iter_mut().zip(&hidden[sequence * size..]).filter(|(_, hidden)| **hidden);
                hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
            }
            softmax_rows(isa, scores, shape.keys, shape.scale(), shape.visible_keys());
            values.multiply(Matrix::new(scores, shape.tokens, shape.keys), None, &mut mixed);
            // SAFETY: this head's numbers of this sequence, which no other task has.
            unsafe {
                scatter(
                    &mixed,
                    shape.tokens,
                    shape.width,
                    output,
                    head_start(shape, sequence, head),
                    shape.heads,
                )
            };
        }
    });
}

fn head_start(shape: &AttentionShape, sequence: usize, head: usize) -> usize {
    (sequence * shape.tokens * shape.heads + head) * shape.width
}

/// Writes rows of `width` numbers to where a head's numbers are.
///
/// # Safety
/// They are inside, and no other thread writes there.
unsafe fn scatter(rows: &[f32], count: usize, width: usize, target: Shared<f32>, start: usize, heads: usize) {
    for row in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let to = target.at(start + row * heads * width);
            to.copy_from_nonoverlapping(rows[row * width..].as_ptr(), width);
        }
    }
}

/// The gradients of queries, keys and values, from that of the output and the probabilities of the forward pass.
///
/// # Panics
/// When a slice has another length than the sizes say.
#[must_use]
pub fn backward(
    shape: &AttentionShape,
    [queries, keys, values]: [&[f32]; 3],
    probs: &[f32],
    gradient: &[f32],
) -> [Vec<f32>; 3] {
    assert_eq!((queries.len(), gradient.len()), (shape.queries_len(), shape.queries_len()));
    assert_eq!((keys.len(), values.len()), (shape.keys_len(), shape.keys_len()));
    assert_eq!(probs.len(), shape.probs_len());
    let isa = Isa::best(Precision::F32);
    let group = shape.heads / shape.kv_heads;
    let mut found = [unfilled(queries.len()), unfilled(keys.len()), unfilled(values.len())];
    let [of_queries, of_keys, of_values] = &mut found;
    let [of_queries, of_keys, of_values] =
        [of_queries, of_keys, of_values].map(|numbers| Shared::of(numbers));
    let (tokens, width, size) = (shape.tokens, shape.width, shape.tokens * shape.keys);
    for_each(shape.batch * shape.kv_heads, |task| {
        let (sequence, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        let key_rows = PackedRight::new(isa, shape.key_matrix(keys, sequence, kv_head).transposed());
        let value_rows = PackedRight::new(isa, shape.key_matrix(values, sequence, kv_head));
        let mut gradients = unfilled(size);
        let mut rows = unfilled(tokens * width);
        let mut one = unfilled(shape.keys * width);
        let (mut key_sum, mut value_sum) = (vec![0.0; one.len()], vec![0.0; one.len()]);
        for head in kv_head * group..(kv_head + 1) * group {
            let query_matrix = shape.query_matrix(queries, sequence, head);
            let outer = shape.query_matrix(gradient, sequence, head);
            let probs = &probs[(sequence * shape.heads + head) * size..][..size];
            let given = Matrix::new(probs, tokens, shape.keys);
            PackedRight::new(isa, outer.transposed()).multiply(given.transposed(), None, &mut one);
            add_to(&mut value_sum, &one);
            value_rows.multiply(outer, None, &mut gradients);
            softmax_backward(isa, probs, &mut gradients, shape.keys, shape.scale());
            let gradients = Matrix::new(&gradients, tokens, shape.keys);
            key_rows.multiply(gradients, None, &mut rows);
            // SAFETY: this head's numbers of this sequence, which no other task has.
            unsafe {
                scatter(&rows, tokens, width, of_queries, head_start(shape, sequence, head), shape.heads)
            };
            PackedRight::new(isa, query_matrix.transposed()).multiply(gradients.transposed(), None, &mut one);
            add_to(&mut key_sum, &one);
        }
        let start = (sequence * shape.keys * shape.kv_heads + kv_head) * width;
        // SAFETY: as above.
        unsafe {
            scatter(&key_sum, shape.keys, width, of_keys, start, shape.kv_heads);
            scatter(&value_sum, shape.keys, width, of_values, start, shape.kv_heads);
        }
    });
    found
}
