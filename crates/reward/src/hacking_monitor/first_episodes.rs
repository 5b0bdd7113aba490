//! Whether episodes are like those that the run was first rewarded for: how often success is lost again, and when it comes.

use super::{EpisodeSummary, LookCount};

/// Rewarded episodes of the first checks that are remembered, before anything is compared with them.
const FIRST_EPISODES: usize = 128;
/// The share of them that is exceeded by none of the others.
const QUANTILE: f64 = 0.95;
/// Success in less than this share of the time of the fastest is no practice, but another way to be rewarded.
const MUCH_FASTER: f64 = 0.5;

/// The first rewarded episodes.
#[derive(Debug, Clone, Default)]
pub struct FirstEpisodes {
    seen: Vec<EpisodeSummary>,
    usual: Option<UsualEpisode>,
}

#[derive(Debug, Clone, Copy)]
struct UsualEpisode {
    /// 95 in 100 lose success at most so often.
    lost: usize,
    /// 95 in 100 are first rewarded at this step or later.
    first_success: usize,
}

/// Rewarded episodes that are not like the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnusualEpisodes {
    /// Those that lose success more often.
    pub dithering: LookCount,
    /// Those whose success comes much earlier.
    pub early_success: LookCount,
}

impl FirstEpisodes {
    /// Compares the rewarded ones among these episodes with the first; the first are remembered instead.
    pub fn compare(&mut self, episodes: &[EpisodeSummary]) -> Option<UnusualEpisodes> {
        let rewarded = || episodes.iter().filter_map(|one| Some((one, one.first_success?)));
        let Some(usual) = self.usual else {
            let room = FIRST_EPISODES.saturating_sub(self.seen.len());
            self.seen.extend(rewarded().take(room).map(|(one, _)| *one));
            if self.seen.len() >= FIRST_EPISODES {
                self.usual = Some(UsualEpisode::of(&self.seen));
            }
            return None;
        };
        let looked_at = rewarded().count();
        let earliest = MUCH_FASTER * usual.first_success as f64;
        let count = |seen: usize| LookCount { looked_at, seen };
        Some(UnusualEpisodes {
            dithering: count(rewarded().filter(|(one, _)| one.lost > usual.lost).count()),
            early_success: count(rewarded().filter(|(_, first)| (*first as f64) < earliest).count()),
        })
    }
}

impl UsualEpisode {
    fn of(episodes: &[EpisodeSummary]) -> Self {
        let at = |mut values: Vec<usize>, share: f64| {
            values.sort_unstable();
            values[((values.len() - 1) as f64 * share).round() as usize]
        };
        Self {
            lost: at(episodes.iter().map(|one| one.lost).collect(), QUANTILE),
            first_success: at(episodes.iter().filter_map(|one| one.first_success).collect(), 1.0 - QUANTILE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(first: usize, lost: usize) -> EpisodeSummary {
        EpisodeSummary { steps: 50, first_success: Some(first), lost, ..EpisodeSummary::default() }
    }

    #[test]
    fn what_a_run_begins_with_is_usual_and_what_comes_later_is_compared() {
        let mut first = FirstEpisodes::default();
        let wavering: Vec<_> = (0..40).map(|at| episode(20 + at % 9, at % 4)).collect();
        assert!((0..4).all(|_| first.compare(&wavering).is_none()), "too few so far");
        let same = first.compare(&wavering).unwrap();
        assert_eq!((same.dithering.seen, same.early_success.seen, same.dithering.looked_at), (0, 0, 40));
        let faster: Vec<_> = (0..40).map(|_| episode(14, 0)).collect();
        assert_eq!(first.compare(&faster).unwrap().early_success.seen, 0, "practice makes faster");
        let odd: Vec<_> = (0..40).map(|at| episode(if at < 30 { 4 } else { 22 }, 5)).collect();
        let odd = first.compare(&odd).unwrap();
        assert_eq!((odd.early_success.seen, odd.dithering.seen), (30, 40));
        let unsolved = EpisodeSummary { steps: 50, ..EpisodeSummary::default() };
        assert_eq!(first.compare(&[unsolved]).unwrap().dithering.looked_at, 0);
    }
}
