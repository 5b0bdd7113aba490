//! Products of large matrices: `left [m, k]` times the transpose of `right [n, k]`.
//!
//! Both sides are copied into the order in which the register tile reads them: words of several rows side by side, one
//! place along `k` after another. The right side is arranged by the caller, once for many products if it stays
//! ([`PackedRight`]); the left side in pieces that stay in the cache while all panels of the right side pass by.

use super::tile::{GemmEpilogue, TileStrides, even_pieces, tile_of_width};
use crate::kernels::memory::{Workspace, with_workspace};
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each};

/// A matrix in memory, one of whose strides is 1.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    numbers: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Rows one after another.
    ///
    /// # Panics
    /// When there are not as many numbers.
    #[must_use]
    pub fn new(numbers: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(numbers.len(), rows * columns, "a matrix of {rows}x{columns}");
        Self { numbers, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Rows of `columns` numbers that begin `stride` numbers after one another.
    ///
    /// # Panics
    /// When there are not enough numbers.
    #[must_use]
    pub fn strided(numbers: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(rows == 0 || numbers.len() >= (rows - 1) * stride + columns, "a matrix of {rows}x{columns}");
        Self { numbers, rows, columns, row_stride: stride, column_stride: 1 }
    }

    /// The transpose, without moving anything.
    #[must_use]
    pub fn transposed(self) -> Self {
        let Self { numbers, rows, columns, row_stride, column_stride } = self;
        Self { numbers, rows: columns, columns: rows, row_stride: column_stride, column_stride: row_stride }
    }

    /// The piece that begins at a row and column, arranged by [`Arrange`].
    fn piece(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        width: usize,
        target: *mut u32,
    ) -> Arrange {
        assert!(row + rows <= self.rows && column + columns <= self.columns);
        let source = self.numbers[row * self.row_stride + column * self.column_stride..].as_ptr();
        let (row_stride, column_stride) = (self.row_stride, self.column_stride);
        Arrange { source, row_stride, column_stride, rows, columns, width, target }
    }
}

/// Words along `k` that a tile sums before it writes: a panel of as many stays in the first cache.
const DEPTH: usize = 256;
/// Tiles of rows that share panels: so many that their operands stay in the second cache.
const TILES: usize = 20;
/// Panels that one thread takes at a time.
const PANELS: usize = 32;

/// The right side of products, arranged for the register tile. Threads share it.
pub struct PackedRight {
    isa: Isa,
    words: Workspace,
    rows: usize,
    columns: usize,
}

impl std::fmt::Debug for PackedRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedRight({}x{}, {})", self.rows, self.columns, self.isa.name())
    }
}

impl PackedRight {
    /// Arranges `[n, k]`.
    #[must_use]
    pub fn new(isa: Isa, right: Matrix<'_>) -> Self {
        let tile = isa.tile();
        let (depth, panels) = (tile.words(right.columns), right.rows.div_ceil(tile.columns));
        let mut words = Workspace::of(panels * depth * tile.columns * 4);
        let target = Shared::new(words.start().cast::<u32>());
        for_each(panels, |panel| {
            let first = panel * tile.columns;
            let rows = tile.columns.min(right.rows - first);
            // SAFETY: each panel has its own part of the workspace.
            let target = unsafe { target.at(panel * depth * tile.columns) };
            isa.run(right.piece(first, 0, rows, right.columns, tile.columns, target));
        });
        Self { isa, words, rows: right.rows, columns: right.columns }
    }

    /// Rows, which are the columns of a product.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Writes `left * rightᵀ`, plus `bias` to every row of it, to `output [m, n]`.
    ///
    /// # Panics
    /// When the sizes do not go together.
    pub fn multiply(&self, left: Matrix<'_>, bias: Option<&[f32]>, output: &mut [f32]) {
        assert_eq!(left.columns, self.columns, "both sides of a product sum over the same");
        assert_eq!(output.len(), left.rows * self.rows);
        assert!(bias.is_none_or(|bias| bias.len() == self.rows));
        if output.is_empty() {
            return;
        }
        let tile = self.isa.tile();
        let panels = self.rows.div_ceil(tile.columns);
        let blocks: Vec<(usize, usize)> = even_pieces(left.rows, TILES * tile.rows).collect();
        let threads = rayon::current_num_threads();
        // Few rows still give every thread work.
        let chunk = PANELS.min(panels.div_ceil((2 * threads).div_ceil(blocks.len()))).max(1);
        let chunks = panels.div_ceil(chunk);
        let target = Shared::of(output);
        for_each(blocks.len() * chunks, |task| {
            let (block, first) = (blocks[task / chunks], task % chunks * chunk);
            // SAFETY: the first number of the output.
            let output = unsafe { target.at(0) };
            let panels = first..panels.min(first + chunk);
            let bytes = block.1 * DEPTH * 4;
            with_workspace(bytes, |left_words| {
                self.isa.run(Block {
                    right: self,
                    left,
                    bias,
                    rows: block,
                    panels,
                    words: left_words.cast(),
                    output,
                });
            });
        });
    }
}

