//! What is said at a threshold, and what is true.

use serde::{Deserialize, Serialize};

/// How many frames were called what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    /// Successes called so.
    pub true_positives: usize,
    /// Failures called successes: what a policy learns to make.
    pub false_positives: usize,
    /// Failures called so.
    pub true_negatives: usize,
    /// Successes called failures.
    pub false_negatives: usize,
}

impl Confusion {
    /// Calls a success what scores above the threshold.
    #[must_use]
    pub fn at(scores: &[f64], truth: &[bool], threshold: f64) -> Self {
        let mut confusion = Self::default();
        for (score, success) in scores.iter().zip(truth) {
            *match (*score > threshold, *success) {
                (true, true) => &mut confusion.true_positives,
                (true, false) => &mut confusion.false_positives,
                (false, false) => &mut confusion.true_negatives,
                (false, true) => &mut confusion.false_negatives,
            } += 1;
        }
        confusion
    }

    /// All frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.true_positives + self.false_positives + self.true_negatives + self.false_negatives
    }

    /// Share of frames called rightly; 0 of none.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        share(self.true_positives + self.true_negatives, self.frames()).unwrap_or(0.0)
    }

    /// Share of successes among what was called a success.
    #[must_use]
    pub fn precision(&self) -> Option<f64> {
        share(self.true_positives, self.true_positives + self.false_positives)
    }

    /// Share of the successes that were called so.
    #[must_use]
    pub fn recall(&self) -> Option<f64> {
        share(self.true_positives, self.true_positives + self.false_negatives)
    }

    /// Harmonic mean of precision and recall.
    #[must_use]
    pub fn f1(&self) -> Option<f64> {
        let wrong = self.false_positives + self.false_negatives;
        share(2 * self.true_positives, 2 * self.true_positives + wrong)
    }

    /// Share of the failures that were called successes.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        share(self.false_positives, self.false_positives + self.true_negatives)
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The threshold of the highest F1, half-way between the lowest score it lets pass and the highest that it does not.
/// Among equals the highest, since calling a failure a success costs a policy more than the reverse. `None` unless both
/// classes are there.
#[must_use]
pub fn best_threshold(scores: &[f64], truth: &[bool]) -> Option<f64> {
    let all = truth.iter().filter(|success| **success).count();
    if all == 0 || all == truth.len() {
        return None;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let (mut found, mut called) = (0, 0);
    let mut best: Option<(f64, f64)> = None;
    let levels: Vec<&[usize]> = order.chunk_by(|a, b| scores[*a] == scores[*b]).collect();
    for (at, level) in levels.iter().enumerate() {
        found += level.iter().filter(|frame| truth[**frame]).count();
        called += level.len();
        let f1 = 2.0 * found as f64 / (called + all) as f64;
        // What lets everything pass lies below the lowest score, which may be zero itself.
        let lowest = if scores[level[0]] > 0.0 { 0.0 } else { scores[level[0]] - 1.0 };
        let below = levels.get(at + 1).map_or(lowest, |next| scores[next[0]]);
        if best.is_none_or(|(highest, _)| f1 > highest) {
            best = Some((f1, (scores[level[0]] + below) / 2.0));
        }
    }
    best.map(|(_, threshold)| threshold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gap_is_split_in_the_middle() {
        assert_eq!(best_threshold(&[0.1, 0.2, 0.8, 0.9], &[false, false, true, true]), Some(0.5));
        assert_eq!(best_threshold(&[0.5, 0.5], &[true, false]), Some(0.25));
        assert_eq!(best_threshold(&[0.5, 0.6], &[true, true]), None);
    }

    #[test]
    fn nothing_called_has_no_precision() {
        let confusion = Confusion::at(&[0.1, 0.2], &[true, false], 0.5);
        assert_eq!((confusion.precision(), confusion.recall()), (None, Some(0.0)));
        assert_eq!(Confusion::default().f1(), None);
    }

    proptest! {
        #[test]
        fn no_threshold_is_better(frames in prop::collection::vec((0u8..20, any::<bool>()), 2..40)) {
            let scores: Vec<f64> = frames.iter().map(|(score, _)| f64::from(*score) / 20.0).collect();
            let truth: Vec<bool> = frames.iter().map(|(_, truth)| *truth).collect();
            if let Some(threshold) = best_threshold(&scores, &truth) {
                let f1 = |threshold| Confusion::at(&scores, &truth, threshold).f1().unwrap_or(0.0);
                let best = f1(threshold);
                for other in 0..=40 {
                    prop_assert!(best >= f1(f64::from(other) / 40.0 - 0.0125) - 1e-12);
                }
            }
        }
    }
}
