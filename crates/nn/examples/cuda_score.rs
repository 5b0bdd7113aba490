//! Scores images on an NVIDIA GPU and on the CPU, compares the two, and times the GPU.
//!
//! `cargo run --release -p plaudit-nn --features cuda --example cuda_score [MODEL.safetensors]`
//!
//! Without a model it makes a ResNet-18 of fixed random weights. It prints one JSON object: for each precision the
//! largest difference of a probability from the CPU's (fp32), and for each batch the milliseconds from images
//! that lie on the GPU, normalised, to logits in memory (`ms`), and from bytes in memory (`ms_from_bytes`).
//! `bench/cuda` runs it beside PyTorch.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use plaudit_core::Seed;
use plaudit_nn::Weights;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Device, Precision, Scorer, Trainer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const SIDE: usize = 128;
const BATCHES: [usize; 4] = [1, 64, 256, 1024];
/// Images that are compared with the CPU's answers.
const COMPARED: usize = 64;
/// Calls before the clock starts: kernels are compiled and chosen in them.
const WARM_UP: usize = 5;
/// Calls that are timed, each by itself; the median counts.
const TIMED: usize = 30;

fn main() -> Result<(), Failure> {
    let settings =
        ClassifierSettings { arch: Arch::Resnet18, image_size: [3, SIDE, SIDE], ..Default::default() };
    let weights = match std::env::args().nth(1) {
        Some(file) => Weights::read(file)?,
        None => Trainer::new(&settings, AdamW::default(), 0)?.weights(),
    };
    let mut rng = Seed::new(1).rng();
    let bytes: Vec<u8> = (0..BATCHES[3] * SIDE * SIDE * 3).map(|_| rng.u32() as u8).collect();
    let expected = Scorer::new(&settings, &weights, Device::Cpu)?.logits(&batch(&bytes, COMPARED)?)?;
    let mut results = Vec::new();
    for precision in [Precision::Fp32, Precision::Bf16, Precision::Fp16] {
        let settings = ClassifierSettings { precision, ..settings.clone() };
        let scorer = Scorer::new(&settings, &weights, Device::Cuda(0))?;
        results.push(measure(&scorer, &bytes, &expected)?);
    }
    println!(
        "{}",
        serde_json::to_string_pretty(&json!({"arch": "resnet18", "side": SIDE, "results": results}))?
    );
    Ok(())
}

fn measure(scorer: &Scorer, bytes: &[u8], expected: &[f32]) -> Result<Value, Failure> {
    let logits = scorer.logits(&batch(bytes, COMPARED)?)?;
    let largest = |differences: &mut dyn Iterator<Item = f32>| differences.map(f32::abs).fold(0.0, f32::max);
    let pairs = || logits.iter().zip(expected);
    let sigmoid = |logit: f32| 1.0 / (1.0 + (-logit).exp());
    let mut timings = Vec::new();
    for count in BATCHES {
        let batch = batch(bytes, count)?;
        let prepared = scorer.prepare(&batch)?;
        timings.push(json!({
            "batch": count,
            "ms": milliseconds(|| Ok(drop(scorer.logits_of(prepared.clone()))))?,
            "ms_from_bytes": milliseconds(|| Ok(drop(scorer.logits(&batch)?)))?,
        }));
    }
    Ok(json!({
        "precision": scorer.settings().precision,
        "largest_logit_difference": largest(&mut pairs().map(|(a, b)| a - b)),
        "largest_probability_difference": largest(&mut pairs().map(|(a, b)| sigmoid(*a) - sigmoid(*b))),
        "timings": timings,
    }))
}

fn milliseconds(mut work: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    for _ in 0..WARM_UP {
        work()?;
    }
    let mut times = Vec::new();
    for _ in 0..TIMED {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[TIMED / 2])
}

fn batch(bytes: &[u8], count: usize) -> Result<ImageBatch<'_>, Failure> {
    let pixels = Pixels::U8(&bytes[..count * SIDE * SIDE * 3]);
    let (height, width, channels) = (SIDE, SIDE, 3);
    Ok(ImageBatch::of(ViewPixels {
        key: "main_images",
        pixels,
        layout: ImageLayout::Hwc,
        count,
        height,
        width,
        channels,
    })?)
}
