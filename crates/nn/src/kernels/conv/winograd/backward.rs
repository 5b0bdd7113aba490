//! The gradients of a Winograd convolution, by the transposes of its transforms.
//!
//! With `Z = A dY Aᵀ` both gradients come from the same transformed tiles: the factors' gradient is `Vᵀ Z` (then `Gᵀ · G`), and
//! the input's is `Z Uᵀ` (then `B · Bᵀ`, where tiles overlap). As forward, there are two orders of work.

use super::matrices::PRODUCTS;
use super::transform::{FromGradOutput, FromInput, Products, Tiling, ToGradInput, ToGradWeights};
use super::{
    Factors, GAP, INNER_BLOCK, PANEL_TILES, RawWeights, SMALL_FACTORS, multiply_all, transform_input,
};
use crate::kernels::conv::ConvShape;
use crate::kernels::conv::direct::add_up;
use crate::kernels::conv::pack::transposed;
use crate::kernels::conv::tile::{InOrder, OuterProducts};
use crate::kernels::memory::{Workspace, with_workspace};
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each, part_start};
use std::ops::Range;

/// The gradients that are asked for.
pub(in crate::kernels::conv) fn backward(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: &[f32],
    grad_output: &[f32],
    grad_input: Option<&mut [f32]>,
    grad_weights: Option<&mut [f32]>,
) {
    let tiling = Tiling::of(shape);
    // The shape that the gradient of the input is a convolution of: the channels have changed sides.
    let back = ConvShape { in_channels: shape.out_channels, out_channels: shape.in_channels, ..*shape };
    let back_weights =
        grad_input.is_some().then(|| transposed(isa, 9, shape.in_channels, shape.out_channels, weights));
    let back_weights = back_weights.as_deref().map(|weights| RawWeights::of(isa, &back, weights));
    if Factors::bytes(isa, shape).max(Factors::bytes(isa, &back)) <= SMALL_FACTORS {
        let factors = back_weights.map(|weights| Factors::of(isa, &back, weights));
        by_images(isa, shape, tiling, input, factors.as_ref(), grad_output, grad_input, grad_weights);
        return;
    }
    let tiles = shape.batch * tiling.per_image();
    let row = shape.out_channels.next_multiple_of(isa.tile().width);
    let mut memory = Workspace::of(Products::bytes(tiles, row));
    let grads = Products::at(memory.start(), tiles, row);
    transform_grad_output(isa, shape, tiling, grad_output, grads, tiles);
    if let Some(grad_weights) = grad_weights {
        weights_by_panels(isa, shape, tiling, input, grads, grad_weights);
    }
    if let (Some(grad_input), Some(weights)) = (grad_input, back_weights) {
        input_by_panels(isa, &back, tiling, grads, weights, grad_input);
    }
}

/// At most this many parts sum up gradients of their own. Not the number of threads: sums must not depend on that.
const SLICES: usize = 16;
/// Bytes for the sums of all slices.
const SLICES_BYTES: usize = 10 << 20;
/// Tiles that are worth a round of 36 products.
const ROUND_TILES: usize = 32;

