//! Image classifiers on an NVIDIA GPU: scoring, in bf16, f16 or f32, and training (`training/`).
//!
//! Feature maps are NHWC. A convolution is one kernel (`conv.cu`): an implicit matrix product on the tensor cores, with
//! normalisation folded into its weights and bias, residual and ReLU behind it. Images of the network's size go to the GPU as
//! bytes; normalisation, and the rearrangement that lets the first convolution use tensor cores, are a kernel there. A whole
//! pass is one CUDA graph for each size of batch. Batches of other sizes are filled up. Hopper GPUs have convolutions of their own
//! (`hopper.cu`), by the matrix instructions that only they have.
//!
//! | file | what |
//! |---|---|
//! | `parameters.rs` | the weights there |
//! | `plan.rs` | the kernels of a pass, and where everything lies |
//! | `convolution.rs` | convolutions: their tiles, and which is quickest |
//! | `launches.rs` | what plans are written with |
//! | `engine.rs` | a GPU with a model on it: graphs, staging, scores |
//!
//! The logits of an image depend on the size of its batch by rounding alone: small batches split long sums.

mod convolution;
mod engine;
mod launches;
mod parameters;
mod plan;
mod training;

pub(super) use engine::{GpuClassifier, GpuInput};
pub use engine::{GpuView, LayerTime};
pub(super) use training::{BatchImages, BatchMeasure, GpuSnapshot, GpuTrainer};

use super::settings::Precision;
use crate::gpu::KernelSource;

/// The kernels, for a kind of number, and with those of Hopper GPUs or without.
fn kernels(precision: Precision, is_hopper: bool) -> KernelSource {
    const SOURCE: &str = concat!(
        include_str!("numbers.cu"),
        include_str!("conv.cu"),
        include_str!("hopper.cu"),
        include_str!("layers.cu")
    );
    let (name, define) = match precision {
        Precision::Fp32 => ("classifier_f32", "NUMBER_F32"),
        Precision::Bf16 => ("classifier_bf16", "NUMBER_BF16"),
        Precision::Fp16 => ("classifier_f16", "NUMBER_F16"),
    };
    let mut defines = vec![define.to_owned()];
    defines.extend(is_hopper.then(|| "HOPPER".to_owned()));
    KernelSource { name, source: SOURCE, defines }
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use super::*;
    use crate::gpu::compile_for_tests;

    /// Compute capabilities of GPUs that people have: A100, RTX 30, RTX 40, H100.
    const CAPABILITIES: [i32; 4] = [80, 86, 89, 90];

    #[test]
    fn kernels_compile_for_every_gpu_and_every_number() {
        for capability in CAPABILITIES {
            for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
                match compile_for_tests(&kernels(precision, capability == 90), capability) {
                    Some(image) => assert!(!image.unwrap().is_empty()),
                    None => return eprintln!("skipped: no NVRTC on this machine"),
                }
            }
        }
    }
}
