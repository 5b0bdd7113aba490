//! Softmax attention and its gradient.
//!
//! Numbers lie token by token, `[sequence, token, head, number]`, as linear layers give and take them. Heads that ask
//! share keys and values in groups.

use super::product::{Matrix, PackedRight};
use super::rows::{add_into, softmax_rows};
use super::threads::{Shared, for_each};
use super::{Isa, Precision, unfilled};

/// The sizes of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: usize,
    /// Tokens that ask.
    pub tokens: usize,
    /// Tokens that are asked.
    pub keys: usize,
    /// Heads that ask.
    pub heads: usize,
    /// Heads that are asked.
    pub kv_heads: usize,
    /// Numbers of a head.
    pub width: usize,
    /// Whether tokens look only at what stands before them, the last token at everything.
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

    /// Numbers of the shares that tokens give to keys.
    #[must_use]
    pub fn shares_len(&self) -> usize {
        self.batch * self.heads * self.tokens * self.keys
    }

    fn scale(&self) -> f32 {
        (self.width as f32).powf(-0.5)
    }

    /// How many keys the first token looks at, and how many more each next one.
    fn seen(&self) -> [usize; 2] {
        if self.causal { [1 + self.keys - self.tokens, 1] } else { [self.keys, 0] }
    }

    /// The queries of a head.
    fn asking<'a>(&self, numbers: &'a [f32], sequence: usize, head: usize) -> Matrix<'a> {
        let row = self.heads * self.width;
        let from = sequence * self.tokens * row + head * self.width;
        Matrix::strided(&numbers[from..], self.tokens, self.width, row)
    }

    /// The keys or values of a head.
    fn asked<'a>(&self, numbers: &'a [f32], sequence: usize, head: usize) -> Matrix<'a> {
        let row = self.kv_heads * self.width;
        let from = sequence * self.keys * row + head * self.width;
        Matrix::strided(&numbers[from..], self.keys, self.width, row)
    }
}

/// Attention. What is given to keys is written to `shares` `[sequence, head, token, key]`, if wanted.
///
/// # Panics
/// When a slice has another length than the sizes say.
pub fn forward(
    shape: &AttentionShape,
    [queries, keys, values]: [&[f32]; 3],
    output: &mut [f32],
    shares: Option<&mut [f32]>,
) {
    assert_eq!((queries.len(), output.len()), (shape.queries_len(), shape.queries_len()));
    assert_eq!((keys.len(), values.len()), (shape.keys_len(), shape.keys_len()));
    assert!(shares.as_ref().is_none_or(|shares| shares.len() == shape.shares_len()));
    let isa = Isa::best(Precision::F32);
    let group = shape.heads / shape.kv_heads;
    let (output, wanted) = (Shared::of(output), shares.is_some());
    let shares = shares.map(Shared::of);
    for_each(shape.batch * shape.kv_heads, |task| {
        let (sequence, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        let keys = PackedRight::new(isa, shape.asked(keys, sequence, kv_head));
        let values = PackedRight::new(isa, shape.asked(values, sequence, kv_head).turned());
        let size = shape.tokens * shape.keys;
        let mut own = if wanted { Vec::new() } else { unfilled(size) };
        let mut mixed = unfilled(shape.tokens * shape.width);
        for head in kv_head * group..(kv_head + 1) * group {
            let scores = match shares {
                // SAFETY: each head of each sequence has its own part.
                Some(shares) => unsafe {
                    let start = shares.at((sequence * shape.heads + head) * size);
                    std::slice::from_raw_parts_mut(start, size)
                },
                None => &mut own[..],
            };
            keys.multiply(shape.asking(queries, sequence, head), None, scores);
            softmax_rows(isa, scores, shape.keys, shape.scale(), shape.seen());
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

/// The gradients of queries, keys and values, from that of the output and the shares of the forward pass.
///
/// # Panics
/// When a slice has another length than the sizes say.
#[must_use]
pub fn backward(
    shape: &AttentionShape,
    [queries, keys, values]: [&[f32]; 3],
    shares: &[f32],
    gradient: &[f32],
) -> [Vec<f32>; 3] {
    assert_eq!((queries.len(), gradient.len()), (shape.queries_len(), shape.queries_len()));
    assert_eq!((keys.len(), values.len()), (shape.keys_len(), shape.keys_len()));
    assert_eq!(shares.len(), shape.shares_len());
    let isa = Isa::best(Precision::F32);
    let group = shape.heads / shape.kv_heads;
    let mut found = [unfilled(queries.len()), unfilled(keys.len()), unfilled(values.len())];
    let [of_queries, of_keys, of_values] = &mut found;
    let [of_queries, of_keys, of_values] =
        [of_queries, of_keys, of_values].map(|numbers| Shared::of(numbers));
    let (tokens, width, size) = (shape.tokens, shape.width, shape.tokens * shape.keys);
    for_each(shape.batch * shape.kv_heads, |task| {
        let (sequence, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        let key_rows = PackedRight::new(isa, shape.asked(keys, sequence, kv_head).turned());
        let value_rows = PackedRight::new(isa, shape.asked(values, sequence, kv_head));
        let mut slopes = unfilled(size);
        let mut rows = unfilled(tokens * width);
        let mut one = unfilled(shape.keys * width);
        let (mut key_sum, mut value_sum) = (vec![0.0; one.len()], vec![0.0; one.len()]);
        for head in kv_head * group..(kv_head + 1) * group {
            let asking = shape.asking(queries, sequence, head);
            let outer = shape.asking(gradient, sequence, head);
            let shares = &shares[(sequence * shape.heads + head) * size..][..size];
            let given = Matrix::new(shares, tokens, shape.keys);
            PackedRight::new(isa, outer.turned()).multiply(given.turned(), None, &mut one);
            add_into(&mut value_sum, &one);
            value_rows.multiply(outer, None, &mut slopes);
            softmax_slopes(shares, &mut slopes, shape.keys, shape.scale());
            let slopes = Matrix::new(&slopes, tokens, shape.keys);
            key_rows.multiply(slopes, None, &mut rows);
            // SAFETY: this head's numbers of this sequence, which no other task has.
            unsafe {
                scatter(&rows, tokens, width, of_queries, head_start(shape, sequence, head), shape.heads)
            };
            PackedRight::new(isa, asking.turned()).multiply(slopes.turned(), None, &mut one);
            add_into(&mut key_sum, &one);
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

/// Slopes by the shares to slopes by the scores before scaling.
fn softmax_slopes(shares: &[f32], slopes: &mut [f32], keys: usize, scale: f32) {
    for (shares, slopes) in shares.chunks_exact(keys).zip(slopes.chunks_exact_mut(keys)) {
        let mean: f32 = super::rows::dot(shares, slopes);
        slopes.iter_mut().zip(shares).for_each(|(slope, share)| *slope = share * (*slope - mean) * scale);
    }
}
