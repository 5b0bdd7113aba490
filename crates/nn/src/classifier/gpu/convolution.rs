//! Convolutions on a GPU: the tiles there are, and which is quickest.

use std::collections::HashMap;
use std::time::Instant;

use super::super::settings::Precision;
use crate::gpu::{Address, Arg, Gpu, GpuError, LaunchShape, WORDS};

/// A convolution, its inputs and its outputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvWork {
    pub(super) x: Address,
    pub(super) weights: Address,
    pub(super) bias: Address,
    pub(super) residual: Address,
    pub(super) y: Address,
    pub(super) shape: ConvShape,
    /// What training does with its outputs.
    pub(super) epilogue: Epilogue,
}

/// Beside a convolution's outputs: sums for normalisation, and where outputs go. See `Conv` in `conv.cu`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Epilogue {
    /// Of a gradient: what the normalisation before was given, and what came of it if a residual was added.
    pub(super) before: Address,
    pub(super) after: Address,
    /// Of that normalisation.
    pub(super) mean: Address,
    pub(super) scale: Address,
    pub(super) shift: Address,
    pub(super) sums: Address,
    /// Rows of sums before these.
    pub(super) first_sums: usize,
    /// In numbers: the first output, and from image to image, row to row, pixel to pixel. Zeros: one after another.
    pub(super) out: [usize; 4],
    pub(super) residual: ResidualKind,
}

/// Which outputs a residual is added to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum ResidualKind {
    /// Each to its own, wherever that is.
    #[default]
    SamePlace,
    /// Each to its own, the residual's one after another.
    SamePixel,
    /// Those of even rows and columns; pixels and columns of an image of residuals.
    EvenPixels([usize; 2]),
}

impl Epilogue {
    fn words(&self) -> [u64; 14] {
        let (kind, [pixels, width]) = match self.residual {
            ResidualKind::SamePlace => (1, [0; 2]),
            ResidualKind::SamePixel => (2, [0; 2]),
            ResidualKind::EvenPixels(size) => (3, size),
        };
        let Self { before, after, mean, scale, shift, sums, first_sums, out, .. } = *self;
        let [first, image, row, pixel] = out;
        let addresses = [before, after, mean, scale, shift, sums].map(|address| address.0);
        let numbers = [first_sums, first, image, row, pixel, kind, pixels, width].map(|number| number as u64);
        let mut words = [0; 14];
        words[..6].copy_from_slice(&addresses);
        words[6..].copy_from_slice(&numbers);
        words
    }
}

/// What decides how long a convolution takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConvShape {
    pub(super) images: usize,
    pub(super) out: [usize; 2],
    pub(super) outputs: usize,
    /// Of inputs, in numbers: from image to image, row to row, pixel to pixel.
    pub(super) strides: [usize; 3],
    /// Rows and columns of inputs; beyond are zeros.
    pub(super) size: [usize; 2],
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) taps: [usize; 2],
    /// Of a tap.
    pub(super) channels: usize,
    pub(super) relu: bool,
    pub(super) adds: bool,
    /// Whether it is a gradient of inputs, which goes on through what was before them.
    pub(super) goes_back: bool,
}

impl ConvShape {
    /// Output pixels of all images.
    pub(super) fn rows(&self) -> usize {
        self.images * self.out[0] * self.out[1]
    }

    /// Products of an output number.
    pub(super) fn columns(&self) -> usize {
        self.taps[0] * self.taps[1] * self.channels
    }

    /// Multiplications and additions.
    pub(super) fn operations(&self) -> f64 {
        2.0 * self.rows() as f64 * self.columns() as f64 * self.outputs as f64
    }
}

/// How a kernel divides a convolution among blocks; see `conv.cu`.
#[derive(Debug)]
pub(super) struct TileKernel {
    pub(super) kernel: &'static str,
    rows: usize,
    outputs: usize,
    threads: usize,
    stages: usize,
    /// How much of the memory that is both may be shared memory; the rest is cache, for inputs that taps have in common.
    pub(super) shared_percent: i32,
    is_hopper: bool,
}

impl TileKernel {
    const fn new(
        kernel: &'static str,
        [rows, outputs]: [usize; 2],
        threads: usize,
        stages: usize,
        shared_percent: i32,
    ) -> Self {
        Self { kernel, rows, outputs, threads, stages, shared_percent, is_hopper: false }
    }

    const fn hopper(
        kernel: &'static str,
        tile: [usize; 2],
        threads: usize,
        stages: usize,
        shared_percent: i32,
    ) -> Self {
        Self { is_hopper: true, ..Self::new(kernel, tile, threads, stages, shared_percent) }
    }

