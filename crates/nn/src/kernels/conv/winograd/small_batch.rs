//! Small batches: the products of one or two tiles with factors that are never written to memory.
//!
//! With one image, the deepest layers have a single tile, and their factors, four times as large as the weights, are used
//! once: writing them to the second cache and reading them again takes longer than all arithmetic. So weights are
//! transformed along one side, a few inner channels at a time, and along the other on their way into the products. Sums
//! are those of [`multiply_all`](super::multiply_all), in the same order.

use super::matrices::{self, INPUTS};
use super::transform::Products;
use super::{INNER_BLOCK, RawWeights};
use crate::kernels::simd::Simd;
use std::ops::Range;

/// With more tiles, the sums of a row of products and the factors do not fit into registers.
const MOST_TILES: usize = 2;
/// Inner channels that are half transformed at a time; they stay in the first cache.
const INNER_GROUP: usize = 8;
/// Columns of a kernel.
const KERNEL: usize = 3;

/// How many tiles there may be.
#[inline(always)]
pub(super) fn most_tiles<L: Simd>() -> usize {
    // As many sums as the register tile has.
    (2 * L::ROWS / INPUTS).min(MOST_TILES)
}

/// Some tiles, and the weights of a panel of output channels.
pub(super) struct FewTiles {
    pub(super) from: Products,
    pub(super) weights: RawWeights,
    pub(super) panel: usize,
    /// Output channels there are, at most those of a panel.
    pub(super) columns: usize,
    /// Inner channels.
    pub(super) inner: usize,
    /// Room for half transformed weights and for sums.
    pub(super) memory: *mut f32,
    pub(super) sums: Products,
}

impl FewTiles {
    /// # Safety
    /// There are `tiles` tiles, at most [`most_tiles`], and `memory` has room for [`Self::numbers`].
    #[inline(always)]
    pub(super) unsafe fn on<L: Simd>(&self, l: L, tiles: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match tiles {
                1 => self.tiles::<L, 1>(l),
                2 => self.tiles::<L, 2>(l),
                _ => unreachable!("{tiles} tiles"),
            }
        }
    }

    /// Numbers that `memory` has room for.
    pub(super) const fn numbers(width: usize) -> usize {
        INPUTS * width * (INNER_GROUP * KERNEL + INPUTS * MOST_TILES)
    }

    /// # Safety
    /// There are `T` tiles.
    #[inline(always)]
    unsafe fn tiles<L: Simd, const T: usize>(&self, l: L) {
        for lane in (0..self.columns).step_by(L::WIDTH) {
            for start in (0..self.inner).step_by(INNER_BLOCK) {
                let block = start..self.inner.min(start + INNER_BLOCK);
                for first in block.clone().step_by(INNER_GROUP) {
                    let group = first..block.end.min(first + INNER_GROUP);
                    // SAFETY: the caller's promise; the lanes and channels are there.
                    unsafe {
                        self.transform(l, lane, group.clone());
                        self.multiply::<L, T>(l, group, first == start);
                    }
                }
                // SAFETY: as above.
                unsafe { self.add_block::<L, T>(l, lane, start == 0) };
            }
        }
    }

    /// Where the half transformed weights of a row of products begin: `[inner, column of the kernel]`.
    ///
    /// # Safety
    /// The memory is there.
    #[inline(always)]
    unsafe fn halves<L: Simd>(&self, row: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.memory.add(row * INNER_GROUP * KERNEL * L::WIDTH) }
    }

    /// Where the sums of a block of inner channels are, of a product's first tile.
    ///
    /// # Safety
    /// The memory is there.
    #[inline(always)]
    unsafe fn block_sums<L: Simd, const T: usize>(&self, product: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.halves::<L>(INPUTS).add(product * T * L::WIDTH) }
    }

    /// Transforms a group of inner channels along the columns of the kernel.
    ///
    /// # Safety
    /// The channels and the memory are there.
    #[inline(always)]
    unsafe fn transform<L: Simd>(&self, l: L, lane: usize, group: Range<usize>) {
        let count = (self.columns - lane).min(L::WIDTH);
        // SAFETY: the caller's promise.
        unsafe {
            let place = std::ptr::null_mut();
            let weights = self.weights.transform(self.columns, self.panel, group.clone(), place, 0);
            for inner in 0..group.len() {
                if lane == 0 {
                    weights.ask_ahead(l, inner);
                }
                for x in 0..KERNEL {
                    let half = matrices::weights(l, weights.column(l, inner, lane, x, count));
                    for (y, half) in half.into_iter().enumerate() {
                        l.store(self.halves::<L>(y).add((inner * KERNEL + x) * L::WIDTH), half);
                    }
                }
            }
        }
    }

    /// Adds a group's products to the sums of its block.
    ///
    /// # Safety
    /// The group is transformed.
    #[allow(clippy::needless_range_loop)] // sums stay in registers only where their places are known
    #[inline(always)]
    unsafe fn multiply<L: Simd, const T: usize>(&self, l: L, group: Range<usize>, first: bool) {
        for y in 0..INPUTS {
            let mut sums = [[l.splat(0.0); T]; INPUTS];
            // SAFETY: the caller's promise; the block has sums unless this is its first group.
            unsafe {
                if !first {
                    for x in 0..INPUTS {
                        for tile in 0..T {
                            sums[x][tile] =
                                l.load(self.block_sums::<L, T>(y * INPUTS + x).add(tile * L::WIDTH));
                        }
                    }
                }
                let halves = self.halves::<L>(y);
                let left = self.from.place(y * INPUTS, 0, group.start);
                for inner in 0..group.len() {
                    let half = halves.add(inner * KERNEL * L::WIDTH);
                    let half = [l.load(half), l.load(half.add(L::WIDTH)), l.load(half.add(2 * L::WIDTH))];
                    let factors = matrices::weights(l, half);
                    for x in 0..INPUTS {
                        for tile in 0..T {
                            let left = l.splat(*left.add(x * self.from.plane + tile * self.from.row + inner));
                            sums[x][tile] = l.mul_add(left, factors[x], sums[x][tile]);
                        }
                    }
                }
                for x in 0..INPUTS {
                    for tile in 0..T {
                        let to = self.block_sums::<L, T>(y * INPUTS + x).add(tile * L::WIDTH);
                        l.store(to, sums[x][tile]);
                    }
                }
            }
        }
    }

    /// Adds a block's sums to those of the blocks before.
    ///
    /// # Safety
    /// The block has sums.
    #[inline(always)]
    unsafe fn add_block<L: Simd, const T: usize>(&self, l: L, lane: usize, first: bool) {
        for product in 0..matrices::PRODUCTS {
            for tile in 0..T {
                // SAFETY: the caller's promise; the sums have these tiles and columns.
                unsafe {
                    let to = self.sums.place(product, tile, lane);
                    let mut sum = l.load(self.block_sums::<L, T>(product).add(tile * L::WIDTH));
                    if !first {
                        sum = l.add(sum, l.load(to));
                    }
                    l.store(to, sum);
                }
            }
        }
    }
}
