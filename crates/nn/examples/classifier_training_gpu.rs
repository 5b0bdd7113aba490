//! Training of image classifiers on an NVIDIA GPU for `bench/gpu/training.py`: reads one request a line, answers with one line of
//! JSON. A network is `ARCH SIDE PRECISION COUNT`, and words like `hidden=64 dropout=0.5 cameras=2 shared=false frozen=true bins=5
//! positions=false focal=2`.
//!
//! ```text
//! check NETWORK                a step beside the CPU's in fp32: logits, loss, every gradient, statistics, moved weights; whether the
//!                              same calls give the same bits, also after state and restore
//! time NETWORK TIMES           milliseconds of a step as one CUDA graph, of calls from bytes in memory, and bytes of memory
//! layers NETWORK               milliseconds of each kernel
//! learn NETWORK STEPS SEED DEVICE   AUC on held-out images after training on made ones, on the CPU or the GPU
//! ```
#![allow(clippy::print_stdout, reason = "a program that answers on standard output")]

use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{
    AdamW, BatchLoss, ClassifierSettings, Device, Loss, Precision, ProgressBins, ProgressLabel, Trainer,
    TrainingImages,
};
use plaudit_nn::gpu;
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ADAMW: AdamW = AdamW { betas: (0.9, 0.999), eps: 1e-3, weight_decay: 0.01 };

/// A network, and what it is given.
struct Work {
    settings: ClassifierSettings,
    count: usize,
    loss: Loss,
}

impl Work {
    fn of(words: &[&str]) -> Outcome<Self> {
        let [arch, side, precision, count, options @ ..] = words else {
            return Err("a network is ARCH SIDE PRECISION COUNT".into());
        };
        let side: usize = side.parse()?;
        let mut settings = ClassifierSettings {
            arch: serde_json::from_value(json!(arch))?,
            precision: serde_json::from_value(json!(precision))?,
            image_size: [3, side, side],
            dropout: 0.0,
            ..Default::default()
        };
        let mut loss = Loss::Bce;
        for option in options {
            let (name, value) = option.split_once('=').ok_or("options are NAME=VALUE")?;
            match name {
                "width" => settings.image_size[2] = value.parse()?,
                "hidden" => settings.hidden_dim = Some(value.parse()?),
                "dropout" => settings.dropout = value.parse()?,
                "cameras" => {
                    settings.image_keys = (0..value.parse()?).map(|i: usize| format!("camera_{i}")).collect();
                }
                "shared" => settings.shared_trunk = value.parse()?,
                "frozen" => settings.freeze_encoder = value.parse()?,
                "bins" => settings.progress_bins = Some(value.parse()?),
                "positions" => settings.use_pretrain = Some(value.parse()?),
                "focal" => loss = Loss::Focal { gamma: value.parse()? },
                _ => return Err(format!("no option `{name}`").into()),
            }
        }
        Ok(Self { settings, count: count.parse()?, loss })
    }

    fn trainer(&self, device: Device, weights: Option<&Weights>) -> Outcome<Trainer> {
        let mut trainer = Trainer::on(device, &self.settings, ADAMW, 7)?;
        if let Some(weights) = weights {
            trainer.load(weights)?;
        }
        Ok(trainer)
    }

    fn pixels(&self, seed: u64) -> Vec<Vec<u8>> {
        let [channels, height, width] = self.settings.image_size;
        let camera = |i| {
            let mut rng = Seed::new(seed).index(i as u64).rng();
            (0..self.count * channels * height * width).map(|_| rng.below(256) as u8).collect()
        };
        (0..self.settings.image_keys.len()).map(camera).collect()
    }

    fn batch<'a>(&'a self, pixels: &'a [Vec<u8>]) -> Outcome<ImageBatch<'a>> {
        let [channels, height, width] = self.settings.image_size;
        let view = |(key, pixels): (&'a String, &'a Vec<u8>)| ViewPixels {
            key,
            pixels: Pixels::U8(pixels),
            layout: ImageLayout::Hwc,
            count: pixels.len() / (channels * height * width),
            height,
            width,
            channels,
        };
        Ok(ImageBatch::new(self.settings.image_keys.iter().zip(pixels).map(view).collect())?)
    }