/// Some rows of the left side with some panels of the right.
struct Block<'a> {
    right: &'a PackedRight,
    left: Matrix<'a>,
    bias: Option<&'a [f32]>,
    /// First and count.
    rows: (usize, usize),
    panels: std::ops::Range<usize>,
    /// Room for the operands of the rows, `DEPTH` words each.
    words: *mut u32,
    output: *mut f32,
}

impl Kernel for Block<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        let Self { right, left, bias, rows: (first_row, count), panels, words, output } = self;
        let width = 2 * L::WIDTH;
        let depth = right.columns.div_ceil(L::OPERANDS_PER_WORD);
        let numbers = DEPTH * L::OPERANDS_PER_WORD;
        for start in (0..right.columns).step_by(numbers) {
            let columns = numbers.min(right.columns - start);
            let deep = columns.div_ceil(L::OPERANDS_PER_WORD);
            for (row, rows) in even_pieces(count, L::ROWS) {
                // SAFETY: the rows before this one took `row * deep` words.
                let target = unsafe { words.add(row * deep) };
                left.piece(first_row + row, start, rows, columns, rows, target).run(simd);
            }
            for panel in panels.clone() {
                let first_column = panel * width;
                let columns = width.min(right.rows - first_column);
                let end = match bias {
                    _ if start > 0 => GemmEpilogue::Add,
                    Some(bias) => GemmEpilogue::Bias(&bias[first_column..]),
                    None => GemmEpilogue::Write,
                };
                for (row, rows) in even_pieces(count, L::ROWS) {
                    let strides = TileStrides {
                        depth: deep,
                        blocks: 1,
                        a_row: 1,
                        a_step: rows,
                        a_block: 0,
                        b_row: width,
                        b_block: 0,
                        c_row: right.rows,
                    };
                    // SAFETY: the operands were written above, those of the right side by `PackedRight::new`; the tile is
                    // inside the output, and no other task has it.
                    unsafe {
                        let words_before = (panel * depth + start / L::OPERANDS_PER_WORD) * width;
                        let b = right.words.as_ptr().cast::<u32>().add(words_before);
                        let c = output.add((first_row + row) * right.rows + first_column);
                        tile_of_width(simd, &strides, end, rows, columns, words.add(row * deep), b, c);
                    }
                }
            }
        }
    }
}

/// Copies `rows` rows of `columns` numbers to words `[word, width]`: those of all rows side by side, zeros beside them.
struct Arrange {
    source: *const f32,
    row_stride: usize,
    column_stride: usize,
    rows: usize,
    columns: usize,
    /// Rows in the result; at least as many.
    width: usize,
    target: *mut u32,
}

impl Kernel for Arrange {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        // SAFETY: who made `self` has the numbers, and room for all words.
        unsafe {
            if self.column_stride == 1 { self.rows_of_numbers(simd) } else { self.columns_of_numbers(simd) }
        }
    }
}