/// Both gradients, threads taking images; for few channels.
#[expect(clippy::too_many_arguments, reason = "what goes forward, and what comes back")]
fn by_images(
    isa: Isa,
    shape: &ConvShape,
    tiling: Tiling,
    input: &[f32],
    factors: Option<&Factors>,
    grad_output: &[f32],
    grad_input: Option<&mut [f32]>,
    grad_weights: Option<&mut [f32]>,
) {
    let tile = isa.tile();
    let (in_row, out_row) =
        (shape.in_channels.next_multiple_of(tile.width), shape.out_channels.next_multiple_of(tile.width));
    let plane = shape.in_channels * out_row + GAP;
    let per_round = ROUND_TILES.div_ceil(tiling.per_image()).min(shape.batch);
    let rounds = shape.batch.div_ceil(per_round);
    let slices = (SLICES_BYTES / (PRODUCTS * plane * size_of::<f32>())).clamp(2, SLICES).min(rounds);
    let mut sums =
        Workspace::of(if grad_weights.is_some() { slices * PRODUCTS * plane * size_of::<f32>() } else { 0 });
    let slice_sums = grad_weights.is_some().then(|| Shared::new(sums.start().cast::<f32>()));
    let most = per_round * tiling.per_image();
    let (input_bytes, grad_bytes) = (Products::bytes(most, in_row), Products::bytes(most, out_row));
    let back_bytes = Products::bytes(most, tile.columns);
    let input = Shared::new(input.as_ptr().cast_mut());
    let grad_output = Shared::new(grad_output.as_ptr().cast_mut());
    let grad_input = grad_input.map(Shared::of);
    for_each(slices, |slice| {
        let rounds = part_start(rounds, slices, slice)..part_start(rounds, slices, slice + 1);
        with_workspace(input_bytes + grad_bytes + back_bytes, |memory| {
            for round in rounds.clone() {
                let images = round * per_round..shape.batch.min((round + 1) * per_round);
                let tiles = images.start * tiling.per_image()..images.end * tiling.per_image();
                // SAFETY: the workspace has all three; each slice has its own sums, each round its own images.
                unsafe {
                    isa.run(Round {
                        shape,
                        tiling,
                        tiles,
                        input: input.at(0),
                        grad_output: grad_output.at(0),
                        inputs: Products::at(memory, most, in_row),
                        grads: Products::at(memory.add(input_bytes), most, out_row),
                        back: Products::at(memory.add(input_bytes + grad_bytes), most, tile.columns),
                        factors: factors.zip(grad_input.map(|grad| grad.at(0))),
                        sums: slice_sums.map(|sums| sums.at(slice * PRODUCTS * plane)),
                        plane,
                        first: round == rounds.start,
                    });
                }
            }
        });
    });
    if let (Some(grad_weights), Some(slice_sums)) = (grad_weights, slice_sums) {
        // SAFETY: the slices, one after the other, all written: there are no more slices than rounds.
        let all =
            unsafe { std::slice::from_raw_parts(slice_sums.at(0).cast_const(), slices * PRODUCTS * plane) };
        let mut factors = Workspace::of(PRODUCTS * plane * size_of::<f32>());
        // SAFETY: just allocated, and written by `add_up` before anything reads it.
        let sum = unsafe { std::slice::from_raw_parts_mut(factors.start().cast::<f32>(), PRODUCTS * plane) };
        add_up(all, sum);
        transform_grad_weights(isa, shape, sum, plane, out_row, grad_weights);
    }
}

/// Some whole images.
struct Round<'a> {
    shape: &'a ConvShape,
    tiling: Tiling,
    tiles: Range<usize>,
    input: *const f32,
    grad_output: *const f32,
    inputs: Products,
    grads: Products,
    back: Products,
    /// With where the gradient of the input goes, if that is wanted.
    factors: Option<(&'a Factors, *mut f32)>,
    /// `[product, inner, column]`, if the gradient of the weights is wanted.
    sums: Option<*mut f32>,
    plane: usize,
    /// Nothing was summed up before.
    first: bool,
}

impl Kernel for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let Self { tiling, input, grad_output, .. } = self;
        let (ins, outs, tiles) = (self.shape.in_channels, self.shape.out_channels, self.tiles.clone());
        FromGradOutput {
            tiling,
            channels: outs,
            grad_output,
            tiles: tiles.clone(),
            products: self.grads,
            first: 0,
        }
        .run(l);
        if let Some(sums) = self.sums {
            FromInput { tiling, channels: ins, input, tiles: tiles.clone(), products: self.inputs, first: 0 }
                .run(l);
            for product in 0..PRODUCTS {
                // SAFETY: `by_images` made room for these tiles and sums.
                unsafe {
                    let work = OuterProducts {
                        pairs: InOrder {
                            count: tiles.len(),
                            left: (self.inputs.place(product, 0, 0), self.inputs.row),
                            right: (self.grads.place(product, 0, 0), self.grads.row),
                        },
                        rows: ins,
                        columns: self.grads.row,
                        target: sums.add(product * self.plane),
                        target_stride: self.grads.row,
                        accumulate: !self.first,
                    };
                    work.on(l);
                }
            }
        }
        let Some((factors, grad_input)) = self.factors else { return };
        for (panel, first) in (0..ins).step_by(2 * L::WIDTH).enumerate() {
            let channels = first..ins.min(first + 2 * L::WIDTH);
            let (tiles, products) = (tiles.clone(), self.back);
            // SAFETY: as above, and these are whole images that nobody else writes.
            unsafe {
                multiply_all(
                    l,
                    tiles.len(),
                    self.grads,
                    0..outs,
                    factors.panel(panel),
                    factors.plane,
                    products,
                    false,
                );
                ToGradInput { tiling, tiles, channels, all_channels: ins, products, grad_input }.on(l);
            }
        }
    }
}

