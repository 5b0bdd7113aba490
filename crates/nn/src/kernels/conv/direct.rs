//! Convolution as a sum over the taps of the kernel: any size, stride and padding.

use super::gather::{Gather, Lattice, Tap};
use super::operands::Operands;
use super::pack::{Panels, transposed};
use super::stem;
use super::tile::{Anywhere, OuterProducts};
use super::{ConvEpilogue, ConvShape};
use crate::kernels::memory::unfilled;
use crate::kernels::norm::GroupNorm;
use crate::kernels::simd::Isa;
use crate::kernels::threads::{Shared, for_each, part_start};
use std::ops::Range;

/// How the kernel's taps are taken: one by one, or, when there are few channels, a row of the kernel at a time, which is then
/// one run of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taps {
    /// How many.
    pub(super) count: usize,
    /// Numbers each of them sums up.
    pub(super) inner: usize,
    pub(super) full_rows: bool,
}

/// Fewer channels than this are too short a run for the register tile.
const FEW_CHANNELS: usize = 16;

impl Taps {
    pub(super) fn of(kernel: usize, in_channels: usize) -> Self {
        let full_rows = in_channels < FEW_CHANNELS && kernel > 1;
        let (count, inner) = match full_rows {
            true => (kernel, kernel * in_channels),
            false => (kernel * kernel, in_channels),
        };
        Self { count, inner, full_rows }
    }

    /// The input as these taps want it.
    fn operands<'a>(&self, isa: Isa, shape: &ConvShape, input: &'a [f32]) -> Operands<'a> {
        match self.full_rows {
            true => Operands::padded(isa, shape, self.inner, input),
            false => Operands::of(isa, (shape.height, shape.width), shape.in_channels, input),
        }
    }

    /// Where the taps are in those operands, seen from the first pixel under the kernel.
    fn places(&self, shape: &ConvShape) -> Vec<Tap> {
        let padding = shape.padding as isize;
        let place = |tap: usize| match self.full_rows {
            true => Tap { tap, row: tap as isize, column: 0 },
            false => {
                let (row, column) = (tap / shape.kernel, tap % shape.kernel);
                Tap { tap, row: row as isize - padding, column: column as isize - padding }
            }
        };
        (0..self.count).map(place).collect()
    }
}

/// Weights for [`forward`].
pub(super) fn pack(isa: Isa, shape: &ConvShape, weights: &[f32]) -> Panels {
    let Taps { count, inner, .. } = Taps::of(shape.kernel, shape.in_channels);
    match isa.is_int16() {
        true => Panels::pack_int16(isa, count, inner, shape.out_channels, weights),
        false => Panels::pack(isa, count, inner, shape.out_channels, weights),
    }
}

/// Convolves with packed weights; in integers only if the taps are [`Taps::full_rows`].
pub(super) fn forward(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: &Panels,
    epilogue: ConvEpilogue,
    output: &mut [f32],
) {
    let taps = Taps::of(shape.kernel, shape.in_channels);
    let source = taps.operands(isa, shape, input);
    if taps.full_rows {
        // SAFETY: the source and the weights were made for rows of the kernel.
        return unsafe { stem::forward(isa, shape, &source, weights, epilogue, output) };
    }
    let size = (shape.out_height(), shape.out_width());
    let (batch, channels) = (shape.batch, shape.out_channels);
    let gather = Gather { isa, source: &source, panels: weights, batch, size, channels, epilogue };
    let (taps, source_step) = (taps.places(shape), shape.stride);
    // SAFETY: the source has the operands of a tap at every pixel that one meets.
    unsafe { gather.run(&Lattice { first: (0, 0), step: 1, size, taps, source_step }, output) };
}

/// Convolves with packed weights, adds the bias, applies ReLU, and takes the largest of 3x3 at every other pixel. For
/// convolutions whose taps are [`Taps::full_rows`].
pub(super) fn forward_pooled(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: &Panels,
    bias: &[f32],
    output: &mut [f32],
) {
    let taps = Taps::of(shape.kernel, shape.in_channels);
    assert!(taps.full_rows, "a convolution of few channels");
    let source = taps.operands(isa, shape, input);
    // SAFETY: the source and the weights were made for rows of the kernel.
    unsafe { stem::forward_pooled(isa, shape, &source, weights, bias, output) };
}

/// Convolves with packed weights, normalises with ReLU, and takes the largest of 3x3 at every other pixel. For
/// convolutions whose taps are [`Taps::full_rows`].
pub(super) fn forward_normed_pooled(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: &Panels,
    norm: &GroupNorm,
    output: &mut [f32],
) {
    let taps = Taps::of(shape.kernel, shape.in_channels);
    assert!(taps.full_rows, "a convolution of few channels");
    let source = taps.operands(isa, shape, input);
    // SAFETY: the source and the weights were made for rows of the kernel.
    unsafe { stem::forward_normed_pooled(isa, shape, &source, weights, norm, output) };
}

/// The gradient of the input.
pub(super) fn backward_input(
    isa: Isa,
    shape: &ConvShape,
    weights: &[f32],
    grad_output: &[f32],
    grad_input: &mut [f32],
) {
    let (ins, outs, taps) = (shape.in_channels, shape.out_channels, shape.kernel * shape.kernel);
    let panels = Panels::pack(isa, taps, outs, ins, &transposed(isa, taps, ins, outs, weights));
    let gather = Gather {
        isa,
        source: &Operands::of(isa, (shape.out_height(), shape.out_width()), outs, grad_output),
        panels: &panels,
        batch: shape.batch,
        size: (shape.height, shape.width),
        channels: ins,
        epilogue: ConvEpilogue::default(),
    };
    for lattice in backward_lattices(shape) {
        // SAFETY: every pixel of `grad_output` has `outs` numbers.
        unsafe { gather.run(&lattice, grad_input) };
    }
}

