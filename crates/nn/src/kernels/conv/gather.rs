//! Matrix multiplication whose left rows lie anywhere: convolution without copying windows together.
//!
//! Each pixel of the result is a sum over the taps of the kernel of (a row of channels somewhere in the source) times
//! (a matrix). Pixels are taken in groups of as many as a register tile has rows; a tap that meets nothing but padding in
//! a whole group is left out.

#![expect(clippy::needless_range_loop, reason = "arrays stay in registers only when indexed by constants")]

use super::pack::Panels;
use super::tile::{add_products, even_pieces, with_rows};
use crate::kernels::lanes::{Isa, Kernel, Lanes};
use crate::kernels::threads::{Shared, for_each, part_start, pieces};
use std::ops::Range;

/// Pixels of the result: every `step`-th from the first on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lattice {
    pub(super) first: (usize, usize),
    pub(super) step: usize,
    /// Rows and columns of it.
    pub(super) size: (usize, usize),
}

/// What to compute. The rows of the source and the result must be as long as the sizes here say; see [`Gather::run`].
pub(super) struct Gather<'a, S> {
    pub(super) isa: Isa,
    pub(super) batch: usize,
    /// Rows and columns of a picture of the result.
    pub(super) size: (usize, usize),
    /// Channels of the result.
    pub(super) channels: usize,
    pub(super) taps: usize,
    pub(super) panels: &'a Panels,
    /// Where the operands of the source begin.
    pub(super) source: Shared<u8>,
    /// Byte of the source (from `source`) that a tap meets at a pixel; `None` for padding.
    pub(super) place: S,
    /// Operands that are zero, as many as a tap has.
    pub(super) zeros: Shared<u8>,
    /// Whole tiles of them, see [`super::pack::whole_tiles`].
    pub(super) bias: Option<&'a [f32]>,
    pub(super) residual: Option<&'a [f32]>,
    pub(super) relu: bool,
}

/// Rows that share the panels while those are in the cache.
const BLOCK_GROUPS: usize = 8;
/// Pictures of at most this many pixels have so many of them at the border that it pays to group equal pixels of different
/// pictures, which leave out the same taps.
const SMALL_PICTURE: usize = 64;

