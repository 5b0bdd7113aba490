//! Kernels in the order they will run, and the memory they work in: what plans for scoring and for training are written with.

use super::super::network::EPSILON;
use super::super::settings::Precision;
use super::convolution::ConvWork;
use super::parameters::{Embeddings, LinearLayer, SQUARE_CHANNELS, SQUARE_TAPS, Scale};
use crate::gpu::{Address, Arg, End, LaunchShape};
use crate::images::ImageLayout;

/// How images come to the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PixelKind {
    /// Bytes, in one of two orders.
    Bytes {
        /// Colours, rows, columns; or else rows, columns, colours.
        colours_first: bool,
    },
    /// Floats that are ready for the network: rows, columns, colours.
    Floats,
}

impl PixelKind {
    pub(super) fn bytes(layout: ImageLayout) -> Self {
        Self::Bytes { colours_first: layout == ImageLayout::Chw }
    }

    /// Bytes of a number.
    pub(super) fn size(self) -> usize {
        if self == Self::Floats { size_of::<f32>() } else { 1 }
    }
}

/// A kernel that is run.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Conv(ConvWork),
    Kernel {
        kernel: &'static str,
        shape: LaunchShape,
        args: Vec<Arg>,
    },
    /// These beside what follows.
    Beside(Vec<Step>),
    /// What follows comes after something that ran beside it.
    WaitFor(End),
}

/// Feature maps `[n, rows, columns, channels]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    pub(super) at: Address,
    pub(super) images: usize,
    pub(super) size: [usize; 2],
    pub(super) channels: usize,
}

impl Map {
    /// Of an image.
    pub(super) fn pixels(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Pixels of all images.
    pub(super) fn rows(&self) -> usize {
        self.images * self.pixels()
    }

    /// Numbers.
    pub(super) fn len(&self) -> usize {
        self.rows() * self.channels
    }
}

/// Images as they lie on the GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedImages {
    pub(super) at: Address,
    pub(super) count: usize,
    /// Rows and columns.
    pub(super) size: [usize; 2],
    pub(super) kind: PixelKind,
    /// What each byte of each colour becomes.
    pub(super) byte_table: Address,
}

/// Numbers of memory that arrays begin at whole multiples of.
const ALIGNMENT: usize = 1024;
/// Threads of simple kernels.
pub(super) const THREADS: usize = 256;
/// Rows and outputs of a linear layer that a warp computes.
const LINEAR_ROWS: usize = 8;
const LINEAR_OUTPUTS: usize = 4;
/// What follows a normalisation.
pub(super) const RELU: i32 = 1;
pub(super) const TANH: i32 = 2;

/// Kernels, and memory from a base on.
#[derive(Debug)]
pub(super) struct Launches {
    pub(super) steps: Vec<Step>,
    /// Bytes.
    pub(super) used: usize,
    base: Address,
    number_bytes: usize,
}

impl Launches {
    pub(super) fn new(base: Address, precision: Precision) -> Self {
        let number_bytes = if precision == Precision::Fp32 { size_of::<f32>() } else { size_of::<u16>() };
        Self { steps: Vec::new(), used: 0, base, number_bytes }
    }

    /// Bytes of a number of a feature map.
    pub(super) fn number_bytes(&self) -> usize {
        self.number_bytes
    }

    pub(super) fn take(&mut self, bytes: usize) -> Address {
        let place = self.used.next_multiple_of(ALIGNMENT);
        self.used = place + bytes;
        Address(self.base.0 + place as u64)
    }

    pub(super) fn take_floats(&mut self, count: usize) -> Address {
        self.take(count * size_of::<f32>())
    }

    /// Memory for numbers of feature maps.
    pub(super) fn take_numbers(&mut self, count: usize) -> Address {
        self.take(count * self.number_bytes)
    }

    /// Where an address is, from the base on.
    pub(super) fn offset_of(&self, address: Address) -> usize {
        (address.0 - self.base.0) as usize
    }

    pub(super) fn run(&mut self, kernel: &'static str, shape: LaunchShape, args: Vec<Arg>) {
        self.steps.push(Step::Kernel { kernel, shape, args });
    }

