//! Products a panel of columns at a time, of operands that lie where a network has them; and products for a few outputs.

use super::tile::{GemmEpilogue, TileStrides, even_pieces, load_up_to, tile_of_width};
use crate::kernels::simd::{Simd, for_each_isa};

/// Columns of a panel: two vectors of the widest kind.
pub(crate) const PANEL: usize = 32;

/// One panel of a product `A B`: `rows` by at most [`PANEL`] columns, of words that lie as [`TileStrides`] has it.
#[derive(Clone, Copy)]
pub(crate) struct PanelProduct<'a> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// In words.
    pub(crate) depth: usize,
    pub(crate) blocks: usize,
    /// `A[row, k]` lies at `row * a_row + k * a_step`, plus `a_block` for each block.
    pub(crate) a: &'a [u32],
    pub(crate) a_row: usize,
    pub(crate) a_step: usize,
    pub(crate) a_block: usize,
    /// `B[k, column]` lies at `k * b_row + column`, plus `b_block` for each block.
    pub(crate) b: &'a [u32],
    pub(crate) b_row: usize,
    pub(crate) b_block: usize,
    /// `C[row, column]` lies at `row * c_row + column`.
    pub(crate) c_row: usize,
    pub(crate) end: GemmEpilogue<'a>,
}

for_each_isa! {
    /// Computes the panel.
    pub(crate) fn panel_product = panel(job: &PanelProduct<'_>, c: &mut [f32]);

    /// `y[row, output] = sum of x[row, k] * w[output, k]`: the product for a few outputs, whose weights lie row by row.
    pub(crate) fn dots = dot_rows(x: &[f32], x_row: usize, w: &[f32], depth: usize, y: &mut [f32], y_row: usize, rows: usize, outputs: usize);

    /// Writes `to[j, i] = from[i, j]` for a matrix of `rows` by `columns`.
    pub(crate) fn transpose = transpose_any(from: &[f32], from_row: usize, to: &mut [f32], to_row: usize, rows: usize, columns: usize);
}

impl PanelProduct<'_> {
    fn check(&self, c: &[f32]) {
        let end = |row: usize, row_step: usize, k_step: usize, block: usize, width: usize| {
            (row - 1) * row_step + (self.depth - 1) * k_step + (self.blocks - 1) * block + width
        };
        assert!((1..=PANEL).contains(&self.columns) && self.blocks > 0 && self.depth > 0 && self.rows > 0);
        assert!(end(self.rows, self.a_row, self.a_step, self.a_block, 1) <= self.a.len());
        assert!(end(1, 0, self.b_row, self.b_block, self.columns) <= self.b.len());
        assert!((self.rows - 1) * self.c_row + self.columns <= c.len());
        if let GemmEpilogue::Bias(bias) | GemmEpilogue::BiasRelu(bias) = self.end {
            assert!(bias.len() >= self.columns);
        }
    }
}