/// Gradients of all factors to gradients of the weights.
fn transform_grad_weights(
    isa: Isa,
    shape: &ConvShape,
    factors: &[f32],
    plane: usize,
    row: usize,
    grad_weights: &mut [f32],
) {
    let (ins, outs) = (shape.in_channels, shape.out_channels);
    let (factors, target) = (Shared::new(factors.as_ptr().cast_mut()), Shared::of(grad_weights));
    for_each(ins, |inner| {
        // SAFETY: inside both, and each inner channel has its own gradients.
        isa.run(unsafe {
            ToGradWeights {
                factors: factors.at(inner * row),
                plane,
                row,
                inner: 1,
                columns: outs,
                grad_weights: target.at(inner * outs),
                tap_stride: ins * outs,
                inner_stride: outs,
            }
        });
    });
}

/// Transforms all tiles of the output's gradient.
fn transform_grad_output(
    isa: Isa,
    shape: &ConvShape,
    tiling: Tiling,
    grad_output: &[f32],
    products: Products,
    tiles: usize,
) {
    const RUN: usize = 4;
    let (grad_output, channels) = (Shared::new(grad_output.as_ptr().cast_mut()), shape.out_channels);
    for_each(tiles.div_ceil(RUN), |run| {
        let tiles = run * RUN..tiles.min((run + 1) * RUN);
        let first = tiles.start;
        // SAFETY: the start of the gradient.
        let grad_output = unsafe { grad_output.at(0) };
        isa.run(FromGradOutput { tiling, channels, grad_output, tiles, products, first });
    });
}

/// Inner channels of a task of [`weights_by_panels`].
const WEIGHT_ROWS: usize = 96;

/// The gradient of the weights, threads taking blocks of them; for many channels.
fn weights_by_panels(
    isa: Isa,
    shape: &ConvShape,
    tiling: Tiling,
    input: &[f32],
    grads: Products,
    grad_weights: &mut [f32],
) {
    let tile = isa.tile();
    let tiles = shape.batch * tiling.per_image();
    let row = shape.in_channels.next_multiple_of(tile.width);
    let mut memory = Workspace::of(Products::bytes(tiles, row));
    let inputs = Products::at(memory.start(), tiles, row);
    transform_input(isa, shape, tiling, input, inputs, tiles);

    let (panels, blocks) =
        (shape.out_channels.div_ceil(tile.columns), shape.in_channels.div_ceil(WEIGHT_ROWS));
    let bytes = PRODUCTS * (WEIGHT_ROWS * tile.columns + GAP) * size_of::<f32>();
    let target = Shared::of(grad_weights);
    for_each(panels * blocks, |i| {
        let (panel, block) = (i / blocks, i % blocks);
        let inner =
            part_start(shape.in_channels, blocks, block)..part_start(shape.in_channels, blocks, block + 1);
        let first = panel * tile.columns;
        let columns = first..shape.out_channels.min(first + tile.columns);
        with_workspace(bytes, |memory| {
            // SAFETY: the start of the gradient.
            let grad_weights = unsafe { target.at(0) };
            isa.run(WeightBlock {
                shape,
                tiles,
                inputs,
                grads,
                inner,
                columns,
                sums: memory.cast(),
                grad_weights,
            });
        });
    });
}

struct WeightBlock<'a> {
    shape: &'a ConvShape,
    tiles: usize,
    inputs: Products,
    grads: Products,
    inner: Range<usize>,
    columns: Range<usize>,
    sums: *mut f32,
    grad_weights: *mut f32,
}

