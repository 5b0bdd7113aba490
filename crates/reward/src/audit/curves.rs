//! Curves over thresholds, each with where it would lie with other episodes.

use plaudit_core::{JsonNumber, Seed};
use rayon::prelude::*;
use serde::Serialize;

use super::ScoredEpisode;
use crate::metrics::{precision_recall_curve, roc_curve};

/// One place of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Along the bottom.
    pub at: f64,
    /// Over the episodes at hand.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub value: f64,
    /// Lower end of 95 %.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub low: f64,
    /// Upper end of 95 %.
    #[serde(serialize_with = "JsonNumber::serialize_f64")]
    pub high: f64,
}

/// Places along the bottom: hundredths, and finer where false alarms are rare.
fn places() -> Vec<f64> {
    let fine = (0..20).map(|step| f64::from(step) / 2000.0);
    fine.chain((1..=100).map(|step| f64::from(step) / 100.0)).collect()
}

/// The share of successes found over the share of failures that raise an alarm, frame by frame.
#[must_use]
pub(super) fn roc_over_episodes(episodes: &[ScoredEpisode], resamples: u64, seed: Seed) -> Vec<CurvePoint> {
    banded(episodes, resamples, seed.purpose("roc"), |scores, truth| {
        let curve = roc_curve(scores, truth);
        // The best that is had without more false alarms than this.
        let reached = |place: f64| {
            let within = curve.partition_point(|(rate, _)| *rate <= place + 1e-12);
            curve.get(within.wrapping_sub(1)).map_or(f64::NAN, |point| point.1)
        };
        (!curve.is_empty()).then(|| places().into_iter().map(reached).collect())
    })
}

/// The share of successes among what is called one, over the share of successes found.
#[must_use]
pub(super) fn precision_over_episodes(
    episodes: &[ScoredEpisode],
    resamples: u64,
    seed: Seed,
) -> Vec<CurvePoint> {
    banded(episodes, resamples, seed.purpose("precision"), |scores, truth| {
        let curve = precision_recall_curve(scores, truth);
        // At the highest threshold that finds as many.
        let reached = |place: f64| {
            let enough = curve.partition_point(|(recall, _)| *recall < place - 1e-12);
            curve.get(enough).map_or(f64::NAN, |point| point.1)
        };
        (!curve.is_empty()).then(|| places().into_iter().map(reached).collect())
    })
}

/// A curve over all frames, with its bootstrap band over resampled episodes.
fn banded(
    episodes: &[ScoredEpisode],
    resamples: u64,
    seed: Seed,
    curve: impl Fn(&[f64], &[bool]) -> Option<Vec<f64>> + Sync,
) -> Vec<CurvePoint> {
    // Logits rank like scores, and do not saturate.
    let parts: Vec<(&[f64], &[bool])> =
        episodes.iter().map(|episode| (&episode.logits[..], &episode.truth[..])).collect();
    let over = |chosen: &mut dyn Iterator<Item = usize>| {
        let (mut scores, mut truth) = (Vec::new(), Vec::new());
        for index in chosen {
            scores.extend_from_slice(parts[index].0);
            truth.extend_from_slice(parts[index].1);
        }
        curve(&scores, &truth)
    };
    let Some(values) = over(&mut (0..parts.len())) else { return Vec::new() };
    let sampled: Vec<Vec<f64>> = (0..resamples)
        .into_par_iter()
        .filter_map(|resample| {
            let mut rng = seed.index(resample).rng();
            let chosen: Vec<usize> = parts.iter().map(|_| rng.below(parts.len())).collect();
            over(&mut chosen.into_iter())
        })
        .collect();
    let point = |(index, (at, value)): (usize, (f64, f64))| {
        let mut column: Vec<f64> = sampled.iter().map(|curve| curve[index]).collect();
        column.retain(|value| !value.is_nan());
        column.sort_by(f64::total_cmp);
        let quantile = |share: f64| match column.len() {
            0 => value,
            count => column[((count - 1) as f64 * share).round() as usize],
        };
        CurvePoint { at, value, low: quantile(0.025), high: quantile(0.975) }
    };
    places().into_iter().zip(values).enumerate().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(logits: &[f64], truth: &[bool]) -> ScoredEpisode {
        ScoredEpisode { name: String::new(), logits: logits.to_vec(), truth: truth.to_vec() }
    }

    #[test]
    fn curves_begin_and_end_where_they_must_and_hold_their_bands() {
        let mut rng = Seed::new(5).rng();
        let episodes: Vec<ScoredEpisode> = (0..40)
            .map(|_| {
                let truth: Vec<bool> = (0..20).map(|at| at >= 12).collect();
                let logits: Vec<f64> = truth.iter().map(|t| rng.normal() + 2.0 * f64::from(*t)).collect();
                episode(&logits, &truth)
            })
            .collect();
        let roc = roc_over_episodes(&episodes, 100, Seed::new(1));
        let last = roc.last().unwrap();
        assert_eq!((last.at, last.value), (1.0, 1.0));
        assert!(roc.windows(2).all(|pair| pair[0].value <= pair[1].value), "more alarms find more");
        let precision = precision_over_episodes(&episodes, 100, Seed::new(1));
        // All are found at the score of the lowest success; the alarms there count too.
        let frames = || episodes.iter().flat_map(|episode| episode.logits.iter().zip(&episode.truth));
        let successes = || frames().filter(|(_, truth)| **truth);
        let lowest = successes().map(|(logit, _)| *logit).fold(f64::INFINITY, f64::min);
        let called = frames().filter(|(logit, _)| **logit >= lowest).count();
        let expected = successes().count() as f64 / called as f64;
        assert!((precision.last().unwrap().value - expected).abs() < 1e-12 && expected > 0.4);
        for point in roc.iter().chain(&precision) {
            assert!(point.low <= point.value + 0.05 && point.value <= point.high + 0.05, "{point:?}");
        }
        assert!(roc.iter().any(|point| point.high - point.low > 0.01));
    }

    #[test]
    fn one_class_has_no_curve() {
        assert!(roc_over_episodes(&[episode(&[1.0], &[true])], 10, Seed::new(1)).is_empty());
        assert!(precision_over_episodes(&[episode(&[1.0], &[false])], 10, Seed::new(1)).is_empty());
    }
}
