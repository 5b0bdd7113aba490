//! Winograd's products in 16-bit integers, for scoring.
//!
//! The CPU multiplies pairs of bfloat16 at twice the rate of single numbers, but with their eight bits the
//! transforms would be off by a hundredth a layer. It multiplies pairs of 16-bit integers just as fast, and those
//! are exact until they are summed up. So transformed inputs are scaled by the largest of their tile and rounded to
//! 14.5 bits, factors by what their output channel allows: no sum may leave 32 bits. A tile's scale does not depend on
//! other tiles, nor do scores on the batch.
//!
//! What rounding costs: an input is off by at most half of its tile's largest / 11585, a factor by half of a unit of
//! which 64 of the channel's sum up to 185 300. For random numbers that is 1/7000 and 1/10000 of a typical one, and the
//! inverse transform makes it five times as much: outputs are off by a thousandth of a typical one, where inputs
//! and weights in bfloat16 would cost more than two.

use super::transform::{FromInput, Products, Scales, Tiling, ToOutput};
use super::{GAP, PANEL_TILES, RawWeights};
use crate::kernels::conv::operands::scale_of;
use crate::kernels::conv::tile::Multiply;
use crate::kernels::conv::winograd::matrices::{INPUTS, PRODUCTS};
use crate::kernels::conv::{ConvEpilogue, ConvShape};
use crate::kernels::memory::{Workspace, with_workspace};
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each, part_start, pieces};
use std::ops::Range;

/// The largest input after rounding.
const LARGEST_INPUT: f32 = 11_585.0;
/// The largest factor after rounding.
const LARGEST_FACTOR: f32 = 32_000.0;
/// Factors of a column that meet one sum add up to no more than this before they are rounded. Rounding adds half of
/// [`INNER_BLOCK`] at most, and the sum of products stays below `11585 * (185_300 + 32) < 2^31`.
const LARGEST_SUM: f32 = 185_300.0;
/// Inner channels that are summed up in integers.
const INNER_BLOCK: usize = 64;
/// How large inputs and factors are after one transform of random numbers: the lengths of the rows of its matrix. The
/// products are divided by these, so that those of all places use the same share of the 16 bits.
const INPUT_SIZES: [f32; INPUTS] = [2.87, 2.74, 2.74, 1.94, 1.94, 2.87];
const FACTOR_SIZES: [f32; INPUTS] = [1.0, 0.88, 0.88, 0.44, 0.44, 1.0];

/// The size of a product's inputs or factors, which are transformed along both sides.
const fn size_of_product(sizes: &[f32; INPUTS], product: usize) -> f32 {
    sizes[product / INPUTS] * sizes[product % INPUTS]
}
/// Inner channels that make a word.
const PAIR: usize = 2;
/// Factors up to this size are kept.
const SMALL_FACTORS: usize = 3 << 20;
/// Tiles of a block when factors are kept.
const TILE_BLOCK: usize = 24;

/// What is known of weights beforehand.
pub(crate) struct Int16Weights {
    /// What the factors of an output channel are multiplied with before rounding; whole tiles of it.
    scale: Vec<f32>,
    /// What undoes both scales but the tile's.
    inverse: Vec<f32>,
    /// All of them, if they are few: `[panel, inner block, product, word, column]`.
    factors: Option<Workspace>,
}

impl Int16Weights {
    pub(crate) fn of(isa: Isa, shape: &ConvShape, weights: RawWeights) -> Self {
        let columns = isa.tile().columns;
        let panels = shape.out_channels.div_ceil(columns);
        let (mut scale, mut inverse) = (vec![1.0; panels * columns], vec![1.0; panels * columns]);
        let (scales, inverses) = (Shared::of(&mut scale), Shared::of(&mut inverse));
        for_each(panels, |panel| {
            // SAFETY: each panel has its own part of both.
            let (scales, inverses) = unsafe { (scales.at(panel * columns), inverses.at(panel * columns)) };
            isa.run(ScalesOf { panel: PanelWeights::of(shape, weights, panel, columns), scales, inverses });
        });
        let mut known = Self { scale, inverse, factors: None };
        let blocks = shape.in_channels.div_ceil(INNER_BLOCK);
        let bytes = panels * blocks * factors_bytes(shape.in_channels, columns);
        if bytes <= SMALL_FACTORS {
            let mut memory = Workspace::of(bytes);
            let target = Shared::new(memory.start());
            for_each(panels * blocks, |i| {
                let (panel, block) = (i / blocks, i % blocks);
                // SAFETY: inside the workspace, and each `i` has its own part of it.
                let factors = unsafe { target.at(i * factors_bytes(shape.in_channels, columns)) }.cast();
                let weights = PanelWeights::of(shape, weights, panel, columns);
                let scales = known.scale[panel * columns..].as_ptr();
                isa.run(ToFactors { weights, inner: block_of(shape.in_channels, block), scales, factors });
            });
            known.factors = Some(memory);
        }
        known
    }
}

