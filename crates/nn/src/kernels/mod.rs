//! The CPU kernels: plain slices in, plain slices out.
//!
//! Images are `[batch, height, width, channels]` and convolution weights `[row, column, in, out]`, all `f32` and
//! contiguous. Channels come last because every kernel works on runs of channels: then no kernel cares how wide an
//! image is. Matrices are rows, one after another or some distance apart. There is one of each: one register tile for
//! products (`gemm`; convolutions gather rows for theirs), one Adam, one layer norm, one exponential, one pool of threads.
//! Networks of tensors reach them through `ops` and `tensor`, policies and critics (`dense`) directly. Nothing here knows
//! tensors.

#![allow(unsafe_code)] // Each block says why.

pub mod adam;
pub mod attention;
pub mod conv;
pub(crate) mod elementwise;
pub mod functions;
pub mod gemm;
pub(crate) mod layer_ops;
pub(crate) mod memory;
pub mod norm;
pub mod norm_rope_softmax;
pub mod pool;
pub(crate) mod simd;
pub(crate) mod spin_pool;
mod sums;
pub(crate) mod threads;

pub use memory::{copy, unfilled};
pub use simd::Isa;
pub use spin_pool::{with_own_threads, with_spinning_threads};

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
