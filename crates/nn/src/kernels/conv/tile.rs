//! The register tile: a few rows times two vectors of columns, summed up in registers over any number of products.
//!
//! Left operands are read one word at a time and spread over a vector, right operands ("panels") lie as the tile wants
//! them: `[inner, column]`, as many columns as a tile has.

#![expect(clippy::needless_range_loop, reason = "arrays stay in registers only when indexed by constants")]

use crate::kernels::gemm::tile::{even_pieces, with_rows};
use crate::kernels::simd::{Kernel, Simd};

/// The sums of a tile.
pub(super) type Sums<L, const R: usize> = [[<L as Simd>::Vector; 2]; R];

/// Adds the products of `words` words of each row with a panel.
///
/// # Safety
/// Each of `rows` has `words` words, and `panel` as many rows of two vectors of words.
#[inline(always)]
pub(super) unsafe fn add_products<L: Simd, const R: usize>(
    simd: L,
    sums: &mut Sums<L, R>,
    rows: &[*const u32; R],
    words: usize,
    panel: *const u32,
) {
    // One loop without a second one for what is left: between two, sums would leave their registers.
    for word in 0..words {
        // SAFETY: every word is inside the rows and the panel, as the caller promises.
        unsafe { add_product(simd, sums, rows, word, panel) };
    }
}

/// Adds the products of one word of each row.
///
/// # Safety
/// As [`add_products`], for this word.
#[inline(always)]
unsafe fn add_product<L: Simd, const R: usize>(
    simd: L,
    sums: &mut Sums<L, R>,
    rows: &[*const u32; R],
    word: usize,
    panel: *const u32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let right = panel.add(word * 2 * L::WIDTH);
        let right = [simd.load_words(right), simd.load_words(right.add(L::WIDTH))];
        for r in 0..R {
            let left = simd.splat_word(rows[r].add(word));
            sums[r][0] = simd.dot(sums[r][0], left, right[0]);
            sums[r][1] = simd.dot(sums[r][1], left, right[1]);
        }
    }
}

/// `target = left * right`, or `target += left * right`.
pub(super) struct Multiply {
    /// Rows of the left side and of the target.
    pub(super) rows: usize,
    /// Words of a row of the left side.
    pub(super) words: usize,
    /// Panels of the right side; the target has as many tiles of columns.
    pub(super) panels: usize,
    /// The first row of the left side.
    pub(super) left: *const u32,
    /// Words from one row of the left side to the next.
    pub(super) left_stride: usize,
    /// The first panel.
    pub(super) right: *const u32,
    /// Words from one panel to the next.
    pub(super) panel_stride: usize,
    /// The first row of the target.
    pub(super) target: *mut f32,
    /// Numbers from one row of the target to the next.
    pub(super) target_stride: usize,
    /// Add to what the target holds.
    pub(super) accumulate: bool,
    /// What a sum of integers is multiplied with.
    pub(super) unit: f32,
}

impl Multiply {
    /// # Safety
    /// Both sides can be read and the target can be written, and read if it accumulates.
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, simd: L) {
        for panel in 0..self.panels {
            for (row, rows) in even_pieces(self.rows, L::ROWS) {
                // SAFETY: the caller's promise; `even_pieces` stays below `self.rows`.
                unsafe { with_rows!(L, rows, multiply_tile(simd, self, row, panel)) }
            }
        }
    }
}

/// # Safety
/// As [`Multiply::on`], for the `R` rows from `row` on and the panel.
#[inline(always)]
unsafe fn multiply_tile<L: Simd, const R: usize>(simd: L, work: &Multiply, row: usize, panel: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [work.left; R];
        for r in 0..R {
            rows[r] = work.left.add((row + r) * work.left_stride);
        }
        let mut sums = [[simd.splat(0.0); 2]; R];
        add_products(simd, &mut sums, &rows, work.words, work.right.add(panel * work.panel_stride));
        let unit = simd.splat(work.unit);
        let target = work.target.add(row * work.target_stride + panel * 2 * L::WIDTH);
        // Two short loops: one that is too long to be unrolled would keep the sums in memory all the time.
        if work.accumulate {
            for r in 0..R {
                let to = target.add(r * work.target_stride);
                simd.store(to, simd.add(simd.number_of(sums[r][0], unit), simd.load(to)));
                let to = to.add(L::WIDTH);
                simd.store(to, simd.add(simd.number_of(sums[r][1], unit), simd.load(to)));
            }
        } else {
            for r in 0..R {
                let to = target.add(r * work.target_stride);
                simd.store(to, simd.number_of(sums[r][0], unit));
                simd.store(to.add(L::WIDTH), simd.number_of(sums[r][1], unit));
            }
        }
    }
}

/// Pairs of rows, of which outer products are made.
pub(super) trait Pairs {
    /// How many.
    fn count(&self) -> usize;
    /// Where both rows of a pair begin.
    ///
    /// # Safety
    /// There are that many pairs.
    unsafe fn get(&self, i: usize) -> (*const f32, *const f32);
}

