//! Whether scores mean what they say, before and after a temperature, on episodes the temperature was not fitted on.

use plaudit_core::Seed;
use serde::Serialize;

use super::{ScoredEpisode, fit_temperature, with_temperature};
use crate::metrics::{Bin, CALIBRATION_BINS, brier, calibration_error, log_loss, reliability};

/// How well calibrated scores are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalibrationMetrics {
    /// Mean distance between what scores promise and what happens.
    pub ece: f64,
    /// Mean squared distance of scores from the truth.
    pub brier: f64,
    /// Mean of minus the logarithm of the probability of the true label.
    pub log_loss: f64,
    /// What happened among frames of like scores.
    pub bins: Vec<Bin>,
}

/// A temperature, and what it is good for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration<M = CalibrationMetrics> {
    /// Fitted on one half of the episodes; `None` where a class is missing there, or only one label is right.
    pub temperature: Option<f64>,
    /// Episodes it was fitted on.
    pub fitted_on: usize,
    /// Episodes that the numbers below are from.
    pub measured_on: usize,
    /// As the network says it.
    pub before: M,
    /// At the temperature.
    pub after: M,
}

impl CalibrationMetrics {
    fn of(episodes: &[&ScoredEpisode], temperature: f64) -> Self {
        let (mut scores, mut truth) = (Vec::new(), Vec::new());
        for episode in episodes {
            // In 64 bits: the price of a sure mistake would saturate otherwise.
            scores.extend(
                episode
                    .logits
                    .iter()
                    .map(|logit| 1.0 / (1.0 + (-with_temperature(*logit, temperature)).exp())),
            );
            truth.extend_from_slice(&episode.truth);
        }
        Self {
            ece: calibration_error(&scores, &truth, CALIBRATION_BINS),
            brier: brier(&scores, &truth),
            log_loss: log_loss(&scores, &truth),
            bins: reliability(&scores, &truth, CALIBRATION_BINS),
        }
    }
}

/// Fits a temperature on one half of the episodes, chosen at random, and measures on the other. `logits` are the
/// network's own. Unless it `fits`, they stay as they are.
#[must_use]
pub(super) fn calibrate(episodes: &[ScoredEpisode], fits: bool, seed: Seed) -> Calibration {
    let [fit, rest] = halves(episodes.len(), seed);
    let of = |numbers: &[usize]| numbers.iter().map(|at| &episodes[*at]).collect::<Vec<_>>();
    let (fit, rest) = (of(&fit), of(&rest));
    let logits: Vec<f64> = fit.iter().flat_map(|episode| episode.logits.iter().copied()).collect();
    let truth: Vec<bool> = fit.iter().flat_map(|episode| episode.truth.iter().copied()).collect();
    let temperature = if fits { fit_temperature(&logits, &truth) } else { None };
    Calibration {
        temperature,
        fitted_on: fit.len(),
        measured_on: rest.len(),
        before: CalibrationMetrics::of(&rest, 1.0),
        after: CalibrationMetrics::of(&rest, temperature.unwrap_or(1.0)),
    }
}

/// Two halves of so many episodes, chosen at random.
pub(super) fn halves(episodes: usize, seed: Seed) -> [Vec<usize>; 2] {
    let mut order: Vec<usize> = (0..episodes).collect();
    seed.purpose("halves").rng().shuffle(&mut order);
    let rest = order.split_off(episodes / 2);
    [order, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels sampled from known probabilities, logits four times too sure: half of the episodes find it out, and the others
    /// are better for it.
    #[test]
    fn a_temperature_from_one_half_helps_the_other() {
        let mut rng = Seed::new(2).rng();
        let episodes: Vec<ScoredEpisode> = (0..200)
            .map(|_| {
                let logits: Vec<f64> = (0..30).map(|_| 1.5 * rng.normal()).collect();
                let truth = logits.iter().map(|logit| rng.unit() < 1.0 / (1.0 + (-logit).exp())).collect();
                let sure = logits.iter().map(|logit| 4.0 * logit).collect();
                ScoredEpisode { name: String::new(), logits: sure, truth }
            })
            .collect();
        let found = calibrate(&episodes, true, Seed::new(1));
        assert!((found.temperature.unwrap() - 4.0).abs() < 0.5, "{:?}", found.temperature);
        assert_eq!((found.fitted_on, found.measured_on), (100, 100));
        assert!(found.after.ece < 0.3 * found.before.ece && found.after.brier < found.before.brier);
    }
}