    /// The gradients of a batch that was staged while another one ran, and was then forgotten.
    fn accumulate_staged(&self, seed: u64) -> Outcome<Weights> {
        let exact = ClassifierSettings { precision: Precision::Fp32, ..self.settings.clone() };
        let weights = lively(&Trainer::on(Device::Cpu, &exact, ADAMW, 7)?.weights()?);
        let mut trainer = self.trainer(Device::Cuda(0), Some(&weights))?;
        let (other, pixels) = (self.pixels(9), self.pixels(seed));
        let (labels, counts) = self.labels();
        let other = self.batch(&other)?;
        trainer.begin(TrainingImages::Given(&other), &labels, None, self.loss, 1.0, Seed::new(9))?;
        trainer.stage(&self.batch(&pixels)?)?;
        trainer.finish()?;
        trainer.restore(&weights)?;
        let staged = TrainingImages::Staged { count: self.count };
        trainer.begin(staged, &labels, Some(&counts), self.loss, 0.75, Seed::new(seed))?;
        trainer.finish()?;
        Ok(trainer.gradients()?)
    }

    fn labels(&self) -> (Vec<f32>, Vec<f32>) {
        let labels = (0..self.count).map(|i| (i % 2) as f32).collect();
        (labels, (0..self.count).map(|i| 0.5 + (i % 3) as f32).collect())
    }

    /// A batch's loss and logits; labels and weights by turns, or progress.
    fn accumulate(&self, trainer: &mut Trainer, seed: u64, scale: f64) -> Outcome<(f64, Vec<f32>)> {
        let pixels = self.pixels(seed);
        let images = self.batch(&pixels)?;
        let seed = Seed::new(seed);
        let given = match self.settings.bins() {
            Some(bins) => {
                trainer.accumulate_by(&images, &|outputs| progress_loss(bins, outputs), scale, seed)?
            }
            None => {
                let (labels, weights) = self.labels();
                trainer.accumulate(&images, &labels, Some(&weights), self.loss, scale, seed)?
            }
        };
        Ok((given.loss, given.logits))
    }
}

fn progress_loss(bins: ProgressBins, outputs: &[f32]) -> BatchLoss {
    let count = outputs.len() / bins.count();
    let (mut loss, mut gradients) = (0.0, Vec::new());
    for (i, outputs) in outputs.chunks_exact(bins.count()).enumerate() {
        let (cost, gradient) = bins.cross_entropy(outputs, ProgressLabel::At(i as f64 / count as f64));
        loss += cost / count as f64;
        gradients.extend(gradient.iter().map(|gradient| gradient / count as f64));
    }
    BatchLoss { loss, gradients }
}

/// Weights as they are after a while: normalisation that does something.
fn lively(fresh: &Weights) -> Weights {
    let mut rng = Seed::new(11).rng();
    let mut weights = Weights::new();
    for (name, tensor) in fresh.iter() {
        let Some(mut numbers) = fresh.f32(name).filter(|_| !name.ends_with("num_batches_tracked")) else {
            weights.insert(name, tensor.clone());
            continue;
        };
        if tensor.shape().len() == 1 {
            let positive = name.ends_with("running_var") || name.ends_with("weight");
            for number in &mut numbers {
                let random = rng.unit() as f32;
                *number = if positive { 0.5 + random } else { (random - 0.5) * 0.4 };
            }
        }
        weights.insert_f32(name, tensor.shape(), &numbers);
    }
    weights
}

fn length(numbers: &[f32]) -> f64 {
    numbers.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt()
}

/// How far each tensor is off, relative to its length; the furthest first.
fn distances(found: &Weights, expected: &Weights) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for name in expected.names() {
        let (Some(found), Some(expected)) = (found.f32(name), expected.f32(name)) else {
            all.push((format!("{name}: missing"), f64::INFINITY));
            continue;
        };
        let off: Vec<f32> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
        let relative = length(&off) / length(&expected).max(1e-12);
        all.push((name.to_owned(), if relative.is_finite() { relative } else { f64::MAX }));
    }
    let more = found.names().filter(|name| expected.get(name).is_none());
    all.extend(more.map(|name| (format!("{name}: unexpected"), f64::INFINITY)));
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

