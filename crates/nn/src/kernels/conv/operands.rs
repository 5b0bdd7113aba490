//! Images as the left side of a multiplication: in the precision of the instruction set, each pixel whole words.

use super::ConvShape;
use crate::kernels::memory::Workspace;
use crate::kernels::simd::{Isa, Kernel, Simd};
use crate::kernels::threads::{Shared, for_each};

/// Images whose pixels are runs of operands.
pub(super) struct Operands<'a> {
    pub(super) start: Shared<u8>,
    /// Rows and columns of an image.
    pub(super) size: (usize, usize),
    /// Bytes from one pixel to the next.
    pub(super) pixel_bytes: usize,
    /// For each image, what its integers are multiplied with; none if operands are the numbers they stand for.
    pub(super) units: Vec<f32>,
    _memory: Memory<'a>,
}

/// What must live as long as the operands.
enum Memory<'a> {
    Borrowed { _images: &'a [f32] },
    Own { _operands: Workspace },
}

/// The largest number of an image as an integer.
pub(super) const LARGEST_INT16: f32 = 8191.0;
/// Pixels that a thread rounds at a time.
const RUN: usize = 64;

impl<'a> Operands<'a> {
    /// Images as they are, if their precision is right, or rounded.
    pub(super) fn of(isa: Isa, size: (usize, usize), channels: usize, images: &'a [f32]) -> Self {
        let tile = isa.tile();
        if tile.operand_bytes == size_of::<f32>() {
            let start = Shared::new(images.as_ptr().cast_mut().cast());
            let memory = Memory::Borrowed { _images: images };
            let (pixel_bytes, units) = (channels * size_of::<f32>(), Vec::new());
            return Self { start, size, pixel_bytes, units, _memory: memory };
        }
        let pixel_bytes = tile.words(channels) * 4;
        let pixels = images.len() / channels;
        let mut operands = Workspace::of(pixels * pixel_bytes);
        let start = Shared::new(operands.start());
        for_each(pixels.div_ceil(RUN), |run| {
            let rows = RUN.min(pixels - run * RUN);
            let source = images[run * RUN * channels..].as_ptr();
            // SAFETY: inside the workspace, and each run has its own part.
            let target = unsafe { start.at(run * RUN * pixel_bytes) };
            isa.run(ToOperands { rows, len: channels, scale: 1.0, source, target, row_bytes: pixel_bytes });
        });
        Self { start, size, pixel_bytes, units: Vec::new(), _memory: Memory::Own { _operands: operands } }
    }

    /// The input of a convolution with its padding written out and nothing between pixels, so that a row of the kernel is
    /// one run of `inner` operands. Some zeros follow the last pixel, since whole words may reach beyond it.
    pub(super) fn padded(isa: Isa, shape: &ConvShape, inner: usize, input: &[f32]) -> Self {
        let tile = isa.tile();
        let pixel_bytes = shape.in_channels * tile.operand_bytes;
        let (width, height) = (shape.width + 2 * shape.padding, shape.height + 2 * shape.padding);
        let (rows, row_bytes, border) =
            (shape.batch * height, width * pixel_bytes, shape.padding * pixel_bytes);
        let slack = inner * tile.operand_bytes + 4;
        let mut operands = Workspace::of(rows * row_bytes + slack);
        let start = Shared::new(operands.start());
        let units = if isa.is_int16() { units(isa, shape, input) } else { Vec::new() };
        // SAFETY: the end of the workspace.
        unsafe { start.at(rows * row_bytes).write_bytes(0, slack) };
        for_each(rows, |row| {
            let (image, y) = (row / height, row % height);
            // SAFETY: inside the workspace, and each row has its own part.
            unsafe {
                let target = start.at(row * row_bytes);
                if !(shape.padding..shape.padding + shape.height).contains(&y) {
                    target.write_bytes(0, row_bytes);
                    return;
                }
                target.write_bytes(0, border);
                target.add(row_bytes - border).write_bytes(0, border);
                let len = shape.width * shape.in_channels;
                let source = input[(image * shape.height + y - shape.padding) * len..].as_ptr();
                let scale = units.get(image).map_or(1.0, |&unit| scale_of(unit));
                let target = target.add(border);
                isa.run(ToOperands { rows: 1, len, scale, source, target, row_bytes: 0 });
            }
        });
        let memory = Memory::Own { _operands: operands };
        Self { start, size: (height, width), pixel_bytes, units, _memory: memory }
    }
}

/// What turns numbers into integers of these units. Where they are too small to be divided by, all is zero. What is
/// not a number makes the unit, and so the outputs, not a number.
pub(super) fn scale_of(unit: f32) -> f32 {
    const TOO_SMALL: f32 = 1e-35;
    if unit < TOO_SMALL { 0.0 } else { 1.0 / unit }
}

/// What each image is in units of, so that the largest of its numbers is [`LARGEST_INT16`].
fn units(isa: Isa, shape: &ConvShape, input: &[f32]) -> Vec<f32> {
    let len = shape.height * shape.width * shape.in_channels;
    let mut units = vec![0.0; shape.batch];
    let target = Shared::of(&mut units);
    for_each(shape.batch, |image| {
        let largest = isa.run(LargestMagnitude(&input[image * len..(image + 1) * len]));
        // SAFETY: each image has its own place.
        unsafe { *target.at(image) = largest / LARGEST_INT16 };
    });
    units
}

struct LargestMagnitude<'a>(&'a [f32]);

impl Kernel for LargestMagnitude<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) -> f32 {
        let mut largest = simd.splat(0.0);
        for run in self.0.chunks(L::WIDTH) {
            // SAFETY: the run is as long as it says, at most a vector.
            let numbers = unsafe { simd.load_first(run.as_ptr(), run.len()) };
            largest = simd.larger_magnitude(largest, numbers);
        }
        simd.largest_magnitude(largest)
    }
}

/// Writes rows of numbers as operands.
struct ToOperands {
    rows: usize,
    /// Numbers in a row, which lie one after the other.
    len: usize,
    /// What numbers are multiplied with.
    scale: f32,
    source: *const f32,
    target: *mut u8,
    /// Bytes from one row of operands to the next; what is left of the last word is zero.
    row_bytes: usize,
}

impl Kernel for ToOperands {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, simd: L) {
        let whole = self.len / L::WIDTH * L::WIDTH;
        let left_over = self.len - whole;
        let scale = simd.splat(self.scale);
        for row in 0..self.rows {
            // SAFETY: who made `self` has `rows` rows of `len` numbers and of `row_bytes` bytes.
            unsafe {
                let source = self.source.add(row * self.len);
                let target = self.target.add(row * self.row_bytes);
                for i in (0..whole).step_by(L::WIDTH) {
                    let numbers = simd.mul(simd.load(source.add(i)), scale);
                    simd.store_operands(target.add(i * L::OPERAND_BYTES), numbers);
                }
                if left_over > 0 {
                    // A whole vector would run over into what other threads write.
                    let mut last = [0u8; 64];
                    let numbers = simd.mul(simd.load_first(source.add(whole), left_over), scale);
                    simd.store_operands(last.as_mut_ptr(), numbers);
                    let bytes = left_over * L::OPERAND_BYTES;
                    let padded =
                        if self.row_bytes > 0 { self.row_bytes - whole * L::OPERAND_BYTES } else { bytes };
                    target
                        .add(whole * L::OPERAND_BYTES)
                        .copy_from_nonoverlapping(last.as_ptr(), padded.min(64));
                }
            }
        }
    }
}
