//! What a model says about every frame, as decisions are made.

use crate::audit::score_of;

/// Thresholds nearer to 0 or 1 than this are taken for this.
const NEAREST_TO_CERTAIN: f64 = 1e-6;

/// The scores of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameScores {
    /// Probabilities of success.
    pub scores: Vec<f64>,
    /// What the model decides: whether the score is above its threshold.
    pub decisions: Vec<bool>,
    /// How far each frame is from the threshold, in logits; positive for success.
    pub margins: Vec<f64>,
}

impl FrameScores {
    /// Of logits, at the temperature and the threshold of their model.
    #[must_use]
    pub fn of(logits: &[f64], temperature: f64, threshold: f64) -> Self {
        let near = threshold.clamp(NEAREST_TO_CERTAIN, 1.0 - NEAREST_TO_CERTAIN);
        let at_threshold = (near / (1.0 - near)).ln();
        let scores: Vec<f64> = logits.iter().map(|logit| score_of(*logit as f32, temperature)).collect();
        // As a reward compares them: in 32 bits.
        let decisions = scores.iter().map(|score| *score > f64::from(threshold as f32)).collect();
        let margins = logits.iter().map(|logit| logit / temperature - at_threshold).collect();
        Self { scores, decisions, margins }
    }

    /// Whether all of them are numbers.
    #[must_use]
    pub fn are_finite(&self) -> bool {
        self.scores.iter().all(|score| score.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_count_from_the_threshold_and_agree_with_decisions() {
        let found = FrameScores::of(&[-2.0, 0.0, 1.5, 4.0], 1.0, 0.8);
        let at = 4f64.ln();
        for (margin, expected) in found.margins.iter().zip([-2.0 - at, -at, 1.5 - at, 4.0 - at]) {
            assert!((margin - expected).abs() < 1e-9);
        }
        assert_eq!(found.decisions, [false, false, true, true]);
        assert!(found.margins.iter().zip(&found.decisions).all(|(margin, is)| (*margin > 0.0) == *is));
        let hot = FrameScores::of(&[4.0], 2.0, 0.5);
        assert!((hot.margins[0] - 2.0).abs() < 1e-9);
        assert!(FrameScores::of(&[3.0], 1.0, 1.0).margins[0].is_finite(), "a threshold that nothing passes");
        assert!(!FrameScores::of(&[f64::NAN], 1.0, 0.5).are_finite());
    }
}
