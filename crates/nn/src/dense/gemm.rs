//! Products of matrices, a panel of columns at a time, in tiles that stay in registers.
//!
//! Each number of the result is the sum of its products in the order of the depth, whatever tile it falls into: a row
//! has the same result alone and within a batch.

use super::compiled::for_each_isa;
use crate::kernels::simd::Simd;

/// Columns of a panel: two vectors of the widest kind.
pub(super) const PANEL: usize = 32;

/// One panel of a product `A B`: `rows` by at most [`PANEL`] columns. The depth may come in several
/// blocks, each somewhere else in memory.
///
/// Operands are words: a float each, or two neighbours along the depth in bfloat16, as the instructions have it.
#[derive(Clone, Copy)]
pub(super) struct PanelProduct<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// In words.
    pub(super) depth: usize,
    pub(super) blocks: usize,
    /// `A[row, k]` lies at `row * a_row + k * a_step`, plus `a_block` for each block.
    pub(super) a: &'a [u32],
    pub(super) a_row: usize,
    pub(super) a_step: usize,
    pub(super) a_block: usize,
    /// `B[k, column]` lies at `k * b_row + column`, plus `b_block` for each block.
    pub(super) b: &'a [u32],
    pub(super) b_row: usize,
    pub(super) b_block: usize,
    /// `C[row, column]` lies at `row * c_row + column`.
    pub(super) c_row: usize,
    pub(super) end: GemmEpilogue<'a>,
}