fn worst(mut distances: Vec<(String, f64)>, shown: usize) -> Value {
    let count = distances.len();
    distances.truncate(shown);
    let far: Vec<Value> =
        distances.into_iter().map(|(name, off)| json!([name, format!("{off:.1e}")])).collect();
    json!({ "of": count, "worst": far })
}

fn cosine(a: &Weights, b: &Weights) -> f64 {
    let all = |weights: &Weights| {
        weights.names().filter_map(|name| weights.f32(name)).flatten().collect::<Vec<f32>>()
    };
    let (a, b) = (all(a), all(b));
    let product: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    product / (length(&a) * length(&b))
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, |most, off| if off <= most { most } else { off })
}

/// Statistics, or what moved, as a set of tensors.
fn only(weights: &Weights, wanted: impl Fn(&str) -> bool) -> Weights {
    let mut some = Weights::new();
    weights
        .iter()
        .filter(|(name, _)| wanted(name))
        .for_each(|(name, tensor)| some.insert(name, tensor.clone()));
    some
}

fn moved(after: &Weights, before: &Weights) -> Weights {
    let mut difference = Weights::new();
    for (name, tensor) in before.iter() {
        if let (Some(after), Some(before)) = (after.f32(name), before.f32(name)) {
            let by: Vec<f32> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
            if by.iter().any(|number| *number != 0.0) {
                difference.insert_f32(name, tensor.shape(), &by);
            }
        }
    }
    difference
}