fn block_of(channels: usize, block: usize) -> Range<usize> {
    block * INNER_BLOCK..channels.min((block + 1) * INNER_BLOCK)
}

/// Words from the factors of one product to the next, of so many inner channels in all.
#[inline(always)]
fn plane(ins: usize, columns: usize) -> usize {
    ins.min(INNER_BLOCK).div_ceil(PAIR) * columns + GAP
}

/// Bytes of the factors of a block of inner channels and a panel.
fn factors_bytes(ins: usize, columns: usize) -> usize {
    PRODUCTS * plane(ins, columns) * size_of::<u32>()
}

/// Convolves: threads take blocks of tiles, or panels whose factors they make.
pub(in crate::kernels::conv) fn forward(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    raw: RawWeights,
    weights: &Int16Weights,
    epilogue: ConvEpilogue,
    output: &mut [f32],
) {
    let work = Work { isa, shape, tiling: Tiling::of(shape), weights, epilogue };
    match &weights.factors {
        Some(factors) => work.by_tiles(input, factors, output),
        None => work.by_panels(input, raw, output),
    }
}

struct Work<'a> {
    isa: Isa,
    shape: &'a ConvShape,
    tiling: Tiling,
    weights: &'a Int16Weights,
    epilogue: ConvEpilogue<'a>,
}

impl Work<'_> {
    fn tiles(&self) -> usize {
        self.shape.batch * self.tiling.per_image()
    }

    /// Words of a transformed tile's row.
    fn row_words(&self) -> usize {
        self.shape.in_channels.next_multiple_of(self.isa.tile().width) / PAIR
    }

    /// Bytes of one tile as numbers.
    fn tile_bytes(&self) -> usize {
        Products::bytes(1, self.row_words() * PAIR)
    }

    fn by_tiles(&self, input: &[f32], factors: &Workspace, output: &mut [f32]) {
        let (columns, row) = (self.isa.tile().columns, self.row_words());
        let blocks = pieces(self.tiles(), TILE_BLOCK);
        let most = self.tiles().div_ceil(blocks);
        let sizes = [
            self.tile_bytes(),
            Products::bytes(most, row),
            Products::bytes(most, columns),
            (most * size_of::<f32>()).next_multiple_of(64),
        ];
        let factors = Shared::new(factors.as_ptr().cast_mut());
        let (input, output) = (Shared::new(input.as_ptr().cast_mut()), Shared::of(output));
        for_each(blocks, |block| {
            let part = |block| part_start(self.tiles(), blocks, block);
            with_workspace(sizes.iter().sum(), |memory| {
                // SAFETY: the workspace has room for all; each block has its own tiles.
                unsafe {
                    let numbers = Products::at(memory, 1, row * PAIR);
                    let memory = memory.add(sizes[0]);
                    let operands = Products::at(memory, most, row);
                    let memory = memory.add(sizes[1]);
                    let sums = Products::at(memory, most, columns);
                    let scales = memory.add(sizes[2]).cast();
                    let tiles = part(block)..part(block + 1);
                    self.isa.run(Round {
                        tiling: self.tiling,
                        channels: self.shape.in_channels,
                        input: input.at(0),
                        tiles: tiles.clone(),
                        numbers,
                        operands,
                        scales,
                    });
                    let from = Factors::Made(factors.at(0).cast_const().cast());
                    let (panels, output) = (0..self.shape.out_channels.div_ceil(columns), output.at(0));
                    self.isa.run(Panels { work: self, panels, tiles, operands, scales, from, sums, output });
                }
            });
        });
    }

    fn by_panels(&self, input: &[f32], raw: RawWeights, output: &mut [f32]) {
        let (columns, row, tiles) = (self.isa.tile().columns, self.row_words(), self.tiles());
        let mut memory = Workspace::of(Products::bytes(tiles, row));
        let operands = Products::at(memory.start(), tiles, row);
        let mut scales = vec![0.0; tiles];
        let scales = Shared::of(&mut scales);
        self.round_all(input, operands, scales);
        let blocks = tiles.div_ceil(PANEL_TILES);
        let most = tiles.div_ceil(blocks);
        let sums_bytes = Products::bytes(most, columns);
        let panels = self.shape.out_channels.div_ceil(columns);
        let output = Shared::of(output);
        for_each(panels * blocks, |i| {
            let (panel, block) = (i / blocks, i % blocks);
            let tiles = part_start(tiles, blocks, block)..part_start(tiles, blocks, block + 1);
            with_workspace(sums_bytes + factors_bytes(self.shape.in_channels, columns), |memory| {
                // SAFETY: the workspace has both; each `i` has its own tiles and channels.
                unsafe {
                    let sums = Products::at(memory, most, columns);
                    let from = Factors::Raw(raw, memory.add(sums_bytes).cast());
                    let operands = Products { start: operands.place(0, tiles.start, 0), ..operands };
                    let (scales, output) = (scales.at(tiles.start), output.at(0));
                    let panels = panel..panel + 1;
                    self.isa.run(Panels { work: self, panels, tiles, operands, scales, from, sums, output });
                }
            });
        });
    }

    /// Transforms and rounds all tiles.
    fn round_all(&self, input: &[f32], operands: Products, scales: Shared<f32>) {
        const RUN: usize = 4;
        let (input, channels) = (Shared::new(input.as_ptr().cast_mut()), self.shape.in_channels);
        for_each(self.tiles().div_ceil(RUN), |run| {
            let tiles = run * RUN..self.tiles().min((run + 1) * RUN);
            with_workspace(self.tile_bytes(), |memory| {
                let numbers = Products::at(memory, 1, self.row_words() * PAIR);
                // SAFETY: both have these tiles, and each run has its own.
                let (operands, scales, input) = unsafe {
                    let start = operands.place(0, tiles.start, 0);
                    (Products { start, ..operands }, scales.at(tiles.start), input.at(0))
                };
                self.isa.run(Round {
                    tiling: self.tiling,
                    channels,
                    input,
                    tiles,
                    numbers,
                    operands,
                    scales,
                });
            });
        });
    }
}

