//! Which model is the best, and when there will be no better one.

use serde::{Deserialize, Serialize};

use super::evaluate::Evaluation;
use crate::metrics::Metrics;

/// The number that makes a model the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Monitor {
    /// Validation loss; lower is better.
    #[default]
    Loss,
    /// Share of validation frames called rightly at one half; higher is better.
    Accuracy,
    /// Probability that a success scores higher than a failure; higher is better.
    Auc,
    /// Area under precision over recall; higher is better.
    AveragePrecision,
}

impl Monitor {
    /// The number, as events call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loss => "val_loss",
            Self::Accuracy => "val_accuracy",
            Self::Auc => "auc",
            Self::AveragePrecision => "average_precision",
        }
    }

    /// Its value; rankings are worth nothing where one label is missing.
    #[must_use]
    pub fn value(self, evaluation: &Evaluation) -> f64 {
        match self {
            Self::Loss => evaluation.loss,
            Self::Accuracy => evaluation.accuracy,
            Self::Auc => evaluation.metrics.auc.unwrap_or(0.0),
            Self::AveragePrecision => evaluation.metrics.average_precision.unwrap_or(0.0),
        }
    }

    /// Which way it gets better.
    pub(super) fn better(self) -> Better {
        if self == Self::Loss { Better::Lower } else { Better::Higher }
    }
}

/// Which way a number gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Upwards.
    Higher,
    /// Downwards.
    Lower,
}

impl Better {
    /// By how much a value is better than another.
    fn gain(self, value: f64, than: f64) -> f64 {
        if self == Self::Lower { than - value } else { value - than }
    }
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyStop {
    /// Validations without improvement.
    pub patience: u64,
    /// The least change that is an improvement.
    pub min_delta: f64,
}

/// How far a training is: with the checkpoint, all that going on needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress<M = Metrics> {
    /// Steps done.
    pub step: u64,
    /// The best model so far.
    pub best: Option<Best<M>>,
    /// The value that patience counts from.
    pub mark: Option<f64>,
    /// Validations since.
    pub stale: u64,
    /// The last step that was validated.
    pub validated: Option<u64>,
    /// Steps on end that were skipped because of a non-finite gradient.
    pub skipped_steps: u64,
}

/// The best model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best<M = Metrics> {
    /// After how many steps.
    pub step: u64,
    /// The monitored number.
    pub value: f64,
    /// Everything else that was measured.
    pub metrics: M,
}

impl<M> Default for Progress<M> {
    fn default() -> Self {
        Self { step: 0, best: None, mark: None, stale: 0, validated: None, skipped_steps: 0 }
    }
}

impl<M> Progress<M> {
    /// Takes note of a measured number, and says whether its model is the best.
    pub(super) fn measured(
        &mut self,
        value: f64,
        metrics: M,
        better: Better,
        stop: Option<EarlyStop>,
    ) -> bool {
        self.validated = Some(self.step);
        let min_delta = stop.map_or(0.0, |stop| stop.min_delta);
        if self.mark.is_none_or(|mark| better.gain(value, mark) > min_delta) {
            self.mark = Some(value);
            self.stale = 0;
        } else {
            self.stale += 1;
        }
        let is_best = self.best.as_ref().is_none_or(|best| better.gain(value, best.value) > 0.0);
        if is_best {
            self.best = Some(Best { step: self.step, value, metrics });
        }
        is_best
    }

    pub(super) fn is_stale(&self, stop: Option<EarlyStop>) -> bool {
        stop.is_some_and(|stop| self.stale >= stop.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluation(loss: f64) -> Evaluation {
        Evaluation::of(&[0.0, 1.0], &[false, true]).with_loss(loss)
    }

    /// Whether this is the best so far.
    fn is_best(progress: &mut Progress, by: Monitor, found: &Evaluation, stop: Option<EarlyStop>) -> bool {
        progress.measured(by.value(found), found.metrics, by.better(), stop)
    }

    #[test]
    fn patience_counts_what_is_not_enough_better() {
        let stop = Some(EarlyStop { patience: 2, min_delta: 0.1 });
        let mut progress = Progress::default();
        let mut seen = Vec::new();
        for loss in [1.0, 0.95, 0.85, 0.84, 0.80] {
            progress.step += 10;
            let best = is_best(&mut progress, Monitor::Loss, &evaluation(loss), stop);
            seen.push((best, progress.stale, progress.is_stale(stop)));
        }
        let expected =
            [(true, 0, false), (true, 1, false), (true, 0, false), (true, 1, false), (true, 2, true)];
        assert_eq!(seen, expected);
        assert_eq!(progress.best.map(|best| best.step), Some(50));
        assert!(!progress.is_stale(None));
    }

    #[test]
    fn higher_is_better_for_all_but_loss() {
        let mut progress = Progress::default();
        let right = Evaluation::of(&[-1.0, 1.0], &[false, true]);
        let wrong = Evaluation::of(&[1.0, -1.0], &[false, true]);
        for monitor in [Monitor::Loss, Monitor::Accuracy, Monitor::Auc, Monitor::AveragePrecision] {
            progress = Progress::default();
            assert!(is_best(&mut progress, monitor, &wrong, None));
            assert!(is_best(&mut progress, monitor, &right, None), "{monitor:?}");
            assert!(!is_best(&mut progress, monitor, &wrong, None), "{monitor:?}");
        }
        assert_eq!(progress.stale, 1);
    }
}
