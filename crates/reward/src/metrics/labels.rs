//! How good a judge of three labels is: what it says against what is right, and whether its probabilities are honest.

use serde::{Deserialize, Serialize};

use super::{Bin, CALIBRATION_BINS, calibration_error, mean, reliability};

/// Labels that a judge chooses from.
pub const LABELS: usize = 3;

/// How many windows were called what: by the right label, then by what was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LabelConfusion(pub [[usize; LABELS]; LABELS]);

impl LabelConfusion {
    /// Of what was said and what is right.
    #[must_use]
    pub fn of(predicted: &[usize], truth: &[usize]) -> Self {
        let mut table = [[0; LABELS]; LABELS];
        predicted.iter().zip(truth).for_each(|(predicted, right)| table[*right][*predicted] += 1);
        Self(table)
    }

    /// All windows.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.0.iter().flatten().sum()
    }

    /// Windows of which a label is right.
    #[must_use]
    pub fn right(&self, label: usize) -> usize {
        self.0[label].iter().sum()
    }

    /// Windows for which a label was predicted.
    #[must_use]
    pub fn predicted(&self, label: usize) -> usize {
        self.0.iter().map(|row| row[label]).sum()
    }

    /// Share of windows judged rightly; 0 of none.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        let right: usize = (0..LABELS).map(|label| self.0[label][label]).sum();
        share(right, self.windows()).unwrap_or(0.0)
    }

    /// The mean recall of the labels that have windows, each counting equally; 0 of no windows.
    #[must_use]
    pub fn balanced_accuracy(&self) -> f64 {
        let recalls: Vec<f64> = (0..LABELS).filter_map(|label| self.recall(label)).collect();
        mean(recalls.into_iter())
    }

    /// Share of a label's windows that were called so.
    #[must_use]
    pub fn recall(&self, label: usize) -> Option<f64> {
        share(self.0[label][label], self.right(label))
    }

    /// Share of what was called so that is.
    #[must_use]
    pub fn precision(&self, label: usize) -> Option<f64> {
        share(self.0[label][label], self.predicted(label))
    }

    /// Harmonic mean of precision and recall.
    #[must_use]
    pub fn f1(&self, label: usize) -> Option<f64> {
        share(2 * self.0[label][label], self.right(label) + self.predicted(label))
    }
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// How a judge does on one label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelScore {
    /// Windows of which it is right.
    pub windows: usize,
    /// Share of what was called so that is.
    pub precision: Option<f64>,
    /// Share of its windows that were called so.
    pub recall: Option<f64>,
    /// Harmonic mean of the two.
    pub f1: Option<f64>,
    /// Mean distance between how likely it is said to be and how often it is right.
    pub ece: f64,
}

/// Everything that is said about probabilities of three labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelMetrics {
    /// How many windows were judged.
    pub windows: usize,
    /// By the true label, then by the predicted one.
    pub confusion: LabelConfusion,
    /// Share of windows judged rightly.
    pub accuracy: f64,
    /// The same, each label counting equally however many windows it has.
    pub balanced_accuracy: f64,
    /// Label by label.
    pub labels: [LabelScore; LABELS],
    /// Mean distance between how sure the judge is of what it says and how often it is right.
    pub ece: f64,
    /// Mean squared distance of the three probabilities from the truth: 0 to 2.
    pub brier: f64,
    /// Mean of minus the logarithm of the right label's probability.
    pub log_loss: f64,
}

impl LabelMetrics {
    /// Measures probabilities that sum to 1, by the label predicted for each window (mostly the likeliest label).
    ///
    /// # Panics
    /// If there are not as many answers as truths.
    #[must_use]
    pub fn of(probabilities: &[[f64; LABELS]], predicted: &[usize], truth: &[usize]) -> Self {
        assert!(
            probabilities.len() == truth.len() && predicted.len() == truth.len(),
            "an answer for every truth"
        );
        let confusion = LabelConfusion::of(predicted, truth);
        let label = |label: usize| {
            let scores: Vec<f64> = probabilities.iter().map(|window| window[label]).collect();
            let is: Vec<bool> = truth.iter().map(|right| *right == label).collect();
            LabelScore {
                windows: confusion.right(label),
                precision: confusion.precision(label),
                recall: confusion.recall(label),
                f1: confusion.f1(label),
                ece: calibration_error(&scores, &is, CALIBRATION_BINS),
            }
        };
        let (sure, right) = certainty(probabilities, truth);
        Self {
            windows: truth.len(),
            confusion,
            accuracy: confusion.accuracy(),
            balanced_accuracy: confusion.balanced_accuracy(),
            labels: std::array::from_fn(label),
            ece: calibration_error(&sure, &right, CALIBRATION_BINS),
            brier: label_brier(probabilities, truth),
            log_loss: label_log_loss(probabilities, truth),
        }
    }
}

/// The label with the highest number, the last of equals.
fn likeliest(numbers: &[f64; LABELS]) -> usize {
    (0..LABELS).fold(0, |best, label| if numbers[label] >= numbers[best] { label } else { best })
}

/// How likely the likeliest label of each window is, and whether it is right.
fn certainty(probabilities: &[[f64; LABELS]], truth: &[usize]) -> (Vec<f64>, Vec<bool>) {
    let one = |(window, right): (&[f64; LABELS], &usize)| {
        let predicted = likeliest(window);
        (window[predicted], predicted == *right)
    };
    probabilities.iter().zip(truth).map(one).unzip()
}

/// Certainty against how often the judge is right, in [`CALIBRATION_BINS`] parts.
#[must_use]
pub fn label_reliability(probabilities: &[[f64; LABELS]], truth: &[usize]) -> Vec<Bin> {
    let (sure, right) = certainty(probabilities, truth);
    reliability(&sure, &right, CALIBRATION_BINS)
}

fn label_brier(probabilities: &[[f64; LABELS]], truth: &[usize]) -> f64 {
    let apart = |(window, right): (&[f64; LABELS], &usize)| {
        let is = |label: usize| f64::from(u8::from(label == *right));
        (0..LABELS).map(|label| (window[label] - is(label)).powi(2)).sum::<f64>()
    };
    mean(probabilities.iter().zip(truth).map(apart))
}

fn label_log_loss(probabilities: &[[f64; LABELS]], truth: &[usize]) -> f64 {
    let loss = |(window, right): (&[f64; LABELS], &usize)| -window[*right].max(f64::EPSILON).ln();
    mean(probabilities.iter().zip(truth).map(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_count_equally_however_many_windows_they_have() {
        let confusion = LabelConfusion([[8, 2, 0], [0, 1, 1], [0, 0, 0]]);
        assert_eq!((confusion.windows(), confusion.accuracy()), (12, 0.75));
        assert!((confusion.balanced_accuracy() - (0.8 + 0.5) / 2.0).abs() < 1e-12, "unclear has no windows");
        assert_eq!((confusion.recall(2), confusion.precision(2)), (None, Some(0.0)));
        assert_eq!(LabelConfusion::default().balanced_accuracy(), 0.0);
    }

    #[test]
    fn a_wrong_certainty_is_bad_and_not_infinite() {
        let sure = LabelMetrics::of(&[[1.0, 0.0, 0.0]], &[0], &[1]);
        assert_eq!((sure.accuracy, sure.ece, sure.brier), (0.0, 1.0, 2.0));
        assert!((sure.log_loss - 36.04365338911715).abs() < 1e-9);
    }
}
