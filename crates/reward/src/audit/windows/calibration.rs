//! Whether the probabilities of labels mean what they say, before and after a temperature, on episodes that the
//! temperature was not fitted on.

use plaudit_core::Seed;
use serde::Serialize;

use super::super::calibration::{Calibration, halves};
use super::super::fit_label_temperature;
use super::ScoredWindows;
use crate::metrics::{Bin, LABELS, LabelMetrics, label_reliability};

/// How well calibrated the probabilities of labels are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LabelCalibrationMetrics {
    /// Mean distance between how sure the judge is and how often it is right.
    pub ece: f64,
    /// The same for how likely each label is said to be.
    pub label_ece: [f64; LABELS],
    /// Mean squared distance of the three probabilities from the truth.
    pub brier: f64,
    /// Mean of minus the logarithm of the right label's probability.
    pub log_loss: f64,
    /// How often the judge is right where it is about as sure.
    pub bins: Vec<Bin>,
}

/// The temperature of a judge, and what it is good for.
pub type LabelCalibration = Calibration<LabelCalibrationMetrics>;

impl LabelCalibrationMetrics {
    fn of(windows: &ScoredWindows, temperature: f64) -> Self {
        let LabelMetrics { ece, labels, brier, log_loss, .. } = windows.metrics(temperature);
        let bins = label_reliability(&windows.probabilities(temperature), &windows.truth);
        Self { ece, label_ece: labels.map(|label| label.ece), brier, log_loss, bins }
    }
}

/// Fits a temperature on one half of the episodes, chosen at random, and measures on the other.
#[must_use]
pub(super) fn calibrate_labels(windows: &ScoredWindows, seed: Seed) -> LabelCalibration {
    let [fit, rest] = halves(windows.episodes.len(), seed);
    let (fitting, measured) = (windows.of_episodes(&fit), windows.of_episodes(&rest));
    let logits: Vec<[f64; LABELS]> = fitting.logits.iter().map(|logits| logits.0.map(f64::from)).collect();
    let temperature = fit_label_temperature(&logits, &fitting.truth);
    LabelCalibration {
        temperature,
        fitted_on: fit.len(),
        measured_on: rest.len(),
        before: LabelCalibrationMetrics::of(&measured, 1.0),
        after: LabelCalibrationMetrics::of(&measured, temperature.unwrap_or(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::temperature::tests::sampled_label;
    use super::super::tests::scored;
    use super::*;

    /// Labels sampled from known probabilities, logits four times too sure: half of the episodes find it out, and the others are
    /// better for it.
    #[test]
    fn a_temperature_from_one_half_helps_the_other() {
        let mut rng = Seed::new(2).rng();
        let (mut logits, mut truth) = (Vec::new(), Vec::new());
        for _ in 0..4000 {
            let honest: [f32; 3] = std::array::from_fn(|_| (1.5 * rng.normal()) as f32);
            let probabilities = super::super::softmax(&honest.map(f64::from), 1.0);
            truth.push(sampled_label(probabilities, &mut rng));
            logits.push(honest.map(|logit| 4.0 * logit));
        }
        let found = calibrate_labels(&scored(&logits, &truth, 20), Seed::new(1));
        assert!((found.temperature.unwrap() - 4.0).abs() < 0.4, "{:?}", found.temperature);
        assert_eq!((found.fitted_on, found.measured_on), (100, 100));
        assert!(found.after.ece < 0.3 * found.before.ece && found.after.brier < found.before.brier);
        assert!(
            found.after.label_ece.iter().zip(found.before.label_ece).all(|(after, before)| *after < before)
        );
    }

    #[test]
    fn one_label_alone_has_no_temperature() {
        let found = calibrate_labels(&scored(&[[1.0, 0.0, 0.0]; 8], &[0; 8], 2), Seed::new(1));
        assert_eq!(found.temperature, None);
        assert_eq!(found.before, found.after);
    }
}
