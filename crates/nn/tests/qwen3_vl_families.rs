//! Qwen2.5-VL and Qwen3-VL-MoE against transformers; see `qwen3_vl/make_families.py` for how the files were made.

#![allow(clippy::unwrap_used)]

#[path = "qwen3_vl/folders.rs"]
#[allow(dead_code, reason = "quantised folders are other tests' and the example's")]
mod folders;

use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Device, Precision};
use plaudit_nn::qwen3_vl::{
    Adapter, Config, ContentPart, Decoding, FineTuning, FrameSampling, GenerateOptions, Inputs, LoraConfig,
    Message, Padding, PromptLayout, QwenVl, RgbImage, Role, ScoreCache, VlmTrainer, chat,
};
use plaudit_nn::weights::Array;
use serde_json::{Value, json};

/// Logits may differ by this.
const CLOSE: f32 = 2e-5;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qwen3_vl").join(name)
}

fn case(name: &str) -> Weights {
    Weights::read(fixture("families").join(name).with_extension("safetensors")).unwrap()
}

/// The folder of a family's tiny model with changed settings and tensors.
fn folder_of(
    family: &str,
    change: impl Fn(&mut Value, &mut Value, &mut Vec<(String, Array)>),
) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    folders::family(&fixture(""), family, dir.path(), change).unwrap();
    dir
}

fn open(folder: &Path) -> QwenVl {
    QwenVl::open(folder, Device::Cpu, Precision::Fp32).unwrap()
}

/// Frames by the formula of `make_more.py`.
struct Frames {
    bytes: Vec<Vec<u8>>,
    size: [usize; 2],
}

impl Frames {
    fn new(seed: u64, frames: u64, height: usize, width: usize) -> Self {
        let image = |seed: u64| {
            let byte = |i: usize| {
                let noise = ((i as u64 * 2_654_435_761 + seed * 40_503 + 12_345) % (1 << 32)) >> 24;
                (noise / 2) as u8 + ((i / 3 % width) * 128 / width) as u8
            };
            (0..height * width * 3).map(byte).collect()
        };
        Self { bytes: (0..frames).map(|t| image(seed + t)).collect(), size: [height, width] }
    }

    fn images(&self) -> Vec<RgbImage<'_>> {
        let [height, width] = self.size;
        self.bytes.iter().map(|rgb| RgbImage { rgb, height, width }).collect()
    }
}

fn worst(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    found
        .iter()
        .zip(expected)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, |worst, off| if off <= worst { worst } else { off })
}

/// Tokens, positions, logits and answers of a case.
fn check(name: &str, model: &QwenVl, inputs: &Inputs) {
    let case = case(name);
    let whole = |name: &str| case.get(name).unwrap().to_i64().unwrap();
    let ids: Vec<u32> = whole("input_ids").iter().map(|id| *id as u32).collect();
    assert_eq!(inputs.ids, ids, "{name}: tokens");
    let positions = whole("position_ids");
    let place = |axis: usize, i: usize| positions[axis * ids.len() + i] as i32;
    let positions: Vec<[i32; 3]> = (0..ids.len()).map(|i| [place(0, i), place(1, i), place(2, i)]).collect();
    assert_eq!(inputs.positions.axes, positions, "{name}: positions");
    let trace = model.trace(std::slice::from_ref(inputs), Padding::Left).unwrap().remove(0);
    let (last, mid) = (case.f32("logits_last").unwrap(), case.f32("logits_mid").unwrap());
    let (vocab, tokens) = (last.len(), ids.len());
    let off = worst(&trace.logits[(tokens - 1) * vocab..], &last)
        .max(worst(&trace.logits[tokens / 2 * vocab..][..vocab], &mid));
    assert!(off < CLOSE, "{name}: logits are off by {off:e}");
    if case.get("generated").is_some() {
        let expected: Vec<u32> = whole("generated").iter().map(|id| *id as u32).collect();
        let options = GenerateOptions { max_new_tokens: expected.len(), decoding: Decoding::Greedy };
        assert_eq!(
            model.generate(std::slice::from_ref(inputs), &options).unwrap()[0],
            expected,
            "{name}: answer"
        );
    }
}

/// The window of `qwen2_5_vl_window`.
fn window(model: &QwenVl) -> Inputs {
    let views = [5000, 5100].map(|seed| Frames::new(seed, 5, 84, 140));
    let views: Vec<Vec<RgbImage<'_>>> = views.iter().map(Frames::images).collect();
    model
        .processor()
        .window(&views, 3.0, FrameSampling::All, "Is it done?", PromptLayout::VideosFirst)
        .unwrap()
}

