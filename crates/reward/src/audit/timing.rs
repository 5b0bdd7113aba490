//! When success is noticed, whether it is held, and how scores go over time.

use serde::{Deserialize, Serialize};

use super::{RuleAt, ScoredEpisode, detection, spearman};

/// How one episode went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpisodeTiming {
    /// Which episode.
    pub episode: String,
    /// Its frames.
    pub frames: usize,
    /// The first frame of success, if any.
    pub success_at: Option<usize>,
    /// The first frame at or after it that is called a success.
    pub detected_at: Option<usize>,
    /// The first frame that raises a false alarm.
    pub first_false_alarm: Option<usize>,
    /// The share of the frames of success that are called so.
    pub held: Option<f64>,
    /// How often the call changes among the frames of success.
    pub flips: Option<usize>,
    /// Rank correlation of scores with time up to the first frame of success.
    pub rank_with_time: Option<f64>,
}

/// All episodes together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// Episodes with success.
    pub successes: usize,
    /// Those noticed at or after success.
    pub detected: usize,
    /// Episodes with a false alarm.
    pub with_false_alarm: usize,
    /// Frames from success to its detection: the median, among those detected.
    pub delay_median: Option<f64>,
    /// The same, exceeded by one in ten.
    pub delay_p90: Option<f64>,
    /// Mean share of the frames of success that are called so.
    pub held: Option<f64>,
    /// Mean number of changes of mind among the frames of success.
    pub flips: Option<f64>,
    /// Median rank correlation of scores with time, up to success.
    pub rank_with_time: Option<f64>,
    /// Episode by episode.
    pub episodes: Vec<EpisodeTiming>,
}

/// Looks at every episode through the rule that rewards.
#[must_use]
pub(super) fn timing(episodes: &[ScoredEpisode], rule: RuleAt) -> Timing {
    let all: Vec<EpisodeTiming> = episodes.iter().map(|episode| of_episode(episode, rule)).collect();
    let successes = all.iter().filter(|episode| episode.success_at.is_some()).count();
    let delays = sorted(all.iter().filter_map(|one| Some((one.detected_at? - one.success_at?) as f64)));
    let mean =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    Timing {
        successes,
        detected: delays.len(),
        with_false_alarm: all.iter().filter(|one| one.first_false_alarm.is_some()).count(),
        delay_median: quantile(&delays, 0.5),
        delay_p90: quantile(&delays, 0.9),
        held: mean(all.iter().filter_map(|one| one.held).collect()),
        flips: mean(all.iter().filter_map(|one| one.flips.map(|flips| flips as f64)).collect()),
        rank_with_time: quantile(&sorted(all.iter().filter_map(|one| one.rank_with_time)), 0.5),
        episodes: all,
    }
}

fn of_episode(episode: &ScoredEpisode, rule: RuleAt) -> EpisodeTiming {
    let found = detection(episode, rule);
    let rank_with_time = found.and_then(|found| {
        let time: Vec<f64> = (0..=found.success_at).map(|frame| frame as f64).collect();
        spearman(&time, &episode.logits[..=found.success_at])
    });
    EpisodeTiming {
        episode: episode.name.clone(),
        frames: episode.truth.len(),
        success_at: found.map(|found| found.success_at),
        detected_at: found.and_then(|found| found.detected_at),
        first_false_alarm: rule.first_false_alarm(episode),
        held: found.map(|found| found.held),
        flips: found.map(|found| found.flips),
        rank_with_time,
    }
}

/// Scores of many episodes at one frame.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoresAtFrame {
    /// Frames since the beginning of the episode.
    pub frame: usize,
    /// Mean score.
    pub mean: f64,
    /// One in ten is lower.
    pub low: f64,
    /// One in ten is higher.
    pub high: f64,
    /// How many episodes are that long.
    pub episodes: usize,
}

/// Scores over time of the episodes with (or without) success.
#[must_use]
pub(super) fn scores_over_time(episodes: &[ScoredEpisode], with_success: bool) -> Vec<ScoresAtFrame> {
    let chosen: Vec<Vec<f64>> = episodes
        .iter()
        .filter(|episode| episode.truth.contains(&true) == with_success)
        .map(ScoredEpisode::scores)
        .collect();
    let longest = chosen.iter().map(Vec::len).max().unwrap_or(0);
    let at = |frame: usize| {
        let scores = sorted(chosen.iter().filter_map(|scores| scores.get(frame).copied()));
        let share = |share: f64| quantile(&scores, share).unwrap_or(0.0);
        let mean = scores.iter().sum::<f64>() / scores.len() as f64;
        ScoresAtFrame { frame, mean, low: share(0.1), high: share(0.9), episodes: scores.len() }
    };
    (0..longest).map(at).collect()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The value that this share of sorted values does not exceed.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    sorted.get((sorted.len().saturating_sub(1) as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(logits: &[f64], truth: &[u8]) -> ScoredEpisode {
        let truth = truth.iter().map(|truth| *truth == 1).collect();
        ScoredEpisode { name: "e".into(), logits: logits.to_vec(), truth }
    }

    #[test]
    fn what_happened_is_counted_by_episode() {
        let episodes = [
            episode(&[-3.0, -2.0, -1.0, 2.0, 2.0], &[0, 0, 1, 1, 1]), // seen one frame late
            episode(&[-3.0, 1.0, 2.0, 2.0], &[0, 0, 1, 1]),           // an alarm before
            episode(&[-3.0, -3.0, -3.0], &[0, 1, 1]),                 // never seen
            episode(&[-1.0, -2.0], &[0, 0]),
        ];
        let found = timing(&episodes, RuleAt::frames(0.5));
        assert_eq!((found.successes, found.detected, found.with_false_alarm), (3, 2, 1));
        assert_eq!((found.delay_median, found.delay_p90), (Some(1.0), Some(1.0)));
        assert_eq!(found.episodes[1].first_false_alarm, Some(1));
        assert_eq!(found.episodes[2].detected_at, None);
        assert_eq!(found.rank_with_time, Some(1.0));
        assert_eq!(found.held, Some((2.0 / 3.0 + 1.0 + 0.0) / 3.0));
        let over = scores_over_time(&episodes, true);
        assert_eq!(over.len(), 5);
        assert_eq!((over[0].episodes, over[4].episodes), (3, 1));
        assert_eq!(scores_over_time(&episodes, false).len(), 2);
    }
}