    /// Bytes that a block shares: tiles on their way, or the sums when they are done.
    pub(super) fn shared(&self) -> usize {
        if self.stages == 0 {
            return 0; // as its source says
        }
        let stages = self.stages * (self.rows + self.outputs) * COLUMNS * 2;
        let sums = self.rows * (self.outputs + 4) * size_of::<f32>();
        stages.max(sums) + if self.is_hopper { HOPPER_ALIGNMENT } else { 0 }
    }
}

/// Tiles begin at whole multiples of so many bytes there.
const HOPPER_ALIGNMENT: usize = 1024;

/// Columns that are fetched at a time.
const COLUMNS: usize = 64;

/// The kernels of tensor cores, largest tiles first.
static TENSOR_TILES: [TileKernel; 11] = [
    TileKernel::new("conv_256x128_64x64", [256, 128], 256, 3, 72),
    TileKernel::new("conv_256x128_64x32", [256, 128], 512, 2, 58),
    TileKernel::new("conv_256x64_64x64", [256, 64], 128, 2, 72),
    TileKernel::new("conv_256x64_64x32", [256, 64], 256, 2, 44),
    TileKernel::new("conv_128x128_64x64", [128, 128], 128, 3, 100),
    TileKernel::new("conv_128x128_64x32", [128, 128], 256, 3, 100),
    TileKernel::new("conv_128x64_64x32", [128, 64], 128, 4, 58),
    TileKernel::new("conv_128x64_32x64", [128, 64], 128, 3, 58),
    TileKernel::new("conv_64x128_32x64", [64, 128], 128, 3, 58),
    TileKernel::new("conv_64x64_32x32", [64, 64], 128, 4, 58),
    TileKernel::new("conv_32x64_16x32", [32, 64], 128, 4, 100),
];

/// Those of Hopper GPUs.
static HOPPER_TILES: [TileKernel; 9] = [
    TileKernel::hopper("hopper_first_256x128_3", [256, 128], 256, 3, 72),
    TileKernel::hopper("hopper_first_256x64_2", [256, 64], 128, 2, 72),
    TileKernel::hopper("hopper_256x128_3", [256, 128], 256, 3, 72),
    TileKernel::hopper("hopper_256x64_2", [256, 64], 128, 2, 72),
    TileKernel::hopper("hopper_256x64_3", [256, 64], 256, 3, 58),
    TileKernel::hopper("hopper_128x128_3", [128, 128], 128, 3, 100),
    TileKernel::hopper("hopper_128x64_3", [128, 64], 128, 3, 100),
    TileKernel::hopper("hopper_64x128_3", [64, 128], 128, 3, 58),
    TileKernel::hopper("hopper_64x64_4", [64, 64], 128, 4, 58),
];

/// The kernel of floats.
static FLOAT_TILES: [TileKernel; 1] = [TileKernel::new("conv_floats", [128, 64], 256, 0, 100)];

/// The kernels for a kind of number and of GPU. They round alike, so that which of them is quickest decides nothing else.
pub(super) fn tiles(precision: Precision, is_hopper: bool) -> &'static [TileKernel] {
    match (precision, is_hopper) {
        (Precision::Fp32, _) => &FLOAT_TILES,
        (Precision::Bf16 | Precision::Fp16, true) => &HOPPER_TILES,
        (Precision::Bf16 | Precision::Fp16, false) => &TENSOR_TILES,
    }
}

/// Those for training, whose sums are over 64 rows.
pub(super) fn training_tiles(precision: Precision, is_hopper: bool) -> &'static [TileKernel] {
    match (precision, is_hopper) {
        (Precision::Bf16 | Precision::Fp16, false) => &TENSOR_TILES[..TENSOR_TILES.len() - 1],
        _ => tiles(precision, is_hopper),
    }
}

/// Channels that a kernel takes of every tap before it goes on to the next ones: the order of weights.
pub(super) fn channels_at_once(precision: Precision) -> usize {
    match precision {
        Precision::Fp32 => 16,
        Precision::Bf16 | Precision::Fp16 => COLUMNS,
    }
}

/// Blocks that share a tile at most.
const MOST_SPLITS: usize = 8;
/// Fetches that a block makes at least, where several share a tile.
const LEAST_FETCHES: usize = 4;
/// Rows of the tiles that are shared.
const SPLIT_ROWS: usize = 64;

/// Floats that the blocks of shared tiles need to add up: of all that run at once, and no more than these run.
pub(super) fn partial_floats(multiprocessors: usize) -> usize {
    2 * multiprocessors * SPLIT_ROWS * COLUMNS
}

