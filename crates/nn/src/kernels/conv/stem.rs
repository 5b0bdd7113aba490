//! The stem: the convolution of few channels at the beginning of a network, and the pool that follows it there.
//!
//! With the padding written out, a row of the kernel is one run of memory, and neighbouring outputs begin equally far
//! apart: nothing has to be looked up. The pool takes rows while they are in the cache, and the output of the
//! convolution, the largest of the whole network, never reaches memory.

#![expect(clippy::needless_range_loop, reason = "arrays stay in registers only when indexed by constants")]

use super::ConvShape;
use super::epilogue::{ConvEpilogue, load_some, store_some};
use super::operands::Operands;
use super::pack::Panels;
use crate::kernels::gemm::tile::{even_pieces, with_rows};
use crate::kernels::memory::with_workspace;
use crate::kernels::norm::GroupNorm;
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each, part_start, pieces};
use std::ops::Range;

/// Rows of outputs that share a panel while it is in the cache.
const ROW_BLOCK: usize = 8;
/// Operands from one output to the next in the networks there are: three colours, every other pixel.
const COLOUR_STEP: usize = 6;

/// Convolves operands whose padding is written out.
///
/// # Safety
/// `source` and `panels` were made for `shape`, the taps being rows of the kernel.
pub(super) unsafe fn forward(
    isa: Isa,
    shape: &ConvShape,
    source: &Operands,
    panels: &Panels,
    epilogue: ConvEpilogue,
    output: &mut [f32],
) {
    let rows = shape.batch * shape.out_height();
    if output.is_empty() {
        return;
    }
    let blocks = pieces(rows, ROW_BLOCK);
    let output = Shared::of(output);
    for_each(blocks, |block| {
        let rows = part_start(rows, blocks, block)..part_start(rows, blocks, block + 1);
        // SAFETY: the start.
        let output = unsafe { output.at(0) };
        isa.run(StemRows { shape, source, panels, rows, first: 0, epilogue, output });
    });
}

/// Some rows of outputs, counted through all images.
struct StemRows<'a> {
    shape: &'a ConvShape,
    source: &'a Operands<'a>,
    panels: &'a Panels,
    rows: Range<usize>,
    /// The row that begins where `output` does.
    first: usize,
    epilogue: ConvEpilogue<'a>,
    output: *mut f32,
}

impl Kernel for StemRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        // Where the step from one output to the next is known, its multiples are part of the instructions.
        match self.shape.stride * self.shape.in_channels {
            COLOUR_STEP => self.each::<L, true>(l),
            _ => self.each::<L, false>(l),
        }
    }
}

