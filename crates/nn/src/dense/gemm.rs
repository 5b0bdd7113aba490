//! Products of matrices, a panel of columns at a time, in tiles that stay in registers.
//!
//! Each number of the result is the sum of its products in the order of the depth, whatever tile it falls into: a row
//! has the same result alone and within a batch.

use super::simd::{Simd, for_each_isa};

/// Columns of a panel: two vectors of the widest kind.
pub(super) const PANEL: usize = 32;

/// One panel of a product `C = A B` or `C += A B`: `rows` by at most [`PANEL`] columns. The depth may come in several
/// blocks, each somewhere else in memory.
#[derive(Clone, Copy)]
pub(super) struct PanelProduct<'a> {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) depth: usize,
    pub(super) blocks: usize,
    /// `A[row, k]` lies at `row * a_row + k * a_step`, plus `a_block` for each block.
    pub(super) a: &'a [f32],
    pub(super) a_row: usize,
    pub(super) a_step: usize,
    pub(super) a_block: usize,
    /// `B[k, column]` lies at `k * b_row + column`, plus `b_block` for each block.
    pub(super) b: &'a [f32],
    pub(super) b_row: usize,
    pub(super) b_block: usize,
    /// `C[row, column]` lies at `row * c_row + column`.
    pub(super) c_row: usize,
    /// Whether the product is added to what is there.
    pub(super) add: bool,
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
    }
}

#[inline(always)]
fn panel<S: Simd>(job: &PanelProduct<'_>, c: &mut [f32]) {
    job.check(c);
    let mut column = 0;
    while column < job.columns {
        let width = (job.columns - column).min(2 * S::LANES);
        // Tiles of nearly equal height: a last tile of one or two rows would wait for its own sums.
        let tiles = job.rows.div_ceil(S::TILE_ROWS);
        for tile in 0..tiles {
            let (row, end) = (tile * job.rows / tiles, (tile + 1) * job.rows / tiles);
            // SAFETY: `check` found the ends of all three matrices inside their slices; `row` and `column` are
            // inside the panel. The instructions are those this version was compiled for.
            unsafe {
                let (a, b) = (job.a.as_ptr().add(row * job.a_row), job.b.as_ptr().add(column));
                let c = c.as_mut_ptr().add(row * job.c_row + column);
                tile_of_width::<S>(job, end - row, width, a, b, c);
            }
        }
        column += width;
    }
}

#[inline(always)]
unsafe fn tile_of_width<S: Simd>(
    job: &PanelProduct<'_>,
    rows: usize,
    width: usize,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
) {
    // SAFETY: the caller's.
    unsafe {
        if width == 2 * S::LANES {
            tile_of_rows::<S, 2, false>(job, rows, S::LANES, a, b, c);
        } else if width > S::LANES {
            tile_of_rows::<S, 2, true>(job, rows, width - S::LANES, a, b, c);
        } else {
            tile_of_rows::<S, 1, true>(job, rows, width, a, b, c);
        }
    }
}

#[inline(always)]
unsafe fn tile_of_rows<S: Simd, const N: usize, const PART: bool>(
    job: &PanelProduct<'_>,
    rows: usize,
    last: usize,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
) {
    macro_rules! pick {
        ($($count:literal)*) => {
            match rows {
                // SAFETY: the caller's. The guard leaves out tiles that this vector has no registers for.
                $($count if $count <= S::TILE_ROWS => unsafe { tile::<S, $count, N, PART>(job, last, a, b, c) },)*
                _ => unreachable!("no tile of {rows} rows"),
            }
        };
    }
    pick!(1 2 3 4 5 6 7 8 9 10 11 12 13);
}

/// Writes a loop over the rows of a tile out: left to itself the compiler keeps a loop over many rows, and with it the
/// sums in memory.
macro_rules! unrolled_rows {
    ($r:ident, $rows:ident, $body:block) => {
        unrolled_rows!(@ 0 1 2 3 4 5 6 7 8 9 10 11 12; $r, $rows, $body)
    };
    (@ $($index:literal)*; $r:ident, $rows:ident, $body:block) => {
        $(if $index < $rows {
            let $r = $index;
            $body
        })*
    };
}

/// Groups of three rows share a pointer: their addresses are the pointer, plus one, plus two row steps.
const GROUPS: usize = 5;