impl Arrange {
    /// From rows that lie one number after another.
    ///
    /// # Safety
    /// The numbers are there, and room for the words.
    #[inline(always)]
    unsafe fn rows_of_numbers<L: Simd>(&self, simd: L) {
        let per_vector = L::WIDTH / L::OPERANDS_PER_WORD;
        let mut words = [0u32; 64];
        // SAFETY: as the caller promises; a vector of operands is at most 64 bytes.
        unsafe {
            if self.rows < self.width {
                let depth = self.columns.div_ceil(L::OPERANDS_PER_WORD);
                self.target.write_bytes(0, depth * self.width);
            }
            for row in 0..self.rows {
                let source = self.source.add(row * self.row_stride);
                for start in (0..self.columns).step_by(L::WIDTH) {
                    let count = L::WIDTH.min(self.columns - start);
                    let vector = if count == L::WIDTH {
                        simd.load(source.add(start))
                    } else {
                        simd.load_first(source.add(start), count)
                    };
                    simd.store_operands(words.as_mut_ptr().cast(), vector);
                    let first = start / L::OPERANDS_PER_WORD;
                    let target = self.target.add(first * self.width + row);
                    let used = count.div_ceil(L::OPERANDS_PER_WORD).min(per_vector);
                    for (i, word) in words[..used].iter().enumerate() {
                        *target.add(i * self.width) = *word;
                    }
                }
            }
        }
    }

    /// From columns that lie one number after another.
    ///
    /// # Safety
    /// The numbers are there, and room for the words.
    #[inline(always)]
    unsafe fn columns_of_numbers<L: Simd>(&self, simd: L) {
        let mut words = [0u32; 64];
        // SAFETY: as the caller promises; a vector has at most 64 words.
        unsafe {
            for word in 0..self.columns.div_ceil(L::OPERANDS_PER_WORD) {
                for lane in (0..self.width).step_by(L::WIDTH) {
                    let count = L::WIDTH.min(self.rows.saturating_sub(lane));
                    let mut vectors = [simd.splat(0.0); 2];
                    for (i, vector) in vectors.iter_mut().enumerate().take(L::OPERANDS_PER_WORD) {
                        let column = word * L::OPERANDS_PER_WORD + i;
                        if column < self.columns && count > 0 {
                            *vector =
                                simd.load_first(self.source.add(column * self.column_stride + lane), count);
                        }
                    }
                    let (target, room) =
                        (self.target.add(word * self.width + lane), L::WIDTH.min(self.width - lane));
                    if room == L::WIDTH {
                        simd.store_words(target, vectors);
                    } else {
                        simd.store_words(words.as_mut_ptr(), vectors);
                        target.copy_from_nonoverlapping(words.as_ptr(), room);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Precision;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.0 - 1.0).collect()
    }

    #[test]
    fn products_are_those_of_plain_loops() {
        for (m, n, k) in
            [(1, 1, 1), (13, 33, 17), (250, 70, 300), (3, 1100, 600), (24, 32, 1024), (7, 5, 513)]
        {
            let (left, right, bias) = (numbers(m * k, 1), numbers(n * k, 2), numbers(n, 3));
            let at = |row: usize, column: usize| -> f64 {
                let products =
                    (0..k).map(|i| f64::from(left[row * k + i]) * f64::from(right[column * k + i]));
                products.sum::<f64>() + f64::from(bias[column])
            };
            let expected: Vec<f64> = (0..m * n).map(|i| at(i / n, i % n)).collect();
            let turn = |numbers: &[f32], rows: usize, columns: usize| -> Vec<f32> {
                (0..numbers.len()).map(|i| numbers[i % rows * columns + i / rows]).collect()
            };
            let (left_transposed, right_transposed) = (turn(&left, m, k), turn(&right, n, k));
            for isa in Isa::all() {
                let allowed = if isa.precision() == Precision::Bf16 {
                    0.01 * (k as f64).sqrt()
                } else {
                    1e-5 * k as f64
                };
                let lefts = [Matrix::new(&left, m, k), Matrix::new(&left_transposed, k, m).transposed()];
                let rights = [Matrix::new(&right, n, k), Matrix::new(&right_transposed, k, n).transposed()];
                for (left, right) in [
                    (lefts[0], rights[0]),
                    (lefts[1], rights[0]),
                    (lefts[0], rights[1]),
                    (lefts[1], rights[1]),
                ] {
                    let mut output = vec![f32::NAN; m * n];
                    PackedRight::new(isa, right).multiply(left, Some(&bias), &mut output);
                    let off = |(found, expected): (&f32, &f64)| (f64::from(*found) - expected).abs();
                    let worst = output
                        .iter()
                        .zip(&expected)
                        .map(off)
                        .fold(0.0, |a: f64, b| if b <= a { a } else { b });
                    assert!(worst < allowed + 1e-6, "{m}x{n}x{k} on {}: {worst}", isa.name());
                }
            }
        }
    }
}