impl StemRows<'_> {
    #[inline(always)]
    fn each<L: Simd, const COLOURS: bool>(&self, l: L) {
        let (height, width) = (self.shape.out_height(), self.shape.out_width());
        for panel in 0..self.panels.count {
            for row in self.rows.clone() {
                let (image, y) = (row / height, row % height);
                let pixel = (image * self.source.size.0 + y * self.shape.stride) * self.source.size.1;
                for (column, count) in even_pieces(width, L::ROWS) {
                    // SAFETY: the source has all pixels under these outputs, and the output these outputs.
                    unsafe {
                        let under = pixel + column * self.shape.stride;
                        let left = self.source.start.at(under * self.source.pixel_bytes);
                        let place = ((row - self.first) * width + column) * self.shape.out_channels;
                        let at = TilePosition { image, panel, output: place };
                        if COLOURS {
                            with_rows!(L, count, colour_tile(l, self, left, at));
                        } else {
                            with_rows!(L, count, any_tile(l, self, left, at));
                        }
                    }
                }
            }
        }
    }

    /// What sums of an image's integers are multiplied with, for two vectors of columns.
    #[inline(always)]
    fn units<L: Simd>(&self, l: L, image: usize, column: usize) -> [L::Vector; 2] {
        match (self.source.units.get(image), self.panels.units.get(column..column + 2 * L::WIDTH)) {
            (Some(&unit), Some(of_columns)) => [0, L::WIDTH].map(|half| {
                // SAFETY: there are two vectors of them.
                l.mul(l.splat(unit), unsafe { l.load(of_columns.as_ptr().add(half)) })
            }),
            _ => [l.splat(1.0); 2],
        }
    }

    /// `R` neighbouring outputs `STEP` operands apart (0: as the shape says), from the operands at `left` on.
    ///
    /// # Safety
    /// The operands and the outputs are there.
    #[inline(always)]
    unsafe fn tile<L: Simd, const R: usize, const STEP: usize>(
        &self,
        l: L,
        left: *const u8,
        at: TilePosition,
    ) {
        let TilePosition { image, panel, output: place } = at;
        let step =
            if STEP > 0 { STEP } else { self.shape.stride * self.shape.in_channels } * L::OPERAND_BYTES;
        let row_bytes = self.source.size.1 * self.source.pixel_bytes;
        let words = self.panels.tap_words();
        let mut sums = [[l.splat(0.0); 2]; R];
        // SAFETY: the caller's promise.
        unsafe {
            let mut right = self.panels.start().add(panel * self.panels.stride());
            for tap in 0..self.shape.kernel {
                let mut left = left.add(tap * row_bytes);
                for _ in 0..words {
                    let rights = [l.load_words(right), l.load_words(right.add(L::WIDTH))];
                    for r in 0..R {
                        let left = l.splat_word(left.add(r * step).cast());
                        sums[r][0] = l.dot(sums[r][0], left, rights[0]);
                        sums[r][1] = l.dot(sums[r][1], left, rights[1]);
                    }
                    left = left.add(4);
                    right = right.add(2 * L::WIDTH);
                }
            }
            let (channels, column) = (self.shape.out_channels, panel * 2 * L::WIDTH);
            let units = self.units(l, image, column);
            // In little room: were this loop too long to be unrolled, the sums would be in memory all the time.
            if column + 2 * L::WIDTH <= channels && self.epilogue.residual.is_none() {
                let mut bias = [l.splat(0.0); 2];
                if let Some(all) = self.epilogue.bias {
                    let all = all.as_ptr().add(column);
                    bias = [l.load(all), l.load(all.add(L::WIDTH))];
                }
                for r in 0..R {
                    let to = self.output.add(place + r * channels + column);
                    let mut sum = [
                        l.add(l.number_of(sums[r][0], units[0]), bias[0]),
                        l.add(l.number_of(sums[r][1], units[1]), bias[1]),
                    ];
                    if self.epilogue.relu {
                        sum = [l.relu(sum[0]), l.relu(sum[1])];
                    }
                    l.store(to, sum[0]);
                    l.store(to.add(L::WIDTH), sum[1]);
                }
                return;
            }
            let mut rows = [[0.0f32; 2 * MOST_WIDTH]; R];
            const { assert!(L::WIDTH <= MOST_WIDTH) };
            for r in 0..R {
                l.store(rows[r].as_mut_ptr(), l.number_of(sums[r][0], units[0]));
                l.store(rows[r].as_mut_ptr().add(L::WIDTH), l.number_of(sums[r][1], units[1]));
            }
            for (r, row) in rows.iter().enumerate() {
                for half in [0, L::WIDTH] {
                    let (sum, place) = (l.load(row.as_ptr().add(half)), place + r * channels);
                    self.epilogue.write(l, sum, place, column + half, channels, self.output);
                }
            }
        }
    }
}

/// Where a tile is.
#[derive(Clone, Copy)]
struct TilePosition {
    image: usize,
    panel: usize,
    /// Where the first output's channels begin.
    output: usize,
}

/// Numbers in the widest vector there is.
const MOST_WIDTH: usize = 16;

/// Rows of the pool whose inputs are in the cache at a time.
const POOL_BLOCK: usize = 4;

/// Convolves, adds the bias, applies ReLU and takes the largest of 3x3 at every other pixel.
///
/// # Safety
/// As [`forward`].
pub(super) unsafe fn forward_pooled(
    isa: Isa,
    shape: &ConvShape,
    source: &Operands,
    panels: &Panels,
    bias: &[f32],
    output: &mut [f32],
) {
    let rows = shape.out_height().div_ceil(2);
    if output.is_empty() {
        return;
    }
    let threads = rayon::current_num_threads();
    // Each part but the first of an image makes one row twice.
    let parts = if shape.batch < 4 * threads { threads.min(rows) } else { 1 };
    let row_len = shape.out_width() * shape.out_channels;
    let bytes = (2 * POOL_BLOCK + 1) * row_len * size_of::<f32>();
    let output = Shared::of(output);
    for_each(shape.batch * parts, |i| {
        let (image, part) = (i / parts, i % parts);
        let rows = part_start(rows, parts, part)..part_start(rows, parts, part + 1);
        with_workspace(bytes, |memory| {
            let epilogue = ConvEpilogue { bias: Some(bias), residual: None, relu: true };
            // SAFETY: the start of the output.
            let (output, buffer) = unsafe { (output.at(0), memory.cast()) };
            isa.run(PooledRows { shape, source, panels, epilogue, image, rows, buffer, output });
        });
    });
}

