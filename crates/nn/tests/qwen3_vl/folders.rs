//! Complete folders of tiny models, from fixtures that hold only what sets each apart. Tests use it, and the example `qwen3_vl_cuda`.

use std::error::Error;
use std::path::Path;

use plaudit_nn::Weights;
use plaudit_nn::weights::Array;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The cases of `quantized/`.
pub(crate) const QUANTIZED: [&str; 11] = [
    "fp8",
    "awq",
    "gptq",
    "gptq_asymmetric",
    "gptq_act_order_v2",
    "gptq_8bit_rows",
    "compressed_w4a16",
    "compressed_w4a16_asymmetric",
    "compressed_w8a16",
    "compressed_fp8",
    "compressed_w8a8",
];

/// The tiny model's folder with the tensors and the settings of a quantised case.
pub(crate) fn quantized(
    fixtures: &Path,
    name: &str,
    into: &Path,
    change: impl Fn(&mut Value, &mut Weights),
) -> Outcome<()> {
    let model = fixtures.join("model");
    let case = Weights::read(fixtures.join("quantized").join(name).with_extension("safetensors"))?;
    for file in std::fs::read_dir(&model)? {
        let file = file?;
        if !file.file_name().to_string_lossy().ends_with("safetensors") {
            std::fs::copy(file.path(), into.join(file.file_name()))?;
        }
    }
    let mut config: Value = serde_json::from_slice(&std::fs::read(model.join("config.json"))?)?;
    let settings = case.metadata().get("quantization_config").ok_or("no quantization_config")?;
    config["quantization_config"] = serde_json::from_str(settings)?;
    let mut all = Weights::new();
    // Names lose their leading `model.` when they are read.
    let quantised =
        |layer: &str| case.names().any(|name| name.rsplit_once('.').is_some_and(|name| name.0 == layer));
    for (name, tensor) in Weights::read(model.join("model.safetensors"))?.iter() {
        if !name.strip_suffix(".weight").is_some_and(quantised) {
            all.insert(format!("model.{name}"), tensor.clone());
        }
    }
    for (name, tensor) in case.iter().filter(|(name, _)| !name.starts_with("expected.")) {
        all.insert(format!("model.{name}"), tensor.clone());
    }
    change(&mut config, &mut all);
    std::fs::write(into.join("config.json"), config.to_string())?;
    all.write_safetensors(into.join("model.safetensors"), &Default::default())?;
    Ok(())
}

/// The folder of a family's tiny model: `qwen2_5_vl` or `qwen3_vl_moe`.
pub(crate) fn family(
    fixtures: &Path,
    family: &str,
    into: &Path,
    change: impl Fn(&mut Value, &mut Value, &mut Vec<(String, Array)>),
) -> Outcome<()> {
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(fixtures.join("model").join(name), into.join(name))?;
    }
    let own = fixtures.join("families").join(family);
    let read =
        |name: &str| -> Outcome<Value> { Ok(serde_json::from_slice(&std::fs::read(own.join(name))?)?) };
    let (mut config, mut settings) = (read("config.json")?, read("preprocessor_config.json")?);
    // Files have the names that transformers gives them; those of the language model lose their `model.` when they are read.
    let stored = Weights::read(own.join("model.safetensors"))?;
    let of_top =
        |name: &str| !name.starts_with("visual.") && !name.starts_with("lm_head") || family != "qwen2_5_vl";
    let full = |name: &str| {
        if of_top(name) && !name.starts_with("lm_head") { format!("model.{name}") } else { name.to_owned() }
    };
    let mut tensors: Vec<_> = stored.iter().map(|(name, tensor)| (full(name), tensor.clone())).collect();
    change(&mut config, &mut settings, &mut tensors);
    std::fs::write(into.join("config.json"), config.to_string())?;
    std::fs::write(into.join("preprocessor_config.json"), settings.to_string())?;
    if let Ok(video) = read("video_preprocessor_config.json") {
        std::fs::write(into.join("video_preprocessor_config.json"), video.to_string())?;
    }
    let mut weights = Weights::new();
    tensors.into_iter().for_each(|(name, tensor)| weights.insert(name, tensor));
    weights.write_safetensors(into.join("model.safetensors"), &Default::default())?;
    Ok(())
}
