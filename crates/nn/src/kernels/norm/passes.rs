//! The passes over memory that normalisation is made of, each over some pixels of `[pixels, channels]`.
//!
//! Sums are taken over as many pixels as fit the cache, in `f32`, and added up in `f64`, always in the same order.

use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each};
use std::ops::Range;

/// Numbers of a block of pixels, which is read twice while it is in the cache.
const BLOCK: usize = 1 << 14;

/// How pixels are cut into blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    pixels: usize,
    channels: usize,
    per_block: usize,
}

impl Blocks {
    pub(super) fn of(pixels: usize, channels: usize) -> Self {
        Self { pixels, channels, per_block: (BLOCK / channels.max(1)).max(1) }
    }

    pub(super) fn count(&self) -> usize {
        self.pixels.div_ceil(self.per_block)
    }

    /// The numbers of a block.
    pub(super) fn numbers(&self, block: usize) -> Range<usize> {
        let pixels = block * self.per_block..self.pixels.min((block + 1) * self.per_block);
        pixels.start * self.channels..pixels.end * self.channels
    }

    /// Two numbers per channel and block, made by `work(block, [first, second])` on all threads.
    pub(super) fn pairs(&self, work: impl Fn(usize, [*mut f32; 2]) + Sync) -> Vec<f32> {
        let mut pairs = vec![0.0; self.count() * 2 * self.channels];
        let target = Shared::of(&mut pairs);
        for_each(self.count(), |block| {
            // SAFETY: inside `pairs`, and each block has its own.
            let first = unsafe { target.at(block * 2 * self.channels) };
            // SAFETY: as above.
            work(block, [first, unsafe { first.add(self.channels) }]);
        });
        pairs
    }
}

/// Mean and summed square distance from it, per channel.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) mean: Vec<f64>,
    pub(super) squares: Vec<f64>,
}

/// The moments of every channel.
pub(super) fn moments(isa: Isa, input: &[f32], channels: usize) -> Moments {
    let blocks = Blocks::of(input.len() / channels, channels);
    let parts = blocks.pairs(|block, [mean, squares]| {
        isa.run(BlockMoments { input: &input[blocks.numbers(block)], channels, mean, squares });
    });
    let total = (input.len() / channels) as f64;
    let mut mean = vec![0.0; channels];
    let mut squares = vec![0.0; channels];
    let part = |block: usize| {
        let count = (blocks.numbers(block).len() / channels) as f64;
        (count, parts[block * 2 * channels..][..2 * channels].split_at(channels))
    };
    for (count, (block_mean, _)) in (0..blocks.count()).map(part) {
        mean.iter_mut().zip(block_mean).for_each(|(mean, &x)| *mean += count * f64::from(x) / total);
    }
    for (count, (block_mean, block_squares)) in (0..blocks.count()).map(part) {
        for channel in 0..channels {
            let distance = f64::from(block_mean[channel]) - mean[channel];
            squares[channel] += f64::from(block_squares[channel]) + count * distance * distance;
        }
    }
    Moments { mean, squares }
}

struct BlockMoments<'a> {
    input: &'a [f32],
    channels: usize,
    mean: *mut f32,
    squares: *mut f32,
}