fn check(work: &Work) -> Outcome<Value> {
    let exact = ClassifierSettings { precision: Precision::Fp32, ..work.settings.clone() };
    let exact = Work { settings: exact, count: work.count, loss: work.loss };
    let weights = lively(&exact.trainer(Device::Cpu, None)?.weights()?);
    let mut cpu = exact.trainer(Device::Cpu, Some(&weights))?;
    let mut gpu = work.trainer(Device::Cuda(0), Some(&weights))?;
    let mut same = work.trainer(Device::Cuda(0), Some(&weights))?;
    let uploaded = distances(&gpu.weights()?, &weights).first().cloned();

    let (loss, logits) = exact.accumulate(&mut cpu, 1, 0.75)?;
    let (gpu_loss, gpu_logits) = work.accumulate(&mut gpu, 1, 0.75)?;
    work.accumulate(&mut same, 1, 0.75)?;
    let (expected, found) = (cpu.gradients()?, gpu.gradients()?);
    let is_statistic = |name: &str| name.contains("running_");
    let statistics = distances(&only(&gpu.weights()?, is_statistic), &only(&cpu.weights()?, is_statistic));
    // A batch that was staged, while another one computed, gives the same bits.
    let staged = match work.settings.bins() {
        Some(_) => true,
        None => work.accumulate_staged(1)? == gpu.gradients()?,
    };
    let mut answer = json!({
        "staged": staged,
        "uploaded": uploaded,
        "loss": [loss, gpu_loss],
        "logits_off": furthest(&logits, &gpu_logits),
        "logits": logits.iter().take(4).zip(&gpu_logits).collect::<Vec<_>>(),
        "gradients": worst(distances(&found, &expected), 12),
        "cosine": cosine(&found, &expected),
        "statistics": worst(statistics, 3),
    });
    if work.settings.precision != Precision::Fp32 {
        let mut rounded = work.trainer(Device::Cpu, Some(&weights))?;
        let (_, rounded_logits) = work.accumulate(&mut rounded, 1, 0.75)?;
        let gradients = rounded.gradients()?;
        answer["cpu_rounding"] = json!({
            "logits_off": furthest(&logits, &rounded_logits),
            "cosine": cosine(&gradients, &expected),
            "gradients": worst(distances(&gradients, &expected), 3),
        });
    }

    // A second batch on top, then a step, and another after it.
    for (trainer, work) in [(&mut cpu, &exact), (&mut gpu, work), (&mut same, work)] {
        work.accumulate(trainer, 2, 0.25)?;
    }
    answer["both_batches"] = worst(distances(&gpu.gradients()?, &cpu.gradients()?), 3);
    let steps = [cpu.step(1e-3, Some(1.0))?, gpu.step(1e-3, Some(1.0))?];
    same.step(1e-3, Some(1.0))?;
    answer["grad_norm"] = json!([steps[0].grad_norm, steps[1].grad_norm]);
    answer["skipped"] = json!(steps[1].skipped);
    answer["moved"] =
        worst(distances(&moved(&gpu.weights()?, &weights), &moved(&cpu.weights()?, &weights)), 4);
    answer["no_gradient_left"] = json!(gpu.gradients()?.is_empty());

    let state = gpu.state()?;
    let mut resumed = work.trainer(Device::Cuda(0), None)?;
    resumed.restore(&state)?;
    let resumes = resumed.state()? == state;
    let (weights_then, snapshot) = (gpu.weights()?, gpu.snapshot(true)?.ok_or("no snapshot")?);
    for trainer in [&mut gpu, &mut same, &mut resumed] {
        work.accumulate(trainer, 3, 1.0)?;
        trainer.step(1e-3, None)?;
    }
    let last = gpu.state()?;
    // Another thread gets what was there, whatever was done since.
    let fetched = std::thread::spawn(|| snapshot.fetch()).join().map_err(|_| "a panic")??;
    answer["same_bits"] = json!({
        "again": same.state()? == last,
        "restored": resumes && resumed.state()? == last,
        "snapshot": fetched == (weights_then, Some(state)),
    });

    // What it answers now, beside the CPU with the same weights.
    let pixels = work.pixels(4);
    let mut reference = exact.trainer(Device::Cpu, Some(&gpu.weights()?))?;
    let answers = [gpu.predict(&work.batch(&pixels)?)?, reference.predict(&work.batch(&pixels)?)?];
    answer["scorer_off"] = json!(furthest(&answers[0], &answers[1]));
    work.accumulate(&mut gpu, 5, 1.0)?;
    gpu.step(1e-3, None)?;
    reference.load(&gpu.weights()?)?;
    let answers = [gpu.predict(&work.batch(&pixels)?)?, reference.predict(&work.batch(&pixels)?)?];
    answer["next_scorer_off"] = json!(furthest(&answers[0], &answers[1]));

    // A loss that is not a number leaves no trace, and neither does a gradient that is not.
    if work.settings.bins().is_none() {
        let before = gpu.state()?;
        let bad = vec![f32::NAN; work.count];
        let labels = vec![0.0; work.count];
        gpu.accumulate(&work.batch(&pixels)?, &labels, Some(&bad), work.loss, 1.0, Seed::new(0))?;
        let clean = gpu.state()? == before && gpu.gradients()?.is_empty();
        work.accumulate(&mut gpu, 6, f64::INFINITY)?;
        let outcome = gpu.step(1e-3, Some(1.0))?;
        let weights = |state: &Weights| only(state, |name| !is_statistic(name) && !name.ends_with("tracked"));
        let untouched = weights(&gpu.state()?) == weights(&before);
        answer["not_finite"] = json!({ "loss": clean, "gradient": outcome.skipped && untouched });
    }
    Ok(answer)
}

