//! Whether scores mean what they say, before and after a temperature, on episodes the temperature was not fitted on.

use plaudit_core::Seed;
use serde::Serialize;

use super::{JudgedEpisode, fit_temperature};
use crate::metrics::{Bin, CALIBRATION_BINS, brier, calibration_error, log_loss, reliability};

/// How honest scores are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Honesty {
    /// Mean distance between what scores promise and what happens.
    pub ece: f64,
    /// Mean squared distance of scores from the truth.
    pub brier: f64,
    /// Mean of minus the logarithm of the chance that the truth was given.
    pub log_loss: f64,
    /// What happened among frames of like scores.
    pub bins: Vec<Bin>,
}

/// A temperature, and what it is good for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Fitted on one half of the episodes; `None` where a class is missing there.
    pub temperature: Option<f64>,
    /// Episodes it was fitted on.
    pub fitted_on: usize,
    /// Episodes that the numbers below are from.
    pub measured_on: usize,
    /// As the network says it.
    pub before: Honesty,
    /// At the temperature.
    pub after: Honesty,
}

impl Honesty {
    fn of(episodes: &[&JudgedEpisode], temperature: f64) -> Self {
        let (mut scores, mut truth) = (Vec::new(), Vec::new());
        for episode in episodes {
            scores.extend(episode.at_temperature(temperature).scores());
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

/// Fits a temperature on one half of the episodes, chosen by chance, and measures on the other. `logits` are the
/// network's own.
#[must_use]
pub fn calibrate(episodes: &[JudgedEpisode], seed: Seed) -> Calibration {
    let [fit, rest] = halves(episodes.len(), seed);
    let of = |numbers: &[usize]| numbers.iter().map(|at| &episodes[*at]).collect::<Vec<_>>();
    let (fit, rest) = (of(&fit), of(&rest));
    let logits: Vec<f64> = fit.iter().flat_map(|episode| episode.logits.iter().copied()).collect();
    let truth: Vec<bool> = fit.iter().flat_map(|episode| episode.truth.iter().copied()).collect();
    let temperature = fit_temperature(&logits, &truth);
    Calibration {
        temperature,
        fitted_on: fit.len(),
        measured_on: rest.len(),
        before: Honesty::of(&rest, 1.0),
        after: Honesty::of(&rest, temperature.unwrap_or(1.0)),
    }
}

/// Two halves of so many episodes, chosen by chance.
pub(super) fn halves(episodes: usize, seed: Seed) -> [Vec<usize>; 2] {
    let mut order: Vec<usize> = (0..episodes).collect();
    seed.purpose("halves").rng().shuffle(&mut order);
    let rest = order.split_off(episodes / 2);
    [order, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Truth drawn from known chances, logits four times too sure: half of the episodes find it out, and the others
    /// are better for it.
    #[test]
    fn a_temperature_from_one_half_helps_the_other() {
        let mut rng = Seed::new(2).rng();
        let episodes: Vec<JudgedEpisode> = (0..200)
            .map(|_| {
                let logits: Vec<f64> = (0..30).map(|_| 1.5 * rng.normal()).collect();
                let truth = logits.iter().map(|logit| rng.unit() < 1.0 / (1.0 + (-logit).exp())).collect();
                let sure = logits.iter().map(|logit| 4.0 * logit).collect();
                JudgedEpisode { name: String::new(), logits: sure, truth }
            })
            .collect();
        let found = calibrate(&episodes, Seed::new(1));
        assert!((found.temperature.unwrap() - 4.0).abs() < 0.5, "{:?}", found.temperature);
        assert_eq!((found.fitted_on, found.measured_on), (100, 100));
        assert!(found.after.ece < 0.3 * found.before.ece && found.after.brier < found.before.brier);
    }
}
