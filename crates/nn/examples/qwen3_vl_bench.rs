//! Qwen3-VL for `bench/qwen3_vl/bench.py`: reads one request a line, answers with one line.
//!
//! ```text
//! score FOLDER PRECISION WINDOWS LAYOUT STEPS   milliseconds of the labels' logits of so many windows, and the first ones
//! train FOLDER WINDOWS                          milliseconds of a step that all weights learn from
//! lora FOLDER WINDOWS                           milliseconds of a step that adapters of rank 16 learn from
//! free                                          loops that all threads did in a moment
//! ```
//!
//! A window is two views of four frames of 128 pixels. With `STEPS` 0 each has its own frames and nothing is kept between calls;
//! with `STEPS` n a window begins n frames after the one before, and pairs of frames are kept from call to call, as a policy's
//! steps would have them. Milliseconds are the mean of as many calls as begin within 60 ms, after one that is not
//! counted.
#![allow(clippy::print_stdout, reason = "a program that answers on standard output")]

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::time::{Duration, Instant};

use plaudit_nn::alloc::CachingAllocator;
use plaudit_nn::classifier::{AdamW, Device, Precision};
use plaudit_nn::qwen3_vl::{
    Example, FineTuning, FrameSampling, Inputs, LoraConfig, Processor, PromptLayout, QwenVl, RgbImage,
    ScoreCache, VlmTrainer, trend_question,
};

#[global_allocator]
static MEMORY: CachingAllocator = CachingAllocator::new();

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIZE: usize = 128;
const TASK: &str = "Pick up the red cube and place it on the green spot on the table.";

/// A frame by the formula of `bench.py`.
fn frame(number: usize) -> Vec<u8> {
    (0..SIZE * SIZE * 3).map(|i| ((i * 31 + number * 977 + (i * number) % 251) % 256) as u8).collect()
}

fn window(processor: &Processor, first: [usize; 2], layout: PromptLayout) -> Outcome<Inputs> {
    let frames = first.map(|first| (0..4).map(|t| frame(first + t)).collect::<Vec<_>>());
    let views = frames.iter().map(|view| {
        let images = view.iter().map(|rgb| RgbImage { rgb, height: SIZE, width: SIZE });
        images.collect::<Vec<_>>()
    });
    let views: Vec<Vec<RgbImage<'_>>> = views.collect();
    Ok(processor.window(&views, 24.0, FrameSampling::All, &trend_question(TASK), layout)?)
}

fn windows(
    processor: &Processor,
    count: usize,
    layout: PromptLayout,
    steps: usize,
    from: usize,
) -> Outcome<Vec<Inputs>> {
    let apart = if steps == 0 { 8 } else { steps };
    (0..count).map(|i| window(processor, [from + i * apart, 100_000 + from + i * apart], layout)).collect()
}

/// Mean milliseconds.
fn timed(mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    call()?;
    let (start, mut calls) = (Instant::now(), 0);
    while calls == 0 || start.elapsed() < Duration::from_millis(60) {
        call()?;
        calls += 1;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3 / f64::from(calls))
}

#[derive(Default)]
struct Models {
    opened: HashMap<String, QwenVl>,
    trainers: HashMap<String, VlmTrainer>,
}

impl Models {
    fn score(&mut self, words: &[&str]) -> Outcome<String> {
        let &[folder, precision, count, layout, steps] = words else {
            return Err("score: five words".into());
        };
        let kind = if precision == "bf16" { Precision::Bf16 } else { Precision::Fp32 };
        let name = format!("{folder} {precision}");
        if !self.opened.contains_key(&name) {
            self.opened.insert(name.clone(), QwenVl::open(folder, Device::Cpu, kind)?);
        }
        let model = &self.opened[&name];
        let layout = if layout == "shared" { PromptLayout::SharedPrefix } else { PromptLayout::VideosFirst };
        let (count, steps): (usize, usize) = (count.parse()?, steps.parse()?);
        let labels = model.processor().tokenizer().first_tokens(&["positive", "negative", "unclear"])?;
        let mut cache = ScoreCache::new(if steps == 0 { 0 } else { 1024 });
        let mut first = Vec::new();
        // Each call has windows that come after those of the call before, made outside of the time.
        let rounds: Vec<Vec<Inputs>> = (0..if steps == 0 { 1 } else { 8 })
            .map(|round| windows(model.processor(), count, layout, steps, round * count * steps))
            .collect::<Outcome<_>>()?;
        let mut round = 0;
        let time = timed(|| {
            let inputs = &rounds[round % rounds.len()];
            let logits = model.score(inputs, &labels, &mut cache)?;
            if first.is_empty() {
                first = logits[0].clone();
            }
            round += 1;
            Ok(())
        })?;
        Ok(format!("{time} {} {} {}", first[0], first[1], first[2]))
    }

    fn train(&mut self, fine_tuning: &FineTuning, words: &[&str]) -> Outcome<String> {
        let &[folder, count] = words else { return Err("train: two words".into()) };
        let name = format!("{folder} {fine_tuning:?}");
        if !self.trainers.contains_key(&name) {
            let trainer = VlmTrainer::open(folder, Device::Cpu, fine_tuning, AdamW::default(), 0)?;
            self.trainers.insert(name.clone(), trainer);
        }
        let trainer = self.trainers.get_mut(&name).ok_or("no model")?;
        let windows = windows(trainer.processor(), count.parse()?, PromptLayout::VideosFirst, 0, 0)?;
        let label = trainer.processor().tokenizer().first_tokens(&["positive"])?[0];
        let example = |inputs: Inputs| Example { targets: vec![(inputs.len() - 1, label)], inputs };
        let examples: Vec<Example> = windows.into_iter().map(example).collect();
        let time = timed(|| {
            trainer.accumulate(&examples, 1.0)?;
            trainer.step(1e-5, Some(1.0))?;
            Ok(())
        })?;
        Ok(time.to_string())
    }
}

/// Loops of all threads in 20 ms.
fn free() -> String {
    let loops = || {
        let (start, mut loops) = (Instant::now(), 0u64);
        while start.elapsed() < Duration::from_millis(20) {
            loops += 1;
        }
        loops
    };
    let threads: Vec<_> = (0..rayon::current_num_threads()).map(|_| std::thread::spawn(loops)).collect();
    threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum::<u64>().to_string()
}

fn main() {
    let mut models = Models::default();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words.split_first() {
            Some((&"score", rest)) => models.score(rest),
            Some((&"train", rest)) => models.train(&FineTuning::Full, rest),
            Some((&"lora", rest)) => models.train(&FineTuning::Lora(LoraConfig::default()), rest),
            Some((&"free", _)) => Ok(free()),
            _ => Err(format!("no request: {line}").into()),
        };
        println!("{}", answer.unwrap_or_else(|error| format!("error {error}")));
    }
}
