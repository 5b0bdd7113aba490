//! 3x3 convolution with stride 1 in a quarter of the multiplications (Winograd's F(4x4, 3x3)).
//!
//! Inputs and weights are transformed so that 36 independent matrix products remain; these are done in single
//! precision, or for scoring in 16-bit integers ([`int16`]). What is kept in the cache decides the speed, so there are two orders of work. With few channels the
//! transformed weights ("factors") are small: they are made once, and threads take blocks of tiles ([`by_tiles`]). With
//! many channels the factors would be four times as large as the weights and come from memory: then threads take panels of output
//! channels and make the factors anew, a piece at a time, where they are needed ([`by_panels`]).

pub(super) mod backward;
pub(super) mod int16;
mod matrices;
mod small_batch;
mod transform;

use super::tile::Multiply;
use super::{ConvEpilogue, ConvShape};
use crate::kernels::Precision;
use crate::kernels::memory::{Workspace, with_workspace};
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each, part_start, pieces};
use matrices::PRODUCTS;
use small_batch::FewTiles;
use std::ops::Range;
use transform::{FromInput, FromWeights, Products, Tiling, ToOutput};

/// Whether there are images for which [`suits`] a convolution.
pub(super) fn may_suit(
    kernel: usize,
    stride: usize,
    padding: usize,
    in_channels: usize,
    out_channels: usize,
) -> bool {
    kernel == 3 && stride == 1 && padding <= 2 && in_channels >= 16 && out_channels >= 16
}

/// Whether this is a convolution for this file, and less work here than tap by tap on the same instructions.
pub(super) fn suits(isa: Isa, shape: &ConvShape) -> bool {
    let ConvShape { kernel, stride, padding, in_channels, out_channels, .. } = *shape;
    if !may_suit(kernel, stride, padding, in_channels, out_channels) {
        return false;
    }
    // Products for each pair of channels, measured in time: transforming tiles takes a quarter of multiplying them,
    // transforming weights about as long as a hundred products.
    let tiles = shape.batch * Tiling::of(shape).per_image();
    let here = tiles * PRODUCTS * 5 / 4 + 100;
    let tap_by_tap = shape.batch * shape.out_height() * shape.out_width() * 9;
    let faster = if isa.precision() == Precision::Bf16 { 2 } else { 1 };
    here * faster <= tap_by_tap
}

/// Weights `[tap, inner, column]`, in panels of a tile's columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawWeights {
    pub(super) start: Shared<f32>,
    /// Numbers from one tap to the next.
    pub(super) tap_stride: usize,
    /// Numbers from one inner channel to the next.
    pub(super) inner_stride: usize,
    /// Numbers from one panel to the next.
    pub(super) panel_stride: usize,
}

impl RawWeights {
    /// Weights as networks hold them: `[row, column, in, out]`.
    pub(super) fn of(isa: Isa, shape: &ConvShape, weights: &[f32]) -> Self {
        let (ins, outs) = (shape.in_channels, shape.out_channels);
        let start = Shared::new(weights.as_ptr().cast_mut());
        Self { start, tap_stride: ins * outs, inner_stride: outs, panel_stride: isa.tile().columns }
    }

    /// Weights as `[panel, in, row, column, out]`, whole tiles of outputs.
    pub(super) fn in_panels(isa: Isa, shape: &ConvShape, weights: &[f32]) -> Self {
        let (columns, taps) = (isa.tile().columns, shape.kernel * shape.kernel);
        let (inner_stride, panel_stride) = (taps * columns, shape.in_channels * taps * columns);
        let start = Shared::new(weights.as_ptr().cast_mut());
        Self { start, tap_stride: columns, inner_stride, panel_stride }
    }

    /// How to transform some inner channels of a panel.
    ///
    /// # Safety
    /// There are such channels and such a panel.
    unsafe fn transform(
        &self,
        columns: usize,
        panel: usize,
        inner: Range<usize>,
        factors: *mut f32,
        plane: usize,
    ) -> FromWeights {
        // SAFETY: the caller's promise.
        let weights = unsafe { self.start.at(panel * self.panel_stride + inner.start * self.inner_stride) };
        FromWeights {
            weights,
            tap_stride: self.tap_stride,
            inner_stride: self.inner_stride,
            inner: inner.len(),
            columns,
            factors,
            plane,
        }
    }
}

/// Numbers between the factors of two products beyond what they take up, see [`Products`].
const GAP: usize = 16;

/// Transformed weights: `[panel, product, inner, column]`.
pub(crate) struct Factors {
    memory: Workspace,
    /// Numbers from one product to the next.
    plane: usize,
}

impl Factors {
    /// Bytes they would take up.
    fn bytes(isa: Isa, shape: &ConvShape) -> usize {
        let columns = isa.tile().columns;
        shape.out_channels.div_ceil(columns)
            * PRODUCTS
            * (shape.in_channels * columns + GAP)
            * size_of::<f32>()
    }