impl<S: Fn(usize, usize, usize, usize) -> Option<usize> + Sync> Gather<'_, S> {
    /// Writes every pixel of the lattice.
    ///
    /// # Safety
    /// `place(tap, picture, row, column)` gives places with as many operands as a tap has, for every pixel of the lattice.
    pub(super) unsafe fn run(&self, lattice: Lattice, output: &mut [f32]) {
        assert_eq!(output.len(), self.batch * self.size.0 * self.size.1 * self.channels);
        let pixels = self.batch * lattice.size.0 * lattice.size.1;
        if pixels == 0 {
            return;
        }
        let block = BLOCK_GROUPS * self.isa.tile().rows;
        let blocks = pieces(pixels, block);
        let splits = self.panel_splits(blocks);
        let output = Shared::of(output);
        for_each(blocks * splits, |i| {
            let (block, split) = (i / splits, i % splits);
            let rows = part_start(pixels, blocks, block)..part_start(pixels, blocks, block + 1);
            let panels = part_start(self.panels.count, splits, split)
                ..part_start(self.panels.count, splits, split + 1);
            let table = self.table(lattice, rows);
            let bias = self.bias.map(<[f32]>::as_ptr);
            let residual = self.residual.map(<[f32]>::as_ptr);
            let (weights, panel_stride) = (self.panels.start(), self.panels.stride());
            let (words, relu, channels) = (self.panels.tap_words(), self.relu, self.channels);
            let output = output;
            // SAFETY: `table` has only pixels of this block, so no other thread writes there.
            let output = unsafe { output.at(0) };
            self.isa.run(Groups {
                table: &table,
                panels,
                weights,
                panel_stride,
                words,
                channels,
                bias,
                residual,
                relu,
                output,
            });
        });
    }

    /// How many parts to cut the panels into, so that few pixels still give every thread work.
    fn panel_splits(&self, blocks: usize) -> usize {
        let threads = rayon::current_num_threads();
        if threads == 1 || blocks >= 2 * threads {
            1
        } else {
            (4 * threads).div_ceil(blocks).min(self.panels.count)
        }
    }

    /// The groups of some pixels, counted along the lattice.
    fn table(&self, lattice: Lattice, pixels: Range<usize>) -> Table {
        let per_picture = lattice.size.0 * lattice.size.1;
        let place_by_place = per_picture <= SMALL_PICTURE && self.batch >= self.isa.tile().rows / 2;
        let most = self.isa.tile().rows;
        let mut table = Table::default();
        let decode = |pixel: usize| {
            let (picture, pixel) = match place_by_place {
                true => (pixel % self.batch, pixel / self.batch),
                false => (pixel / per_picture, pixel % per_picture),
            };
            let row = lattice.first.0 + pixel / lattice.size.1 * lattice.step;
            let column = lattice.first.1 + pixel % lattice.size.1 * lattice.step;
            (picture, row, column)
        };
        let mut start = pixels.start;
        while start < pixels.end {
            // Where pictures are small, a group does not go beyond its place in them.
            let end = if place_by_place {
                pixels.end.min((start / self.batch + 1) * self.batch)
            } else {
                pixels.end
            };
            for (from, rows) in even_pieces(end - start, most) {
                let pixels: Vec<_> = (start + from..start + from + rows).map(decode).collect();
                self.add_group(&mut table, &pixels);
            }
            start = end;
        }
        table
    }

    fn add_group(&self, table: &mut Table, pixels: &[(usize, usize, usize)]) {
        let (first_tap, first_row) = (table.taps.len(), table.rows.len());
        for tap in 0..self.taps {
            let before = table.rows.len();
            let mut meets_something = false;
            for &(picture, row, column) in pixels {
                let place = (self.place)(tap, picture, row, column);
                meets_something |= place.is_some();
                // SAFETY: `run`'s caller promises the places.
                let source = unsafe { place.map_or(self.zeros.at(0), |place| self.source.at(place)) };
                table.rows.push(source.cast_const().cast());
            }
            if meets_something {
                table.taps.push(tap * self.panels.tap_stride());
            } else {
                table.rows.truncate(before);
            }
        }
        let first_output = table.outputs.len();
        table.outputs.extend(pixels.iter().map(|&(picture, row, column)| {
            ((picture * self.size.0 + row) * self.size.1 + column) * self.channels
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
    bias: Option<*const f32>,
    residual: Option<*const f32>,
    relu: bool,
    output: *mut f32,
}

impl Kernel for Groups<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for panel in self.panels.clone() {
            for group in &self.table.groups {
                // SAFETY: `Gather::run`'s caller promises the rows, and the table was made for these panels.
                unsafe { with_rows!(L, group.rows, group_tile(lanes, &self, group, panel)) }
            }
        }
    }
}

/// # Safety
/// The group has `R` rows, which can be read as far as the panels say.
#[inline(always)]
unsafe fn group_tile<L: Lanes, const R: usize>(lanes: L, work: &Groups, group: &Group, panel: usize) {
    // SAFETY: the caller's promise; the table has `R` rows for each tap of the group.
    unsafe {
        let weights = work.weights.add(panel * work.panel_stride);
        let mut rows = work.table.rows.as_ptr().add(group.first_row);
        let mut sums = [[lanes.splat(0.0); 2]; R];
        for tap in group.taps.clone() {
            add_products(
                lanes,
                &mut sums,
                &*rows.cast(),
                work.words,
                weights.add(*work.table.taps.get_unchecked(tap)),
            );
            rows = rows.add(R);
        }
        for r in 0..R {
            let place = *work.table.outputs.get_unchecked(group.first_output + r);
            finish(lanes, work, sums[r][0], place, panel * 2 * L::WIDTH);
            finish(lanes, work, sums[r][1], place, panel * 2 * L::WIDTH + L::WIDTH);
        }
    }
}

/// Adds what is to be added to a vector of sums, and writes it.
///
/// # Safety
/// The channels from `column` on (as many as there are) of the pixel at `place` can be written.
#[inline(always)]
unsafe fn finish<L: Lanes>(lanes: L, work: &Groups, mut sum: L::Vector, place: usize, column: usize) {
    let count = work.channels.saturating_sub(column).min(L::WIDTH);
    if count == 0 {
        return;
    }
    let place = place + column;
    // SAFETY: the caller's promise; the bias is whole tiles, the residual as large as the output.
    unsafe {
        if let Some(bias) = work.bias {
            sum = lanes.add(sum, lanes.load(bias.add(column)));
        }
        if let Some(residual) = work.residual {
            sum = lanes.add(sum, load_some(lanes, residual.add(place), count));
        }
        if work.relu {
            sum = lanes.relu(sum);
        }
        store_some(lanes, work.output.add(place), sum, count);
    }
}

/// # Safety
/// `count` numbers can be read.
#[inline(always)]
unsafe fn load_some<L: Lanes>(lanes: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's promise.
    unsafe { if count == L::WIDTH { lanes.load(from) } else { lanes.load_first(from, count) } }
}

/// # Safety
/// `count` numbers can be written.
#[inline(always)]
unsafe fn store_some<L: Lanes>(lanes: L, to: *mut f32, vector: L::Vector, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { if count == L::WIDTH { lanes.store(to, vector) } else { lanes.store_first(to, vector, count) } }
}