/// Convolves, normalises each image with ReLU, and takes the largest of 3x3 at every other pixel.
///
/// # Safety
/// As [`forward`].
pub(super) unsafe fn forward_normed_pooled(
    isa: Isa,
    shape: &ConvShape,
    source: &Operands,
    panels: &Panels,
    norm: &GroupNorm,
    output: &mut [f32],
) {
    let height = shape.out_height();
    let row_len = shape.out_width() * shape.out_channels;
    let len = height * row_len;
    let output = Shared::of(output);
    for_each(shape.batch, |image| {
        with_workspace((2 * len + row_len) * size_of::<f32>(), |memory| {
            let epilogue = ConvEpilogue::default();
            let (rows, first) = (image * height..(image + 1) * height, image * height);
            // SAFETY: the workspace has two images, and before the second the row that the pool does not ask for.
            unsafe {
                let (plain, output) = (memory.cast::<f32>(), output.at(0));
                isa.run(StemRows { shape, source, panels, rows, first, epilogue, output: plain });
                let (buffer, plain) = (plain.add(len), std::slice::from_raw_parts(plain, len));
                norm.normalise(isa.single(), plain, buffer.add(row_len));
                let rows = 0..height.div_ceil(2);
                let whole = PooledRows { shape, source, panels, epilogue, image, rows, buffer, output };
                isa.run(PoolImage(whole));
            }
        });
    });
}

/// The pool of an image whose rows are in the buffer from place 1 on.
struct PoolImage<'a>(PooledRows<'a>);

impl Kernel for PoolImage<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        for row in self.0.rows.clone() {
            // SAFETY: who made `self` has all rows in the buffer.
            unsafe { self.0.pool(l, row, 0, self.0.shape.out_height()) };
        }
    }
}

/// Some rows of a pooled image.
struct PooledRows<'a> {
    shape: &'a ConvShape,
    source: &'a Operands<'a>,
    panels: &'a Panels,
    epilogue: ConvEpilogue<'a>,
    image: usize,
    rows: Range<usize>,
    /// Room for the rows under [`POOL_BLOCK`] rows of the pool: the one above, and two for each.
    buffer: *mut f32,
    output: *mut f32,
}

impl Kernel for PooledRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let height = self.shape.out_height();
        let row_len = self.shape.out_width() * self.shape.out_channels;
        let mut done = (2 * self.rows.start).saturating_sub(1);
        for start in self.rows.clone().step_by(POOL_BLOCK) {
            let end = self.rows.end.min(start + POOL_BLOCK);
            // The row above the block is at place 0, where there is one.
            let (above, below) = ((2 * start).saturating_sub(1), height.min(2 * end));
            let skip = usize::from(start == 0);
            let all = self.image * height;
            // SAFETY: the buffer holds these rows.
            unsafe {
                StemRows {
                    shape: self.shape,
                    source: self.source,
                    panels: self.panels,
                    rows: all + done..all + below,
                    first: all + above,
                    epilogue: self.epilogue,
                    output: self.buffer.add(skip * row_len),
                }
                .run(l);
                done = below;
                for row in start..end {
                    self.pool(l, row, 2 * start, below);
                }
                // The last is above the next block.
                let last = self.buffer.add((below - 2 * start) * row_len);
                self.buffer.copy_from_nonoverlapping(last, row_len);
            }
        }
    }
}

impl PooledRows<'_> {
    /// A row of the pool. The buffer has the rows of the convolution from before `first` on, up to `below`.
    ///
    /// # Safety
    /// They are there.
    #[inline(always)]
    unsafe fn pool<L: Simd>(&self, l: L, row: usize, first: usize, below: usize) {
        let (width, channels) = (self.shape.out_width(), self.shape.out_channels);
        let (out_height, out_width) = (self.shape.out_height().div_ceil(2), width.div_ceil(2));
        // From place 0 of the buffer on.
        let above = if row == 0 { 1 } else { 0 };
        let from = 2 * row - first + above..(2 * row + 2).min(below) - first + 1;
        for column in 0..out_width {
            let columns = (2 * column).saturating_sub(1)..width.min(2 * column + 2);
            for channel in (0..channels).step_by(L::WIDTH) {
                let count = (channels - channel).min(L::WIDTH);
                // SAFETY: the caller's promise.
                unsafe {
                    let mut best = l.splat(0.0);
                    for row in from.clone() {
                        for column in columns.clone() {
                            let at = self.buffer.add((row * width + column) * channels + channel);
                            // After ReLU nothing is below zero, and what is not a number stays.
                            best = l.keep_larger((best, best), load_some(l, at, count), 0.0).0;
                        }
                    }
                    let pixel = (self.image * out_height + row) * out_width + column;
                    store_some(l, self.output.add(pixel * channels + channel), best, count);
                }
            }
        }
    }
}

/// [`StemRows::tile`] for [`COLOUR_STEP`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn colour_tile<L: Simd, const R: usize>(l: L, rows: &StemRows, left: *const u8, at: TilePosition) {
    // SAFETY: the caller's promise.
    unsafe { rows.tile::<L, R, COLOUR_STEP>(l, left, at) }
}

/// [`StemRows::tile`] for any other step.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn any_tile<L: Simd, const R: usize>(l: L, rows: &StemRows, left: *const u8, at: TilePosition) {
    // SAFETY: the caller's promise.
    unsafe { rows.tile::<L, R, 0>(l, left, at) }
}
