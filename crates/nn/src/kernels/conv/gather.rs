//! Matrix multiplication whose left rows lie anywhere: convolution without copying windows together.
//!
//! Each pixel of the result is a sum over the taps of the kernel of (a row of channels somewhere in the source) times
//! (a matrix). Pixels are taken in groups of as many as a register tile has rows; a tap that meets nothing but padding in
//! a whole group is left out.

#![expect(clippy::needless_range_loop, reason = "arrays stay in registers only when indexed by constants")]

use super::ConvEpilogue;
use super::operands::Operands;
use super::pack::Panels;
use super::tile::add_products;
use crate::kernels::gemm::tile::{MOST_ROWS, even_pieces, with_rows};
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each, part_start, pieces};
use std::ops::Range;

/// Where a tap of the kernel is taken, seen from a pixel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tap {
    /// Which tap of the panels.
    pub(super) tap: usize,
    /// Rows and columns of the source from where the pixel is.
    pub(super) row: isize,
    pub(super) column: isize,
}

/// Pixels of the result that meet the same taps: every `step`-th from `first` on.
#[derive(Debug, Clone)]
pub(super) struct Lattice {
    pub(super) first: (usize, usize),
    pub(super) step: usize,
    /// Rows and columns of it.
    pub(super) size: (usize, usize),
    pub(super) taps: Vec<Tap>,
    /// Source pixels from one pixel of the lattice to the next.
    pub(super) source_step: usize,
}

/// What to compute.
pub(super) struct Gather<'a> {
    pub(super) isa: Isa,
    pub(super) source: &'a Operands<'a>,
    pub(super) panels: &'a Panels,
    pub(super) batch: usize,
    /// Rows and columns of an image of the result.
    pub(super) size: (usize, usize),
    /// Channels of the result.
    pub(super) channels: usize,
    pub(super) epilogue: ConvEpilogue<'a>,
}

/// Groups that share a panel while it is in the cache.
const BLOCK_GROUPS: usize = 8;
/// Images of at most this many pixels have so many of them at the border that it pays to group equal pixels of different
/// images, which leave out the same taps.
const SMALL_IMAGE: usize = 64;

impl Gather<'_> {
    /// Writes every pixel of the lattice.
    ///
    /// # Safety
    /// From every pixel that a tap meets, the source has as many operands as a tap of the panels.
    pub(super) unsafe fn run(&self, lattice: &Lattice, output: &mut [f32]) {
        assert_eq!(output.len(), self.batch * self.size.0 * self.size.1 * self.channels);
        let pixels = self.batch * lattice.size.0 * lattice.size.1;
        if pixels == 0 {
            return;
        }
        let blocks = pieces(pixels, BLOCK_GROUPS * self.isa.tile().rows);
        let splits = self.panel_splits(blocks);
        let zeros = vec![0u32; self.panels.tap_words()];
        let (zeros, output) = (Shared::new(zeros.as_ptr().cast_mut()), Shared::of(output));
        for_each(blocks * splits, |i| {
            let (block, split) = (i / splits, i % splits);
            let rows = part_start(pixels, blocks, block)..part_start(pixels, blocks, block + 1);
            let panel = |split| part_start(self.panels.count, splits, split);
            // SAFETY: the starts of both.
            let (zeros, output) = unsafe { (zeros.at(0), output.at(0)) };
            let mut table = Table::default();
            self.fill(&mut table, lattice, rows, zeros);
            self.isa.run(Groups {
                table: &table,
                panels: panel(split)..panel(split + 1),
                weights: self.panels.start(),
                panel_stride: self.panels.stride(),
                words: self.panels.tap_words(),
                channels: self.channels,
                epilogue: self.epilogue,
                output,
            });
        });
    }

    /// How many parts to cut the panels into, so that few pixels still give every thread work.
    fn panel_splits(&self, blocks: usize) -> usize {
        let threads = rayon::current_num_threads();
        if threads == 1 || blocks >= 2 * threads {
            return 1;
        }
        (4 * threads).div_ceil(blocks).min(self.panels.count)
    }

    /// Groups of some pixels, counted along the lattice.
    fn fill(&self, table: &mut Table, lattice: &Lattice, pixels: Range<usize>, zeros: *const u32) {
        let per_image = lattice.size.0 * lattice.size.1;
        let most = self.isa.tile().rows;
        let place_by_place = per_image <= SMALL_IMAGE && self.batch >= most / 2;
        table.rows.reserve(pixels.len() * lattice.taps.len());
        table.outputs.reserve(pixels.len());
        let mut start = pixels.start;
        while start < pixels.end {
            // Where images are small, a group does not go beyond its place in them.
            let place_end = (start / self.batch + 1) * self.batch;
            let end = if place_by_place { pixels.end.min(place_end) } else { pixels.end };
            for (from, rows) in even_pieces(end - start, most) {
                let mut group = [(0, 0, 0); MOST_ROWS];
                for (i, pixel) in group[..rows].iter_mut().enumerate() {
                    let number = start + from + i;
                    let (image, place) = match place_by_place {
                        true => (number % self.batch, number / self.batch),
                        false => (number / per_image, number % per_image),
                    };
                    *pixel = (image, place / lattice.size.1, place % lattice.size.1);
                }
                self.add_group(table, lattice, &group[..rows], zeros);
            }
            start = end;
        }
    }

    /// Adds pixels `(image, row, column)` of the lattice.
    fn add_group(
        &self,
        table: &mut Table,
        lattice: &Lattice,
        pixels: &[(usize, usize, usize)],
        zeros: *const u32,
    ) {
        let &Operands { start, size: (height, width), pixel_bytes, .. } = self.source;
        let (first_tap, first_row) = (table.taps.len(), table.rows.len());
        let mut under = [(0, 0, 0); MOST_ROWS];
        for (under, &(image, row, column)) in under.iter_mut().zip(pixels) {
            let (row, column) = (row * lattice.source_step, column * lattice.source_step);
            *under = (row, column, ((image * height + row) * width + column) * pixel_bytes);
        }
        for tap in &lattice.taps {
            let tap_bytes = (tap.row * width as isize + tap.column) * pixel_bytes as isize;
            let before = table.rows.len();
            let mut meets_something = false;
            table.rows.extend(under[..pixels.len()].iter().map(|&(row, column, byte)| {
                let (row, column) =
                    (row.wrapping_add_signed(tap.row), column.wrapping_add_signed(tap.column));
                let inside = row < height && column < width;
                meets_something |= inside;
                // SAFETY: the pixel is inside the source.
                if inside {
                    unsafe { start.at(byte.wrapping_add_signed(tap_bytes)).cast_const().cast() }
                } else {
                    zeros
                }
            }));
            if meets_something {
                table.taps.push(tap.tap * self.panels.tap_stride());
            } else {
                table.rows.truncate(before);
            }
        }
        let first_output = table.outputs.len();
        table.outputs.extend(pixels.iter().map(|&(image, row, column)| {
            let (row, column) =
                (lattice.first.0 + row * lattice.step, lattice.first.1 + column * lattice.step);
            ((image * self.size.0 + row) * self.size.1 + column) * self.channels
        }));
        let taps = first_tap..table.taps.len();
        table.groups.push(Group { rows: pixels.len(), taps, first_row, first_output });
    }
}

