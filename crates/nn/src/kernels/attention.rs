//! Softmax attention and its gradient.
//!
//! Numbers lie token by token, `[sequence, token, head, number]`, as linear layers give and take them. Query heads share
//! keys and values in groups.

use std::ops::Range;

use super::gemm::{Matrix, PackedRight};
use super::norm_rope_softmax::{softmax_backward, softmax_rows};
use super::sums::add_to;
use super::threads::{Shared, for_each};
use super::{Isa, Precision, unfilled};

/// Scores that a thread holds at once where the probabilities are not wanted.
pub(crate) const SCORES_AT_ONCE: usize = 1 << 20;

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

    /// How many query tokens are scored at once where the probabilities are not wanted, so that the memory for their scores
    /// does not grow with the square of the tokens.
    fn query_rows(&self) -> usize {
        (SCORES_AT_ONCE / self.keys.max(1)).clamp(1, self.tokens.max(1))
    }

    /// Some queries of a head.
    fn query_matrix<'a>(
        &self,
        numbers: &'a [f32],
        sequence: usize,
        head: usize,
        tokens: Range<usize>,
    ) -> Matrix<'a> {
        let row = self.heads * self.width;
        let from = (sequence * self.tokens + tokens.start) * row + head * self.width;
        Matrix::strided(&numbers[from..], tokens.len(), self.width, row)
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
        let rows = if wanted { shape.tokens } else { shape.query_rows() };
        let mut own = if wanted { Vec::new() } else { unfilled(rows * shape.keys) };
        let mut mixed = unfilled(rows * shape.width);
        let heads = kv_head * group..(kv_head + 1) * group;
        for (head, from) in
            heads.flat_map(|head| (0..shape.tokens).step_by(rows).map(move |from| (head, from)))
        {
            let count = rows.min(shape.tokens - from);
            let scores = match probs {
                // SAFETY: each head of each sequence has its own part.
                Some(probs) => unsafe {
                    let start = probs.at((sequence * shape.heads + head) * size);
                    std::slice::from_raw_parts_mut(start, size)
                },
                None => &mut own[..count * shape.keys],
            };
            keys.multiply(shape.query_matrix(queries, sequence, head, from..from + count), None, scores);
            if let Some(hidden) = hidden {
                let hidden = &hidden[sequence * size + from * shape.keys..];
                let hidden = scores.iter_mut().zip(hidden).filter(|(_, hidden)| **hidden);
                hidden.for_each(|(score, _)| *score = f32::NEG_INFINITY);
            }
            let [first, step] = shape.visible_keys();
            softmax_rows(isa, scores, shape.keys, shape.scale(), [first + from * step, step]);
            let mixed = &mut mixed[..count * shape.width];
            values.multiply(Matrix::new(scores, count, shape.keys), None, mixed);
            let start = head_start(shape, sequence, head) + from * shape.heads * shape.width;
            // SAFETY: this head's numbers of this sequence, which no other task has.
            unsafe { scatter(mixed, count, shape.width, output, start, shape.heads) };
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
            let query_matrix = shape.query_matrix(queries, sequence, head, 0..tokens);
            let outer = shape.query_matrix(gradient, sequence, head, 0..tokens);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores of so many tokens do not fit at once; with probabilities wanted, they are all there.
    #[test]
    fn scores_in_blocks_are_the_same_bits() {
        for (tokens, keys, causal) in [(1500, 1500, true), (700, 1601, true), (1100, 1100, false)] {
            let shape = AttentionShape { batch: 1, tokens, keys, heads: 2, kv_heads: 1, width: 8, causal };
            assert!(shape.query_rows() < tokens);
            let numbers = |count: usize, from: usize| -> Vec<f32> {
                (0..count).map(|i| ((i * 37 + from) % 101) as f32 / 50.0 - 1.0).collect()
            };
            let (queries, keys, values) =
                (numbers(shape.queries_len(), 1), numbers(shape.keys_len(), 2), numbers(shape.keys_len(), 3));
            let hidden: Vec<bool> = (0..tokens * shape.keys).map(|i| i % 7 == 3).collect();
            for hidden in [None, Some(&hidden[..])] {
                let mut probs = unfilled(shape.probs_len());
                let outputs = [Some(&mut probs[..]), None].map(|probs| {
                    let mut output = unfilled(shape.queries_len());
                    forward(&shape, [&queries, &keys, &values], hidden, &mut output, probs);
                    output
                });
                assert!(outputs[0] == outputs[1], "{shape:?}");
            }
        }
    }
}
