//! The register tile of matrix products: a few rows times two vectors of columns, summed up in registers.
//!
//! Operands are words: a float each, or two neighbours along the depth in bfloat16, as the instructions have it. Where the
//! words lie is a matter of strides, so that packed operands, rows of a batch and columns of it (the transposed
//! side of a gradient) go through the same instructions. Each number of a result is the sum of its products in the order of
//! the depth, whatever tile it falls into: a row has the same result alone and within a batch.

use crate::kernels::simd::Simd;

/// Where the operands of a tile lie, in words, and where its results go. The depth may come in several blocks, each
/// somewhere else in memory.
#[derive(Clone, Copy)]
pub(crate) struct TileStrides {
    pub(crate) depth: usize,
    pub(crate) blocks: usize,
    /// `A[row, k]` lies at `row * a_row + k * a_step`, plus `a_block` for each block.
    pub(crate) a_row: usize,
    pub(crate) a_step: usize,
    pub(crate) a_block: usize,
    /// `B[k, column]` lies at `k * b_row + column`, plus `b_block` for each block.
    pub(crate) b_row: usize,
    pub(crate) b_block: usize,
    /// `C[row, column]` lies at `row * c_row + column`.
    pub(crate) c_row: usize,
}

/// What becomes of a sum once it is complete, before it leaves the registers.
#[derive(Clone, Copy)]
pub(crate) enum GemmEpilogue<'a> {
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
    pub(super) fn skipping(self, columns: usize) -> Self {
        match self {
            Self::Bias(bias) => Self::Bias(&bias[columns..]),
            Self::BiasRelu(bias) => Self::BiasRelu(&bias[columns..]),
            other => other,
        }
    }
}

/// The most rows a tile has on any instruction set.
pub(in crate::kernels) const MOST_ROWS: usize = 12;

/// `items` cut into pieces of at most `most`, as equal as can be: `(start, length)` each. A last tile of one or two rows would
/// wait for its own sums.
#[inline(always)]
pub(in crate::kernels) fn even_pieces(items: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let pieces = items.div_ceil(most).max(1);
    let (short, longer) = (items / pieces, items % pieces);
    (0..pieces).map(move |i| (i * short + i.min(longer), short + usize::from(i < longer)))
}

/// Calls a function with the number of rows as a constant, so that its sums are registers. Other constants may follow.
macro_rules! with_rows {
    ($simd:ident, $rows:expr, $function:ident($($argument:expr),* $(,)?)) => {
        with_rows!($simd, $rows, $function::<>($($argument),*))
    };
    ($simd:ident, $rows:expr, $function:ident::<$($constant:ident),*>$arguments:tt) => {
        with_rows!(@ $simd, $rows, $function, [$($constant),*], $arguments, 5 6 7 8 9 10 11 12)
    };
    (@ $simd:ident, $rows:expr, $function:ident, $constants:tt, $arguments:tt, $($count:literal)*) => {
        match $rows {
            1 => with_rows!(! $function, $simd, 1, $constants, $arguments),
            2 => with_rows!(! $function, $simd, 2, $constants, $arguments),
            3 => with_rows!(! $function, $simd, 3, $constants, $arguments),
            4 => with_rows!(! $function, $simd, 4, $constants, $arguments),
            // The guard leaves out tiles that there are no registers for.
            $($count if $count <= $simd::ROWS => with_rows!(! $function, $simd, $count, $constants, $arguments),)*
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
    (! $function:ident, $simd:ident, $count:literal, [$($constant:ident),*], ($($argument:expr),*)) => {
        $function::<$simd, $count, $($constant),*>($($argument),*)
    };
}
pub(in crate::kernels) use with_rows;

/// One tile of at most `L::ROWS` rows and two vectors of columns, of which there are `width`.
///
/// # Safety
/// With these strides all operands of the rows and columns can be read, and the tile can be written (and read, where it is added
/// to). A bias has `width` numbers.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub(crate) unsafe fn tile_of_width<L: Simd>(
    simd: L,
    job: &TileStrides,
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
    job: &TileStrides,
    end: GemmEpilogue<'_>,
    rows: usize,
    last: usize,
    a: *const u32,
    b: *const u32,
    c: *mut f32,
) {
    // SAFETY: the caller's.
    unsafe { with_rows!(L, rows, tile::<N, PART>(simd, job, end, last, a, b, c)) }
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
    job: &TileStrides,
    end: GemmEpilogue<'_>,
    last: usize,
    a: *const u32,
    b: *const u32,
    c: *mut f32,
) {
    // SAFETY: the caller's; addresses after the last are only formed.
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

// SAFETY: callers keep rows, columns and depth inside of the operands.
#[inline(always)]
pub(super) unsafe fn load_up_to<L: Simd>(simd: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's.
    unsafe { if count == L::WIDTH { simd.load(from) } else { simd.load_first(from, count) } }
}