/// Chooses tiles for convolutions.
pub(super) struct TileChooser {
    tiles: &'static [TileKernel],
    multiprocessors: usize,
    shared: usize,
    pub(super) partial: Address,
    pub(super) arrived: Address,
    chosen: HashMap<ConvShape, usize>,
}

impl TileChooser {
    pub(super) fn new(gpu: &Gpu, tiles: &'static [TileKernel], partial: Address, arrived: Address) -> Self {
        let (multiprocessors, shared) = (gpu.multiprocessors(), gpu.most_shared());
        Self { tiles, multiprocessors, shared, partial, arrived, chosen: HashMap::new() }
    }

    /// Blocks that share a tile. This, and nothing that is measured, decides in which order numbers are added.
    fn splits(&self, shape: &ConvShape) -> usize {
        let tiles = shape.rows().div_ceil(SPLIT_ROWS) * (shape.outputs / COLUMNS);
        let fetches = shape.columns() / COLUMNS;
        (self.multiprocessors / tiles.max(1)).min(fetches / LEAST_FETCHES).clamp(1, MOST_SPLITS)
    }

    fn fits(&self, tile: &TileKernel, shape: &ConvShape) -> bool {
        let is_shared = self.splits(shape) > 1;
        // Rows of a tile beyond those there are would be computed for nothing.
        let is_too_tall = tile.rows > SPLIT_ROWS && tile.rows >= 2 * shape.rows();
        shape.outputs.is_multiple_of(tile.outputs)
            && tile.shared() <= self.shared
            && !is_too_tall
            && !(is_shared && tile.rows > SPLIT_ROWS)
    }

    /// The kernel for a convolution: measured the first time, with the memory that it will use.
    pub(super) fn choose(&mut self, gpu: &mut Gpu, work: &ConvWork) -> Result<&'static TileKernel, GpuError> {
        let tiles = self.tiles;
        if let Some(tile) = self.chosen.get(&work.shape) {
            return Ok(&tiles[*tile]);
        }
        let mut best = (f64::INFINITY, tiles.len() - 1);
        if tiles.len() > 1 {
            for (i, tile) in tiles.iter().enumerate().filter(|(_, tile)| self.fits(tile, &work.shape)) {
                let took = seconds(gpu, |gpu| self.run(gpu, tile, work))?;
                best = if took < best.0 { (took, i) } else { best };
            }
        }
        self.chosen.insert(work.shape, best.1);
        Ok(&tiles[best.1])
    }

    pub(super) fn run(&self, gpu: &mut Gpu, tile: &TileKernel, work: &ConvWork) -> Result<(), GpuError> {
        let shape = &work.shape;
        let splits = if tile.stages == 0 { 1 } else { self.splits(shape) };
        let blocks = shape.rows().div_ceil(tile.rows) * (shape.outputs / tile.outputs);
        let launch =
            LaunchShape { blocks: [blocks, splits, 1], threads: tile.threads, shared: tile.shared() };
        let addresses = [work.x, work.weights, work.bias, work.residual, work.y, self.partial, self.arrived];
        let words = words(addresses, shape, splits, &work.epilogue);
        gpu.run(tile.kernel, launch, &[Arg::Words(words)])
    }
}

/// `Conv` in `conv.cu`.
pub(super) fn words(
    addresses: [Address; 7],
    shape: &ConvShape,
    splits: usize,
    epilogue: &Epilogue,
) -> [u64; WORDS] {
    let [image, row, pixel] = shape.strides;
    let numbers = [
        shape.rows(),
        shape.outputs,
        shape.out[0] * shape.out[1],
        shape.out[1],
        image,
        row,
        pixel,
        shape.size[0],
        shape.size[1],
        shape.stride,
        shape.padding,
        shape.taps[0],
        shape.taps[1],
        shape.channels,
        splits,
        usize::from(shape.relu),
    ];
    let mut words = [0; WORDS];
    words[..7].copy_from_slice(&addresses.map(|address| address.0));
    words[7..23].copy_from_slice(&numbers.map(|number| number as u64));
    words[23..].copy_from_slice(&epilogue.words());
    words
}

/// How often a kernel runs in a row, and how often that is measured.
const RUNS: usize = 8;
const ROUNDS: usize = 3;

/// Seconds that something takes at best.
pub(super) fn seconds(
    gpu: &mut Gpu,
    mut work: impl FnMut(&mut Gpu) -> Result<(), GpuError>,
) -> Result<f64, GpuError> {
    work(gpu)?;
    gpu.wait()?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..RUNS).try_for_each(|_| work(gpu))?;
        gpu.wait()?;
        best = best.min(start.elapsed().as_secs_f64() / RUNS as f64);
    }
    Ok(best)
}
