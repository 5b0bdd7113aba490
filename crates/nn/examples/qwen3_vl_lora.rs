//! Training of adapters on Qwen3-VL for `bench/qwen3_vl/lora.py`: reads one request a line, answers with one line of JSON.
//!
//! ```text
//! check FOLDER TARGETS               losses and gradients of a step on the GPU and on the CPU, by parameter
//! open FOLDER RECOMPUTE              begins training on the GPU: rank 16 on the language model; RECOMPUTE is auto, true or false
//! write FOLDER                       writes the adapters as the peft package does
//! gradients WINDOWS FILE             loss and gradients of a batch, the latter into a file
//! losses WINDOWS STEPS               the losses of so many steps
//! step WINDOWS TIMES                 milliseconds of so many steps, after two that are not counted, and memory in use
//! kernels WINDOWS                    the time of each kernel in a step
//! ```
//!
//! A window is two views of four frames of 128 pixels and a question; its answer has three tokens. TARGETS are names of
//! layers, joined by commas, or `all` for every linear layer. Steps begin with bytes of frames in the CPU's memory.
#![allow(clippy::print_stdout, reason = "a program that answers on standard output")]

use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Device};
use plaudit_nn::qwen3_vl::{
    Example, FineTuning, FrameSampling, LoraConfig, Processor, PromptLayout, Recompute, RgbImage, VlmError,
    VlmTrainer, positions, trend_question,
};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TASK: &str = "Pick up the red cube and place it on the green spot on the table.";
const ANSWERS: [&str; 3] = ["positive", "negative", "unclear"];
const TEXT: &str = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj";
const ALL: &str =
    "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj,lm_head,qkv,proj,linear_fc1,linear_fc2";
const LEARNING_RATE: f64 = 1e-3;

/// A frame by the formula of `bench.py`.
fn frame(number: usize, [height, width]: [usize; 2]) -> Vec<u8> {
    (0..height * width * 3).map(|i| ((i * 31 + number * 977 + (i * number) % 251) % 256) as u8).collect()
}

/// A window with its answer, of which three tokens are learned.
fn example(
    trainer: &VlmTrainer,
    number: usize,
    size: [usize; 2],
    frames: usize,
) -> Result<Example, VlmError> {
    let processor: &Processor = trainer.processor();
    let view = |first| (0..frames).map(|t| frame(first + t, size)).collect::<Vec<_>>();
    let views = [view(8 * number), view(100_000 + 8 * number)];
    let [height, width] = size;
    let views = views.iter().map(|view| {
        let images = view.iter().map(|rgb| RgbImage { rgb, height, width });
        images.collect::<Vec<_>>()
    });
    let views: Vec<Vec<RgbImage<'_>>> = views.collect();
    let (question, layout) = (trend_question(TASK), PromptLayout::VideosFirst);
    let mut inputs = processor.window(&views, 24.0, FrameSampling::All, &question, layout)?;
    let words = format!("{}<|im_end|>\n", ANSWERS[number % 3]);
    let mut answer = processor.tokenizer().encode(&words)?;
    answer.truncate(3);
    let last = inputs.len() - 1;
    let targets = answer.iter().enumerate().map(|(i, token)| (last + i, *token)).collect();
    inputs.ids.extend_from_slice(&answer[..answer.len() - 1]);
    inputs.positions = positions(&inputs.ids, &inputs.visuals, trainer.config())?;
    Ok(Example { inputs, targets })
}

fn examples(trainer: &VlmTrainer, count: usize) -> Result<Vec<Example>, VlmError> {
    (0..count).map(|i| example(trainer, i, [128, 128], 4)).collect()
}

fn open(folder: &str, device: Device, targets: &str, rank: usize) -> Outcome<VlmTrainer> {
    let targets = targets.split(',').map(str::to_owned).collect();
    let lora = LoraConfig { rank, alpha: 2.0 * rank as f64, targets, freeze_vision: false };
    let mut trainer = VlmTrainer::open(folder, device, &FineTuning::Lora(lora), AdamW::default(), 0)?;
    // New adapters add nothing; these do.
    let first = trainer.state()?;
    let mut state = Weights::new();
    for (name, tensor) in first.iter() {
        let mut numbers = tensor.to_f32().unwrap_or_default();
        if name.contains("lora_B") && !name.starts_with("optimizer") {
            let mut rng = Seed::new(1).purpose(name).rng();
            numbers.iter_mut().for_each(|number| *number = 0.02 * rng.normal() as f32);
        }
        match name.starts_with("optimizer") {
            true => state.insert(name, tensor.clone()),
            false => state.insert_f32(name, tensor.shape(), &numbers),
        }
    }
    trainer.restore(&state)?;
    Ok(trainer)
}