/// Pixels of the input that are a multiple of the stride apart meet the same taps; there are as many such sets as the stride
/// squared.
fn backward_lattices(shape: &ConvShape) -> impl Iterator<Item = Lattice> {
    let ConvShape { height, width, kernel, stride, padding, .. } = *shape;
    // The output whose kernel has its tap `k` on the pixel `first`, if there is one that stands exactly there.
    let output_at = move |first: usize, k: usize| {
        let distance = (first + padding) as isize - k as isize;
        (distance.rem_euclid(stride as isize) == 0).then(|| distance.div_euclid(stride as isize))
    };
    let along = move |size: usize, first: usize| size.saturating_sub(first).div_ceil(stride);
    (0..stride * stride).map(move |i| {
        let first = (i / stride, i % stride);
        let size = (along(height, first.0), along(width, first.1));
        let tap = |tap: usize| {
            let (row, column) = (output_at(first.0, tap / kernel)?, output_at(first.1, tap % kernel)?);
            Some(Tap { tap, row, column })
        };
        let taps = (0..kernel * kernel).filter_map(tap).collect();
        Lattice { first, step: stride, size, taps, source_step: 1 }
    })
}

/// Pixels whose products are summed before the next ones are fetched.
const PIXEL_BLOCK: usize = 256;
/// Rows of the weights' gradient that one thread works on at a time.
const ROW_BLOCK: usize = 48;
/// Into about this many tasks the work is cut. Not the number of threads: the sums must not depend on that.
const TASKS: usize = 16;

/// The gradient of the weights. Single precision only.
pub(super) fn backward_weights(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    grad_output: &[f32],
    grad_weights: &mut [f32],
) {
    let taps = Taps::of(shape.kernel, shape.in_channels);
    let (source, places) = (taps.operands(isa, shape, input), taps.places(shape));
    let pixels = shape.batch * shape.out_height() * shape.out_width();
    let row_blocks = taps.inner.div_ceil(ROW_BLOCK);
    let slices = TASKS.div_ceil(taps.count * row_blocks).min(pixels.div_ceil(PIXEL_BLOCK)).max(1);
    let mut partial = if slices > 1 { unfilled(slices * grad_weights.len()) } else { Vec::new() };
    let target = if slices > 1 { Shared::of(&mut partial) } else { Shared::of(grad_weights) };
    let outs = shape.out_channels;
    for_each(slices * taps.count * row_blocks, |task| {
        let (slice, tap, block) =
            (task / row_blocks / taps.count, task / row_blocks % taps.count, task % row_blocks);
        let (first_row, end_row) = (block * ROW_BLOCK, taps.inner.min((block + 1) * ROW_BLOCK));
        let target_at = slice * shape.weights_len() + (tap * taps.inner + first_row) * outs;
        // SAFETY: inside `target`, and no other task has this slice and these rows.
        let rows =
            unsafe { std::slice::from_raw_parts_mut(target.at(target_at), (end_row - first_row) * outs) };
        rows.fill(0.0);
        let slice = part_start(pixels, slices, slice)..part_start(pixels, slices, slice + 1);
        let mut meeting = Vec::with_capacity(PIXEL_BLOCK);
        for start in slice.clone().step_by(PIXEL_BLOCK) {
            let pixels = start..slice.end.min(start + PIXEL_BLOCK);
            pairs(shape, &source, places[tap], first_row, pixels, grad_output, &mut meeting);
            isa.run(OuterProducts {
                pairs: Anywhere(&meeting),
                rows: end_row - first_row,
                columns: outs,
                target: rows.as_mut_ptr(),
                target_stride: outs,
                accumulate: true,
            });
        }
    });
    if slices > 1 {
        add_up(&partial, grad_weights);
    }
}

/// Sums slices, always in the same order.
pub(super) fn add_up(slices: &[f32], sums: &mut [f32]) {
    const RUN: usize = 4096;
    let len = sums.len();
    let sums = Shared::of(sums);
    for_each(len.div_ceil(RUN), |run| {
        let (start, end) = (run * RUN, len.min((run + 1) * RUN));
        // SAFETY: each run has its own part of the sums.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums.at(start), end - start) };
        sums.copy_from_slice(&slices[start..end]);
        for slice in slices.chunks(len).skip(1) {
            sums.iter_mut().zip(&slice[start..end]).for_each(|(sum, value)| *sum += value);
        }
    });
}

/// For every output that a tap meets: where its operands begin (from `first_row` on), and the gradient there.
fn pairs(
    shape: &ConvShape,
    source: &Operands,
    tap: Tap,
    first_row: usize,
    outputs: Range<usize>,
    grad_output: &[f32],
    pairs: &mut Vec<(*const f32, *const f32)>,
) {
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let (height, width) = source.size;
    pairs.clear();
    pairs.extend(outputs.filter_map(|output| {
        let (image, place) = (output / (out_height * out_width), output % (out_height * out_width));
        let row = (place / out_width * shape.stride).wrapping_add_signed(tap.row);
        let column = (place % out_width * shape.stride).wrapping_add_signed(tap.column);
        if row >= height || column >= width {
            return None;
        }
        let pixel = (image * height + row) * width + column;
        // SAFETY: the pixel is inside the source, and a tap has more than `first_row` operands.
        let left = unsafe { source.start.at(pixel * source.pixel_bytes).cast::<f32>().add(first_row) };
        Some((left.cast_const(), grad_output[output * shape.out_channels..].as_ptr()))
    }));
}
