//! Image networks for `bench/resnet/bench.py`: reads one request a line, answers with one line.
//!
//! ```text
//! score ARCH IMAGE BATCH PRECISION   milliseconds of one batch
//! train ARCH IMAGE BATCH PRECISION   milliseconds of one step: forward, backward, AdamW
//! free                               loops that all threads did in a moment: less when others use the CPU
//! memory                             the most memory this process had, in MB
//! ```
//!
//! What a request needs is made when it first comes, and kept. Milliseconds are the mean of as many calls as begin
//! within 60 ms, after one that is not counted.
#![allow(clippy::print_stdout, reason = "a program that answers on standard output")]

use plaudit_nn::alloc::CachingAllocator;
use plaudit_nn::classifier::{AdamW, Arch, ClassifierSettings, Loss, Precision, Scorer, Trainer};
use plaudit_nn::images::{ImageBatch, Pixels, ViewPixels};
use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: CachingAllocator = CachingAllocator::new();

#[derive(Clone, PartialEq, Eq, Hash)]
struct Request {
    arch: Arch,
    image: usize,
    batch: usize,
    precision: Precision,
}

impl Request {
    fn parse(words: &[&str]) -> Option<Self> {
        let &[arch, image, batch, precision] = words else { return None };
        let arch = [Arch::Resnet10, Arch::Resnet18, Arch::Resnet34, Arch::Resnet50]
            .into_iter()
            .find(|known| known.name() == arch)?;
        let precision = match precision {
            "fp32" => Precision::Fp32,
            "bf16" => Precision::Bf16,
            _ => return None,
        };
        Some(Self { arch, image: image.parse().ok()?, batch: batch.parse().ok()?, precision })
    }

    fn settings(&self) -> ClassifierSettings {
        ClassifierSettings {
            arch: self.arch,
            image_size: [3, self.image, self.image],
            precision: self.precision,
            ..ClassifierSettings::default()
        }
    }

    fn trainer(&self) -> Trainer {
        Trainer::new(&self.settings(), AdamW::default(), 0).expect("settings of a network there is")
    }
}

/// Images of noise.
fn images(request: &Request) -> Vec<f32> {
    let len = request.batch * request.image * request.image * 3;
    (0..len).map(|i| ((i.wrapping_mul(2_654_435_761) >> 7) % 1000) as f32 / 1000.0).collect()
}

fn batch_of<'a>(settings: &'a ClassifierSettings, request: &Request, images: &'a [f32]) -> ImageBatch<'a> {
    let shape = [request.batch, request.image, request.image, 3];
    let view = ViewPixels::from_shape(&settings.image_keys[0], Pixels::F32(images), shape);
    ImageBatch::new(vec![view]).expect("a buffer that its shape fills")
}

/// How long calls are measured, as in `bench.py`.
const MEASURED: Duration = Duration::from_millis(60);

fn milliseconds(mut work: impl FnMut()) -> f64 {
    work();
    let (start, mut calls) = (Instant::now(), 0);
    while start.elapsed() < MEASURED {
        work();
        calls += 1;
    }
    start.elapsed().as_secs_f64() * 1e3 / f64::from(calls)
}

#[derive(Default)]
struct Bench {
    scorers: HashMap<Request, (Scorer, Vec<f32>)>,
    trainers: HashMap<Request, (Trainer, Vec<f32>, Vec<f32>)>,
}

impl Bench {
    fn score(&mut self, request: &Request) -> f64 {
        let (scorer, images) = self
            .scorers
            .entry(request.clone())
            .or_insert_with(|| (request.trainer().scorer().expect("a scorer on the CPU"), images(request)));
        milliseconds(|| {
            scorer.logits(&batch_of(scorer.settings(), request, images)).expect("images that fit");
        })
    }

    fn train(&mut self, request: &Request) -> f64 {
        let (trainer, images, labels) = self.trainers.entry(request.clone()).or_insert_with(|| {
            let labels = (0..request.batch).map(|i| (i % 2) as f32).collect();
            (request.trainer(), images(request), labels)
        });
        let settings = trainer.settings().clone();
        milliseconds(|| {
            let batch = batch_of(&settings, request, images);
            let seed = plaudit_core::Seed::new(1);
            trainer.accumulate(&batch, labels, None, Loss::Bce, 1.0, seed).expect("images that fit");
            trainer.step(1e-4, None).expect("a step on the CPU");
        })
    }
}

/// Loops of all threads of the pool in a moment.
fn free() -> u64 {
    let loops = rayon::broadcast(|_| {
        let start = Instant::now();
        let mut loops = 0u64;
        while start.elapsed() < Duration::from_millis(30) {
            loops += 1;
        }
        loops
    });
    loops.iter().sum()
}

fn most_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

fn main() {
    let mut bench = Bench::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.split_first() {
            Some((&"score", words)) => {
                Request::parse(words).map(|request| format!("{:.4}", bench.score(&request)))
            }
            Some((&"train", words)) => {
                Request::parse(words).map(|request| format!("{:.4}", bench.train(&request)))
            }
            Some((&"free", [])) => Some(free().to_string()),
            Some((&"memory", [])) => Some(format!("{:.1}", most_memory())),
            _ => None,
        };
        println!("{}", answer.unwrap_or_else(|| format!("error: what is `{line}`?")));
    }
}
