//! Measuring a model on labelled frames.

use plaudit_core::GradientSync;
use plaudit_nn::classifier::{ClassifierError, Scorer};

use super::error::TrainError;
use super::rank_shares::RankShares;
use crate::dataset::{Batch, Frames};
use crate::metrics::{Metrics, best_threshold};

/// How well a model does.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// The score of each frame.
    pub scores: Vec<f64>,
    /// Mean binary cross entropy.
    pub loss: f64,
    /// Share of frames called rightly at one half.
    pub accuracy: f64,
    /// Everything else, at the threshold of the highest F1 (one half where labels are all the same).
    pub metrics: Metrics,
}

/// Scores frames, so many at a time.
///
/// # Errors
/// When images do not fit the model.
pub fn evaluate(scorer: &Scorer, frames: &Frames, batch: usize) -> Result<Evaluation, ClassifierError> {
    let numbers: Vec<usize> = (0..frames.len()).collect();
    let mut logits = Vec::with_capacity(frames.len());
    for some in numbers.chunks(batch.max(1)) {
        logits.extend(scorer.logits(&Batch::of(frames, some).images()?)?);
    }
    Ok(Evaluation::of(&logits, &frames.labels()))
}

/// [`evaluate`] with batches shared among ranks; every rank gets the scores of all.
pub(super) fn evaluate_over_ranks(
    ranks: &dyn GradientSync,
    scorer: &Scorer,
    frames: &Frames,
    batch: usize,
) -> Result<Evaluation, TrainError> {
    let shares = RankShares::of(frames.len(), batch, ranks.world());
    let own = shares.batches(ranks.rank()).map(|some| -> Result<Vec<f32>, TrainError> {
        let images = Batch::of(frames, &some.collect::<Vec<_>>());
        Ok(scorer.logits(&images.images().map_err(ClassifierError::from)?)?)
    });
    let own: Result<Vec<Vec<f32>>, TrainError> = own.collect();
    let logits = shares.gather(ranks, ranks.agree(own)?.concat(), 1)?;
    Ok(Evaluation::of(&logits, &frames.labels()))
}

impl Evaluation {
    /// Of logits.
    #[must_use]
    pub fn of(logits: &[f32], truth: &[bool]) -> Self {
        let scores: Vec<f64> = logits.iter().map(|logit| sigmoid(f64::from(*logit))).collect();
        let threshold = best_threshold(&scores, truth).unwrap_or(0.5);
        let metrics = Metrics::of(&scores, truth, threshold);
        let count = truth.len().max(1) as f64;
        let right = scores.iter().zip(truth).filter(|(score, success)| (**score > 0.5) == **success).count();
        let cost = |(logit, success): (&f32, &bool)| {
            let logit = f64::from(*logit);
            logit.max(0.0) - logit * f64::from(u8::from(*success)) + (-logit.abs()).exp().ln_1p()
        };
        let loss = logits.iter().zip(truth).map(cost).sum::<f64>() / count;
        Self { loss, accuracy: right as f64 / count, metrics, scores }
    }

    /// The same at another threshold.
    #[must_use]
    pub fn at(self, truth: &[bool], threshold: f64) -> Self {
        let metrics = Metrics::of(&self.scores, truth, threshold);
        Self { metrics, ..self }
    }

    /// As events name it. What has no value is left out.
    pub(super) fn values(&self) -> Vec<(String, f64)> {
        let metrics = &self.metrics;
        let mean = self.scores.iter().sum::<f64>() / self.scores.len().max(1) as f64;
        let values = [
            ("eval/val_loss", Some(self.loss)),
            ("eval/val_accuracy", Some(self.accuracy)),
            ("eval/auc", metrics.auc),
            ("eval/average_precision", metrics.average_precision),
            ("eval/threshold", Some(metrics.threshold)),
            ("eval/precision", metrics.precision),
            ("eval/recall", metrics.recall),
            ("eval/f1", metrics.f1),
            ("eval/ece", Some(metrics.ece)),
            ("eval/brier", Some(metrics.brier)),
            ("eval/val_probabilities_mean", Some(mean)),
        ];
        values.into_iter().filter_map(|(name, value)| Some((name.into(), value?))).collect()
    }

    /// The same with another loss.
    pub(super) fn with_loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }
}

fn sigmoid(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_accuracy_are_at_one_half() {
        let evaluation = Evaluation::of(&[0.0, 2.0, -2.0], &[true, true, true]);
        let expected = (2f64.ln() + (1.0 + (-2f64).exp()).ln() + 2.0 + (1.0 + (-2f64).exp()).ln()) / 3.0;
        assert!((evaluation.loss - expected).abs() < 1e-12);
        assert!((evaluation.accuracy - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(evaluation.metrics.threshold, 0.5);
        assert!(Evaluation::of(&[900.0], &[false]).loss == 900.0);
    }
}
