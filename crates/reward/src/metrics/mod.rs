//! How good scores are, measured against the truth.
//!
//! A score says how sure a model is that a frame shows success; the truth says whether it does. What asks for no
//! threshold is here as functions ([`roc_auc`], [`average_precision`], [`brier`], [`log_loss`], [`calibration_error`]);
//! what depends on one is a [`Confusion`]. [`Metrics`] is all of it at once. A judge of windows chooses from three labels;
//! [`LabelMetrics`] has the same of its probabilities.
//!
//! Numbers are those of scikit-learn. Where a number has no meaning (a ranking needs both classes, a precision needs a
//! frame that was called a success) it is `None`, not zero.
//!
//! ```
//! use plaudit_reward::metrics::{Metrics, best_threshold};
//!
//! let (scores, truth) = ([0.1, 0.4, 0.35, 0.8], [false, false, true, true]);
//! let threshold = best_threshold(&scores, &truth).unwrap_or(0.5);
//! let metrics = Metrics::of(&scores, &truth, threshold);
//! assert_eq!(metrics.auc, Some(0.75));
//! assert_eq!(metrics.confusion.recall(), Some(1.0));
//! ```

mod calibration;
mod confusion;
mod held_out;
mod labels;
mod progress;
mod rank;
mod ranking;

use serde::{Deserialize, Serialize};

pub use calibration::{Bin, brier, calibration_error, log_loss, reliability};
pub use confusion::{Confusion, best_threshold};
pub use held_out::held_out_balanced_accuracy;
pub use labels::{LABELS, LabelConfusion, LabelMetrics, LabelScore, label_reliability};
pub use progress::{EpisodeScores, ProgressIntervals, ProgressMetrics};
pub(crate) use rank::{kendall, spearman};
pub use ranking::{average_precision, precision_recall_curve, roc_auc, roc_curve};

/// Bins of [`calibration_error`] in [`Metrics`].
pub const CALIBRATION_BINS: usize = 15;

/// Everything that is said about scores at a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// How many frames were scored.
    pub frames: usize,
    /// How many of them are successes.
    pub successes: usize,
    /// Scores above this count as success.
    pub threshold: f64,
    /// What was said of how many successes and failures.
    pub confusion: Confusion,
    /// Share of frames called rightly.
    pub accuracy: f64,
    /// Share of successes among what was called a success.
    pub precision: Option<f64>,
    /// Share of the successes that were called so.
    pub recall: Option<f64>,
    /// Harmonic mean of the two.
    pub f1: Option<f64>,
    /// Probability that a success scores higher than a failure.
    pub auc: Option<f64>,
    /// Area under the curve of precision over recall.
    pub average_precision: Option<f64>,
    /// Mean distance between what scores promise and what happens.
    pub ece: f64,
    /// Mean squared distance of scores from the truth.
    pub brier: f64,
    /// Mean of minus the logarithm of the probability of the true label.
    pub log_loss: f64,
}

impl Metrics {
    /// Measures scores from 0 to 1. All are zero where there are none.
    ///
    /// # Panics
    /// If there are not as many scores as truths.
    #[must_use]
    pub fn of(scores: &[f64], truth: &[bool], threshold: f64) -> Self {
        assert_eq!(scores.len(), truth.len(), "a score for every truth");
        let confusion = Confusion::at(scores, truth, threshold);
        Self {
            frames: scores.len(),
            successes: truth.iter().filter(|success| **success).count(),
            threshold,
            confusion,
            accuracy: confusion.accuracy(),
            precision: confusion.precision(),
            recall: confusion.recall(),
            f1: confusion.f1(),
            auc: roc_auc(scores, truth),
            average_precision: average_precision(scores, truth),
            ece: calibration_error(scores, truth, CALIBRATION_BINS),
            brier: brier(scores, truth),
            log_loss: log_loss(scores, truth),
        }
    }

    /// The same with other calls, such as those of whoever applies the threshold in 32 bits.
    #[must_use]
    pub fn with_calls(self, confusion: Confusion) -> Self {
        Self {
            confusion,
            accuracy: confusion.accuracy(),
            precision: confusion.precision(),
            recall: confusion.recall(),
            f1: confusion.f1(),
            ..self
        }
    }
}

/// The mean of some numbers; zero where there are none.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1);
    values.sum::<f64>() / count as f64
}
