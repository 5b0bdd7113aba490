//! The kernels of a vision-language model.

use super::super::config::Config;
use crate::gpu::{Gpu, GpuError, KernelSource};

const SOURCE: &str =
    concat!(include_str!("kernels.cu"), include_str!("attention.cu"), include_str!("decode.cu"));
const NAMES: [&str; 21] = [
    "rms_norm",
    "layer_norm",
    "layer_norm_merged",
    "embed",
    "add_rows",
    "take_rows",
    "put_rows",
    "repeat_rows",
    "pixels",
    "angles",
    "turn_text",
    "turn_vision",
    "swiglu",
    "gelu",
    "label_logits",
    "attend_text",
    "attend_vision",
    "attend_cached",
    "join_splits",
    "unpack_int8",
    "unpack_float8",
];

/// Compiles the kernels for a model.
pub(super) fn compile(gpu: &mut Gpu, config: &Config) -> Result<(), GpuError> {
    gpu.compile(&source(config), &NAMES)?;
    let (text, vision) = (config.text.head_width, config.vision.width / config.vision.heads);
    for (kernel, head_width) in [("attend_text", text), ("attend_vision", vision)] {
        gpu.allow_shared(kernel, attention_shared_bytes(head_width), 100)?;
    }
    Ok(())
}

fn source(config: &Config) -> KernelSource {
    KernelSource { name: "qwen3_vl", source: SOURCE, defines: defines(config) }
}

/// The sizes that kernels are compiled for.
pub(super) fn defines(config: &Config) -> Vec<String> {
    let (text, vision) = (&config.text, &config.vision);
    vec![
        format!("TEXT_WIDTH={}", text.width),
        format!("TEXT_HALF={}", text.head_width / 2),
        format!("VISION_WIDTH={}", vision.width),
        format!("VISION_MERGED={}", vision.width * vision.merged()),
        format!("VISION_HALF={}", vision.width / vision.heads / 2),
    ]
}

/// Bytes that a block of an attention kernel shares: two tiles of keys and two of values, as `attention.cu` lays them out.
pub(super) fn attention_shared_bytes(head_width: usize) -> usize {
    4 * 64 * (head_width.next_multiple_of(16) + 8) * size_of::<u16>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::compile_for_tests;

    /// Needs the compiler, and no GPU.
    #[test]
    fn kernels_compile_for_all_gpus() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/qwen3_vl"));
        for file in ["model/config.json", "families/qwen2_5_vl/config.json"] {
            let config = Config::read(&folder.join(file)).unwrap();
            for capability in [80, 86, 89, 90] {
                if let Some(Err(error)) = compile_for_tests(&source(&config), capability) {
                    panic!("{file}, {capability}: {error}");
                }
            }
        }
    }
}
