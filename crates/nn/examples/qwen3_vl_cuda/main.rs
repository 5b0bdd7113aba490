//! Qwen3-VL on an NVIDIA GPU for `bench/qwen3_vl/h200.py`: reads one request a line, answers with one line of JSON.
//!
//! ```text
//! matmul SIDE                        FLOP/s of a product of square bf16 matrices
//! check FOLDER [ADAPTER]             differences from the CPU, over batches, sizes and layouts; of any family and quantisation
//! generate FOLDER TOKENS [gpu]       answers with kept keys and values compared with recomputed ones, and (unless `gpu`) with the CPU's
//! folders FIXTURES FOLDER            complete folders of quantised models and other families, made from the tests' fixtures
//! random MODEL FOLDER 4B|8B LAYERS BLOCKS  random bf16 weights of the widths of Qwen3-VL, with MODEL's tokenizer
//! logits FOLDER WINDOWS LAYOUT       the logits of the first 256 tokens after windows, on the GPU
//! score FOLDER WINDOWS LAYOUT STEPS TIMES   milliseconds of each of so many calls, after one that is not counted
//! kernels FOLDER WINDOWS LAYOUT      the time of each kernel in such a call
//! labels FOLDER FILE                 what a judge says of windows in a file, and what it says with weights of eight bits
//! ```
//!
//! `int8:FOLDER` is the model with weights of eight bits; `cpu:FOLDER` takes the CPU for the GPU, to try a request.
//!
//! A window is two views of four frames of 128 pixels; LAYOUT is `videos` or `shared`. With STEPS 0 each window has frames of
//! its own, and no pairs of them are kept; with STEPS n a window begins n frames after the one before, also from call to
//! call, and pairs are kept, as a policy's steps would have them. Calls begin with bytes of frames in
//! the host's memory and end with logits there.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that answers on standard output")]

mod check;
mod folders;
mod generate;
mod random_model;

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::ops::Range;
use std::time::Instant;

use plaudit_nn::Weights;
use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::gpu::matmul_flops;
use plaudit_nn::qwen3_vl::{
    Adapter, FrameSampling, Inputs, Processor, PromptLayout, Quantization, QwenVl, RgbImage, ScoreCache,
    VlmError, trend_question,
};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TASK: &str = "Pick up the red cube and place it on the green spot on the table.";
const LABELS: [&str; 3] = ["positive", "negative", "unclear"];

/// A frame by the formula of `bench.py`.
fn frame(number: usize, [height, width]: [usize; 2]) -> Vec<u8> {
    (0..height * width * 3).map(|i| ((i * 31 + number * 977 + (i * number) % 251) % 256) as u8).collect()
}

/// A window that begins with frame `first`.
fn window(
    processor: &Processor,
    first: usize,
    frames: usize,
    size: [usize; 2],
    layout: PromptLayout,
) -> Result<Inputs, VlmError> {
    let view = |first| (0..frames).map(|t| frame(first + t, size)).collect::<Vec<_>>();
    let views = [view(first), view(100_000 + first)];
    let [height, width] = size;
    let views = views.iter().map(|view| {
        let images = view.iter().map(|rgb| RgbImage { rgb, height, width });
        images.collect::<Vec<_>>()
    });
    let views: Vec<Vec<RgbImage<'_>>> = views.collect();
    processor.window(&views, 24.0, FrameSampling::All, &trend_question(TASK), layout)
}

fn windows(model: &QwenVl, count: usize, layout: PromptLayout) -> Result<Vec<Inputs>, VlmError> {
    windows_from(model, 0..count, 8, layout)
}

/// Windows of these numbers, so many frames apart.
fn windows_from(
    model: &QwenVl,
    numbers: Range<usize>,
    apart: usize,
    layout: PromptLayout,
) -> Result<Vec<Inputs>, VlmError> {
    numbers.map(|i| window(model.processor(), apart * i, 4, [128, 128], layout)).collect()
}

fn layout(word: &str) -> PromptLayout {
    if word == "shared" { PromptLayout::SharedPrefix } else { PromptLayout::VideosFirst }
}

fn largest(found: &[Vec<f32>], expected: &[Vec<f32>]) -> f32 {
    let pairs = found.iter().flatten().zip(expected.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, |most, off| if off <= most { most } else { off })
}

#[derive(Default)]
struct Models {
    opened: HashMap<String, QwenVl>,
}

impl Models {
    fn open(&mut self, folder: &str) -> Outcome<&QwenVl> {
        if !self.opened.contains_key(folder) {
            let model = open(folder)?;
            self.opened.insert(folder.to_owned(), model);
        }
        Ok(&self.opened[folder])
    }