impl Kernel for BlockMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let pixels = self.input.len() / self.channels;
        let per_pixel = l.splat(1.0 / pixels as f32);
        for channel in (0..self.channels).step_by(L::WIDTH) {
            let count = (self.channels - channel).min(L::WIDTH);
            // SAFETY: the channels from here on, `count` of them, are inside every pixel and both results.
            unsafe {
                let first = self.input.as_ptr().add(channel);
                let mut sums = [l.splat(0.0); 2];
                for pixel in 0..pixels / 2 {
                    sums[0] = l.add(sums[0], load(l, first.add(2 * pixel * self.channels), count));
                    sums[1] = l.add(sums[1], load(l, first.add((2 * pixel + 1) * self.channels), count));
                }
                if pixels % 2 == 1 {
                    sums[0] = l.add(sums[0], load(l, first.add((pixels - 1) * self.channels), count));
                }
                let mean = l.mul(l.add(sums[0], sums[1]), per_pixel);
                let mut squares = [l.splat(0.0); 2];
                for pixel in 0..pixels / 2 {
                    let distance = l.sub(load(l, first.add(2 * pixel * self.channels), count), mean);
                    squares[0] = l.mul_add(distance, distance, squares[0]);
                    let distance = l.sub(load(l, first.add((2 * pixel + 1) * self.channels), count), mean);
                    squares[1] = l.mul_add(distance, distance, squares[1]);
                }
                if pixels % 2 == 1 {
                    let distance = l.sub(load(l, first.add((pixels - 1) * self.channels), count), mean);
                    squares[0] = l.mul_add(distance, distance, squares[0]);
                }
                store(l, self.mean.add(channel), mean, count);
                store(l, self.squares.add(channel), l.add(squares[0], squares[1]), count);
            }
        }
    }
}

/// `output = relu(input * scale + shift + residual)`, the last two if asked for.
pub(super) struct Apply<'a> {
    pub(super) input: &'a [f32],
    /// Per channel, as the shift.
    pub(super) scale: &'a [f32],
    pub(super) shift: &'a [f32],
    pub(super) residual: Option<&'a [f32]>,
    pub(super) relu: bool,
    /// As many numbers as the input.
    pub(super) output: *mut f32,
}

impl Kernel for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        match self.residual {
            None => self.each::<L, false>(l, self.input),
            Some(residual) => self.each::<L, true>(l, residual),
        }
    }
}

impl Apply<'_> {
    #[inline(always)]
    fn each<L: Simd, const RESIDUAL: bool>(&self, l: L, residual: &[f32]) {
        let channels = self.scale.len();
        for pixel in (0..self.input.len()).step_by(channels) {
            for channel in (0..channels).step_by(L::WIDTH) {
                let count = (channels - channel).min(L::WIDTH);
                // SAFETY: `count` channels from here on are inside the pixel, and all slices have this pixel.
                unsafe {
                    let at = pixel + channel;
                    let (scale, shift) = (self.scale.as_ptr().add(channel), self.shift.as_ptr().add(channel));
                    let input = load(l, self.input.as_ptr().add(at), count);
                    let mut output = l.mul_add(input, load(l, scale, count), load(l, shift, count));
                    if RESIDUAL {
                        output = l.add(output, load(l, residual.as_ptr().add(at), count));
                    }
                    if self.relu {
                        output = l.relu(output);
                    }
                    store(l, self.output.add(at), output, count);
                }
            }
        }
    }
}

/// Where ReLU let a gradient pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Gate<'a> {
    /// There was none.
    Open,
    /// Where this output is above zero.
    Output(&'a [f32]),
    /// Where `input * scale + shift` is: cheaper than to read the output, when nothing was added before.
    Recomputed {
        /// Per channel, as the shift.
        scale: &'a [f32],
        shift: &'a [f32],
    },
}

impl<'a> Gate<'a> {
    /// The same for some of the numbers.
    pub(super) fn of(self, numbers: Range<usize>) -> Self {
        match self {
            Gate::Output(output) => Gate::Output(&output[numbers]),
            other => other,
        }
    }
}

/// What `$gate` lets pass of a vector of gradients.
macro_rules! pass {
    ($l:expr, $gate:expr, $grad:expr, $input:expr, $at:expr, $channel:expr, $count:expr) => {
        match $gate {
            Gate::Open => $grad,
            Gate::Output(output) => $l.where_positive($grad, load($l, output.as_ptr().add($at), $count)),
            Gate::Recomputed { scale, shift } => {
                let scale = load($l, scale.as_ptr().add($channel), $count);
                let shift = load($l, shift.as_ptr().add($channel), $count);
                $l.where_positive($grad, $l.mul_add($input, scale, shift))
            }
        }
    };
}