#[test]
fn qwen2_5_vl_gives_what_transformers_gives() {
    let dir = folder_of("qwen2_5_vl", |_, _, _| ());
    let model = open(dir.path());
    check("qwen2_5_vl_window", &model, &window(&model));
    let processor = model.processor();
    let images = [Frames::new(5300, 1, 90, 200), Frames::new(5301, 1, 56, 56)];
    let images = images.iter().map(|image| processor.image(image.images()[0]).unwrap()).collect();
    let content = vec![ContentPart::Image, ContentPart::Image, ContentPart::Text("Which one?".into())];
    let prompt = processor.in_template(chat(&[Message { role: Role::User, content }], true));
    check("qwen2_5_vl_images", &model, &processor.encode(&prompt, images).unwrap());
    // Scored with what windows share kept, and by labels alone.
    let inputs = window(&model);
    let labels = [5, 17, 300];
    let plain = model.label_logits(std::slice::from_ref(&inputs), &labels).unwrap();
    let mut cache = ScoreCache::new(64);
    for _ in 0..2 {
        let cached = model.score(std::slice::from_ref(&inputs), &labels, &mut cache).unwrap();
        assert!(worst(&cached[0], &plain[0]) < 1e-5);
    }
}

#[test]
fn qwen2_5_vl_samples_frames_as_transformers_does() {
    // The hub's folders say nothing about it, and all frames are shown then.
    let dir = folder_of("qwen2_5_vl", |_, settings, _| settings["fps"] = 2.0.into());
    let model = open(dir.path());
    let views = [Frames::new(5200, 11, 100, 60)];
    let views: Vec<Vec<RgbImage<'_>>> = views.iter().map(Frames::images).collect();
    let ask = |model: &QwenVl| {
        model
            .processor()
            .window(&views, 4.0, FrameSampling::Sampled, "Is it done?", PromptLayout::VideosFirst)
            .unwrap()
    };
    check("qwen2_5_vl_sampled", &model, &ask(&model));
    let dir = folder_of("qwen2_5_vl", |_, _, _| ());
    assert_eq!(ask(&open(dir.path())).visuals[0].grid[0], 6);
}

#[test]
fn qwen2_5_vl_opens_in_every_spelling() {
    let parse = |value: &Value| Config::parse(Path::new("config.json"), value).unwrap();
    let own = fixture("families/qwen2_5_vl/config.json");
    let value: Value = serde_json::from_slice(&std::fs::read(&own).unwrap()).unwrap();
    let config = parse(&value);
    assert_eq!(parse(&config.to_json()), config, "as it is written here");
    // As the hub has it: settings of the language model at the top, and positions under `rope_scaling`.
    let mut flat = value["text_config"].clone();
    flat["model_type"] = "qwen2_5_vl".into();
    flat["rope_scaling"] = json!({ "type": "mrope", "mrope_section": [2, 3, 3] });
    flat["rope_theta"] = 1e6.into();
    flat.as_object_mut().unwrap().remove("rope_parameters");
    for key in ["vision_config", "image_token_id", "video_token_id", "tie_word_embeddings"] {
        flat[key] = value[key].clone();
    }
    assert_eq!(parse(&flat), config);
    // As transformers names tensors in memory.
    let dir = folder_of("qwen2_5_vl", |config, _, tensors| {
        *config = flat.clone();
        for (name, _) in tensors {
            let plain = name.strip_prefix("model.").unwrap_or(name).to_owned();
            *name = if plain.starts_with("visual.") {
                format!("model.{plain}")
            } else {
                format!("model.language_model.{plain}")
            };
        }
    });
    let model = open(dir.path());
    check("qwen2_5_vl_window", &model, &window(&model));
}

#[test]
fn adapters_of_qwen2_5_vl_give_what_peft_gives() {
    let dir = folder_of("qwen2_5_vl", |_, _, _| ());
    let adapter = Adapter::open(fixture("families/qwen2_5_vl_lora")).unwrap();
    let model = QwenVl::open_with(dir.path(), Some(&adapter), Device::Cpu, Precision::Fp32).unwrap();
    let trace = model.trace(&[window(&model)], Padding::Left).unwrap().remove(0);
    let expected = case("qwen2_5_vl_tuned").f32("logits_last").unwrap();
    let off = worst(&trace.logits[trace.logits.len() - expected.len()..], &expected);
    assert!(off < CLOSE, "{off:e}");
    // And are trained further on the CPU.
    let lora = LoraConfig {
        rank: 2,
        alpha: 4.0,
        targets: ["q_proj", "down_proj", "qkv"].map(str::to_owned).to_vec(),
        freeze_vision: false,
    };
    let tuning = FineTuning::Lora(lora);
    let mut trainer = VlmTrainer::open(dir.path(), Device::Cpu, &tuning, AdamW::default(), 0).unwrap();
    trainer.load_adapter(&adapter).unwrap();
    let labels: Vec<u32> = (0..expected.len() as u32).collect();
    let found = trainer.label_logits(&[window(&model)], &labels).unwrap().remove(0);
    assert!(worst(&found, &expected) < CLOSE);
}

