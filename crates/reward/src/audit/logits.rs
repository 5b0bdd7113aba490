//! What a model says about every frame.

use plaudit_nn::classifier::ClassifierError;

use super::ScoredEpisode;
use crate::custom::ImageScorer;
use crate::dataset::{Batch, Frames};

/// Callback with how many of how many frames are scored.
pub type OnScored<'a> = dyn Fn(usize, usize) + 'a;

/// The logits of all frames, so many at a time.
///
/// # Errors
/// When images do not fit the model.
pub fn logits(
    scorer: &dyn ImageScorer,
    frames: &Frames,
    batch: usize,
    on_progress: &OnScored<'_>,
) -> Result<Vec<f64>, ClassifierError> {
    let numbers: Vec<usize> = (0..frames.len()).collect();
    let mut logits = Vec::with_capacity(frames.len());
    for some in numbers.chunks(batch.max(1)) {
        on_progress(logits.len(), frames.len());
        let found = scorer.logits(&Batch::of(frames, some).images()?)?;
        logits.extend(found.into_iter().map(f64::from));
    }
    on_progress(frames.len(), frames.len());
    Ok(logits)
}

/// Logits beside the truth, episode by episode, in the order of [`Frames::by_episode`].
#[must_use]
pub fn scored_episodes(frames: &Frames, logits: &[f64]) -> Vec<ScoredEpisode> {
    let episode = |numbers: Vec<usize>| ScoredEpisode {
        name: numbers.first().map_or(String::new(), |first| frames.origin(*first).episode.into()),
        logits: numbers.iter().map(|number| logits[*number]).collect(),
        truth: numbers.iter().map(|number| frames.success(*number)).collect(),
    };
    frames.by_episode().into_iter().map(episode).collect()
}
