//! How gradients of weights are divided among blocks; see `weight_gradients.cu`.

use super::super::super::settings::Precision;
use super::super::convolution::ConvShape;
use crate::gpu::LaunchShape;

/// A kernel for gradients of weights.
#[derive(Debug)]
pub(super) struct WeightTile {
    pub(super) kernel: &'static str,
    /// 64s of outputs and of columns that a block computes.
    outputs: usize,
    columns: usize,
    threads: usize,
    stages: usize,
    /// Blocks that a multiprocessor runs at once.
    at_once: usize,
}

/// Bytes of 64 pixels of 64 channels.
const SLAB: usize = 64 * 64 * 2;
/// Slabs begin at whole multiples of so many bytes.
const ALIGNMENT: usize = 1024;
/// What blocks share beside slabs, at most.
const PIXELS: usize = 4096;

impl WeightTile {
    const fn new(
        kernel: &'static str,
        [outputs, columns]: [usize; 2],
        stages: usize,
        at_once: usize,
    ) -> Self {
        Self { kernel, outputs, columns, threads: outputs * 2 * columns * 32, stages, at_once }
    }

    const fn hopper(
        kernel: &'static str,
        [outputs, columns]: [usize; 2],
        stages: usize,
        at_once: usize,
    ) -> Self {
        Self { kernel, outputs, columns, threads: outputs * 128, stages, at_once }
    }

    /// Bytes that a block shares.
    pub(super) fn shared(&self) -> usize {
        match self.stages {
            0 => 0,
            stages => stages * (self.outputs + self.columns) * SLAB + ALIGNMENT,
        }
    }

    pub(super) fn fits(&self, most_shared: usize) -> bool {
        self.shared() == 0 || self.shared() + PIXELS <= most_shared
    }
}

/// In the order in which they are preferred.
static TENSOR_TILES: [WeightTile; 5] = [
    WeightTile::new("weights_2x3", [2, 3], 3, 1),
    WeightTile::new("weights_2x2", [2, 2], 3, 1),
    WeightTile::new("weights_1x3", [1, 3], 3, 1),
    WeightTile::new("weights_1x2", [1, 2], 3, 2),
    WeightTile::new("weights_1x1", [1, 1], 3, 4),
];

static HOPPER_TILES: [WeightTile; 5] = [
    WeightTile::hopper("hopper_weights_2x3", [2, 3], 4, 1),
    WeightTile::hopper("hopper_weights_2x2", [2, 2], 3, 2),
    WeightTile::hopper("hopper_weights_1x3", [1, 3], 3, 2),
    WeightTile::hopper("hopper_weights_1x2", [1, 2], 4, 2),
    WeightTile::hopper("hopper_weights_1x1", [1, 1], 4, 3),
];

static FLOAT_TILES: [WeightTile; 1] =
    [WeightTile { kernel: "weights_floats", outputs: 1, columns: 1, threads: 256, stages: 0, at_once: 4 }];

/// The kernels for a kind of number and of GPU.
pub(super) fn weight_tiles(precision: Precision, is_hopper: bool) -> &'static [WeightTile] {
    match (precision, is_hopper) {
        (Precision::Fp32, _) => &FLOAT_TILES,
        (Precision::Bf16 | Precision::Fp16, true) => &HOPPER_TILES,
        (Precision::Bf16 | Precision::Fp16, false) => &TENSOR_TILES,
    }
}

/// What decides how a gradient of weights is divided. Nothing of it is measured, so that sums have one order on a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightTiles {
    pub(super) tiles: &'static [WeightTile],
    pub(super) multiprocessors: usize,
    pub(super) most_shared: usize,
}

/// A gradient of weights, divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct DividedWeights {
    pub(super) kernel: &'static str,
    pub(super) launch: LaunchShape,
    /// Blocks that share the pixels.
    pub(super) splits: usize,
}

/// Pixels, in 64s, that are worth a block of their own.
const LEAST_SLABS: usize = 4;
const MOST_SPLITS: usize = 128;

impl WeightTiles {
    pub(super) fn divide(&self, shape: &ConvShape, must_split: bool) -> DividedWeights {
        let (outputs, columns) = (shape.outputs / 64, shape.columns() / 64);
        let divides = |tile: &&WeightTile| {
            outputs.is_multiple_of(tile.outputs)
                && columns.is_multiple_of(tile.columns)
                && tile.fits(self.most_shared)
        };
        let last = &self.tiles[self.tiles.len() - 1];
        let tile = self.tiles.iter().find(divides).unwrap_or(last);
        let blocks = outputs / tile.outputs * columns.div_ceil(tile.columns);
        let at_once = self.multiprocessors * tile.at_once;
        let most = (shape.rows().div_ceil(64) / LEAST_SLABS).clamp(1, MOST_SPLITS);
        let splits = (at_once / blocks).clamp(1, most).max(if must_split { 2 } else { 1 });
        let launch =
            LaunchShape { blocks: [blocks, splits, 1], threads: tile.threads, shared: tile.shared() };
        DividedWeights { kernel: tile.kernel, launch, splits }
    }
}
