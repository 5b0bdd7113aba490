//! Measuring a network of progress on episodes.

use plaudit_nn::classifier::{ProgressDistribution, ProgressLabel, Scorer};

use super::error::TrainError;
use super::evaluate::Evaluation;
use crate::dataset::{Batch, Frames, ProgressLabels};
use crate::metrics::{EpisodeScores, ProgressMetrics};
use plaudit_nn::classifier::ClassifierError;

/// How well a network of progress does.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressEvaluation {
    /// As a classifier, with the mean progress as the score. Its loss is the cross entropy over bins, of frames whose progress is
    /// known.
    pub evaluation: Evaluation,
    /// How well scores follow the progress of episodes.
    pub progress: ProgressMetrics,
    /// Mean distance between the mean of the distribution and the label, where that is known.
    pub error: f64,
    /// Mean standard deviation of the distribution in episodes that succeed.
    pub std_of_solved: Option<f64>,
    /// The same in those that do not.
    pub std_of_unsolved: Option<f64>,
}

/// Measures a network of progress, so many frames at a time.
///
/// # Errors
/// When images do not fit the model, or frames are not in whole episodes.
pub fn evaluate_progress(
    scorer: &Scorer,
    frames: &Frames,
    batch: usize,
) -> Result<ProgressEvaluation, TrainError> {
    let labels = ProgressLabels::of(frames)?;
    let numbers: Vec<usize> = (0..frames.len()).collect();
    let mut found: Vec<ProgressDistribution> = Vec::with_capacity(frames.len());
    for some in numbers.chunks(batch.max(1)) {
        let batch = Batch::of(frames, some);
        let images = batch.images().map_err(ClassifierError::from)?;
        found.extend(scorer.progress(&images)?.unwrap_or_default());
    }
    Ok(ProgressEvaluation::of(scorer, frames, &labels, &found))
}

impl ProgressEvaluation {
    fn of(scorer: &Scorer, frames: &Frames, labels: &ProgressLabels, found: &[ProgressDistribution]) -> Self {
        let (mut cost, mut distance, mut known) = (0.0, 0.0, 0usize);
        for (number, distribution) in found.iter().enumerate() {
            let (Some(ProgressLabel::At(progress)), Some(bins)) =
                (labels.get(number), scorer.settings().bins())
            else {
                continue;
            };
            let target = bins.target(ProgressLabel::At(progress));
            let cross = |(target, share): (&f64, &f64)| {
                if *target > 0.0 { -target * share.max(1e-300).ln() } else { 0.0 }
            };
            cost += target.iter().zip(&distribution.shares).map(cross).sum::<f64>();
            distance += (distribution.mean - progress).abs();
            known += 1;
        }
        let logits: Vec<f32> = found.iter().map(|distribution| distribution.logit() as f32).collect();
        let evaluation = Evaluation::of(&logits, &frames.labels()).with_loss(cost / known.max(1) as f64);
        let std = |unsolved: bool| {
            let of = |number: &usize| (labels.get(*number) == Some(ProgressLabel::Unknown)) == unsolved;
            let all: Vec<f64> = (0..found.len()).filter(of).map(|number| found[number].std).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        let progress = ProgressMetrics::of(&episode_scores(frames, &evaluation.scores));
        let error = distance / known.max(1) as f64;
        Self { evaluation, progress, error, std_of_solved: std(false), std_of_unsolved: std(true) }
    }

    /// As events name it. What has no value is left out.
    pub(super) fn values(&self) -> Vec<(String, f64)> {
        let more = [
            ("eval/voc", self.progress.voc),
            ("eval/kendall", self.progress.kendall),
            ("eval/last_frame_auc", self.progress.last_frame_auc),
            ("eval/progress_error", Some(self.error)),
            ("eval/progress_std", self.std_of_solved),
            ("eval/progress_std_unsolved", self.std_of_unsolved),
        ];
        let more = more.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?)));
        self.evaluation.values().into_iter().chain(more).collect()
    }
}

/// Scores of frames, episode by episode.
#[must_use]
pub fn episode_scores(frames: &Frames, scores: &[f64]) -> Vec<EpisodeScores> {
    let episode = |numbers: Vec<usize>| EpisodeScores {
        scores: numbers.iter().map(|number| scores[*number]).collect(),
        truth: numbers.iter().map(|number| frames.success(*number)).collect(),
    };
    frames.by_episode().into_iter().map(episode).collect()
}