#[inline(always)]
fn panel<L: Simd>(simd: L, job: &PanelProduct<'_>, c: &mut [f32]) {
    job.check(c);
    let PanelProduct { depth, blocks, a_row, a_step, a_block, b_row, b_block, c_row, .. } = *job;
    let strides = TileStrides { depth, blocks, a_row, a_step, a_block, b_row, b_block, c_row };
    let mut column = 0;
    while column < job.columns {
        let width = (job.columns - column).min(2 * L::WIDTH);
        let end = job.end.skipping(column);
        for (row, rows) in even_pieces(job.rows, L::ROWS) {
            // SAFETY: `check` found the ends of all three matrices inside their slices; `row` and `column` are
            // inside the panel.
            unsafe {
                let (a, b) = (job.a.as_ptr().add(row * job.a_row), job.b.as_ptr().add(column));
                let c = c.as_mut_ptr().add(row * job.c_row + column);
                tile_of_width(simd, &strides, end, rows, width, a, b, c);
            }
        }
        column += width;
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn dot_rows<L: Simd>(
    simd: L,
    x: &[f32],
    x_row: usize,
    w: &[f32],
    depth: usize,
    y: &mut [f32],
    y_row: usize,
    rows: usize,
    outputs: usize,
) {
    assert!(rows > 0 && outputs > 0 && (rows - 1) * x_row + depth <= x.len() && outputs * depth <= w.len());
    assert!((rows - 1) * y_row + outputs <= y.len());
    let strides = DotTile { x_row, depth, y_row };
    let mut row = 0;
    while row < rows {
        // SAFETY: the asserts above; a tile of four rows is taken only where four are left.
        unsafe {
            let (x, y) = (x.as_ptr().add(row * x_row), y.as_mut_ptr().add(row * y_row));
            if rows - row >= 4 {
                dot_outputs::<L, 4>(simd, &strides, x, w.as_ptr(), y, outputs);
                row += 4;
            } else {
                dot_outputs::<L, 1>(simd, &strides, x, w.as_ptr(), y, outputs);
                row += 1;
            }
        }
    }
}

struct DotTile {
    x_row: usize,
    depth: usize,
    y_row: usize,
}

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[inline(always)]
unsafe fn dot_outputs<L: Simd, const R: usize>(
    simd: L,
    strides: &DotTile,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
    outputs: usize,
) {
    let mut output = 0;
    while output < outputs {
        // SAFETY: the caller's; a tile of four outputs is taken only where four are left.
        unsafe {
            let (w, y) = (w.add(output * strides.depth), y.add(output));
            if outputs - output >= 4 {
                dot_tile::<L, R, 4>(simd, strides, x, w, y);
                output += 4;
            } else {
                dot_tile::<L, R, 1>(simd, strides, x, w, y);
                output += 1;
            }
        }
    }
}

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[inline(always)]
unsafe fn dot_tile<L: Simd, const R: usize, const O: usize>(
    simd: L,
    strides: &DotTile,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[simd.splat(0.0); O]; R];
        let mut k = 0;
        while k < strides.depth {
            let count = (strides.depth - k).min(L::WIDTH);
            let mut weights = [simd.splat(0.0); O];
            for (o, vector) in weights.iter_mut().enumerate() {
                *vector = load_up_to(simd, w.add(o * strides.depth + k), count);
            }
            for (r, row) in sums.iter_mut().enumerate() {
                let x = load_up_to(simd, x.add(r * strides.x_row + k), count);
                for (sum, w) in row.iter_mut().zip(weights) {
                    *sum = simd.mul_add(x, w, *sum);
                }
            }
            k += count;
        }
        for (r, row) in sums.iter().enumerate() {
            // Four at once are summed by fewer instructions than four alone.
            for o in (0..O).step_by(4) {
                let some = std::array::from_fn(|i| if o + i < O { row[o + i] } else { simd.splat(0.0) });
                for (i, sum) in simd.sums_of_four(some).into_iter().enumerate().take(O - o) {
                    *y.add(r * strides.y_row + o + i) = sum;
                }
            }
        }
    }
}

#[inline(always)]
fn transpose_any<L: Simd>(
    simd: L,
    from: &[f32],
    from_row: usize,
    to: &mut [f32],
    to_row: usize,
    rows: usize,
    columns: usize,
) {
    const SIDE: usize = 8;
    assert!(rows > 0 && columns > 0);
    assert!((rows - 1) * from_row + columns <= from.len() && (columns - 1) * to_row + rows <= to.len());
    let (full_rows, full_columns) = (rows - rows % SIDE, columns - columns % SIDE);
    for row in (0..full_rows).step_by(SIDE) {
        for column in (0..full_columns).step_by(SIDE) {
            let (from, to) = (&from[row * from_row + column..], &mut to[column * to_row + row..]);
            // SAFETY: the squares are inside both matrices, whose ends were checked.
            unsafe { simd.transpose_8x8(from.as_ptr(), from_row, to.as_mut_ptr(), to_row) };
        }
    }
    for row in 0..rows {
        let start = if row < full_rows { full_columns } else { 0 };
        for column in start..columns {
            to[column * to_row + row] = from[row * from_row + column];
        }
    }
}