/// How far numbers are from others, of their length.
fn relative(found: &[f32], expected: &[f32]) -> f64 {
    let sum = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let off = sum(&mut found.iter().zip(expected).map(|(a, b)| f64::from(a - b)));
    off / sum(&mut expected.iter().map(|x| f64::from(*x))).max(1e-30)
}

/// Loss and gradients by the CPU and the GPU, with and without recomputation; then five losses of each.
fn check(folder: &str, targets: &str) -> Outcome<Value> {
    let targets = if targets == "all" { ALL } else { targets };
    let mut cpu = open(folder, Device::Cpu, targets, 12)?;
    let mut gpu = open(folder, Device::Cuda(0), targets, 12)?;
    let sizes = [([128, 128], 4), ([64, 96], 2), ([160, 64], 6)];
    let batch = (0..5).map(|i| example(&cpu, i, sizes[i % 3].0, sizes[i % 3].1));
    let batch = batch.collect::<Result<Vec<_>, _>>()?;
    let expected_loss = cpu.accumulate(&batch, 0.5)?;
    let expected = cpu.gradients()?;
    let mut runs = Vec::new();
    let mut results = serde_json::Map::new();
    for recompute in [Recompute::Never, Recompute::Always, Recompute::Never] {
        gpu.set_recompute(recompute);
        let loss = gpu.accumulate(&batch, 0.5)?;
        runs.push((loss, gpu.gradients()?));
        gpu.step(0.0, None)?; // forgets the gradients
        gpu = reopened(gpu, folder, targets)?;
    }
    let is_same = |a: &Weights, b: &Weights| a.iter().all(|(name, tensor)| b.f32(name) == tensor.to_f32());
    let mut offs: Vec<(f64, String)> = expected
        .iter()
        .map(|(name, tensor)| {
            let found = runs[0].1.f32(name).unwrap_or_default();
            (
                relative(&found, &tensor.to_f32().unwrap_or_default()),
                name.replace("base_model.model.model.", ""),
            )
        })
        .collect();
    offs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let labels = cpu.processor().tokenizer().first_tokens(&ANSWERS)?;
    let prompts: Vec<_> = batch.iter().map(|example| example.inputs.clone()).collect();
    let logits = relative(
        &gpu.label_logits(&prompts, &labels)?.concat(),
        &cpu.label_logits(&prompts, &labels)?.concat(),
    );
    let mean = offs.iter().map(|off| off.0).sum::<f64>() / offs.len() as f64;
    results.insert("parameters".into(), json!(offs.len()));
    results.insert("loss".into(), json!([expected_loss, runs[0].0, runs[1].0]));
    results.insert("no_grad_loss".into(), json!([cpu.loss(&batch)?, gpu.loss(&batch)?]));
    results.insert("label_logits_off".into(), json!(logits));
    results.insert("recomputing_is_the_same".into(), json!(is_same(&runs[0].1, &runs[1].1)));
    results.insert("repeats".into(), json!(is_same(&runs[0].1, &runs[2].1)));
    results.insert("mean_off".into(), json!(mean));
    results.insert("worst".into(), json!(offs[..offs.len().min(12)]));
    results.insert("by_kind".into(), by_kind(&offs));
    cpu.step(0.0, None)?;
    cpu = reopened(cpu, folder, targets)?;
    let mut five = Vec::new();
    for _ in 0..5 {
        let losses = [cpu.accumulate(&batch, 1.0)?, gpu.accumulate(&batch, 1.0)?];
        let norms =
            [cpu.step(LEARNING_RATE, Some(1.0))?.grad_norm, gpu.step(LEARNING_RATE, Some(1.0))?.grad_norm];
        five.push([losses, norms]);
    }
    results.insert("losses_and_norms".into(), json!(five));
    let resumed = resumes(&mut gpu, folder, targets, &batch)?;
    results.insert("resumes".into(), json!(resumed));
    Ok(Value::Object(results))
}

/// A step of rate zero counts for the optimizer, so that training begins anew.
fn reopened(mut trainer: VlmTrainer, folder: &str, targets: &str) -> Outcome<VlmTrainer> {
    let fresh = open(folder, Device::Cpu, targets, 12)?.state()?;
    trainer.restore(&fresh)?;
    Ok(trainer)
}

