//! Whether a judge of windows can be trusted, in numbers: what it says against the labels, how honest its probabilities
//! are, what abstaining gains, and whether it agrees with the environment's own measure of progress.

mod abstain;
mod agreement;
mod auditor;
mod bench;
mod calibration;
mod disturbed;
mod findings;

use std::collections::HashMap;

use plaudit_core::Seed;
use plaudit_data::windows::Windows;

use super::bootstrap::{Interval, bootstrap_interval};
use super::temperature::softmax;
use crate::metrics::{LABELS, LabelConfusion, LabelMetrics};
use crate::trend::{LabelLogits, LabelProbabilities, Trend};

pub use abstain::AbstainPoint;
use abstain::abstain_curve;
pub use agreement::{Agreement, VotesAtProgress, agreement};
pub use auditor::{JudgeAudit, JudgeAuditSettings, JudgeAuditor, NotStored, SeenBefore, WindowMistake};
pub use bench::JudgeBench;
use calibration::calibrate_labels;
pub use calibration::{LabelCalibration, LabelCalibrationMetrics};
pub use disturbed::Disturbed;
use disturbed::{WindowChange, disturbed_window};

/// Windows as the judge and the truth saw them.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredWindows {
    /// What the judge said of each.
    pub logits: Vec<LabelLogits>,
    /// Which label is right.
    pub truth: Vec<usize>,
    /// By how much the environment's measure grew, where that is known.
    pub progress: Vec<Option<f64>>,
    /// The windows of each episode; a window of unknown origin is an episode of its own.
    pub episodes: Vec<Vec<usize>>,
}

impl ScoredWindows {
    /// What a judge said of some windows.
    ///
    /// # Panics
    /// If there is not one answer for each.
    #[must_use]
    pub fn of(windows: &Windows, logits: Vec<LabelLogits>) -> Self {
        assert_eq!(windows.len(), logits.len(), "an answer for every window");
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut episodes: Vec<Vec<usize>> = Vec::new();
        for (number, row) in windows.rows().enumerate() {
            let known = row.episode.as_deref().and_then(|name| places.get(name).copied());
            match known {
                Some(place) => episodes[place].push(number),
                None => {
                    if let Some(name) = row.episode.as_deref() {
                        places.insert(name, episodes.len());
                    }
                    episodes.push(vec![number]);
                }
            }
        }
        let truth = windows.rows().map(|row| row.answer).collect();
        let progress = windows.rows().map(|row| row.progress).collect();
        Self { logits, truth, progress, episodes }
    }

    /// Whether every answer is three numbers.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.logits.iter().all(|logits| logits.0.iter().all(|logit| logit.is_finite()))
    }

    /// How likely each label of each window is.
    #[must_use]
    pub fn probabilities(&self, temperature: f64) -> Vec<[f64; LABELS]> {
        self.logits.iter().map(|logits| softmax(&logits.0.map(f64::from), temperature)).collect()
    }

    /// For better or worse, window by window: from -1 to 1.
    #[must_use]
    pub fn votes(&self, temperature: f64) -> Vec<f64> {
        self.probabilities(temperature)
            .iter()
            .map(|probabilities| probabilities[0] - probabilities[1])
            .collect()
    }

    /// The predicted label of each window, which no temperature changes.
    #[must_use]
    pub fn predicted(&self) -> Vec<usize> {
        self.logits.iter().map(predicted).collect()
    }

    /// Everything about some of the windows.
    #[must_use]
    pub fn metrics(&self, temperature: f64) -> LabelMetrics {
        LabelMetrics::of(&self.probabilities(temperature), &self.predicted(), &self.truth)
    }

    /// Some of the windows, by their numbers.
    fn some(&self, numbers: &[usize]) -> Self {
        Self {
            logits: numbers.iter().map(|at| self.logits[*at]).collect(),
            truth: numbers.iter().map(|at| self.truth[*at]).collect(),
            progress: numbers.iter().map(|at| self.progress[*at]).collect(),
            episodes: Vec::new(),
        }
    }

    /// The windows of some episodes, by the episodes' numbers.
    fn of_episodes(&self, episodes: &[usize]) -> Self {
        let numbers: Vec<usize> = episodes.iter().flat_map(|at| self.episodes[*at].iter().copied()).collect();
        self.some(&numbers)
    }

    /// Balanced accuracy, with where it would lie with other episodes.
    #[must_use]
    pub fn balanced_accuracy(&self, resamples: u64, seed: Seed) -> Option<Interval> {
        let predicted = self.predicted();
        bootstrap_interval(self.episodes.len(), resamples, seed.purpose("accuracy"), |chosen| {
            let numbers = || chosen.iter().flat_map(|at| &self.episodes[*at]);
            let [predicted, truth] =
                [&predicted, &self.truth].map(|column| numbers().map(|at| column[*at]).collect::<Vec<_>>());
            (!truth.is_empty()).then(|| LabelConfusion::of(&predicted, &truth).balanced_accuracy())
        })
    }

    /// The windows judged wrongly, the surest first, at most so many.
    #[must_use]
    pub fn worst(&self, temperature: f64, most: usize) -> Vec<usize> {
        let (predicted, probabilities) = (self.predicted(), self.probabilities(temperature));
        let mut wrong: Vec<usize> =
            (0..predicted.len()).filter(|at| predicted[*at] != self.truth[*at]).collect();
        let surprise = |at: &usize| probabilities[*at][self.truth[*at]];
        wrong.sort_by(|a, b| surprise(a).total_cmp(&surprise(b)));
        wrong.truncate(most);
        wrong
    }
}

/// The label that logits predict.
fn predicted(logits: &LabelLogits) -> usize {
    let label = LabelProbabilities::of(*logits, 1.0)
        .map_or(Trend::Unclear, |probabilities| probabilities.likeliest());
    Trend::LABELS.iter().position(|known| *known == label).unwrap_or(LABELS - 1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Windows in episodes of `per_episode`, with these logits and truths.
    pub(super) fn scored(logits: &[[f32; 3]], truth: &[usize], per_episode: usize) -> ScoredWindows {
        let numbers: Vec<usize> = (0..truth.len()).collect();
        ScoredWindows {
            logits: logits.iter().map(|logits| LabelLogits(*logits)).collect(),
            truth: truth.to_vec(),
            progress: vec![None; truth.len()],
            episodes: numbers.chunks(per_episode).map(<[usize]>::to_vec).collect(),
        }
    }

    #[test]
    fn the_surest_mistakes_are_the_worst() {
        let windows = scored(&[[3.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 1.0]], &[2, 0, 2], 1);
        assert_eq!(windows.predicted(), [0, 1, 2]);
        assert_eq!(windows.worst(1.0, 9), [1, 0]);
        assert_eq!(windows.worst(1.0, 1), [1]);
        let found = windows.balanced_accuracy(50, Seed::new(1)).unwrap();
        assert_eq!(found.value, 0.25, "half of unclear, none of positive");
        assert!(found.low < 0.25 && found.high > 0.25);
    }
}