/// Rows that lie anywhere.
pub(super) struct Anywhere<'a>(pub(super) &'a [(*const f32, *const f32)]);

impl Pairs for Anywhere<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.0.len()
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn get(&self, i: usize) -> (*const f32, *const f32) {
        // SAFETY: the caller's promise.
        unsafe { *self.0.get_unchecked(i) }
    }
}

/// Rows one after the other: where the first is, and how far to the next.
pub(super) struct InOrder {
    pub(super) count: usize,
    pub(super) left: (*const f32, usize),
    pub(super) right: (*const f32, usize),
}

impl Pairs for InOrder {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }
    // SAFETY: the caller's promise, as the trait has it.
    #[inline(always)]
    unsafe fn get(&self, i: usize) -> (*const f32, *const f32) {
        // SAFETY: the caller's promise.
        unsafe { (self.left.0.add(i * self.left.1), self.right.0.add(i * self.right.1)) }
    }
}

/// `target = Σ left[i]ᵀ * right[i]`, or `+=`: a sum of outer products of rows.
pub(super) struct OuterProducts<P> {
    pub(super) pairs: P,
    /// Numbers of a left row, and rows of the target.
    pub(super) rows: usize,
    /// Numbers of a right row, and columns of the target.
    pub(super) columns: usize,
    /// The first row of the target.
    pub(super) target: *mut f32,
    /// Numbers from one row of the target to the next.
    pub(super) target_stride: usize,
    /// Add to what the target holds.
    pub(super) accumulate: bool,
}

impl<P: Pairs> Kernel for OuterProducts<P> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        // SAFETY: who made `self` promised its rows.
        unsafe { self.on(simd) }
    }
}

impl<P: Pairs> OuterProducts<P> {
    /// # Safety
    /// The pairs have rows of these lengths, and the target can be written, and read if it accumulates.
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, simd: L) {
        for column in (0..self.columns).step_by(2 * L::WIDTH) {
            for (row, rows) in even_pieces(self.rows, L::ROWS) {
                // SAFETY: the caller's promise; the pieces stay inside the rows.
                unsafe { with_rows!(L, rows, outer_tile(simd, self, row, column)) }
            }
        }
    }
}

/// # Safety
/// The pairs and the target of `work` reach to `row + R` and to `work.columns`.
#[inline(always)]
unsafe fn outer_tile<L: Simd, const R: usize>(
    simd: L,
    work: &OuterProducts<impl Pairs>,
    row: usize,
    column: usize,
) {
    let left_over = work.columns - column;
    // SAFETY: the caller's promise; with fewer columns than a tile has, only those are touched.
    unsafe {
        let mut sums = [[simd.splat(0.0); 2]; R];
        if left_over >= 2 * L::WIDTH {
            for i in 0..work.pairs.count() {
                let (left, right) = work.pairs.get(i);
                let right = right.add(column);
                let right = [simd.load(right), simd.load(right.add(L::WIDTH))];
                add_outer(simd, &mut sums, left.add(row), right);
            }
        } else {
            let (first, second) = (left_over.min(L::WIDTH), left_over.saturating_sub(L::WIDTH));
            for i in 0..work.pairs.count() {
                let (left, right) = work.pairs.get(i);
                let right = right.add(column);
                let right = [simd.load_first(right, first), load_behind(simd, right, second)];
                add_outer(simd, &mut sums, left.add(row), right);
            }
        }
        for r in 0..R {
            let target = work.target.add((row + r) * work.target_stride + column);
            put(simd, target, sums[r][0], left_over, work.accumulate);
            put(simd, target.add(L::WIDTH), sums[r][1], left_over.saturating_sub(L::WIDTH), work.accumulate);
        }
    }
}

/// Writes or adds the first `count` of a vector, or all of it if there are more.
///
/// # Safety
/// They can be written, and read if it accumulates.
#[inline(always)]
unsafe fn put<L: Simd>(simd: L, target: *mut f32, sum: L::Vector, count: usize, accumulate: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        if count >= L::WIDTH {
            let before = if accumulate { simd.load(target) } else { simd.splat(0.0) };
            simd.store(target, simd.add(sum, before));
        } else if count > 0 {
            let before = if accumulate { simd.load_first(target, count) } else { simd.splat(0.0) };
            simd.store_first(target, simd.add(sum, before), count);
        }
    }
}

/// The `count` numbers one vector behind `from`, if any.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn load_behind<L: Simd>(simd: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's promise.
    if count > 0 { unsafe { simd.load_first(from.add(L::WIDTH), count) } } else { simd.splat(0.0) }
}

/// # Safety
/// `left` has `R` numbers.
#[inline(always)]
unsafe fn add_outer<L: Simd, const R: usize>(
    simd: L,
    sums: &mut Sums<L, R>,
    left: *const f32,
    right: [L::Vector; 2],
) {
    for r in 0..R {
        // SAFETY: the caller's promise.
        let left = simd.splat(unsafe { *left.add(r) });
        sums[r][0] = simd.mul_add(left, right[0], sums[r][0]);
        sums[r][1] = simd.mul_add(left, right[1], sums[r][1]);
    }
}
