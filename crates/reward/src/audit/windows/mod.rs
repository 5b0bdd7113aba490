//! Whether a judge of windows can be trusted, in numbers: what it says against the labels, how honest its probabilities
//! are, what abstaining gains, and whether it agrees with the environment's own measure of progress.

mod abstain;
mod agreement;
mod calibration;
mod disturbed;

use std::collections::HashMap;

use plaudit_core::Seed;
use plaudit_data::windows::Windows;

use super::bootstrap::{Interval, resampled};
use super::temperature::softmax;
use crate::metrics::{LABELS, LabelConfusion, LabelMetrics};
use crate::trend::{LabelLogits, Leaning, Trend};

pub use abstain::{AtBand, at_bands};
pub use agreement::{Agreement, VotesAt, agreement};
pub use calibration::{LabelCalibration, LabelHonesty, calibrate_labels};
pub use disturbed::{Disturbed, WindowChange, disturbed_window};

/// Windows as the judge and the truth saw them.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedWindows {
    /// What the judge said of each.
    pub logits: Vec<LabelLogits>,
    /// Which label is right.
    pub truth: Vec<usize>,
    /// By how much the environment's measure grew, where that is known.
    pub progress: Vec<Option<f64>>,
    /// The windows of each episode; a window of unknown origin is an episode of its own.
    pub episodes: Vec<Vec<usize>>,
}

impl JudgedWindows {
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
    pub fn likely(&self, temperature: f64) -> Vec<[f64; LABELS]> {
        self.logits.iter().map(|logits| softmax(&logits.0.map(f64::from), temperature)).collect()
    }

    /// For better or worse, window by window: from -1 to 1.
    #[must_use]
    pub fn votes(&self, temperature: f64) -> Vec<f64> {
        self.likely(temperature).iter().map(|likely| likely[0] - likely[1]).collect()
    }

    /// The likeliest label of each window, which no temperature changes.
    #[must_use]
    pub fn said(&self) -> Vec<usize> {
        self.logits.iter().map(said).collect()
    }

    /// Everything about some of the windows.
    #[must_use]
    pub fn metrics(&self, temperature: f64) -> LabelMetrics {
        LabelMetrics::of(&self.likely(temperature), &self.said(), &self.truth)
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
        let said = self.said();
        resampled(self.episodes.len(), resamples, seed.purpose("accuracy"), |chosen| {
            let numbers = || chosen.iter().flat_map(|at| &self.episodes[*at]);
            let [said, truth] =
                [&said, &self.truth].map(|column| numbers().map(|at| column[*at]).collect::<Vec<_>>());
            (!truth.is_empty()).then(|| LabelConfusion::of(&said, &truth).balanced_accuracy())
        })
    }

    /// The windows judged wrongly, the surest first, at most so many.
    #[must_use]
    pub fn worst(&self, temperature: f64, most: usize) -> Vec<usize> {
        let (said, likely) = (self.said(), self.likely(temperature));
        let mut wrong: Vec<usize> = (0..said.len()).filter(|at| said[*at] != self.truth[*at]).collect();
        let surprise = |at: &usize| likely[*at][self.truth[*at]];
        wrong.sort_by(|a, b| surprise(a).total_cmp(&surprise(b)));
        wrong.truncate(most);
        wrong
    }
}

/// What logits say.
fn said(logits: &LabelLogits) -> usize {
    let label = Leaning::of(*logits, 1.0).map_or(Trend::Unclear, |leaning| leaning.likeliest());
    Trend::LABELS.iter().position(|known| *known == label).unwrap_or(LABELS - 1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Windows in episodes of `per_episode`, with these logits and truths.
    pub(super) fn judged(logits: &[[f32; 3]], truth: &[usize], per_episode: usize) -> JudgedWindows {
        let numbers: Vec<usize> = (0..truth.len()).collect();
        JudgedWindows {
            logits: logits.iter().map(|logits| LabelLogits(*logits)).collect(),
            truth: truth.to_vec(),
            progress: vec![None; truth.len()],
            episodes: numbers.chunks(per_episode).map(<[usize]>::to_vec).collect(),
        }
    }

    #[test]
    fn the_surest_mistakes_are_the_worst() {
        let windows = judged(&[[3.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 1.0]], &[2, 0, 2], 1);
        assert_eq!(windows.said(), [0, 1, 2]);
        assert_eq!(windows.worst(1.0, 9), [1, 0]);
        assert_eq!(windows.worst(1.0, 1), [1]);
        let found = windows.balanced_accuracy(50, Seed::new(1)).unwrap();
        assert_eq!(found.value, 0.25, "half of unclear, none of positive");
        assert!(found.low < 0.25 && found.high > 0.25);
    }
}
