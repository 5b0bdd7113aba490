//! Training of image classifiers on an NVIDIA GPU, in bf16 with master weights of 32 bits, or in f32.
//!
//! A step is a forward pass that keeps what its gradient needs, the loss, a backward pass, and AdamW: kernels that were recorded as
//! CUDA graphs. The gradient of a convolution's inputs is again a convolution, by the same kernels, of weights in which inputs and
//! outputs have changed places (`layout.rs`). Every sum has one order: the same calls give the same bits on the same GPU.
//!
//! | file | what |
//! |---|---|
//! | `layout.rs` | where parameters lie, and how convolutions have them |
//! | `plan.rs` | a pass: its memory, and the order of its parts |
//! | `trunk.rs` | convolutions, normalisation and pools, forward and backward |
//! | `head.rs` | pooling and head, forward and backward |
//! | `weight_tiles.rs` | how gradients of weights are divided among blocks |
//! | `engine.rs` | a GPU with a model that learns on it: graphs, uploads, steps |

mod engine;
mod head;
mod layout;
mod plan;
mod trunk;
mod weight_tiles;

pub(in super::super) use engine::{BatchImages, BatchMeasure, GpuSnapshot, GpuTrainer};

use super::super::settings::Precision;
use crate::gpu::KernelSource;

/// The kernels, for a kind of number, and with those of Hopper GPUs or without.
fn kernels(precision: Precision, is_hopper: bool) -> KernelSource {
    const SOURCE: &str = concat!(
        include_str!("../numbers.cu"),
        include_str!("../conv.cu"),
        include_str!("../hopper.cu"),
        include_str!("../layers.cu"),
        include_str!("training.cu"),
        include_str!("weight_gradients.cu"),
        include_str!("head_gradients.cu"),
        include_str!("adamw.cu"),
    );
    let (name, define) = match precision {
        Precision::Fp32 => ("classifier_training_f32", "NUMBER_F32"),
        Precision::Bf16 => ("classifier_training_bf16", "NUMBER_BF16"),
        Precision::Fp16 => ("classifier_training_f16", "NUMBER_F16"),
    };
    let mut defines = vec![define.to_owned(), "TRAINING".to_owned()];
    defines.extend(is_hopper.then(|| "HOPPER".to_owned()));
    KernelSource { name, source: SOURCE, defines }
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use super::*;
    use crate::gpu::compile_for_tests;

    #[test]
    fn kernels_compile_for_every_gpu_and_every_number() {
        for capability in [80, 86, 89, 90] {
            for precision in [Precision::Fp32, Precision::Bf16] {
                match compile_for_tests(&kernels(precision, capability == 90), capability) {
                    Some(image) => assert!(!image.unwrap().is_empty()),
                    None => return eprintln!("skipped: no NVRTC on this machine"),
                }
            }
        }
    }
}
