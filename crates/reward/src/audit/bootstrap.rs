//! Bootstrap intervals: the same number over resampled episodes.

use plaudit_core::Seed;
use rayon::prelude::*;

use super::ScoredEpisode;

/// A number and where it would lie with other episodes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Over the episodes at hand.
    pub value: f64,
    /// Lower end of 95 %.
    pub low: f64,
    /// Upper end of 95 %.
    pub high: f64,
}

/// A number about the ranking of all frames of some episodes (it is given logits, which rank like scores and do not
/// saturate), with its interval over `resamples` resamples of whole episodes. Resamples in
/// which the number does not exist (one class only) are left out; `None` where it does not exist at all.
pub(super) fn bootstrap_over_episodes(
    episodes: &[ScoredEpisode],
    resamples: u64,
    seed: Seed,
    number: impl Fn(&[f64], &[bool]) -> Option<f64> + Sync,
) -> Option<Interval> {
    let pooled = |chosen: &mut dyn Iterator<Item = &ScoredEpisode>| {
        let (mut logits, mut truth) = (Vec::new(), Vec::new());
        for episode in chosen {
            logits.extend_from_slice(&episode.logits);
            truth.extend_from_slice(&episode.truth);
        }
        number(&logits, &truth)
    };
    let of = |chosen: &[usize]| pooled(&mut chosen.iter().map(|&index| &episodes[index]));
    bootstrap_interval(episodes.len(), resamples, seed, of)
}

/// The same of anything that comes in episodes: `number` is given the indices of those that were sampled.
pub(crate) fn bootstrap_interval(
    episodes: usize,
    resamples: u64,
    seed: Seed,
    number: impl Fn(&[usize]) -> Option<f64> + Sync,
) -> Option<Interval> {
    let value = number(&(0..episodes).collect::<Vec<_>>())?;
    let mut sampled: Vec<f64> = (0..resamples)
        .into_par_iter()
        .filter_map(|resample| {
            let mut rng = seed.purpose("bootstrap").index(resample).rng();
            let chosen: Vec<usize> = (0..episodes).map(|_| rng.below(episodes)).collect();
            number(&chosen)
        })
        .collect();
    if sampled.is_empty() {
        return Some(Interval { value, low: value, high: value });
    }
    sampled.sort_by(f64::total_cmp);
    let at = |share: f64| sampled[((sampled.len() - 1) as f64 * share).round() as usize];
    Some(Interval { value, low: at(0.025), high: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes whose frames are all alike: the interval must be that of the episodes' number, not of the frames'.
    #[test]
    fn frames_of_an_episode_count_together() {
        let episodes: Vec<ScoredEpisode> = (0..30)
            .map(|i| ScoredEpisode {
                name: i.to_string(),
                logits: vec![0.0; 100],
                truth: vec![i % 3 == 0; 100],
            })
            .collect();
        let share = |_: &[f64], truth: &[bool]| {
            Some(truth.iter().filter(|truth| **truth).count() as f64 / truth.len() as f64)
        };
        let found = bootstrap_over_episodes(&episodes, 1000, Seed::new(1), share).unwrap();
        assert!((found.value - 1.0 / 3.0).abs() < 1e-12);
        // 30 samples with probability 1/3: two standard deviations are 0.17 on each side.
        assert!((0.12..0.24).contains(&(found.value - found.low)), "{found:?}");
        assert!((0.12..0.24).contains(&(found.high - found.value)), "{found:?}");
        assert_eq!(
            found,
            bootstrap_over_episodes(&episodes, 1000, Seed::new(1), share).unwrap(),
            "the same seed"
        );
    }
}