    pub(super) fn of(isa: Isa, shape: &ConvShape, weights: RawWeights) -> Self {
        const RUN: usize = 16;
        let columns = isa.tile().columns;
        let panels = shape.out_channels.div_ceil(columns);
        let plane = shape.in_channels * columns + GAP;
        let mut memory = Workspace::of(Self::bytes(isa, shape));
        let target = Shared::new(memory.start().cast::<f32>());
        let runs = shape.in_channels.div_ceil(RUN);
        for_each(panels * runs, |i| {
            let (panel, run) = (i / runs, i % runs);
            let inner = run * RUN..shape.in_channels.min((run + 1) * RUN);
            let left = (shape.out_channels - panel * columns).min(columns);
            // SAFETY: inside the weights and the workspace, and each `i` has its own part of it.
            isa.run(unsafe {
                let factors = target.at(panel * PRODUCTS * plane + inner.start * columns);
                weights.transform(left, panel, inner, factors, plane)
            });
        });
        Self { memory, plane }
    }

    fn panel(&self, panel: usize) -> *const f32 {
        // SAFETY: `forward` asks for panels there are.
        unsafe { self.memory.as_ptr().cast::<f32>().add(panel * PRODUCTS * self.plane) }
    }
}

/// Factors up to this size are kept.
const SMALL_FACTORS: usize = 5 << 19;
/// Tiles for which it pays to have all factors made before.
const MANY_TILES: usize = 32;

/// Whether [`by_tiles`] is the better order, and so [`Factors`] are wanted.
pub(super) fn wants_factors(isa: Isa, shape: &ConvShape) -> bool {
    let tiles = shape.batch * Tiling::of(shape).per_image();
    Factors::bytes(isa, shape) <= SMALL_FACTORS && tiles >= MANY_TILES
}

/// Convolves.
pub(super) fn forward(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: RawWeights,
    epilogue: ConvEpilogue,
    output: &mut [f32],
) {
    if wants_factors(isa, shape) {
        by_tiles(isa, shape, input, &Factors::of(isa, shape, weights), epilogue, output);
    } else {
        by_panels(isa, shape, input, weights, epilogue, output);
    }
}

/// Tiles of a block of [`by_tiles`]; its products stay in the second cache.
const TILE_BLOCK: usize = 24;

/// Convolves, threads taking blocks of tiles.
pub(super) fn by_tiles(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    factors: &Factors,
    epilogue: ConvEpilogue,
    output: &mut [f32],
) {
    let tile = isa.tile();
    let tiling = Tiling::of(shape);
    let tiles = shape.batch * tiling.per_image();
    let blocks = pieces(tiles, TILE_BLOCK);
    let most = tiles.div_ceil(blocks);
    let row = shape.in_channels.next_multiple_of(tile.width);
    let (input_bytes, output_bytes) = (Products::bytes(most, row), Products::bytes(most, tile.columns));
    let (input, output) = (Shared::new(input.as_ptr().cast_mut()), Shared::of(output));
    for_each(blocks, |block| {
        let tiles = part_start(tiles, blocks, block)..part_start(tiles, blocks, block + 1);
        with_workspace(input_bytes + output_bytes, |memory| {
            // SAFETY: the workspace has both; `input` and `output` have the sizes of `shape`, and each block its own tiles.
            unsafe {
                let from = Products::at(memory, most, row);
                let to = Products::at(memory.add(input_bytes), most, tile.columns);
                let (input, output) = (input.at(0), output.at(0));
                isa.run(TileBlock { shape, tiling, tiles, input, factors, from, to, epilogue, output });
            }
        });
    });
}

struct TileBlock<'a> {
    shape: &'a ConvShape,
    tiling: Tiling,
    tiles: Range<usize>,
    input: *const f32,
    factors: &'a Factors,
    from: Products,
    to: Products,
    epilogue: ConvEpilogue<'a>,
    output: *mut f32,
}

impl Kernel for TileBlock<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let Self { tiling, from, to, epilogue, output, input, .. } = self;
        let (ins, outs) = (self.shape.in_channels, self.shape.out_channels);
        FromInput { tiling, channels: ins, input, tiles: self.tiles.clone(), products: from, first: 0 }
            .run(l);
        for (panel, first) in (0..outs).step_by(2 * L::WIDTH).enumerate() {
            let factors = self.factors.panel(panel);
            let channels = first..outs.min(first + 2 * L::WIDTH);
            // SAFETY: `by_tiles` made room for the products of these tiles.
            unsafe {
                multiply_all(l, self.tiles.len(), from, 0..ins, factors, self.factors.plane, to, false);
                let tiles = self.tiles.clone();
                ToOutput {
                    tiling,
                    tiles,
                    channels,
                    all_channels: outs,
                    products: to,
                    scales: None,
                    epilogue,
                    output,
                }
                .on(l);
            }
        }
    }
}

