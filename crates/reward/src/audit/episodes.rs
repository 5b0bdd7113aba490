//! Scored episodes: scores beside the truth, and when success was noticed.

use plaudit_core::Score;

use super::RuleAt;

/// One episode as the model and the truth saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredEpisode {
    /// Which episode: a file, or a number in a dataset.
    pub name: String,
    /// Logits, frame by frame.
    pub logits: Vec<f64>,
    /// Whether each frame shows success.
    pub truth: Vec<bool>,
}

impl ScoredEpisode {
    /// The same with logits divided by a temperature, in 32 bits, as whoever scores frames does it.
    #[must_use]
    pub fn at_temperature(&self, temperature: f64) -> Self {
        let divided = |logit: &f64| f64::from(*logit as f32 / temperature as f32);
        Self { logits: self.logits.iter().map(divided).collect(), ..self.clone() }
    }

    /// Probabilities, frame by frame, as whoever applies a threshold computes them: in 32 bits. A threshold is one of
    /// these numbers, so that other rounding would count other decisions than are made.
    #[must_use]
    pub fn scores(&self) -> Vec<f64> {
        self.logits.iter().map(|logit| score_of(*logit as f32, 1.0)).collect()
    }
}

/// The score of a logit at a temperature, as whoever applies a threshold computes it; of no number, no number.
#[must_use]
pub fn score_of(logit: f32, temperature: f64) -> f64 {
    Score::at_temperature(logit, temperature).map_or(f64::NAN, |score| f64::from(score.get()))
}

/// How success was noticed in one episode that succeeded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Detection {
    /// The first frame of success.
    pub success_at: usize,
    /// The first frame at or after it that the model takes for success, if any.
    pub detected_at: Option<usize>,
    /// The share of frames of success that the model takes for success.
    pub held: f64,
    /// How often the model changes its mind among the frames of success.
    pub flips: usize,
}

/// How success was noticed; `None` for an episode without success.
#[must_use]
pub(super) fn detection(episode: &ScoredEpisode, rule: RuleAt) -> Option<Detection> {
    let success_at = episode.truth.iter().position(|truth| *truth)?;
    let seen = rule.seen(episode);
    let detected_at = (success_at..seen.len()).find(|&frame| seen[frame]);
    let among: Vec<bool> =
        seen.iter().zip(&episode.truth).filter(|(_, truth)| **truth).map(|(seen, _)| *seen).collect();
    let held = among.iter().filter(|seen| **seen).count() as f64 / among.len() as f64;
    let flips = among.windows(2).filter(|pair| pair[0] != pair[1]).count();
    Some(Detection { success_at, detected_at, held, flips })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_and_holding_are_counted_from_the_first_frame_of_success() {
        let truth = vec![false, false, true, true, true, true];
        let logits = vec![-2.0, 1.0, -1.0, 2.0, -0.5, 3.0];
        let found = detection(
            &ScoredEpisode { name: "a".into(), logits: logits.clone(), truth },
            RuleAt::frames(0.5),
        )
        .unwrap();
        assert_eq!((found.success_at, found.detected_at), (2, Some(3)));
        assert_eq!((found.held, found.flips), (0.5, 3));
        let failed = ScoredEpisode { name: "b".into(), logits, truth: vec![false; 6] };
        assert_eq!(detection(&failed, RuleAt::frames(0.5)), None);
    }
}