/// Transforms tiles and rounds them; the first goes to place 0 of `operands` and `scales`.
struct Round {
    tiling: Tiling,
    channels: usize,
    input: *const f32,
    tiles: Range<usize>,
    /// Room for one tile before it is rounded.
    numbers: Products,
    /// Rows of words.
    operands: Products,
    /// What a rounded number has to be multiplied with.
    scales: *mut f32,
}

impl Kernel for Round {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let Self { tiling, channels, input, numbers, .. } = self;
        let vectors = channels.div_ceil(L::WIDTH);
        for (i, tile) in self.tiles.clone().enumerate() {
            FromInput { tiling, channels, input, tiles: tile..tile + 1, products: numbers, first: 0 }.run(l);
            // SAFETY: who made `self` has room for these tiles, rows of which are whole vectors.
            unsafe {
                let mut most = l.splat(0.0);
                for product in 0..PRODUCTS {
                    let row = numbers.place(product, 0, 0);
                    let mut here = l.splat(0.0);
                    for vector in 0..vectors {
                        here = l.larger_magnitude(here, l.load(row.add(vector * L::WIDTH)));
                    }
                    let size = size_of_product(&INPUT_SIZES, product);
                    most = l.larger_magnitude(most, l.mul(here, l.splat(1.0 / size)));
                }
                let most = l.largest_magnitude(most);
                let unit = most / LARGEST_INPUT;
                let scale = scale_of(unit);
                *self.scales.add(i) = unit;
                for product in 0..PRODUCTS {
                    let row = numbers.place(product, 0, 0);
                    let to = self.operands.place(product, i, 0).cast::<u8>();
                    let scale = l.splat(scale / size_of_product(&INPUT_SIZES, product));
                    for vector in 0..vectors {
                        let rounded = l.mul(l.load(row.add(vector * L::WIDTH)), scale);
                        l.store_operands(to.add(vector * L::WIDTH * L::OPERAND_BYTES), rounded);
                    }
                }
            }
        }
    }
}

