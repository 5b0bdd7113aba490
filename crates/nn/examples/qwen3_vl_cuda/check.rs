//! Logits of the GPU compared with the CPU's.

use std::error::Error;

use plaudit_nn::classifier::{Device, Precision};
use plaudit_nn::qwen3_vl::{
    Adapter, Decoding, GenerateOptions, Inputs, PromptLayout, QwenVl, ScoreCache, VlmError,
};
use serde_json::{Value, json};

use crate::{folder, largest, open_with, window};

/// What rounding to bf16 may do: logits may be this share of the largest off.
pub(crate) const SHARE: f32 = 0.03;

/// Compares with the CPU in fp32, whose own bf16 stands beside as a measure of what rounding does. Batches of 1, 3 and
/// 64 windows, of one and of several frame sizes and lengths, in both layouts; scoring that shares what is alike, and
/// that finds all or some pairs of frames kept, must give what scoring alone gives. `words` says how many of three first
/// tokens of answers are those of fp32.
pub(crate) fn check(name: &str, adapter: Option<&Adapter>) -> Result<Value, Box<dyn Error>> {
    let gpu = open_with(name, adapter)?;
    let folder = folder(name);
    let exact = QwenVl::open_with(folder, adapter, Device::Cpu, Precision::Fp32)?;
    let rounded = QwenVl::open_with(folder, adapter, Device::Cpu, Precision::Bf16)?;
    let labels: Vec<u32> = (0..gpu.config().text.vocab as u32).collect();
    let sizes = [([128, 128], 4), ([64, 96], 2), ([160, 64], 6)];
    let mut results = Vec::new();
    for layout in [PromptLayout::VideosFirst, PromptLayout::SharedPrefix] {
        for (count, kinds) in [(1, 1), (3, 1), (3, 3), (64, 3)] {
            let one = |i: usize| {
                let (size, frames) = sizes[i % kinds];
                // Every fifth window is one that was there, so that there is something to share.
                window(gpu.processor(), 8 * (i - usize::from(i % 5 == 4)), frames, size, layout)
            };
            let windows = (0..count).map(one).collect::<Result<Vec<_>, _>>()?;
            let expected = exact.label_logits(&windows, &labels)?;
            let found = gpu.label_logits(&windows, &labels)?;
            let shared = gpu.score(&windows, &labels, &mut ScoreCache::new(0))?;
            let mut large = ScoreCache::new(1000);
            let again = gpu.score(&windows, &labels, &mut large)?;
            let kept = gpu.score(&windows, &labels, &mut large)?;
            let mut small = ScoreCache::new(5);
            gpu.score(&windows, &labels, &mut small)?;
            let partly = gpu.score(&windows, &labels, &mut small)?;
            let worst = [&found, &shared, &partly].map(|logits| largest(logits, &expected));
            let worst = worst.into_iter().fold(0.0, f32::max);
            let spread = expected.iter().flatten().map(|logit| logit.abs()).fold(0.0, f32::max);
            results.push(json!({
                "layout": format!("{layout:?}"), "windows": count, "sizes": kinds, "largest_logit": spread,
                "worst_share": worst / spread, "passes": worst < SHARE * spread && shared == again && again == kept,
                "gpu": largest(&found, &expected), "gpu_sharing": largest(&shared, &expected),
                "cpu_bf16": largest(&rounded.label_logits(&windows, &labels)?, &expected),
                "gpu_partly_kept": largest(&partly, &expected),
                "repeats": shared == again && again == kept, "found": [large.hits_and_lookups(), small.hits_and_lookups()], "words": words(&gpu, &exact, &windows)?,
                "cpu_bf16_words": words(&rounded, &exact, &windows)?,
            }));
        }
    }
    Ok(Value::Array(results))
}

/// How many of three first tokens of answers two models have in common, of how many.
fn words(model: &QwenVl, other: &QwenVl, windows: &[Inputs]) -> Result<[usize; 2], VlmError> {
    let options = GenerateOptions { max_new_tokens: 3, decoding: Decoding::Greedy };
    let some = &windows[..windows.len().min(3)];
    let (own, others) = (model.generate(some, &options)?, other.generate(some, &options)?);
    let alike = |(own, other): (&Vec<u32>, &Vec<u32>)| {
        own.iter().zip(other).filter(|(own, other)| own == other).count()
    };
    Ok([own.iter().zip(&others).map(alike).sum(), others.iter().map(Vec::len).sum()])
}
