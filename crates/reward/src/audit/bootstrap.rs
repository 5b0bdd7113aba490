//! How sure a number is: the same number over episodes drawn again and again.

use plaudit_core::Seed;
use rayon::prelude::*;

use super::JudgedEpisode;

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

/// A number over all frames of some episodes, with its interval over `resamples` draws of whole episodes. Draws in
/// which the number does not exist (one class only) are left out; `None` where it does not exist at all.
pub fn over_episodes(
    episodes: &[JudgedEpisode],
    resamples: u64,
    seed: Seed,
    number: impl Fn(&[f64], &[bool]) -> Option<f64> + Sync,
) -> Option<Interval> {
    let pooled = |chosen: &mut dyn Iterator<Item = &JudgedEpisode>| {
        let (mut scores, mut truth) = (Vec::new(), Vec::new());
        for episode in chosen {
            scores.extend(episode.scores());
            truth.extend_from_slice(&episode.truth);
        }
        number(&scores, &truth)
    };
    let of = |chosen: &[usize]| pooled(&mut chosen.iter().map(|&index| &episodes[index]));
    resampled(episodes.len(), resamples, seed, of)
}

/// The same of anything that comes in episodes: `number` is given the indices of those that were drawn.
pub fn resampled(
    episodes: usize,
    resamples: u64,
    seed: Seed,
    number: impl Fn(&[usize]) -> Option<f64> + Sync,
) -> Option<Interval> {
    let value = number(&(0..episodes).collect::<Vec<_>>())?;
    let mut drawn: Vec<f64> = (0..resamples)
        .into_par_iter()
        .filter_map(|resample| {
            let mut rng = seed.purpose("bootstrap").index(resample).rng();
            let chosen: Vec<usize> = (0..episodes).map(|_| rng.below(episodes)).collect();
            number(&chosen)
        })
        .collect();
    if drawn.is_empty() {
        return Some(Interval { value, low: value, high: value });
    }
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn[((drawn.len() - 1) as f64 * share).round() as usize];
    Some(Interval { value, low: at(0.025), high: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Episodes whose frames are all alike: the interval must be that of the episodes' number, not of the frames'.
    #[test]
    fn frames_of_an_episode_count_together() {
        let episodes: Vec<JudgedEpisode> = (0..30)
            .map(|i| JudgedEpisode {
                name: i.to_string(),
                logits: vec![0.0; 100],
                truth: vec![i % 3 == 0; 100],
            })
            .collect();
        let share = |_: &[f64], truth: &[bool]| {
            Some(truth.iter().filter(|truth| **truth).count() as f64 / truth.len() as f64)
        };
        let found = over_episodes(&episodes, 1000, Seed::new(1), share).unwrap();
        assert!((found.value - 1.0 / 3.0).abs() < 1e-12);
        // 30 draws with chance 1/3: two standard deviations are 0.17 on each side.
        assert!((0.12..0.24).contains(&(found.value - found.low)), "{found:?}");
        assert!((0.12..0.24).contains(&(found.high - found.value)), "{found:?}");
        assert_eq!(found, over_episodes(&episodes, 1000, Seed::new(1), share).unwrap(), "the same seed");
    }
}
