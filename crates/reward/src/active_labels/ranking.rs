//! In which order frames are asked about.

use plaudit_core::Seed;

use super::scores::FrameScores;

/// How frames to train on are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuestionOrder {
    /// The most uncertain first.
    #[default]
    Active,
    /// At random, for comparison.
    Random,
}

/// How much a label of a frame is worth: `2 min(p, 1 - p) + |p - q|`, where `p` and `q` are what the model and a second one think of it,
/// each as the logistic function of its distance to its own threshold in logits. The first part is 1 at the threshold and falls to 0 on
/// both sides; the second is how far the models disagree. Without a second model it is left out.
#[must_use]
pub fn uncertainty(margin: f64, second_margin: Option<f64>) -> f64 {
    let logistic = |margin: f64| 1.0 / (1.0 + (-margin).exp());
    let p = logistic(margin);
    let disagreement = second_margin.map_or(0.0, |second| (p - logistic(second)).abs());
    2.0 * p.min(1.0 - p) + disagreement
}

impl QuestionOrder {
    /// The candidates in the order in which they are asked about.
    pub(super) fn of(
        self,
        candidates: &[usize],
        model: &FrameScores,
        second: Option<&FrameScores>,
        seed: u64,
    ) -> Vec<usize> {
        let worth = |frame: usize| uncertainty(model.margins[frame], second.map(|s| s.margins[frame]));
        match self {
            Self::Active => {
                let mut ranked: Vec<(f64, usize)> =
                    candidates.iter().map(|frame| (worth(*frame), *frame)).collect();
                ranked.sort_by(|(a, first), (b, other)| b.total_cmp(a).then(first.cmp(other)));
                ranked.into_iter().map(|(_, frame)| frame).collect()
            }
            Self::Random => shuffled(candidates.to_vec(), Seed::new(seed).purpose("random labels")),
        }
    }
}

/// The same at random.
pub(super) fn shuffled(mut frames: Vec<usize>, seed: Seed) -> Vec<usize> {
    let mut rng = seed.rng();
    for at in (1..frames.len()).rev() {
        frames.swap(at, rng.below(at + 1));
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsure_and_disputed_frames_are_worth_most() {
        let p = |margin: f64| 1.0 / (1.0 + f64::exp(-margin));
        for (margin, second, expected) in [
            (0.0, None, 1.0),
            (2.0, None, 2.0 * p(-2.0)),
            (-2.0, None, 2.0 * p(-2.0)),
            (0.0, Some(0.0), 1.0),
            (3.0, Some(3.0), 2.0 * p(-3.0)),
            (3.0, Some(-3.0), 2.0 * p(-3.0) + p(3.0) - p(-3.0)),
            (f64::INFINITY, Some(f64::NEG_INFINITY), 1.0),
        ] {
            let found = uncertainty(margin, second);
            assert!((found - expected).abs() < 1e-12, "{margin} and {second:?}: {found}, not {expected}");
        }
    }

    #[test]
    fn frames_are_ordered_by_worth_or_at_random() {
        let scores = |margins: &[f64]| FrameScores::of(margins, 1.0, 0.5);
        let model = scores(&[5.5, -0.2, 0.1, -5.0, 2.0]);
        let second = scores(&[-5.5, -0.2, 0.1, -5.0, 2.0]);
        let all = [0, 1, 2, 3, 4];
        let cases: [(&[usize], Option<&FrameScores>, &[usize]); 4] = [
            (&all, None, &[2, 1, 4, 3, 0]),
            (&all, Some(&second), &[0, 2, 1, 4, 3]),
            (&[4, 3, 0], Some(&second), &[0, 4, 3]),
            (&[], None, &[]),
        ];
        for (candidates, second, expected) in cases {
            assert_eq!(QuestionOrder::Active.of(candidates, &model, second, 1), expected, "{candidates:?}");
        }
        let random = |seed| QuestionOrder::Random.of(&all, &model, None, seed);
        assert_eq!(random(1), random(1));
        assert!((2..20).any(|seed| random(seed) != random(1)));
        let mut sorted = random(5);
        sorted.sort_unstable();
        assert_eq!(sorted, all);
    }
}
