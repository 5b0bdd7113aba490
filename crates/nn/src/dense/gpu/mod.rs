//! Policies and critics on an NVIDIA GPU: the networks of [`super`] with the same flat parameters, in single precision.
//!
//! Parameters, gradients and moments lie there in the order they have on the CPU, so that moving them is copying a slice.
//! [`GpuKernels`] is a GPU with the kernels and memory that stays until it is dropped; [`GpuMlp`] and [`GpuConvEncoder`] are
//! networks on it. What is computed there is asked for by whoever trains: work can be recorded once as a CUDA graph and run
//! again and again ([`GpuKernels::record`]).
//!
//! | file | what |
//! |---|---|
//! | `products.cu` | matrix products and convolutions |
//! | `layers.cu` | what lies between them; optimisers |
//! | `kernels.rs` | memory, graphs, and everything that is no network |
//! | `runner.rs` | what runs kernels: a GPU |
//! | `mlp.rs`, `encoder.rs` | networks |
//!
//! Every sum has a fixed order: the same calls give the same bits on the same GPU. They differ from the CPU's by rounding.
//! Shapes that do not fit panic, as they do there.

mod encoder;
mod kernels;
mod mlp;
mod runner;

pub use encoder::GpuConvEncoder;
pub use kernels::{
    ADAM_NUMBERS, AdamMemory, Bytes, Floats, GpuKernels, GraphId, Ints, Params, Rows, adam_numbers,
};
pub use mlp::{GpuMlp, InputGradient, WantedGradients, WeightGradients};
pub use runner::{KernelRunner, Launch, WORDS};

/// The source of all kernels, for whoever runs them in another way than [`GpuKernels::open`].
pub const KERNELS: &str = concat!(include_str!("products.cu"), include_str!("layers.cu"));

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use crate::gpu::compile_for_tests;

    #[test]
    fn kernels_compile_for_every_gpu() {
        // A100, RTX 30, RTX 40, H100.
        for capability in [80, 86, 89, 90] {
            match compile_for_tests(&super::runner::source(), capability) {
                Some(image) => assert!(!image.unwrap().is_empty()),
                None => return eprintln!("skipped: no NVRTC on this machine"),
            }
        }
    }
}
