//! Quantised folders against the packages that write them and transformers; see `qwen3_vl/make_quantized.py`.

#![allow(clippy::unwrap_used)]

#[path = "qwen3_vl/folders.rs"]
#[allow(dead_code, reason = "families are other tests' and the example's")]
mod folders;

use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Device, Precision};
use plaudit_nn::qwen3_vl::{
    Adapter, FineTuning, FrameSampling, Inputs, LoraConfig, Padding, PromptLayout, QwenVl, RgbImage,
    VlmTrainer, trend_question,
};
use plaudit_nn::weights::{Array, DType};
use serde_json::{Value, json};

/// Logits may differ by this.
const CLOSE: f32 = 1e-4;
/// The layer whose dequantised weights the cases hold.
const SHOWN: &str = "model.language_model.layers.2.mlp.down_proj";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qwen3_vl").join(name)
}

fn case(name: &str) -> Weights {
    Weights::read(fixture("quantized").join(name).with_extension("safetensors")).unwrap()
}

/// The tiny model's folder with the tensors and the settings of a case.
fn folder_of(name: &str, change: impl Fn(&mut Value, &mut Weights)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    folders::quantized(&fixture(""), name, dir.path(), change).unwrap();
    dir
}

fn open(folder: &Path) -> QwenVl {
    QwenVl::open(folder, Device::Cpu, Precision::Fp32).unwrap()
}

fn refusal(name: &str, change: impl Fn(&mut Value, &mut Weights)) -> String {
    let dir = folder_of(name, change);
    QwenVl::open(dir.path(), Device::Cpu, Precision::Fp32).unwrap_err().to_string()
}

/// The window of `three_frames`, whose frames are those of `make_more.py`.
fn window(model: &QwenVl) -> Inputs {
    let frame = |seed: u64| {
        let byte = |i: usize| {
            let noise = ((i as u64 * 2_654_435_761 + seed * 40_503 + 12_345) % (1 << 32)) >> 24;
            (noise / 2) as u8 + ((i / 3 % 64) * 128 / 64) as u8
        };
        (0..64 * 64 * 3).map(byte).collect::<Vec<u8>>()
    };
    let views: Vec<Vec<Vec<u8>>> =
        [3000, 3100].map(|seed| (0..3).map(|t| frame(seed + t)).collect()).to_vec();
    let images = |view: usize| {
        views[view].iter().map(|rgb| RgbImage { rgb, height: 64, width: 64 }).collect::<Vec<_>>()
    };
    let views = [images(0), images(1)];
    let question = trend_question("Push");
    model.processor().window(&views, 2.0, FrameSampling::All, &question, PromptLayout::VideosFirst).unwrap()
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, |worst, off| if off <= worst { worst } else { off })
}

#[test]
fn quantised_folders_give_what_transformers_gives_with_dequantised_weights() {
    for name in folders::QUANTIZED {
        let (dir, case) = (folder_of(name, |_, _| ()), case(name));
        let model = open(dir.path());
        let trace = model.trace(&[window(&model)], Padding::Left).unwrap().remove(0);
        let (last, mid) =
            (case.f32("expected.logits_last").unwrap(), case.f32("expected.logits_mid").unwrap());
        let (vocab, tokens) = (last.len(), trace.logits.len() / last.len());
        let off = worst(&trace.logits[(tokens - 1) * vocab..], &last)
            .max(worst(&trace.logits[tokens / 2 * vocab..][..vocab], &mid));
        assert!(off < CLOSE, "{name}: logits are off by {off:e}");
    }
}

#[test]
fn dequantised_weights_are_those_of_the_packages() {
    for name in folders::QUANTIZED {
        let dir = folder_of(name, |_, _| ());
        let full = FineTuning::Full;
        let trainer = VlmTrainer::open(dir.path(), Device::Cpu, &full, AdamW::default(), 0).unwrap();
        let weights = trainer.weights().unwrap();
        let off = worst(
            &weights.f32(&format!("{SHOWN}.weight")).unwrap(),
            &case(name).f32("expected.weight").unwrap(),
        );
        assert!(off < 1e-7, "{name}: weights are off by {off:e}");
    }
}

#[test]
fn adapters_are_tuned_on_quantised_weights_and_merged_into_them() {
    let dir = folder_of("awq", |_, _| ());
    let lora = FineTuning::Lora(LoraConfig { rank: 2, ..LoraConfig::default() });
    let trainer = VlmTrainer::open(dir.path(), Device::Cpu, &lora, AdamW::default(), 0).unwrap();
    let adapter: Adapter = trainer.adapter().unwrap().unwrap();
    assert!(!adapter.is_empty());
    let plain = open(dir.path());
    let merged = QwenVl::open_with(dir.path(), Some(&adapter), Device::Cpu, Precision::Fp32).unwrap();
    let labels = plain.processor().tokenizer().first_tokens(&["positive", "negative", "unclear"]).unwrap();
    let scores = |model: &QwenVl| model.label_logits(&[window(model)], &labels).unwrap().remove(0);
    // An adapter that was not trained yet changes nothing.
    assert!(worst(&scores(&merged), &scores(&plain)) < 1e-5);
    let tuned = trainer.label_logits(&[window(&plain)], &labels).unwrap().remove(0);
    assert!(worst(&tuned, &scores(&plain)) < CLOSE);
}