/// Which rows meet which taps.
#[derive(Default)]
struct Table {
    groups: Vec<Group>,
    /// Words from the start of a panel to a tap.
    taps: Vec<usize>,
    /// Per group `[tap, row]`.
    rows: Vec<*const u32>,
    /// Per row, where its result goes.
    outputs: Vec<usize>,
}

struct Group {
    rows: usize,
    taps: Range<usize>,
    first_row: usize,
    first_output: usize,
}

/// Some groups with some panels.
struct Groups<'a> {
    table: &'a Table,
    panels: Range<usize>,
    weights: *const u32,
    panel_stride: usize,
    words: usize,
    channels: usize,
    epilogue: ConvEpilogue<'a>,
    output: *mut f32,
}

impl Kernel for Groups<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        for panel in self.panels.clone() {
            for group in &self.table.groups {
                // SAFETY: `Gather::run`'s caller promises the rows, and the table was made for these panels.
                unsafe { with_rows!(L, group.rows, group_tile(simd, &self, group, panel)) }
            }
        }
    }
}

/// # Safety
/// The group has `R` rows, which can be read as far as the panels say.
#[inline(always)]
unsafe fn group_tile<L: Simd, const R: usize>(simd: L, work: &Groups, group: &Group, panel: usize) {
    // SAFETY: the caller's promise; the table has `R` rows for each tap of the group.
    unsafe {
        let weights = work.weights.add(panel * work.panel_stride);
        let mut rows = work.table.rows.as_ptr().add(group.first_row);
        let mut sums = [[simd.splat(0.0); 2]; R];
        for tap in group.taps.clone() {
            add_products(
                simd,
                &mut sums,
                &*rows.cast(),
                work.words,
                weights.add(*work.table.taps.get_unchecked(tap)),
            );
            rows = rows.add(R);
        }
        for r in 0..R {
            let place = *work.table.outputs.get_unchecked(group.first_output + r);
            let column = panel * 2 * L::WIDTH;
            work.epilogue.write(simd, sums[r][0], place, column, work.channels, work.output);
            work.epilogue.write(simd, sums[r][1], place, column + L::WIDTH, work.channels, work.output);
        }
    }
}
