//! The CPU kernels: plain slices in, plain slices out.
//!
//! Images are `[batch, height, width, channels]` and convolution weights `[row, column, in, out]`, all `f32` and
//! contiguous. Channels come last because every kernel works on runs of channels: then no kernel cares how wide an
//! image is. Nothing here knows the tensor library; `ops` joins the two.

#![allow(unsafe_code)] // Each block says why.

pub mod adam;
pub mod attention;
pub mod conv;
pub mod gemm;
mod memory;
pub mod norm;
pub mod norm_rope_softmax;
pub mod pool;
pub(crate) mod simd;
mod threads;

pub use memory::{copy, unfilled};
pub use simd::Isa;

/// What the multiplications of a convolution are done in. Sums are always `f32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// Single precision throughout.
    #[default]
    F32,
    /// Inputs and weights are rounded to 16 bits where the CPU multiplies those faster: to bfloat16, and where that
    /// would be too rough for scoring (the first layer, Winograd's transforms), to integers with a scale.
    Bf16,
}
