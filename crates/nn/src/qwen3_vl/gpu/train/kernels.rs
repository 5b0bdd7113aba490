//! The kernels of training.

use super::super::super::config::Config;
use super::super::kernels::{attention_shared_bytes, defines};
use crate::gpu::{Gpu, GpuError, KernelSource};

const SOURCE: &str = concat!(
    include_str!("../kernels.cu"),
    include_str!("../attention.cu"),
    include_str!("backward.cu"),
    include_str!("attention_backward.cu"),
);
const NAMES: [&str; 23] = [
    "rms_norm_backward",
    "layer_norm_backward",
    "layer_norm_merged_backward",
    "swiglu_backward",
    "gelu_tanh",
    "gelu_erf",
    "gelu_tanh_backward",
    "gelu_erf_backward",
    "turn_text_backward",
    "turn_vision_backward",
    "cross_entropy",
    "sum_of_squares",
    "adamw",
    "round_rows",
    "round_all_rows",
    "move_rows",
    "clear",
    "multiply_heads_text",
    "multiply_heads_vision",
    "attend_text_backward_queries",
    "attend_text_backward_keys",
    "attend_vision_backward_queries",
    "attend_vision_backward_keys",
];

/// Compiles the kernels for a model.
pub(super) fn compile(gpu: &mut Gpu, config: &Config) -> Result<(), GpuError> {
    gpu.compile(&source(config), &NAMES)?;
    let (text, vision) = (config.text.head_width, config.vision.width / config.vision.heads);
    for (kernel, head_width) in [
        ("attend_text_backward_queries", text),
        ("attend_text_backward_keys", text),
        ("attend_vision_backward_queries", vision),
        ("attend_vision_backward_keys", vision),
    ] {
        gpu.allow_shared(kernel, attention_shared_bytes(head_width), 100)?;
    }
    Ok(())
}

pub(super) fn source(config: &Config) -> KernelSource {
    KernelSource { name: "qwen3_vl_train", source: SOURCE, defines: defines(config) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::compile_for_tests;

    /// Needs the compiler, and no GPU.
    #[test]
    fn kernels_compile_for_all_gpus() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/qwen3_vl/model/config.json");
        let config = Config::read(std::path::Path::new(file)).unwrap();
        for capability in [80, 86, 89, 90] {
            if let Some(Err(error)) = compile_for_tests(&source(&config), capability) {
                panic!("{capability}: {error}");
            }
        }
    }
}