/// Per channel, the sum of the gradients and of their products with `input - mean`.
pub(super) struct GradSums<'a> {
    pub(super) input: &'a [f32],
    /// Per channel.
    pub(super) mean: &'a [f32],
    pub(super) gate: Gate<'a>,
    /// As many numbers as the input.
    pub(super) grad: *mut f32,
    /// Write back what the gate let pass.
    pub(super) write: bool,
    pub(super) sums: *mut f32,
    pub(super) products: *mut f32,
}

impl Kernel for GradSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let channels = self.mean.len();
        for channel in (0..channels).step_by(L::WIDTH) {
            let count = (channels - channel).min(L::WIDTH);
            // SAFETY: `count` channels from here on are inside every pixel and all results.
            unsafe {
                let mean = load(l, self.mean.as_ptr().add(channel), count);
                let (mut sum, mut product) = (l.splat(0.0), l.splat(0.0));
                for at in (channel..self.input.len()).step_by(channels) {
                    let input = load(l, self.input.as_ptr().add(at), count);
                    let grad = load(l, self.grad.add(at), count);
                    let grad = pass!(l, self.gate, grad, input, at, channel, count);
                    if self.write {
                        store(l, self.grad.add(at), grad, count);
                    }
                    sum = l.add(sum, grad);
                    product = l.mul_add(grad, l.sub(input, mean), product);
                }
                store(l, self.sums.add(channel), sum, count);
                store(l, self.products.add(channel), product, count);
            }
        }
    }
}

/// Per channel, the gradient of the input is `gradient * factor + input * input_factor + offset`.
#[derive(Debug, Clone, Default)]
pub(super) struct InputGrad {
    pub(super) factor: Vec<f32>,
    pub(super) input_factor: Vec<f32>,
    pub(super) offset: Vec<f32>,
}

/// Writes the gradient of the input.
pub(super) struct ApplyGrad<'a> {
    pub(super) input: &'a [f32],
    pub(super) gate: Gate<'a>,
    /// As many numbers as the input.
    pub(super) grad: *const f32,
    pub(super) by: &'a InputGrad,
    /// As many numbers as the input; may be `grad`.
    pub(super) grad_input: *mut f32,
}

impl Kernel for ApplyGrad<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let channels = self.by.factor.len();
        for pixel in (0..self.input.len()).step_by(channels) {
            for channel in (0..channels).step_by(L::WIDTH) {
                let count = (channels - channel).min(L::WIDTH);
                // SAFETY: `count` channels from here on are inside the pixel, and all slices have this pixel.
                unsafe {
                    let at = pixel + channel;
                    let factor = load(l, self.by.factor.as_ptr().add(channel), count);
                    let input_factor = load(l, self.by.input_factor.as_ptr().add(channel), count);
                    let offset = load(l, self.by.offset.as_ptr().add(channel), count);
                    let input = load(l, self.input.as_ptr().add(at), count);
                    let grad = load(l, self.grad.add(at), count);
                    let grad = pass!(l, self.gate, grad, input, at, channel, count);
                    let grad_input = l.mul_add(grad, factor, l.mul_add(input, input_factor, offset));
                    store(l, self.grad_input.add(at), grad_input, count);
                }
            }
        }
    }
}

/// # Safety
/// `count` numbers can be read; it is at most a vector.
#[inline(always)]
unsafe fn load<L: Simd>(l: L, from: *const f32, count: usize) -> L::Vector {
    // SAFETY: the caller's promise.
    unsafe { if count == L::WIDTH { l.load(from) } else { l.load_first(from, count) } }
}

/// # Safety
/// `count` numbers can be written; it is at most a vector.
#[inline(always)]
unsafe fn store<L: Simd>(l: L, to: *mut f32, vector: L::Vector, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { if count == L::WIDTH { l.store(to, vector) } else { l.store_first(to, vector, count) } }
}