impl Kernel for WeightBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let row = 2 * L::WIDTH;
        let plane = WEIGHT_ROWS * row + GAP;
        let outs = self.shape.out_channels;
        // SAFETY: `weights_by_panels` made room for the sums; the channels are inside the products and the gradient, and no
        // other task has them.
        unsafe {
            for product in 0..PRODUCTS {
                let work = OuterProducts {
                    pairs: InOrder {
                        count: self.tiles,
                        left: (self.inputs.place(product, 0, self.inner.start), self.inputs.row),
                        right: (self.grads.place(product, 0, self.columns.start), self.grads.row),
                    },
                    rows: self.inner.len(),
                    columns: self.columns.len(),
                    target: self.sums.add(product * plane),
                    target_stride: row,
                    accumulate: false,
                };
                work.on(l);
            }
            let work = ToGradWeights {
                factors: self.sums,
                plane,
                row,
                inner: self.inner.len(),
                columns: self.columns.len(),
                grad_weights: self.grad_weights.add(self.inner.start * outs + self.columns.start),
                tap_stride: self.shape.in_channels * outs,
                inner_stride: outs,
            };
            work.on(l);
        }
    }
}

/// The gradient of the input, threads taking panels of its channels; for many channels. `back` is the shape with the channels
/// changed over.
fn input_by_panels(
    isa: Isa,
    back: &ConvShape,
    tiling: Tiling,
    grads: Products,
    weights: RawWeights,
    grad_input: &mut [f32],
) {
    let tile = isa.tile();
    let per_block = (PANEL_TILES / tiling.per_image()).clamp(1, back.batch);
    let (panels, blocks) = (back.out_channels.div_ceil(tile.columns), back.batch.div_ceil(per_block));
    let most = per_block * tiling.per_image();
    let sums_bytes = Products::bytes(most, tile.columns);
    let factors_bytes = PRODUCTS * (INNER_BLOCK * tile.columns + GAP) * size_of::<f32>();
    let target = Shared::of(grad_input);
    for_each(panels * blocks, |i| {
        let (panel, block) = (i / blocks, i % blocks);
        let images = block * per_block..back.batch.min((block + 1) * per_block);
        let tiles = images.start * tiling.per_image()..images.end * tiling.per_image();
        with_workspace(sums_bytes + factors_bytes, |memory| {
            // SAFETY: the workspace has both; each `i` has its own images and channels.
            unsafe {
                let sums = Products::at(memory, most, tile.columns);
                let factors = memory.add(sums_bytes).cast();
                let grad_input = target.at(0);
                isa.run(InputPanel { back, tiling, tiles, panel, grads, weights, factors, sums, grad_input });
            }
        });
    });
}

struct InputPanel<'a> {
    back: &'a ConvShape,
    tiling: Tiling,
    tiles: Range<usize>,
    panel: usize,
    grads: Products,
    weights: RawWeights,
    factors: *mut f32,
    sums: Products,
    grad_input: *mut f32,
}

impl Kernel for InputPanel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let Self { tiling, sums, factors, panel, grad_input, .. } = self;
        let (inners, channels) = (self.back.in_channels, self.back.out_channels);
        let first = panel * 2 * L::WIDTH;
        let here = first..channels.min(first + 2 * L::WIDTH);
        let plane = INNER_BLOCK * 2 * L::WIDTH + GAP;
        // SAFETY: `input_by_panels` made room for these tiles' sums and for the factors of a block.
        unsafe {
            let from = Products { start: self.grads.place(0, self.tiles.start, 0), ..self.grads };
            for start in (0..inners).step_by(INNER_BLOCK) {
                let inner = start..inners.min(start + INNER_BLOCK);
                self.weights.transform(here.len(), panel, inner.clone(), factors, plane).on(l);
                multiply_all(l, self.tiles.len(), from, inner, factors, plane, sums, start > 0);
            }
            let tiles = self.tiles.clone();
            ToGradInput { tiling, tiles, channels: here, all_channels: channels, products: sums, grad_input }
                .on(l);
        }
    }
}
