//! How long an answer takes.

use std::time::{Duration, Instant};

use plaudit_nn::classifier::ClassifierError;
use serde::Serialize;

use crate::custom::ImageScorer;
use crate::dataset::{Batch, Frames};

/// Fewest and most answers that are timed.
const FEWEST: usize = 20;
const MOST: usize = 400;

/// Times of many answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Frames in each question.
    pub batch: usize,
    /// Answers that were timed.
    pub answers: usize,
    /// Half of them took no longer, in milliseconds.
    pub p50_ms: f64,
    /// 99 in 100 took no longer, in milliseconds.
    pub p99_ms: f64,
    /// Frames per second at the median.
    pub frames_per_second: f64,
}

/// Asks about the same frames over and over, images as bytes to logits, for about so long.
///
/// # Errors
/// When images do not fit the model.
pub(super) fn latency(
    scorer: &dyn ImageScorer,
    frames: &Frames,
    batch: usize,
    for_about: Duration,
) -> Result<Latency, ClassifierError> {
    let numbers: Vec<usize> = (0..batch).map(|at| at % frames.len()).collect();
    let asked = Batch::of(frames, &numbers);
    scorer.logits(&asked.images()?)?; // the first answer also warms caches
    let mut times = Vec::new();
    let began = Instant::now();
    while times.len() < FEWEST || (times.len() < MOST && began.elapsed() < for_about) {
        let began = Instant::now();
        scorer.logits(&asked.images()?)?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let (p50_ms, p99_ms) = (at(0.5), at(0.99));
    Ok(Latency {
        batch,
        answers: times.len(),
        p50_ms,
        p99_ms,
        frames_per_second: 1e3 * batch as f64 / p50_ms,
    })
}