/// Where factors come from.
#[derive(Clone, Copy)]
enum Factors {
    /// All of them, made before.
    Made(*const u32),
    /// To be made, and room for those of a block.
    Raw(RawWeights, *mut u32),
}

/// Some tiles with some panels.
struct Panels<'a> {
    work: &'a Work<'a>,
    panels: Range<usize>,
    tiles: Range<usize>,
    operands: Products,
    scales: *const f32,
    from: Factors,
    sums: Products,
    output: *mut f32,
}

impl Kernel for Panels<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let &Work { shape, tiling, weights, epilogue, .. } = self.work;
        let (ins, outs, columns) = (shape.in_channels, shape.out_channels, 2 * L::WIDTH);
        let blocks = ins.div_ceil(INNER_BLOCK);
        for panel in self.panels.clone() {
            // SAFETY: who made `self` has room for these tiles and panels; the scales are whole tiles.
            unsafe {
                for block in 0..blocks {
                    let inner = block_of(ins, block);
                    let factors = match self.from {
                        Factors::Made(all) => {
                            all.add((panel * blocks + block) * PRODUCTS * plane(ins, columns))
                        }
                        Factors::Raw(raw, factors) => {
                            let weights_of = PanelWeights::of(shape, raw, panel, columns);
                            let scales = weights.scale.as_ptr().add(panel * columns);
                            ToFactors { weights: weights_of, inner: inner.clone(), scales, factors }.run(l);
                            factors.cast_const()
                        }
                    };
                    self.multiply(l, inner, factors);
                }
                let first = panel * columns;
                ToOutput {
                    tiling,
                    tiles: self.tiles.clone(),
                    channels: first..outs.min(first + columns),
                    all_channels: outs,
                    products: self.sums,
                    scales: Some(Scales { tiles: self.scales, channels: weights.inverse.as_ptr() }),
                    epilogue,
                    output: self.output,
                }
                .on(l);
            }
        }
    }
}

impl Panels<'_> {
    /// The 36 products with the factors of a block of inner channels.
    ///
    /// # Safety
    /// There are such factors.
    #[inline(always)]
    unsafe fn multiply<L: Simd>(&self, l: L, inner: Range<usize>, factors: *const u32) {
        for product in 0..PRODUCTS {
            // SAFETY: the caller's promise; who made `self` has room for the sums.
            unsafe {
                let work = Multiply {
                    rows: self.tiles.len(),
                    words: inner.len().div_ceil(PAIR),
                    panels: 1,
                    left: self.operands.place(product, 0, inner.start / PAIR).cast_const().cast(),
                    left_stride: self.operands.row,
                    right: factors.add(product * plane(self.work.shape.in_channels, 2 * L::WIDTH)),
                    panel_stride: 0,
                    target: self.sums.place(product, 0, 0),
                    target_stride: self.sums.row,
                    accumulate: inner.start > 0,
                    unit: size_of_product(&INPUT_SIZES, product) * size_of_product(&FACTOR_SIZES, product),
                };
                work.on(l);
            }
        }
    }
}

/// The weights of a panel of output channels.
#[derive(Clone, Copy)]
struct PanelWeights {
    raw: RawWeights,
    panel: usize,
    ins: usize,
    /// Columns there are, at most those of a panel.
    columns: usize,
}

impl PanelWeights {
    #[inline(always)]
    fn of(shape: &ConvShape, raw: RawWeights, panel: usize, columns: usize) -> Self {
        let left = (shape.out_channels - panel * columns).min(columns);
        Self { raw, panel, ins: shape.in_channels, columns: left }
    }

    /// Transforms a pair of inner channels, or the last one, to numbers `[product, inner, column]`.
    #[inline(always)]
    fn transform<L: Simd>(&self, l: L, inner: Range<usize>, numbers: &mut PairOfFactors) {
        debug_assert!(inner.end <= self.ins && inner.len() <= PAIR);
        // SAFETY: there are such channels and such a panel, and the numbers have room for a pair.
        unsafe {
            self.raw.transform(self.columns, self.panel, inner, numbers.0.as_mut_ptr(), PAIR_PLANE).on(l)
        }
    }
}

/// The widest panel there is.
const MOST_COLUMNS: usize = 32;
const PAIR_PLANE: usize = PAIR * MOST_COLUMNS;