/// What becomes of a sum once it is complete, before it leaves the registers.
#[derive(Clone, Copy)]
pub(super) enum GemmEpilogue<'a> {
    /// It is written.
    Write,
    /// It is added to what is there.
    Add,
    /// It is written with its column's bias added.
    Bias(&'a [f32]),
    /// As with a bias, and what is below zero becomes zero.
    BiasRelu(&'a [f32]),
}

impl<'a> GemmEpilogue<'a> {
    /// The same without the first columns.
    fn skipping(self, columns: usize) -> Self {
        match self {
            Self::Bias(bias) => Self::Bias(&bias[columns..]),
            Self::BiasRelu(bias) => Self::BiasRelu(&bias[columns..]),
            other => other,
        }
    }
}

for_each_isa! {
    /// Computes the panel.
    pub(super) fn panel_product = panel(job: &PanelProduct<'_>, c: &mut [f32]);

    /// `y[row, output] = sum of x[row, k] * w[output, k]`: the product for a few outputs, whose weights lie row by row.
    pub(super) fn dots = dot_rows(x: &[f32], x_row: usize, w: &[f32], depth: usize, y: &mut [f32], y_row: usize, rows: usize, outputs: usize);

    /// Writes `to[j, i] = from[i, j]` for a matrix of `rows` by `columns`.
    pub(super) fn transpose = transpose_any(from: &[f32], from_row: usize, to: &mut [f32], to_row: usize, rows: usize, columns: usize);
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
    let mut column = 0;
    while column < job.columns {
        let width = (job.columns - column).min(2 * L::WIDTH);
        let end = job.end.skipping(column);
        // Tiles of nearly equal height: a last tile of one or two rows would wait for its own sums.
        let tiles = job.rows.div_ceil(L::ROWS);
        for tile in 0..tiles {
            let (row, next) = (tile * job.rows / tiles, (tile + 1) * job.rows / tiles);
            // SAFETY: `check` found the ends of all three matrices inside their slices; `row` and `column` are
            // inside the panel.
            unsafe {
                let (a, b) = (job.a.as_ptr().add(row * job.a_row), job.b.as_ptr().add(column));
                let c = c.as_mut_ptr().add(row * job.c_row + column);
                tile_of_width(simd, job, end, next - row, width, a, b, c);
            }
        }
        column += width;
    }
}

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
unsafe fn tile_of_width<L: Simd>(
    simd: L,
    job: &PanelProduct<'_>,
    end: GemmEpilogue<'_>,
    rows: usize,
    width: usize,
    a: *const u32,
    b: *const u32,
    c: *mut f32,
) {
    // SAFETY: the caller's.
    unsafe {
        if width == 2 * L::WIDTH {
            tile_of_rows::<L, 2, false>(simd, job, end, rows, L::WIDTH, a, b, c);
        } else if width > L::WIDTH {
            tile_of_rows::<L, 2, true>(simd, job, end, rows, width - L::WIDTH, a, b, c);
        } else {
            tile_of_rows::<L, 1, true>(simd, job, end, rows, width, a, b, c);
        }
    }
}

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
unsafe fn tile_of_rows<L: Simd, const N: usize, const PART: bool>(
    simd: L,
    job: &PanelProduct<'_>,
    end: GemmEpilogue<'_>,
    rows: usize,
    last: usize,
    a: *const u32,
    b: *const u32,
    c: *mut f32,
) {
    macro_rules! pick {
        ($($count:literal)*) => {
            match rows {
                // SAFETY: the caller's. The guard leaves out tiles that there are no registers for.
                $($count if $count <= L::ROWS => unsafe { tile::<L, $count, N, PART>(simd, job, end, last, a, b, c) },)*
                _ => unreachable!("no tile of {rows} rows"),
            }
        };
    }
    pick!(1 2 3 4 5 6 7 8 9 10 11 12);
}

/// Writes a loop over the rows of a tile out: left to itself the compiler keeps a loop over many rows, and with it the
/// sums in memory.
macro_rules! unrolled_rows {
    ($r:ident, $rows:ident, $body:block) => {
        unrolled_rows!(@ 0 1 2 3 4 5 6 7 8 9 10 11; $r, $rows, $body)
    };
    (@ $($index:literal)*; $r:ident, $rows:ident, $body:block) => {
        $(if $index < $rows {
            let $r = $index;
            $body
        })*
    };
}

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[inline(always)]
unsafe fn tile<L: Simd, const R: usize, const N: usize, const PART: bool>(
    simd: L,
    job: &PanelProduct<'_>,
    end: GemmEpilogue<'_>,
    last: usize,
    a: *const u32,
    b: *const u32,
    c: *mut f32,
) {
    // SAFETY: `check` of the whole panel covers every address that is read or written; those after the last are only
    // formed.
    unsafe {
        let mut sums = [[simd.splat(0.0); N]; R];
        for block in 0..job.blocks {
            let (mut a, mut b) = (a.add(block * job.a_block), b.add(block * job.b_block));
            for _ in 0..job.depth {
                let mut vectors = [simd.splat(0.0); N];
                for (n, vector) in vectors.iter_mut().enumerate() {
                    let from = b.add(n * L::WIDTH);
                    *vector = match PART && n == N - 1 {
                        true => simd.load_first(from.cast(), last),
                        false => simd.load_words(from),
                    };
                }
                unrolled_rows!(r, R, {
                    let x = simd.splat_word(a.add(r * job.a_row));
                    for n in 0..N {
                        sums[r][n] = simd.dot(sums[r][n], x, vectors[n]);
                    }
                });
                (a, b) = (a.wrapping_add(job.a_step), b.wrapping_add(job.b_row));
            }
        }
        let mut biases = [simd.splat(0.0); N];
        if let GemmEpilogue::Bias(bias) | GemmEpilogue::BiasRelu(bias) = end {
            for (n, vector) in biases.iter_mut().enumerate() {
                let count = if PART && n == N - 1 { last } else { L::WIDTH };
                *vector = load_up_to(simd, bias.as_ptr().add(n * L::WIDTH), count);
            }
        }
        unrolled_rows!(r, R, {
            for n in 0..N {
                let (to, part) = (c.add(r * job.c_row + n * L::WIDTH), PART && n == N - 1);
                let sum = match end {
                    GemmEpilogue::Write => sums[r][n],
                    GemmEpilogue::Add if part => simd.add(sums[r][n], simd.load_first(to, last)),
                    GemmEpilogue::Add => simd.add(sums[r][n], simd.load(to)),
                    GemmEpilogue::Bias(_) => simd.add(sums[r][n], biases[n]),
                    GemmEpilogue::BiasRelu(_) => simd.relu(simd.add(sums[r][n], biases[n])),
                };
                match part {
                    true => simd.store_first(to, sum, last),
                    false => simd.store(to, sum),
                }
            }
        });
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

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[inline(always)]
unsafe fn load_up_to<L: Simd>(simd: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's.
    unsafe { if count == L::WIDTH { simd.load(from) } else { simd.load_first(from, count) } }
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