#[test]
fn kinds_of_quantisation_that_are_not_supported_are_refused_by_name() {
    let set = |path: &'static [&'static str], value: Value| {
        move |config: &mut Value, _: &mut Weights| {
            let mut place = &mut config["quantization_config"];
            for key in path {
                place = &mut place[*key];
            }
            *place = value.clone();
        }
    };
    let group = |key: &'static str| -> &'static [&'static str] {
        match key {
            "bits" => &["config_groups", "group_0", "weights", "num_bits"],
            "strategy" => &["config_groups", "group_0", "weights", "strategy"],
            "actorder" => &["config_groups", "group_0", "weights", "actorder"],
            _ => &["config_groups", "group_0", "input_activations"],
        }
    };
    for (name, path, value, expected) in [
        (
            "fp8",
            &["quant_method"][..],
            json!("bitsandbytes"),
            "`quantization_config.quant_method` is `bitsandbytes`; weights",
        ),
        (
            "fp8",
            &["activation_scheme"],
            json!("static"),
            "`quantization_config.activation_scheme` is `static`; only dynamic",
        ),
        ("fp8", &["fmt"], json!("e5m2"), "`quantization_config.fmt` is `e5m2`"),
        ("fp8", &["scale_fmt"], json!("ue8m0"), "`quantization_config.scale_fmt` is `ue8m0`"),
        (
            "fp8",
            &["weight_block_size"],
            json!([0, 128]),
            "`quantization_config.weight_block_size` must be two whole numbers",
        ),
        (
            "fp8",
            &["weight_block_size"],
            json!(null),
            "`quantization_config.weight_block_size` must be two whole numbers",
        ),
        ("awq", &["version"], json!("gemv"), "`quantization_config.version` is `gemv`; only gemm"),
        ("awq", &["bits"], json!(3), "`quantization_config.bits` is `3`; only 4"),
        (
            "awq",
            &["group_size"],
            json!(0),
            "`quantization_config.group_size` must be a whole number above zero",
        ),
        ("gptq", &["bits"], json!(3), "`quantization_config.bits` is `3`; only 4, 8"),
        (
            "gptq",
            &["checkpoint_format"],
            json!("marlin"),
            "`quantization_config.checkpoint_format` is `marlin`",
        ),
        (
            "compressed_w4a16",
            &["format"],
            json!("nvfp4-pack-quantized"),
            "`quantization_config.format` is `nvfp4-pack-quantized`",
        ),
        (
            "compressed_w4a16",
            &["kv_cache_scheme"],
            json!({"num_bits": 8}),
            "`quantization_config.kv_cache_scheme` is set",
        ),
        (
            "compressed_w4a16",
            &["transform_config"],
            json!({"R1": {}}),
            "`quantization_config.transform_config` is set",
        ),
        (
            "compressed_w4a16",
            group("bits"),
            json!(2),
            "`quantization_config.config_groups.group_0.weights.num_bits` is `2`",
        ),
        (
            "compressed_w4a16",
            group("strategy"),
            json!("token"),
            "`quantization_config.config_groups.group_0.weights.strategy` is `token`",
        ),
        (
            "compressed_w4a16",
            group("actorder"),
            json!("group"),
            "`quantization_config.config_groups.group_0.weights.actorder` is `group`",
        ),
        (
            "compressed_w8a8",
            group("activations"),
            json!({"dynamic": false}),
            "input_activations.dynamic` is `false`; only true",
        ),
    ] {
        let error = refusal(name, set(path, value));
        assert!(error.contains(expected) && error.contains("config.json"), "{expected}: {error}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let put = |part: &'static str, dtype: DType, shape: &'static [usize], byte: u8| {
        move |_: &mut Value, weights: &mut Weights| {
            let bytes = shape.iter().product::<usize>() * dtype.size();
            weights.insert(format!("{SHOWN}.{part}"), Array::new(dtype, shape, vec![byte; bytes]).unwrap());
        }
    };
    for (name, change, expected) in [
        (
            "fp8",
            put("weight_scale_inv", DType::F32, &[2, 2], 0),
            "weight_scale_inv` is [2, 2], and [2, 10] by config.json",
        ),
        (
            "fp8",
            put("weight_scale_inv", DType::I32, &[2, 10], 0),
            "weight_scale_inv` holds I32; F16 or Bf16 or F32 is expected",
        ),
        (
            "awq",
            put("qweight", DType::I32, &[160, 1], 0),
            "qweight` is [160, 1], and [160, 8] by config.json",
        ),
        ("gptq", put("qzeros", DType::F32, &[5, 8], 0), "qzeros` holds F32; I32 or U32 is expected"),
        ("gptq", put("g_idx", DType::I32, &[160], 1), "g_idx` names group 16843009 of 5"),
        ("gptq", put("g_idx", DType::I32, &[160], 255), "g_idx` names group -1 of 5"),
        (
            "compressed_w4a16",
            put("weight_shape", DType::I64, &[2], 1),
            "weight_shape` says [72340172838076673, 72340172838076673], and config.json [64, 160]",
        ),
        ("compressed_w4a16", put("weight_g_idx", DType::I32, &[160], 0), "weight_g_idx"),
    ] {
        let error = refusal(name, change);
        assert!(error.contains(expected) && error.contains(SHOWN), "{expected}: {error}");
    }
    // Without a part that belongs to it, and without the settings that say what the parts are.
    let error = refusal("fp8", |_, weights| {
        let mut kept = Weights::new();
        let scale = format!("{SHOWN}.weight_scale_inv");
        weights
            .iter()
            .filter(|(name, _)| *name != scale)
            .for_each(|(name, tensor)| kept.insert(name, tensor.clone()));
        *weights = kept;
    });
    assert!(error.contains("weight_scale_inv` is missing, beside other tensors"), "{error}");
    let error = refusal("fp8", |config, _| config["quantization_config"] = Value::Null);
    assert!(
        error.contains("holds F8E4M3: the weights are quantised, and `quantization_config` of config.json"),
        "{error}"
    );
}
