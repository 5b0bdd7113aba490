//! Pictures as the left side of a multiplication: in the precision of the instruction set, each pixel whole words.

use super::ConvShape;
use crate::kernels::lanes::{Isa, Kernel, Lanes};
use crate::kernels::memory::Workspace;
use crate::kernels::threads::{Shared, for_each};

/// Pictures whose pixels are runs of operands.
pub(super) struct Operands<'a> {
    pub(super) start: Shared<u8>,
    /// Rows and columns of a picture.
    pub(super) size: (usize, usize),
    /// Bytes from one pixel to the next.
    pub(super) pixel_bytes: usize,
    _memory: Memory<'a>,
}

/// What must live as long as the operands.
enum Memory<'a> {
    Borrowed { _pictures: &'a [f32] },
    Own { _operands: Workspace },
}

/// Pixels that a thread rounds at a time.
const RUN: usize = 64;

impl<'a> Operands<'a> {
    /// Pictures as they are, if their precision is right, or rounded.
    pub(super) fn of(isa: Isa, size: (usize, usize), channels: usize, pictures: &'a [f32]) -> Self {
        let tile = isa.tile();
        if tile.operand_bytes == size_of::<f32>() {
            let start = Shared::new(pictures.as_ptr().cast_mut().cast());
            let memory = Memory::Borrowed { _pictures: pictures };
            return Self { start, size, pixel_bytes: channels * size_of::<f32>(), _memory: memory };
        }
        let pixel_bytes = tile.words(channels) * 4;
        let pixels = pictures.len() / channels;
        let mut operands = Workspace::of(pixels * pixel_bytes);
        let start = Shared::new(operands.start());
        for_each(pixels.div_ceil(RUN), |run| {
            let rows = RUN.min(pixels - run * RUN);
            let source = pictures[run * RUN * channels..].as_ptr();
            // SAFETY: inside the workspace, and each run has its own part.
            let target = unsafe { start.at(run * RUN * pixel_bytes) };
            isa.run(ToOperands { rows, len: channels, source, target, row_bytes: pixel_bytes });
        });
        Self { start, size, pixel_bytes, _memory: Memory::Own { _operands: operands } }
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
        // SAFETY: the end of the workspace.
        unsafe { start.at(rows * row_bytes).write_bytes(0, slack) };
        for_each(rows, |row| {
            let (picture, y) = (row / height, row % height);
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
                let source = input[(picture * shape.height + y - shape.padding) * len..].as_ptr();
                isa.run(ToOperands { rows: 1, len, source, target: target.add(border), row_bytes: 0 });
            }
        });
        Self { start, size: (height, width), pixel_bytes, _memory: Memory::Own { _operands: operands } }
    }
}

/// Writes rows of numbers as operands.
struct ToOperands {
    rows: usize,
    /// Numbers in a row, which lie one after the other.
    len: usize,
    source: *const f32,
    target: *mut u8,
    /// Bytes from one row of operands to the next; what is left of the last word is zero.
    row_bytes: usize,
}

impl Kernel for ToOperands {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let whole = self.len / L::WIDTH * L::WIDTH;
        let left_over = self.len - whole;
        for row in 0..self.rows {
            // SAFETY: who made `self` has `rows` rows of `len` numbers and of `row_bytes` bytes.
            unsafe {
                let source = self.source.add(row * self.len);
                let target = self.target.add(row * self.row_bytes);
                for i in (0..whole).step_by(L::WIDTH) {
                    lanes.store_operands(target.add(i * L::OPERAND_BYTES), lanes.load(source.add(i)));
                }
                if left_over > 0 {
                    // A whole vector would run over into what other threads write.
                    let mut last = [0u8; 64];
                    lanes.store_operands(last.as_mut_ptr(), lanes.load_first(source.add(whole), left_over));
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
