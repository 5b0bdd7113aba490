//! Weights as the register tile wants them.

use crate::kernels::memory::{Workspace, unfilled};
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each};
use std::ops::Range;

/// The right side of a multiplication: `[panel, tap, word, column]`, as many columns as a tile has, each word one
/// operand or two neighbours along the inner side. What is missing of the last panel is zero.
pub(crate) struct Panels {
    words: Workspace,
    /// Words of one tap of one panel, without the columns.
    tap_words: usize,
    taps: usize,
    columns: usize,
    /// Panels.
    pub(super) count: usize,
    /// For each column, what a sum of integers is multiplied with; whole panels of it, or none if operands are the
    /// numbers they stand for.
    pub(super) units: Vec<f32>,
}

/// The largest weight as an integer.
const LARGEST_INT16: f32 = 32_000.0;
/// Weights of a column add up to no more than this as integers before they are rounded, less half of their count,
/// which is what rounding may add. The sum of products then stays inside 32 bits: `8191 * 262_000 < 2^31`, see
/// [`super::operands::LARGEST_INT16`].
const LARGEST_SUM: f32 = 262_000.0;

impl Panels {
    /// Packs weights `[tap, inner, column]`.
    pub(super) fn pack(isa: Isa, taps: usize, inner: usize, columns: usize, weights: &[f32]) -> Self {
        assert_eq!(weights.len(), taps * inner * columns);
        let tile = isa.tile();
        let (tap_words, count) = (tile.words(inner), columns.div_ceil(tile.columns));
        let mut words = Workspace::of(count * taps * tap_words * tile.columns * 4);
        let target = Shared::new(words.start().cast::<u32>());
        for_each(count * taps, |i| {
            let (panel, tap) = (i / taps, i % taps);
            let first = panel * tile.columns;
            isa.run(PackTap {
                rows: &weights[tap * inner * columns..][..inner * columns],
                stride: columns,
                columns: first..columns.min(first + tile.columns),
                words: tap_words,
                // SAFETY: inside the workspace, and each `i` has its own part of it.
                target: unsafe { target.at(i * tap_words * tile.columns) },
            });
        });
        Self { words, tap_words, taps, columns: tile.columns, count, units: Vec::new() }
    }

    /// Packs weights `[tap, inner, column]` as integers, each column in units of its own. A sum goes over all taps.
    pub(super) fn pack_int16(isa: Isa, taps: usize, inner: usize, columns: usize, weights: &[f32]) -> Self {
        let (mut largest, mut sums) = (vec![0.0f32; columns], vec![0.0f32; columns]);
        for (i, weight) in weights.iter().enumerate() {
            largest[i % columns] = largest[i % columns].max(weight.abs());
            sums[i % columns] += weight.abs();
        }
        let most = LARGEST_SUM - (taps * inner) as f32 / 2.0;
        // What is not a number makes all sums of its column not numbers.
        let scale = |(&largest, &sum): (&f32, &f32)| match sum.is_finite() {
            true if sum == 0.0 => 1.0,
            true => (LARGEST_INT16 / largest).min(most / sum),
            false => f32::NAN,
        };
        let scales: Vec<f32> = largest.iter().zip(&sums).map(scale).collect();
        let scaled: Vec<f32> = weights.iter().enumerate().map(|(i, x)| x * scales[i % columns]).collect();
        let units: Vec<f32> = scales.iter().map(|scale| 1.0 / scale).collect();
        let units = padded_to_tiles(isa, &units);
        Self { units, ..Self::pack(isa, taps, inner, columns, &scaled) }
    }

    /// Words from one panel to the next.
    pub(super) fn stride(&self) -> usize {
        self.taps * self.tap_stride()
    }

    /// Words from one tap of a panel to the next.
    pub(super) fn tap_stride(&self) -> usize {
        self.tap_words * self.columns
    }

    /// Words of a tap, without the columns.
    pub(super) fn tap_words(&self) -> usize {
        self.tap_words
    }

    /// The first word of the first panel.
    pub(super) fn start(&self) -> *const u32 {
        self.words.as_ptr().cast()
    }
}

/// Packs some columns of one tap; there are at most those of a panel.
struct PackTap<'a> {
    rows: &'a [f32],
    /// Numbers of a row.
    stride: usize,
    columns: Range<usize>,
    words: usize,
    target: *mut u32,
}

impl Kernel for PackTap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        let rows = self.rows.len() / self.stride;
        for word in 0..self.words {
            for lane in [0, L::WIDTH] {
                let count = self.columns.len().saturating_sub(lane).min(L::WIDTH);
                let mut vectors = [simd.splat(0.0); 2];
                for (i, vector) in vectors.iter_mut().enumerate().take(L::OPERANDS_PER_WORD) {
                    let row = word * L::OPERANDS_PER_WORD + i;
                    if row < rows && count > 0 {
                        let from = row * self.stride + self.columns.start + lane;
                        // SAFETY: `count` columns from there on are inside the row.
                        *vector = unsafe { simd.load_first(self.rows.as_ptr().add(from), count) };
                    }
                }
                // SAFETY: a tap has room for all its words.
                unsafe { simd.store_words(self.target.add(word * 2 * L::WIDTH + lane), vectors) };
            }
        }
    }
}

/// Matrices `[count, rows, columns]` as `[count, columns, rows]`.
pub(super) fn transposed(isa: Isa, count: usize, rows: usize, columns: usize, matrices: &[f32]) -> Vec<f32> {
    const RUN: usize = 64;
    assert_eq!(matrices.len(), count * rows * columns);
    let mut transposed = unfilled(matrices.len());
    let target = Shared::of(&mut transposed);
    let runs = columns.div_ceil(RUN);
    for_each(count * runs, |i| {
        let (matrix, run) = (i / runs, i % runs);
        let columns_here = run * RUN..columns.min((run + 1) * RUN);
        let from = matrices[matrix * rows * columns..].as_ptr();
        // SAFETY: inside `transposed`, and each `i` has its own columns, which are rows there.
        let to = unsafe { target.at(matrix * rows * columns) };
        isa.run(Transpose { rows, columns, columns_here, from, to });
    });
    transposed
}

/// Turns some columns of a matrix into rows.
struct Transpose {
    rows: usize,
    columns: usize,
    columns_here: Range<usize>,
    from: *const f32,
    to: *mut f32,
}

impl Kernel for Transpose {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        let Self { rows, columns, columns_here, from, to } = self;
        for row in (0..rows).step_by(8) {
            for column in columns_here.clone().step_by(8) {
                // SAFETY: who made `self` has both matrices; a block that would reach beyond is done one by one.
                unsafe {
                    if row + 8 <= rows && column + 8 <= columns_here.end {
                        simd.transpose_8x8(
                            from.add(row * columns + column),
                            columns,
                            to.add(column * rows + row),
                            rows,
                        );
                        continue;
                    }
                    for row in row..rows.min(row + 8) {
                        for column in column..columns_here.end.min(column + 8) {
                            *to.add(column * rows + row) = *from.add(row * columns + column);
                        }
                    }
                }
            }
        }
    }
}

/// `bias`, filled up with zeros to whole tiles.
pub(super) fn padded_to_tiles(isa: Isa, values: &[f32]) -> Vec<f32> {
    let mut values = values.to_vec();
    values.resize(values.len().next_multiple_of(isa.tile().columns), 0.0);
    values
}