    /// Images to squares of 2x2 pixels: rows and columns with what is beside the image.
    pub(super) fn space_to_depth(&mut self, images: PlacedImages, to: Address) -> [usize; 2] {
        let PlacedImages { at, count, size: [height, width], kind, byte_table } = images;
        let out = [halved(height), halved(width)];
        let all = out.map(|side| side + SQUARE_TAPS - 1);
        let one = height * width * 3;
        let strides = match kind {
            PixelKind::Bytes { colours_first: true } => [width, 1, height * width],
            PixelKind::Bytes { colours_first: false } | PixelKind::Floats => [3 * width, 3, 1],
        };
        let numbers = [count, height, width, out[0], out[1], one, strides[0], strides[1], strides[2]];
        let is_bytes = Arg::Int(i32::from(kind != PixelKind::Floats));
        let mut args = vec![Arg::At(at), is_bytes, Arg::At(byte_table), Arg::At(to)];
        args.extend(numbers.map(int));
        self.run("space_to_depth", threads(count * all[0] * all[1]), args);
        all
    }

    pub(super) fn average(&mut self, map: Map, to: Address, row_stride: usize) {
        let shape = LaunchShape {
            blocks: [map.images, 1, 1],
            threads: (map.channels / 8).next_multiple_of(32).min(THREADS),
            shared: 0,
        };
        let numbers = [map.pixels(), map.channels, row_stride].map(int);
        let args = [Arg::At(map.at), Arg::At(to)].into_iter().chain(numbers);
        self.run("average", shape, args.collect());
    }

    /// Positions weighted by embeddings; of feature maps, or of their averages.
    pub(super) fn embed(
        &mut self,
        embeddings: Embeddings,
        from: Address,
        map: Map,
        is_map: bool,
        to: Address,
    ) {
        let kernel = if is_map { "spatial_embeddings" } else { "pooled_embeddings" };
        let numbers = [map.images, embeddings.positions, map.channels, embeddings.blocks].map(int);
        let args = [Arg::At(from), Arg::At(embeddings.kernel), Arg::At(to)].into_iter().chain(numbers);
        self.run(kernel, threads(map.images * map.channels * embeddings.blocks), args.collect());
    }

    /// `[rows, inputs]` to `[rows, outputs]`, in floats.
    pub(super) fn linear(&mut self, layer: LinearLayer, x: Address, rows: usize, relu: bool) -> Address {
        let y = self.take_floats(rows * layer.outputs);
        self.linear_to(layer, x, rows, relu, y);
        y
    }

    pub(super) fn linear_to(&mut self, layer: LinearLayer, x: Address, rows: usize, relu: bool, y: Address) {
        let LinearLayer { weights, bias, inputs, outputs } = layer;
        let args = [Arg::At(x), Arg::At(weights), Arg::At(bias), Arg::At(y)];
        let numbers = [rows, inputs, outputs, usize::from(relu)].map(int);
        let warps = rows.div_ceil(LINEAR_ROWS) * outputs.div_ceil(LINEAR_OUTPUTS);
        self.run("linear", threads(warps * 32), args.into_iter().chain(numbers).collect());
    }

    /// `sizes`: rows, width, and how far output rows are apart.
    pub(super) fn layer_norm(
        &mut self,
        norm: Scale,
        x: Address,
        y: Address,
        sizes: [usize; 3],
        activation: i32,
    ) {
        let args = [Arg::At(x), Arg::At(norm.scale), Arg::At(norm.shift), Arg::At(y)];
        let numbers = sizes.map(int).into_iter().chain([Arg::Int(activation), Arg::Float(EPSILON as f32)]);
        self.run("layer_norm", threads(sizes[0] * 32), args.into_iter().chain(numbers).collect());
    }
}

/// Numbers that images of a size take as squares.
pub(super) fn square_numbers(size: [usize; 2]) -> usize {
    let [height, width] = size.map(|side| halved(side) + SQUARE_TAPS - 1);
    height * width * SQUARE_CHANNELS
}

/// What is left of a side when every other pixel is taken.
pub(super) fn halved(side: usize) -> usize {
    side.div_ceil(2)
}

/// A thread for each of so many.
pub(super) fn threads(count: usize) -> LaunchShape {
    LaunchShape { blocks: [count.div_ceil(THREADS), 1, 1], threads: THREADS, shared: 0 }
}

pub(super) fn int(number: usize) -> Arg {
    Arg::Int(number as i32)
}
