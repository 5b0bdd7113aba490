//! Image classifiers on an NVIDIA GPU for `bench/gpu/h200.py`: reads one request a line, answers with one line of JSON.
//!
//! ```text
//! check ARCH SIDE PRECISION BATCH...    the largest difference of a logit from the CPU in fp32, for each size of batch, and
//!                                       that of the CPU in the same precision
//! time ARCH SIDE PRECISION BATCH TIMES  milliseconds: of a pass on the GPU, and from bytes in memory to logits in memory
//! layers ARCH SIDE PRECISION BATCH      milliseconds of each kernel
//! ```
#![allow(clippy::print_stdout, reason = "a program that answers on standard output")]

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::time::Instant;

use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, ClassifierSettings, Device, Scorer, Trainer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[derive(Default)]
struct Models {
    weights: HashMap<String, Weights>,
    scorers: HashMap<String, Scorer>,
}

fn settings(arch: &str, side: &str, precision: &str) -> Outcome<ClassifierSettings> {
    let side: usize = side.parse()?;
    Ok(ClassifierSettings {
        arch: serde_json::from_value(json!(arch))?,
        precision: serde_json::from_value(json!(precision))?,
        image_size: [3, side, side],
        hidden_dim: Some(256),
        ..Default::default()
    })
}

/// Weights as they are after a while: normalisation that does something.
fn weights(settings: &ClassifierSettings) -> Outcome<Weights> {
    let fresh = Trainer::new(settings, AdamW::default(), 7)?.weights()?;
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
    Ok(weights)
}

fn pixels(count: usize, side: usize) -> Vec<u8> {
    let mut rng = Seed::new(3).rng();
    (0..count * side * side * 3).map(|_| rng.below(256) as u8).collect()
}

fn batch<'a>(settings: &'a ClassifierSettings, pixels: &'a [u8]) -> Outcome<ImageBatch<'a>> {
    let [channels, height, width] = settings.image_size;
    let view = ViewPixels {
        key: &settings.image_keys[0],
        pixels: Pixels::U8(pixels),
        layout: ImageLayout::Hwc,
        count: pixels.len() / (channels * height * width),
        height,
        width,
        channels,
    };
    Ok(ImageBatch::of(view)?)
}

impl Models {
    fn scorer(&mut self, arch: &str, side: &str, precision: &str, device: Device) -> Outcome<Scorer> {
        let key = format!("{arch} {side} {precision} {device:?}");
        if let Some(scorer) = self.scorers.get(&key) {
            return Ok(scorer.clone());
        }
        let settings = settings(arch, side, precision)?;
        let of = format!("{arch} {side}");
        if !self.weights.contains_key(&of) {
            self.weights.insert(of.clone(), weights(&settings)?);
        }
        let scorer = Scorer::new(&settings, &self.weights[&of], device)?;
        self.scorers.insert(key, scorer.clone());
        Ok(scorer)
    }

    fn answer(&mut self, words: &[&str]) -> Outcome<Value> {
        match words {
            ["check", arch, side, precision, batches @ ..] => self.check(arch, side, precision, batches),
            ["time", arch, side, precision, count, times] => {
                let start = Instant::now();
                let scorer = self.scorer(arch, side, precision, Device::Cuda(0))?;
                let opened = start.elapsed().as_secs_f64();
                let (count, times): (usize, usize) = (count.parse()?, times.parse()?);
                let pixels = pixels(count, side.parse()?);
                let images = batch(scorer.settings(), &pixels)?;
                let start = Instant::now();
                scorer.logits(&images)?;
                let first = start.elapsed().as_secs_f64();
                let mut calls = Vec::new();
                for _ in 0..times {
                    let start = Instant::now();
                    scorer.logits(&images)?;
                    calls.push(start.elapsed().as_secs_f64() * 1e3);
                }
                let whole = scorer.gpu_times(count, times)?.map(|times| times.whole);
                Ok(json!({ "opened_s": opened, "first_call_s": first, "graph_ms": whole, "call_ms": calls }))
            }
            ["layers", arch, side, precision, count] => {
                let scorer = self.scorer(arch, side, precision, Device::Cuda(0))?;
                let times = scorer.gpu_times(count.parse()?, 1)?.map(|times| times.layers);
                let row = |time: &plaudit_nn::classifier::LayerTime| {
                    json!([time.layer, time.milliseconds, time.teraflops])
                };
                Ok(times.unwrap_or_default().iter().map(row).collect())
            }
            _ => Err("no such request".into()),
        }
    }

    fn check(&mut self, arch: &str, side: &str, precision: &str, batches: &[&str]) -> Outcome<Value> {
        let gpu = self.scorer(arch, side, precision, Device::Cuda(0))?;
        let exact = self.scorer(arch, side, "fp32", Device::Cpu)?;
        let rounded = self.scorer(arch, side, precision, Device::Cpu)?;
        let batches = batches.iter().map(|word| word.parse()).collect::<Result<Vec<usize>, _>>()?;
        let most = batches.iter().copied().max().unwrap_or(1);
        let pixels = pixels(most, side.parse()?);
        let one = pixels.len() / most;
        let all = batch(exact.settings(), &pixels)?;
        let (expected, near) = (exact.logits(&all)?, rounded.logits(&all)?);
        let mean = expected.iter().sum::<f32>() / most as f32;
        let spread = expected.iter().map(|logit| (logit - mean).abs()).fold(0.0, f32::max);
        let off = |found: &[f32]| {
            let pairs = found.iter().zip(&expected);
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, |most, off| if off <= most { most } else { off })
        };
        let mut results = Vec::new();
        for count in batches {
            let found = gpu.logits(&batch(gpu.settings(), &pixels[..count * one])?)?;
            let again = gpu.logits(&batch(gpu.settings(), &pixels[..count * one])?)?;
            let features = gpu.features(&batch(gpu.settings(), &pixels[..count.min(4) * one])?)?;
            let of_features = gpu.head(&features);
            results.push(json!({ "batch": count, "off": off(&found), "by_features": off(&of_features), "repeats": found == again }));
        }
        Ok(json!({ "spread": spread, "cpu_off": off(&near), "gpu": results }))
    }
}

fn main() {
    let mut models = Models::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = models.answer(&words).unwrap_or_else(|error| json!({ "error": error.to_string() }));
        println!("{answer}");
    }
}