/// The 36 products of some tiles and inner channels with the factors of a panel.
///
/// # Safety
/// `from` and `to` have that many tiles, `from` and `factors` these inner channels.
#[expect(clippy::too_many_arguments, reason = "two sides and a target, each with its layout")]
#[inline(always)]
unsafe fn multiply_all<L: Simd>(
    l: L,
    tiles: usize,
    from: Products,
    inner: Range<usize>,
    factors: *const f32,
    plane: usize,
    to: Products,
    accumulate: bool,
) {
    for product in 0..PRODUCTS {
        // SAFETY: the caller's promise.
        unsafe {
            let work = Multiply {
                rows: tiles,
                words: inner.len(),
                panels: 1,
                left: from.place(product, 0, inner.start).cast_const().cast(),
                left_stride: from.row,
                right: factors.add(product * plane).cast(),
                panel_stride: 0,
                target: to.place(product, 0, 0),
                target_stride: to.row,
                accumulate,
                unit: 1.0,
            };
            work.on(l);
        }
    }
}

/// Tiles of a block of [`by_panels`].
const PANEL_TILES: usize = 64;
/// Inner channels whose factors are made at a time.
const INNER_BLOCK: usize = 64;
/// A vector of [`FewTiles`] fits into the room for a block's factors, of which there are at least two.
const _: () = assert!(FewTiles::numbers(1) <= PRODUCTS * INNER_BLOCK * 2);

/// Convolves, threads taking panels of output channels.
pub(super) fn by_panels(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: RawWeights,
    epilogue: ConvEpilogue,
    output: &mut [f32],
) {
    let tile = isa.tile();
    let tiling = Tiling::of(shape);
    let tiles = shape.batch * tiling.per_image();
    let row = shape.in_channels.next_multiple_of(tile.width);
    let mut memory = Workspace::of(Products::bytes(tiles, row));
    let products = Products::at(memory.start(), tiles, row);
    transform_input(isa, shape, tiling, input, products, tiles);

    let panels = shape.out_channels.div_ceil(tile.columns);
    let blocks = tiles.div_ceil(PANEL_TILES);
    let most = tiles.div_ceil(blocks);
    let sums_bytes = Products::bytes(most, tile.columns);
    let factors_bytes = PRODUCTS * (INNER_BLOCK * tile.columns + GAP) * size_of::<f32>();
    let output = Shared::of(output);
    for_each(panels * blocks, |i| {
        let (panel, block) = (i / blocks, i % blocks);
        let tiles = part_start(tiles, blocks, block)..part_start(tiles, blocks, block + 1);
        with_workspace(sums_bytes + factors_bytes, |memory| {
            // SAFETY: the workspace has both; each `i` has its own tiles and channels.
            unsafe {
                let sums = Products::at(memory, most, tile.columns);
                let factors = memory.add(sums_bytes).cast();
                let output = output.at(0);
                isa.run(Panel {
                    shape,
                    tiling,
                    tiles,
                    panel,
                    products,
                    weights,
                    factors,
                    sums,
                    epilogue,
                    output,
                });
            }
        });
    });
}

/// Transforms all tiles of the input.
fn transform_input(
    isa: Isa,
    shape: &ConvShape,
    tiling: Tiling,
    input: &[f32],
    products: Products,
    tiles: usize,
) {
    const RUN: usize = 4;
    let (input, channels) = (Shared::new(input.as_ptr().cast_mut()), shape.in_channels);
    for_each(tiles.div_ceil(RUN), |run| {
        let tiles = run * RUN..tiles.min((run + 1) * RUN);
        let first = tiles.start;
        // SAFETY: the start of the input.
        let input = unsafe { input.at(0) };
        isa.run(FromInput { tiling, channels, input, tiles, products, first });
    });
}

struct Panel<'a> {
    shape: &'a ConvShape,
    tiling: Tiling,
    tiles: Range<usize>,
    panel: usize,
    products: Products,
    weights: RawWeights,
    factors: *mut f32,
    sums: Products,
    epilogue: ConvEpilogue<'a>,
    output: *mut f32,
}

impl Kernel for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let Self { tiling, epilogue, output, sums, factors, panel, .. } = self;
        let (ins, outs) = (self.shape.in_channels, self.shape.out_channels);
        let first = panel * 2 * L::WIDTH;
        let channels = first..outs.min(first + 2 * L::WIDTH);
        let plane = INNER_BLOCK * 2 * L::WIDTH + GAP;
        // SAFETY: `by_panels` made room for these tiles' products and sums, and for the factors of a block.
        unsafe {
            let from = Products { start: self.products.place(0, self.tiles.start, 0), ..self.products };
            if self.tiles.len() <= small_batch::most_tiles::<L>() {
                let (weights, columns) = (self.weights, channels.len());
                FewTiles { from, weights, panel, columns, inner: ins, memory: factors, sums }
                    .on(l, self.tiles.len());
            } else {
                for start in (0..ins).step_by(INNER_BLOCK) {
                    let inner = start..ins.min(start + INNER_BLOCK);
                    self.weights.transform(channels.len(), panel, inner.clone(), factors, plane).on(l);
                    multiply_all(l, self.tiles.len(), from, inner, factors, plane, sums, start > 0);
                }
            }
            let tiles = self.tiles.clone();
            ToOutput {
                tiling,
                tiles,
                channels,
                all_channels: outs,
                products: sums,
                scales: None,
                epilogue,
                output,
            }
            .on(l);
        }
    }
}
