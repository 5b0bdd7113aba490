//! The CPU kernels: plain slices in, plain slices out.
//!
//! Pictures are `[batch, height, width, channels]` and convolution weights `[row, column, in, out]`, all `f32` and
//! contiguous. Channels come last because every kernel works on runs of channels: then no kernel cares how wide a
//! picture is. Nothing here knows the tensor library; `ops` joins the two.

pub mod adam;
pub mod conv;
pub mod norm;
pub mod pool;

/// What the multiplications of a convolution are done in. Sums are always `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    F32,
    /// Inputs and weights are rounded to bfloat16 where the processor multiplies those faster.
    Bf16,
}

/// A vector to be filled by a kernel, with whatever was in its memory before.
///
/// Every kernel here writes the whole of its output before anybody reads it, so clearing the output first would only
/// cost time: about a tenth of a training step.
#[must_use]
pub fn unfilled(len: usize) -> Vec<f32> {
    vec![0.0; len]
}
