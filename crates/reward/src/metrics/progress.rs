//! How well scores follow the progress of episodes.

use plaudit_core::Seed;
use serde::{Deserialize, Serialize};

use super::{held_out_balanced_accuracy, kendall, roc_auc, spearman};
use crate::audit::{Interval, bootstrap_interval};

/// One episode: its scores in order, and whether each frame shows success.
#[derive(Clone, Debug, PartialEq)]
pub struct EpisodeScores {
    /// The score of each frame.
    pub scores: Vec<f64>,
    /// Whether it shows success.
    pub truth: Vec<bool>,
}

/// How well scores follow the progress of episodes. A number that has no meaning is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressMetrics {
    /// Value-order correlation: Spearman's correlation of scores with time, up to the first frame of success, in the mean over the
    /// episodes that succeed.
    pub voc: Option<f64>,
    /// The same by Kendall's tau-b.
    pub kendall: Option<f64>,
    /// The probability that an episode which ends in success has a higher last score than one which does not.
    pub last_frame_auc: Option<f64>,
    /// Episodes behind the correlations.
    pub successful_episodes: usize,
}

impl ProgressMetrics {
    /// Measures whole episodes.
    #[must_use]
    pub fn of(episodes: &[EpisodeScores]) -> Self {
        let until_success = |episode: &EpisodeScores| {
            let end = episode.truth.iter().position(|success| *success)?;
            let scores = episode.scores[..=end].to_vec();
            let time: Vec<f64> = (0..=end).map(|at| at as f64).collect();
            Some((time, scores))
        };
        let solved: Vec<_> = episodes.iter().filter_map(until_success).collect();
        let mean = |number: fn(&[f64], &[f64]) -> Option<f64>| {
            let all: Vec<f64> = solved.iter().filter_map(|(time, scores)| number(time, scores)).collect();
            (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
        };
        let (scores, truth) = last_frames(episodes);
        Self {
            voc: mean(spearman),
            kendall: mean(kendall),
            last_frame_auc: roc_auc(&scores, &truth),
            successful_episodes: solved.len(),
        }
    }
}

/// The last score of each episode that has one, and whether it ends in success.
fn last_frames(episodes: &[EpisodeScores]) -> (Vec<f64>, Vec<bool>) {
    let last = |episode: &EpisodeScores| Some((*episode.scores.last()?, *episode.truth.last()?));
    episodes.iter().filter_map(last).unzip()
}

/// The same with intervals over episodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressIntervals {
    /// Value-order correlation.
    pub voc: Option<Interval>,
    /// The same by Kendall's tau-b.
    pub kendall: Option<Interval>,
    /// The probability that an episode which ends in success has a higher last score than one which does not.
    pub last_frame_auc: Option<Interval>,
    /// The balanced accuracy of last scores, each called by a threshold that is best on other episodes: see
    /// [`held_out_balanced_accuracy`]. Without an interval, since a resample has the same episode on both sides.
    pub balanced_accuracy: Option<f64>,
    /// Episodes behind the correlations.
    pub successful_episodes: usize,
}

impl ProgressIntervals {
    /// Measures whole episodes, and so many resamples of them.
    #[must_use]
    pub fn of(episodes: &[EpisodeScores], resamples: u64, seed: Seed) -> Self {
        let interval = |name: &str, number: fn(&ProgressMetrics) -> Option<f64>| {
            let of = |chosen: &[usize]| {
                let chosen: Vec<EpisodeScores> = chosen.iter().map(|at| episodes[*at].clone()).collect();
                number(&ProgressMetrics::of(&chosen))
            };
            bootstrap_interval(episodes.len(), resamples, seed.purpose(name), of)
        };
        let (scores, truth) = last_frames(episodes);
        Self {
            voc: interval("voc", |found| found.voc),
            kendall: interval("kendall", |found| found.kendall),
            last_frame_auc: interval("auc", |found| found.last_frame_auc),
            balanced_accuracy: held_out_balanced_accuracy(&scores, &truth),
            successful_episodes: ProgressMetrics::of(episodes).successful_episodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Case {
        episodes: Vec<(Vec<f64>, Vec<bool>)>,
        voc: Option<f64>,
        kendall: Option<f64>,
        last_frame_auc: Option<f64>,
        balanced_accuracy: Option<f64>,
    }

    #[test]
    fn intervals_are_over_episodes() {
        let episode = |rises: bool, solved: bool| EpisodeScores {
            scores: if rises { vec![0.1, 0.2, 0.3, 0.9] } else { vec![0.4, 0.3, 0.2, 0.1] },
            truth: vec![false, false, false, solved],
        };
        let episodes: Vec<_> = (0..40).map(|at| episode(at % 4 != 0, at % 2 == 0)).collect();
        let found = ProgressIntervals::of(&episodes, 500, Seed::new(3));
        let voc = found.voc.unwrap();
        // Half of the solved ones rise (1) and half fall (-1): a mean of 0, two standard deviations are about 0.45.
        assert!(voc.value.abs() < 1e-12 && voc.low < -0.2 && voc.low > -0.8 && voc.high > 0.2, "{voc:?}");
        assert_eq!(found.successful_episodes, 20);
        let auc = found.last_frame_auc.unwrap();
        assert!(auc.low < auc.value && auc.value < auc.high, "{auc:?}");
        assert_eq!(found, ProgressIntervals::of(&episodes, 500, Seed::new(3)), "the same seed");
        assert_eq!(ProgressIntervals::of(&[], 10, Seed::new(0)).voc, None);
    }

    #[test]
    fn scipy_and_scikit_learn_agree() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../tests/metrics/progress.json")).unwrap();
        assert!(cases.iter().any(|case| case.voc.is_none()) && cases.len() >= 5);
        assert!(
            cases.iter().filter(|case| case.balanced_accuracy.is_some_and(|share| share < 1.0)).count() >= 2
        );
        for case in cases {
            let episodes = case.episodes.into_iter();
            let episodes: Vec<_> = episodes.map(|(scores, truth)| EpisodeScores { scores, truth }).collect();
            let found = ProgressMetrics::of(&episodes);
            for (found, expected) in [
                (found.voc, case.voc),
                (found.kendall, case.kendall),
                (found.last_frame_auc, case.last_frame_auc),
                (ProgressIntervals::of(&episodes, 1, Seed::new(0)).balanced_accuracy, case.balanced_accuracy),
            ] {
                assert_eq!(found.is_some(), expected.is_some());
                assert!(
                    (found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12,
                    "{found:?} {expected:?}"
                );
            }
        }
    }
}