#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const N: usize, const PART: bool>(
    job: &PanelProduct<'_>,
    last: usize,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
) {
    // SAFETY: `check` of the whole panel covers every address formed here.
    unsafe {
        let mut sums = [[S::zero(); N]; R];
        for block in 0..job.blocks {
            let a = a.add(block * job.a_block);
            let mut b = b.add(block * job.b_block);
            let mut rows = [a; GROUPS];
            for (group, pointer) in rows.iter_mut().enumerate() {
                // Groups beyond the tile are never read, and may lie outside: no pointer arithmetic that promises more.
                *pointer = a.wrapping_add(3 * group * job.a_row);
            }
            for _ in 0..job.depth {
                let mut vectors = [S::zero(); N];
                for (n, vector) in vectors.iter_mut().enumerate() {
                    let from = b.add(n * S::LANES);
                    *vector = if PART && n == N - 1 { S::load_first(from, last) } else { S::load(from) };
                }
                unrolled_rows!(r, R, {
                    let x = S::splat(*rows[r / 3].add((r % 3) * job.a_row));
                    for n in 0..N {
                        sums[r][n] = S::mul_add(x, vectors[n], sums[r][n]);
                    }
                });
                b = b.wrapping_add(job.b_row);
                for pointer in &mut rows {
                    *pointer = pointer.wrapping_add(job.a_step);
                }
            }
        }
        unrolled_rows!(r, R, {
            for n in 0..N {
                let (to, mut sum) = (c.add(r * job.c_row + n * S::LANES), sums[r][n]);
                if PART && n == N - 1 {
                    if job.add {
                        sum = S::add(sum, S::load_first(to, last));
                    }
                    S::store_first(to, sum, last);
                } else {
                    if job.add {
                        sum = S::add(sum, S::load(to));
                    }
                    S::store(to, sum);
                }
            }
        });
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn dot_rows<S: Simd>(
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
                dot_outputs::<S, 4>(&strides, x, w.as_ptr(), y, outputs);
                row += 4;
            } else {
                dot_outputs::<S, 1>(&strides, x, w.as_ptr(), y, outputs);
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

#[inline(always)]
unsafe fn dot_outputs<S: Simd, const R: usize>(
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
                dot_tile::<S, R, 4>(strides, x, w, y);
                output += 4;
            } else {
                dot_tile::<S, R, 1>(strides, x, w, y);
                output += 1;
            }
        }
    }
}

#[inline(always)]
unsafe fn dot_tile<S: Simd, const R: usize, const O: usize>(
    strides: &DotTile,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[S::zero(); O]; R];
        let mut k = 0;
        while k < strides.depth {
            let count = (strides.depth - k).min(S::LANES);
            let mut weights = [S::zero(); O];
            for (o, vector) in weights.iter_mut().enumerate() {
                *vector = load_up_to::<S>(w.add(o * strides.depth + k), count);
            }
            for (r, row) in sums.iter_mut().enumerate() {
                let x = load_up_to::<S>(x.add(r * strides.x_row + k), count);
                for (sum, w) in row.iter_mut().zip(weights) {
                    *sum = S::mul_add(x, w, *sum);
                }
            }
            k += count;
        }
        for (r, row) in sums.iter().enumerate() {
            for (o, sum) in row.iter().enumerate() {
                *y.add(r * strides.y_row + o) = S::sum(*sum);
            }
        }
    }
}

#[inline(always)]
unsafe fn load_up_to<S: Simd>(from: *const f32, count: usize) -> S::V {
    // SAFETY: the caller's.
    unsafe { if count == S::LANES { S::load(from) } else { S::load_first(from, count) } }
}

#[inline(always)]
fn transpose_any<S: Simd>(
    from: &[f32],
    from_row: usize,
    to: &mut [f32],
    to_row: usize,
    rows: usize,
    columns: usize,
) {
    assert!(rows > 0 && columns > 0);
    assert!((rows - 1) * from_row + columns <= from.len() && (columns - 1) * to_row + rows <= to.len());
    let (full_rows, full_columns) = (rows - rows % S::LANES, columns - columns % S::LANES);
    for row in (0..full_rows).step_by(S::LANES) {
        for column in (0..full_columns).step_by(S::LANES) {
            let (from, to) = (&from[row * from_row + column..], &mut to[column * to_row + row..]);
            // SAFETY: the squares are inside both matrices, whose ends were checked.
            unsafe { S::transpose(from.as_ptr(), from_row, to.as_mut_ptr(), to_row) };
        }
    }
    for row in 0..rows {
        let start = if row < full_rows { full_columns } else { 0 };
        for column in start..columns {
            to[column * to_row + row] = from[row * from_row + column];
        }
    }
}
