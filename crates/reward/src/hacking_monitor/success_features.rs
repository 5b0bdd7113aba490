//! The features of known successes, for out-of-distribution checks.
//!
//! Before its head, a network has a row of features for each frame. On successes that are known these have a mean and a
//! spread; a frame that is rewarded far from them is rewarded for something else. And a head that is evaluated several
//! times, each time without some of the features, answers alike about what it knows.

use plaudit_core::Seed;
use plaudit_nn::classifier::{ClassifierError, Scorer};
use plaudit_nn::images::ImageBatch;
use serde::{Deserialize, Serialize};

/// The quantile of known successes that sets both thresholds.
const QUANTILE: f64 = 0.99;
/// Forward passes of the head with dropout, and the share of features that each drops.
const DROPOUT_PASSES: u64 = 8;
const DROPOUT: f64 = 0.2;

/// Mean and spread of the features of known successes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuccessFeatures {
    /// The mean of each feature.
    mean: Vec<f32>,
    /// One over the spread of each feature.
    inverse_std: Vec<f32>,
    /// The distance that 99 of 100 known successes do not exceed.
    ood_threshold: f64,
    /// The disagreement that 99 of 100 known successes do not exceed.
    disagreement_threshold: f64,
    /// How many successes are behind it.
    frames: usize,
}

/// Whether a frame is out of distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OodCheck {
    /// Whether it is further from known successes than those are from each other.
    pub is_ood: bool,
    /// Whether the model agrees with itself less than on known successes.
    pub is_uncertain: bool,
}

impl SuccessFeatures {
    /// Learns from frames of success, given in batches; `None` without any.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub fn of<'a>(
        scorer: &Scorer,
        batches: impl Iterator<Item = Result<ImageBatch<'a>, ClassifierError>>,
    ) -> Result<Option<Self>, ClassifierError> {
        let (mut rows, mut disagreements) = (Vec::new(), Vec::new());
        for batch in batches {
            let features = scorer.features(&batch?)?;
            disagreements.extend(disagreement(scorer, &features));
            rows.extend(features);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let (mean, inverse_std) = spread(&rows);
        let distances = rows.iter().map(|row| distance(row, &mean, &inverse_std)).collect();
        let (ood_threshold, disagreement_threshold) =
            (quantile(distances, QUANTILE), quantile(disagreements, QUANTILE));
        Ok(Some(Self { ood_threshold, disagreement_threshold, frames: rows.len(), mean, inverse_std }))
    }

    /// Checks frames.
    ///
    /// # Errors
    /// When images do not fit the model.
    pub fn check(&self, scorer: &Scorer, images: &ImageBatch<'_>) -> Result<Vec<OodCheck>, ClassifierError> {
        let features = scorer.features(images)?;
        let disagreements = disagreement(scorer, &features);
        let check = |(row, disagreement_of_frame): (&Vec<f32>, f64)| OodCheck {
            is_ood: distance(row, &self.mean, &self.inverse_std) > self.ood_threshold,
            is_uncertain: disagreement_of_frame > self.disagreement_threshold,
        };
        Ok(features.iter().zip(disagreements).map(check).collect())
    }
}

/// The mean of each feature, and one over its standard deviation.
fn spread(rows: &[Vec<f32>]) -> (Vec<f32>, Vec<f32>) {
    let (count, width) = (rows.len() as f64, rows[0].len());
    let column = |of: &dyn Fn(&Vec<f32>, usize) -> f64, at: usize| {
        rows.iter().map(|row| of(row, at)).sum::<f64>() / count
    };
    let mean: Vec<f64> = (0..width).map(|at| column(&|row, at| f64::from(row[at]), at)).collect();
    let variance: Vec<f64> =
        (0..width).map(|at| column(&|row, at| (f64::from(row[at]) - mean[at]).powi(2), at)).collect();
    // A feature that never changed among successes must not make every other frame infinitely far.
    let floor = 1e-3 * variance.iter().sum::<f64>() / width as f64 + f64::MIN_POSITIVE;
    let inverse_std = variance.iter().map(|variance| (1.0 / (variance + floor).sqrt()) as f32).collect();
    (mean.into_iter().map(|mean| mean as f32).collect(), inverse_std)
}

/// The mean squared distance, in standard deviations.
fn distance(row: &[f32], mean: &[f32], inverse_std: &[f32]) -> f64 {
    let apart = row
        .iter()
        .zip(mean)
        .zip(inverse_std)
        .map(|((x, mean), inverse_std)| f64::from((x - mean) * inverse_std).powi(2));
    apart.sum::<f64>() / row.len().max(1) as f64
}

/// The standard deviation of each frame's logit when the head is not shown all features.
fn disagreement(scorer: &Scorer, features: &[Vec<f32>]) -> Vec<f64> {
    let width = features.first().map_or(0, Vec::len);
    let (mut sums, mut squares) = (vec![0.0; features.len()], vec![0.0; features.len()]);
    for time in 0..DROPOUT_PASSES {
        let mut rng = Seed::new(0).purpose("hidden features").index(time).rng();
        let kept = (1.0 / (1.0 - DROPOUT)) as f32;
        let mask: Vec<f32> = (0..width).map(|_| if rng.unit() < DROPOUT { 0.0 } else { kept }).collect();
        let dropped: Vec<Vec<f32>> =
            features.iter().map(|row| row.iter().zip(&mask).map(|(x, mask)| x * mask).collect()).collect();
        for (at, logit) in scorer.head(&dropped).into_iter().enumerate() {
            sums[at] += f64::from(logit);
            squares[at] += f64::from(logit).powi(2);
        }
    }
    let times = DROPOUT_PASSES as f64;
    sums.iter()
        .zip(&squares)
        .map(|(sum, square)| (square / times - (sum / times).powi(2)).max(0.0).sqrt())
        .collect()
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get((values.len().saturating_sub(1) as f64 * share).round() as usize)
        .copied()
        .unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_a_feature_that_never_changes_is_far() {
        let rows: Vec<Vec<f32>> = (0..50).map(|at| vec![at as f32 / 50.0, 1.0]).collect();
        let (mean, inverse_std) = spread(&rows);
        let known = quantile(rows.iter().map(|row| distance(row, &mean, &inverse_std)).collect(), 0.99);
        assert!(distance(&[0.5, 1.0], &mean, &inverse_std) <= known);
        assert!(distance(&[0.5, 2.0], &mean, &inverse_std) > 10.0 * known);
        assert!(distance(&[0.5, 2.0], &mean, &inverse_std).is_finite());
    }
}