fn time(work: &Work, repeats: usize) -> Outcome<Value> {
    let mut trainer = work.trainer(Device::Cuda(0), None)?;
    let pixels = work.pixels(1);
    let images = work.batch(&pixels)?;
    let labels: Vec<f32> = (0..work.count).map(|i| (i % 2) as f32).collect();
    let mut calls = Vec::new();
    for i in 0..repeats + 3 {
        let start = Instant::now();
        trainer.accumulate(&images, &labels, None, work.loss, 1.0, Seed::new(i as u64))?;
        trainer.step(1e-4, Some(1.0))?;
        calls.push(start.elapsed().as_secs_f64() * 1e3);
    }
    // The same with images that were copied there during the step before.
    let mut staged = Vec::new();
    trainer.stage(&images)?;
    for i in 0..repeats + 3 {
        let start = Instant::now();
        let next = TrainingImages::Staged { count: work.count };
        trainer.begin(next, &labels, None, work.loss, 1.0, Seed::new(i as u64))?;
        trainer.stage(&images)?;
        trainer.finish()?;
        trainer.step(1e-4, Some(1.0))?;
        staged.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let times = trainer.gpu_times(work.count, repeats)?;
    let (times, memory) = times.ok_or("not on a GPU")?;
    Ok(
        json!({ "graph_ms": times.whole, "call_ms": calls[3..], "staged_ms": staged[3..], "first_call_ms": calls[0], "memory_mib": memory >> 20 }),
    )
}

fn layers(work: &Work) -> Outcome<Value> {
    let mut trainer = work.trainer(Device::Cuda(0), None)?;
    let (times, _) = trainer.gpu_times(work.count, 1)?.ok_or("not on a GPU")?;
    let row =
        |time: &plaudit_nn::classifier::LayerTime| json!([time.layer, time.milliseconds, time.teraflops]);
    Ok(times.layers.iter().map(row).collect())
}

/// Images with a bright square somewhere, or two for successes, in noise.
fn made_images(work: &Work, seed: Seed) -> (Vec<u8>, Vec<f32>) {
    let [_, height, width] = work.settings.image_size;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for i in 0..work.count {
        let mut rng = seed.index(i as u64).rng();
        let success = rng.unit() < 0.5;
        let mut image: Vec<u8> = (0..height * width * 3).map(|_| rng.below(150) as u8).collect();
        let side = height / 8;
        for _ in 0..if success { 2 } else { 1 } {
            let (top, left) = (rng.below(height - side), rng.below(width - side));
            for row in 0..side {
                for column in 0..side {
                    let at = ((top + row) * width + left + column) * 3;
                    for colour in &mut image[at..at + 3] {
                        *colour = colour.saturating_add(70);
                    }
                }
            }
        }
        pixels.extend(image);
        // Some labels are wrong, so that nothing is learned to the end.
        let flipped = rng.unit() < 0.05;
        labels.push(if success != flipped { 1.0 } else { 0.0 });
    }
    (pixels, labels)
}

fn auc(logits: &[f32], labels: &[f32]) -> f64 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    let (mut rank_sum, mut positives) = (0.0, 0.0);
    for (rank, i) in order.into_iter().enumerate() {
        if labels[i] > 0.5 {
            rank_sum += rank as f64 + 1.0;
            positives += 1.0;
        }
    }
    let negatives = logits.len() as f64 - positives;
    (rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives)
}

fn learn(work: &Work, steps: u64, seed: u64, device: Device) -> Outcome<Value> {
    let adamw = AdamW::default();
    let mut trainer = Trainer::on(device, &work.settings, adamw, seed)?;
    let start = Instant::now();
    let mut losses = Vec::new();
    for step in 0..steps {
        let (pixels, labels) = made_images(work, Seed::new(seed).purpose("learn").index(step));
        let pixels = [pixels];
        let images = work.batch(&pixels)?;
        let given =
            trainer.accumulate(&images, &labels, None, work.loss, 1.0, Seed::new(seed).index(step))?;
        losses.push(given.loss);
        trainer.step(3e-4, Some(1.0))?;
    }
    let took = start.elapsed().as_secs_f64();
    let (mut logits, mut truth) = (Vec::new(), Vec::new());
    for part in 0..16 {
        let (pixels, labels) = made_images(work, Seed::new(77).purpose("held out").index(part));
        logits.extend(trainer.predict(&work.batch(&[pixels])?)?);
        truth.extend(labels);
    }
    let last = &losses[losses.len().saturating_sub(10)..];
    let loss = last.iter().sum::<f64>() / last.len() as f64;
    Ok(json!({ "auc": auc(&logits, &truth), "loss": loss, "seconds": took }))
}

fn answer(words: &[&str]) -> Outcome<Value> {
    match words {
        ["check", network @ ..] => check(&Work::of(network)?),
        ["time", network @ .., times] => time(&Work::of(network)?, times.parse()?),
        ["layers", network @ ..] => layers(&Work::of(network)?),
        ["learn", network @ .., steps, seed, device] => {
            let device = if *device == "cpu" { Device::Cpu } else { Device::Cuda(0) };
            learn(&Work::of(network)?, steps.parse()?, seed.parse()?, device)
        }
        _ => Err("no such request".into()),
    }
}

fn main() {
    // Compiled kernels are kept, since every network here is opened several times.
    let kernel_cache = Some(std::env::temp_dir().join("plaudit-kernels"));
    gpu::set_places(gpu::Places { library_folders: vec!["/usr/local/cuda/lib64".into()], kernel_cache });
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = answer(&words).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
}