/// Factors of two inner channels, `[product, inner, column]`.
#[repr(align(64))]
struct PairOfFactors([f32; PRODUCTS * PAIR_PLANE]);

impl PairOfFactors {
    #[inline(always)]
    fn zero() -> Self {
        Self([0.0; PRODUCTS * PAIR_PLANE])
    }

    /// # Safety
    /// There are as many, and a vector from the column on.
    #[inline(always)]
    unsafe fn at<L: Simd>(&self, l: L, product: usize, inner: usize, column: usize) -> L::Vector {
        // SAFETY: the caller's promise.
        unsafe { l.load(self.0.as_ptr().add(product * PAIR_PLANE + inner * 2 * L::WIDTH + column)) }
    }
}

/// Makes the factors of a block of inner channels: `[product, word, column]`.
struct ToFactors {
    weights: PanelWeights,
    inner: Range<usize>,
    /// For each column of the panel.
    scales: *const f32,
    factors: *mut u32,
}

impl Kernel for ToFactors {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let columns = 2 * L::WIDTH;
        let mut numbers = PairOfFactors::zero();
        for (word, first) in self.inner.clone().step_by(PAIR).enumerate() {
            let pair = first..self.inner.end.min(first + PAIR);
            let whole = pair.len() == PAIR;
            self.weights.transform(l, pair, &mut numbers);
            for column in [0, L::WIDTH] {
                // SAFETY: the panel has scales for all its columns, and a block has room for its words.
                unsafe {
                    let scales = l.load(self.scales.add(column));
                    let second = if whole { scales } else { l.splat(0.0) };
                    for product in 0..PRODUCTS {
                        let size = l.splat(1.0 / size_of_product(&FACTOR_SIZES, product));
                        let (scale, second) = (l.mul(scales, size), l.mul(second, size));
                        let rows = [
                            l.mul(numbers.at(l, product, 0, column), scale),
                            l.mul(numbers.at(l, product, 1, column), second),
                        ];
                        l.store_words(
                            self.factors
                                .add(product * plane(self.weights.ins, columns) + word * columns + column),
                            rows,
                        );
                    }
                }
            }
        }
    }
}

/// The largest scales that keep all sums of a panel inside 32 bits.
struct ScalesOf {
    panel: PanelWeights,
    scales: *mut f32,
    inverses: *mut f32,
}

impl Kernel for ScalesOf {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let ins = self.panel.ins;
        let mut numbers = PairOfFactors::zero();
        let mut sums = [[l.splat(0.0); 2]; PRODUCTS];
        let mut largest = [l.splat(0.0); 2];
        let mut largest_sum = [l.splat(0.0); 2];
        for first in (0..ins).step_by(PAIR) {
            if first % INNER_BLOCK == 0 {
                sums = [[l.splat(0.0); 2]; PRODUCTS];
            }
            let pair = first..ins.min(first + PAIR);
            let len = pair.len();
            self.panel.transform(l, pair, &mut numbers);
            for (product, sums) in sums.iter_mut().enumerate() {
                for half in 0..2 {
                    for inner in 0..len {
                        // SAFETY: the product, the channel and the column are there.
                        let factor = unsafe { numbers.at(l, product, inner, half * L::WIDTH) };
                        let factor = l.mul(factor, l.splat(1.0 / size_of_product(&FACTOR_SIZES, product)));
                        largest[half] = l.larger_magnitude(largest[half], factor);
                        sums[half] = l.add(sums[half], l.larger_magnitude(factor, factor));
                    }
                    largest_sum[half] = l.larger_magnitude(largest_sum[half], sums[half]);
                }
            }
        }
        for half in 0..2 {
            let [mut factors, mut sums] = [[0.0f32; 16]; 2];
            // SAFETY: an array holds a vector.
            unsafe {
                l.store(factors.as_mut_ptr(), largest[half]);
                l.store(sums.as_mut_ptr(), largest_sum[half]);
            }
            for lane in 0..L::WIDTH {
                let (factor, sum) = (factors[lane], sums[lane]);
                let scale =
                    if factor == 0.0 { 1.0 } else { (LARGEST_FACTOR / factor).min(LARGEST_SUM / sum) };
                // SAFETY: the panel has a place for each of its columns.
                unsafe {
                    *self.scales.add(half * L::WIDTH + lane) = scale;
                    *self.inverses.add(half * L::WIDTH + lane) = 1.0 / scale;
                }
            }
        }
    }
}
