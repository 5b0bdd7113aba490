//! Whether scores mean what they say: of the frames scored 0.8, four in five should be successes.

use serde::{Deserialize, Serialize};

use super::mean;

/// The frames whose scores lie in one part of 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// How many.
    pub frames: usize,
    /// Their mean score.
    pub score: f64,
    /// The share of successes among them.
    pub successes: f64,
}

/// Scores against what happened, in `bins` equal parts of 0 to 1, each with its upper end. Empty ones are left out.
///
/// # Panics
/// If there are no bins.
#[must_use]
pub fn reliability(scores: &[f64], truth: &[bool], bins: usize) -> Vec<Bin> {
    assert!(bins > 0, "scores need a bin");
    let mut found = vec![Bin { frames: 0, score: 0.0, successes: 0.0 }; bins];
    for (score, success) in scores.iter().zip(truth) {
        let bin = &mut found[bin_of(*score, bins)];
        bin.frames += 1;
        bin.score += score;
        bin.successes += f64::from(u8::from(*success));
    }
    found.retain(|bin| bin.frames > 0);
    for bin in &mut found {
        bin.score /= bin.frames as f64;
        bin.successes /= bin.frames as f64;
    }
    found
}

/// How many inner edges are below a score.
fn bin_of(score: f64, bins: usize) -> usize {
    let width = 1.0 / bins as f64;
    let guess = ((score / width) as usize).min(bins - 1);
    // The division may land a hair on the wrong side of an edge.
    let below = |edge: usize| (edge as f64 * width) < score;
    (guess.saturating_sub(1)..guess + 2)
        .filter(|edge| (1..bins).contains(edge) && below(*edge))
        .max()
        .unwrap_or(0)
}

/// The expected calibration error: the mean distance between a bin's score and its share of successes, by its frames.
#[must_use]
pub fn calibration_error(scores: &[f64], truth: &[bool], bins: usize) -> f64 {
    let found = reliability(scores, truth, bins);
    let apart = |bin: &Bin| bin.frames as f64 * (bin.score - bin.successes).abs();
    found.iter().map(apart).sum::<f64>() / scores.len().max(1) as f64
}

/// The mean squared distance between score and truth.
#[must_use]
pub fn brier(scores: &[f64], truth: &[bool]) -> f64 {
    mean(scores.iter().zip(truth).map(|(score, success)| (score - f64::from(u8::from(*success))).powi(2)))
}

/// The mean of minus the logarithm of the probability of the true label; probabilities of 0 count as the smallest step
/// above it, so that one wrong certainty is bad and not infinite.
#[must_use]
pub fn log_loss(scores: &[f64], truth: &[bool]) -> f64 {
    let loss = |(score, success): (&f64, &bool)| {
        let score = score.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        -(if *success { score } else { 1.0 - score }).ln()
    };
    mean(scores.iter().zip(truth).map(loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_belong_to_the_bin_below() {
        for (score, bin) in
            [(0.0, 0), (0.1, 0), (0.1 + 1e-12, 1), (0.3, 2), (0.30001, 3), (0.95, 9), (1.0, 9)]
        {
            assert_eq!(bin_of(score, 10), bin, "{score}");
        }
        assert_eq!(bin_of(0.7, 1), 0);
    }

    #[test]
    fn honest_scores_have_no_error() {
        let truth = [true, true, true, true, false];
        assert!(calibration_error(&[0.8; 5], &truth, 15) < 1e-12);
        assert!((calibration_error(&[1.0; 5], &truth, 15) - 0.2).abs() < 1e-12);
        assert_eq!(calibration_error(&[], &[], 15), 0.0);
    }

    #[test]
    fn a_wrong_certainty_is_not_infinite() {
        assert!((log_loss(&[0.0], &[true]) - 36.04365338911715).abs() < 1e-9);
    }
}