#[test]
fn qwen3_vl_moe_gives_what_transformers_gives() {
    let dir = folder_of("qwen3_vl_moe", |_, _, _| ());
    let model = open(dir.path());
    let views = [Frames::new(6000, 4, 48, 64)];
    let views: Vec<Vec<RgbImage<'_>>> = views.iter().map(Frames::images).collect();
    let inputs = model
        .processor()
        .window(&views, 2.0, FrameSampling::All, "Is it done?", PromptLayout::VideosFirst)
        .unwrap();
    check("qwen3_vl_moe_window", &model, &inputs);
    let config = model.config().clone();
    assert_eq!(Config::parse(Path::new("written"), &config.to_json()).unwrap(), config);
    // The hub has inputs before outputs, and experts are in tensors of their own where a quantiser had to take them apart.
    let changed = |change: fn(&str, &Array) -> Vec<(String, Array)>| {
        folder_of("qwen3_vl_moe", |_, _, tensors| {
            let is_expert = |name: &str| name.contains(".experts.");
            let fused: Vec<_> = tensors.iter().filter(|(name, _)| is_expert(name)).cloned().collect();
            tensors.retain(|(name, _)| !is_expert(name));
            tensors.extend(fused.iter().flat_map(|(name, tensor)| change(name, tensor)));
        })
    };
    let hub = changed(|name, tensor| {
        let [experts, outputs, inputs] = *tensor.shape() else { panic!("{name}") };
        let numbers = tensor.to_f32().unwrap();
        let place = |at: usize| {
            let (e, input, output) = (at / inputs / outputs, at / outputs % inputs, at % outputs);
            numbers[(e * outputs + output) * inputs + input]
        };
        let turned: Vec<f32> = (0..numbers.len()).map(place).collect();
        vec![(name.to_owned(), Array::from_slice(&[experts, inputs, outputs], &turned).unwrap())]
    });
    check("qwen3_vl_moe_window", &open(hub.path()), &inputs);
    let apart = changed(|name, tensor| {
        let [experts, outputs, _] = *tensor.shape() else { panic!("{name}") };
        let (layer, part) = name.rsplit_once(".experts.").unwrap();
        let parts: &[&str] = if part == "down_proj" { &["down_proj"] } else { &["gate_proj", "up_proj"] };
        let each = outputs / parts.len();
        let of_expert = |e: usize| {
            let of_part = move |(i, part): (usize, &&str)| {
                let rows: Vec<Array> =
                    (0..each).map(|row| tensor.row(e).unwrap().row(i * each + row).unwrap()).collect();
                let numbers: Vec<f32> = rows.iter().flat_map(|row| row.to_f32().unwrap()).collect();
                let weight = Array::from_slice(&[each, numbers.len() / each], &numbers).unwrap();
                (format!("{layer}.experts.{e}.{part}.weight"), weight)
            };
            parts.iter().enumerate().map(of_part).collect::<Vec<_>>()
        };
        (0..experts).flat_map(of_expert).collect()
    });
    check("qwen3_vl_moe_window", &open(apart.path()), &inputs);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (family, path, value, expected) in [
        (
            "qwen2_5_vl",
            "/model_type",
            json!("qwen2_vl"),
            "`model_type` is `qwen2_vl`; models of qwen3_vl, qwen3_vl_moe, qwen2_5_vl run here, those of other families \
             behind a server",
        ),
        (
            "qwen2_5_vl",
            "/text_config/use_sliding_window",
            json!(true),
            "`text_config.use_sliding_window` is true",
        ),
        (
            "qwen2_5_vl",
            "/text_config/rope_parameters/rope_type",
            json!("yarn"),
            "`text_config.rope_type` is `yarn`",
        ),
        (
            "qwen2_5_vl",
            "/vision_config/window_size",
            json!(8),
            "`vision_config.window_size` is less than a token",
        ),
        (
            "qwen2_5_vl",
            "/vision_config/fullatt_block_indexes",
            json!([7]),
            "`vision_config.fullatt_block_indexes` names a block that is not there",
        ),
        (
            "qwen2_5_vl",
            "/vision_config/tokens_per_second",
            json!(null),
            "`vision_config.tokens_per_second` must be a number above zero",
        ),
        (
            "qwen3_vl_moe",
            "/text_config/norm_topk_prob",
            json!(false),
            "`text_config.norm_topk_prob` is false",
        ),
        (
            "qwen3_vl_moe",
            "/text_config/num_experts_per_tok",
            json!(9),
            "`text_config.num_experts_per_tok` is more than `num_experts`",
        ),
    ] {
        let (section, key) = path.rsplit_once('/').unwrap();
        let dir = folder_of(family, |config, _, _| config.pointer_mut(section).unwrap()[key] = value.clone());
        let error = QwenVl::open(dir.path(), Device::Cpu, Precision::Fp32).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let dir = folder_of("qwen3_vl_moe", |_, _, _| ());
    let lora = FineTuning::Lora(LoraConfig::default());
    let error =
        VlmTrainer::open(dir.path(), Device::Cpu, &lora, AdamW::default(), 0).unwrap_err().to_string();
    assert!(error.contains("Qwen3-VL-MoE"), "{error}");
}
