//! Numbers as the products of bfloat16 take them: two neighbours along the depth in one word.

use bytemuck::cast_slice_mut;

use crate::kernels::layer_ops::StridedRows;
use crate::kernels::memory::LINE;
use crate::kernels::simd::{Simd, for_each_isa};

/// Words between the rows of [`pack_rows`]. The odd line is for the cache, as between the rows of a network's records.
pub(crate) fn row_words(width: usize) -> usize {
    width.div_ceil(2).next_multiple_of(LINE) + LINE
}

for_each_isa! {
    /// Rows side by side become rows of half as many words. Only for instructions that multiply bfloat16.
    pub(crate) fn pack_rows = pack_rows_of(values: &[f32], rows: StridedRows, words: &mut [f32], stride: usize);

    /// Two rows, one below the other, become one of words. A last row without a partner has zeros below.
    pub(crate) fn pack_pairs = pack_pairs_of(values: &[f32], rows: StridedRows, words: &mut [f32], stride: usize);
}

#[inline(always)]
fn pack_rows_of<L: Simd>(simd: L, values: &[f32], rows: StridedRows, words: &mut [f32], stride: usize) {
    assert!(L::OPERAND_BYTES == 2, "operands of one word each need no packing");
    let vectors = rows.width.div_ceil(L::WIDTH);
    assert!(vectors * L::WIDTH <= 2 * stride && rows.count * stride <= words.len());
    for (row, words) in rows.of(values).zip(words.chunks_exact_mut(stride)) {
        for vector in 0..vectors {
            let from = &row[vector * L::WIDTH..];
            let to = &mut words[vector * L::WIDTH / 2..];
            // SAFETY: at most what is left of the row is read; `stride` has room for whole vectors.
            unsafe {
                let numbers = simd.load_first(from.as_ptr(), from.len().min(L::WIDTH));
                simd.store_operands(to.as_mut_ptr().cast(), numbers);
            }
        }
    }
}

#[inline(always)]
fn pack_pairs_of<L: Simd>(_: L, values: &[f32], rows: StridedRows, words: &mut [f32], stride: usize) {
    let pairs = values.chunks(2 * rows.stride).zip(cast_slice_mut::<f32, u32>(words).chunks_mut(stride));
    for (pair, (rows_of_pair, words)) in pairs.take(rows.count.div_ceil(2)).enumerate() {
        let (first, words) = (&rows_of_pair[..rows.width], &mut words[..rows.width]);
        if 2 * pair + 1 < rows.count {
            let second = &rows_of_pair[rows.stride..][..rows.width];
            for ((word, a), b) in words.iter_mut().zip(first).zip(second) {
                *word = (rounded(*a) >> 16) | (rounded(*b) & 0xffff_0000);
            }
        } else {
            words.iter_mut().zip(first).for_each(|(word, a)| *word = rounded(*a) >> 16);
        }
    }
}

/// A number whose upper half is the nearest bfloat16, even in ties.
#[inline(always)]
fn rounded(x: f32) -> u32 {
    let bits = x.to_bits();
    let up = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    if x.is_nan() { 0x7fc0_0000 } else { up }
}