    fn answer(&mut self, words: &[&str]) -> Outcome<Value> {
        match words {
            ["matmul", side] => {
                let side: usize = side.parse()?;
                Ok(json!({ "side": side, "flops": matmul_flops(0, side, 20)? }))
            }
            ["check", folder] => check::check(folder, None),
            ["check", folder, adapter] => check::check(folder, Some(&Adapter::open(adapter)?)),
            ["generate", folder, tokens] => generate::check(folder, tokens.parse()?, true),
            ["generate", folder, tokens, "gpu"] => generate::check(folder, tokens.parse()?, false),
            ["folders", fixtures, folder] => folders::make(fixtures.as_ref(), folder.as_ref()),
            ["random", model, folder, size, layers, blocks] => {
                let widths = random_model::Widths::of(size).ok_or("the size is 4B or 8B")?;
                random_model::make(model.as_ref(), folder.as_ref(), &widths, layers.parse()?, blocks.parse()?)
            }
            ["logits", folder, count, word] => {
                let model = self.open(folder)?;
                let windows = windows(model, count.parse()?, layout(word))?;
                let labels: Vec<u32> = (0..256).collect();
                let tokens = windows[0].len();
                Ok(json!({ "tokens": tokens, "logits": model.label_logits(&windows, &labels)? }))
            }
            ["score", folder, count, word, steps, times] => {
                let model = self.open(folder)?;
                let (count, steps, times): (usize, usize, usize) =
                    (count.parse()?, steps.parse()?, times.parse()?);
                let labels = model.processor().tokenizer().first_tokens(&LABELS)?;
                let mut cache = ScoreCache::new(if steps == 0 { 0 } else { 2048 });
                let mut milliseconds = Vec::new();
                for round in 0..=times {
                    let first = if steps == 0 { 0 } else { round * count };
                    let apart = if steps == 0 { 8 } else { steps };
                    let windows = windows_from(model, first..first + count, apart, layout(word))?;
                    let start = Instant::now();
                    model.score(&windows, &labels, &mut cache)?;
                    milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
                }
                Ok(json!({ "milliseconds": milliseconds[1..], "found": cache.hits_and_lookups() }))
            }
            ["kernels", folder, count, word] => {
                let model = self.open(folder)?;
                let windows = windows(model, count.parse()?, layout(word))?;
                let labels = model.processor().tokenizer().first_tokens(&LABELS)?;
                model.score(&windows, &labels, &mut ScoreCache::new(0))?;
                let times = model.kernel_times(&windows, &labels)?;
                let row = |time: &plaudit_nn::qwen3_vl::KernelTime| json!({ "kernel": time.kernel, "ms": time.milliseconds, "calls": time.calls });
                Ok(times.iter().map(row).collect())
            }
            ["labels", folder, file] => labels(folder, file),
            _ => Err("no such request".into()),
        }
    }
}

/// A model on the GPU, with weights of eight bits if its name asks for it.
fn open(name: &str) -> Result<QwenVl, VlmError> {
    open_with(name, None)
}

fn open_with(name: &str, adapter: Option<&Adapter>) -> Result<QwenVl, VlmError> {
    let (device, quantization) = match name.split_once(':') {
        Some(("int8", _)) => (Device::Cuda(0), Quantization::Int8),
        Some(("cpu", _)) => (Device::Cpu, Quantization::None),
        _ => (Device::Cuda(0), Quantization::None),
    };
    QwenVl::open_quantized(folder(name), adapter, device, Precision::Bf16, quantization)
}

/// The folder of a model's name.
fn folder(name: &str) -> &str {
    ["int8:", "cpu:"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Windows of a safetensors file: `frames` `[windows, views, frames, height, width, 3]` of bytes, and `question`, bytes of text. How
/// often the label is that of fp32 on the CPU, in bf16 and with weights of eight bits; how often the last two are alike.
fn labels(folder: &str, file: &str) -> Outcome<Value> {
    let stored = Weights::read(file)?;
    let frames = stored.get("frames").ok_or("no frames")?;
    let [count, views, length, height, width, 3] = frames.shape()[..] else {
        return Err("other axes".into());
    };
    let bytes = frames.elements::<u8>().ok_or("frames are no bytes")?;
    let question = stored.get("question").and_then(|text| text.elements::<u8>()).ok_or("no question")?;
    let question = String::from_utf8(question.to_vec())?;
    let models = [
        QwenVl::open(folder, Device::Cpu, Precision::Fp32)?,
        open(folder)?,
        open(&format!("int8:{folder}"))?,
    ];
    let labels = models[0].processor().tokenizer().first_tokens(&LABELS)?;
    let image = height * width * 3;
    let window = |i: usize| {
        let view = |view: usize| {
            let of = |t: usize| &bytes[((i * views + view) * length + t) * image..][..image];
            (0..length).map(|t| RgbImage { rgb: of(t), height, width }).collect::<Vec<_>>()
        };
        let views: Vec<Vec<RgbImage<'_>>> = (0..views).map(view).collect();
        let (sampling, layout) = (FrameSampling::Sampled, PromptLayout::VideosFirst);
        models[0].processor().window(&views, 24.0, sampling, &question, layout)
    };
    let windows = (0..count).map(window).collect::<Result<Vec<_>, _>>()?;
    let said = |model: &QwenVl| {
        let mut said = Vec::new();
        for some in windows.chunks(32) {
            let logits = model.label_logits(some, &labels)?;
            said.extend(
                logits.iter().map(|row| (0..3).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap_or(0)),
            );
        }
        Ok::<_, VlmError>(said)
    };
    let [exact, half, eight] = [said(&models[0])?, said(&models[1])?, said(&models[2])?];
    let alike = |a: &[usize], b: &[usize]| a.iter().zip(b).filter(|(a, b)| a == b).count();
    let said = [0, 1, 2].map(|label| half.iter().filter(|said| **said == label).count());
    Ok(json!({
        "windows": count, "bf16_as_fp32": alike(&half, &exact), "int8_as_fp32": alike(&eight, &exact),
        "int8_as_bf16": alike(&eight, &half), "said": said,
    }))
}

fn main() {
    let mut models = Models::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = models.answer(&words).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
}