/// Whether a step from a saved state is that of the trainer that saved it.
fn resumes(gpu: &mut VlmTrainer, folder: &str, targets: &str, batch: &[Example]) -> Outcome<bool> {
    let state = gpu.state()?;
    let mut other = open(folder, Device::Cuda(0), targets, 12)?;
    other.restore(&state)?;
    for trainer in [&mut *gpu, &mut other] {
        trainer.accumulate(batch, 1.0)?;
        trainer.step(LEARNING_RATE, Some(1.0))?;
    }
    let (own, others) = (gpu.state()?, other.state()?);
    Ok(own.len() == others.len() && own.iter().all(|(name, tensor)| others.f32(name) == tensor.to_f32()))
}

/// The largest relative error of each kind of layer, by its matrix.
fn by_kind(offs: &[(f64, String)]) -> Value {
    let mut kinds = serde_json::Map::new();
    for (off, name) in offs {
        let part = if name.starts_with("visual") { "visual " } else { "" };
        let words: Vec<&str> = name.split('.').collect();
        let kind = format!("{part}{}", words[words.len().saturating_sub(3)..words.len() - 1].join("."));
        kinds.entry(kind).or_insert_with(|| json!(off));
    }
    Value::Object(kinds)
}

#[derive(Default)]
struct Training {
    trainer: Option<VlmTrainer>,
}

impl Training {
    fn trainer(&mut self) -> Outcome<&mut VlmTrainer> {
        self.trainer.as_mut().ok_or_else(|| "nothing is open".into())
    }

    fn answer(&mut self, words: &[&str]) -> Outcome<Value> {
        match words {
            ["check", folder, targets] => check(folder, targets),
            ["open", folder, recompute] => {
                self.trainer = None;
                let start = Instant::now();
                let mut trainer = open(folder, Device::Cuda(0), TEXT, 16)?;
                trainer.set_recompute(match *recompute {
                    "true" => Recompute::Always,
                    "false" => Recompute::Never,
                    _ => Recompute::Auto,
                });
                let parameters = trainer.trainable_parameters();
                let memory = trainer.used_gpu_memory()?;
                self.trainer = Some(trainer);
                Ok(
                    json!({ "parameters": parameters, "seconds": start.elapsed().as_secs_f64(), "memory": memory }),
                )
            }
            ["write", folder] => {
                let adapter = self.trainer()?.adapter()?.ok_or("no adapters")?;
                adapter.save(folder, None)?;
                Ok(json!({ "layers": adapter.len() }))
            }
            ["gradients", count, file] => {
                let trainer = self.trainer()?;
                let batch = examples(trainer, count.parse()?)?;
                let loss = trainer.accumulate(&batch, 1.0)?;
                let ids: Vec<Vec<u32>> = batch.iter().map(|example| example.inputs.ids.clone()).collect();
                let targets: Vec<_> = batch.iter().map(|example| example.targets.clone()).collect();
                trainer.gradients()?.write_safetensors(file, &Default::default())?;
                let norm = trainer.step(0.0, None)?.grad_norm;
                Ok(json!({ "loss": loss, "norm": norm, "ids": ids, "targets": targets }))
            }
            ["losses", count, steps] => {
                let trainer = self.trainer()?;
                let batch = examples(trainer, count.parse()?)?;
                let mut losses = Vec::new();
                for _ in 0..steps.parse::<usize>()? {
                    losses.push(trainer.accumulate(&batch, 1.0)?);
                    trainer.step(1e-4, Some(1.0))?;
                }
                Ok(json!({ "losses": losses }))
            }
            ["step", count, times] => {
                let trainer = self.trainer()?;
                let batch = examples(trainer, count.parse()?)?;
                let recomputes = trainer.reserve(&batch[0], batch.len())?;
                let mut milliseconds = Vec::new();
                for _ in 0..times.parse::<usize>()? + 2 {
                    let start = Instant::now();
                    trainer.accumulate(&batch, 1.0)?;
                    trainer.step(1e-5, Some(1.0))?;
                    trainer.wait()?;
                    milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
                }
                let memory = trainer.used_gpu_memory()?;
                let tokens = batch[0].inputs.len();
                Ok(
                    json!({ "milliseconds": milliseconds[2..], "memory": memory, "recomputes": recomputes, "tokens": tokens }),
                )
            }
            ["kernels", count] => {
                let trainer = self.trainer()?;
                let batch = examples(trainer, count.parse()?)?;
                let times = trainer.kernel_times(&batch)?;
                let row = |time: &plaudit_nn::qwen3_vl::KernelTime| json!({ "kernel": time.kernel, "ms": time.milliseconds, "calls": time.calls });
                Ok(times.iter().map(row).collect())
            }
            _ => Err("no such request".into()),
        }
    }
}

fn main() {
    let mut training = Training::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = training.answer(&words).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
}
