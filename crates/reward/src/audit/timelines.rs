//! A few episodes to look at, frame by frame: what is typical, and what went wrong worst.

use serde::Serialize;

use super::ScoredEpisode;

/// Scores of one episode, frame by frame.
#[derive(Debug, Clone, Serialize)]
pub struct Timeline {
    /// Which episode.
    pub episode: String,
    /// Why it was picked.
    pub why: &'static str,
    /// The score of every frame.
    pub scores: Vec<f64>,
    /// The first frame of success.
    pub success_at: Option<usize>,
    /// Scores above it count as success.
    pub threshold: f64,
}

/// Up to four episodes, each picked for a reason of its own.
pub(super) fn timelines(episodes: &[ScoredEpisode], threshold: f64) -> Vec<Timeline> {
    let of = |episode: &ScoredEpisode, why: &'static str| Timeline {
        episode: episode.name.clone(),
        why,
        scores: episode.scores(),
        success_at: episode.truth.iter().position(|success| *success),
        threshold,
    };
    let highest = |episode: &ScoredEpisode, truth: bool| {
        let scores = episode.scores();
        let of_kind = scores.iter().zip(&episode.truth).filter(|(_, is)| **is == truth);
        of_kind.map(|(score, _)| *score).fold(f64::NEG_INFINITY, f64::max)
    };
    let succeeds = |episode: &&ScoredEpisode| episode.truth.contains(&true);
    let (mut successes, mut failures): (Vec<&ScoredEpisode>, Vec<&ScoredEpisode>) =
        episodes.iter().filter(|episode| !episode.truth.is_empty()).partition(succeeds);
    successes.sort_by(|one, other| highest(one, true).total_cmp(&highest(other, true)));
    failures.sort_by(|one, other| highest(one, false).total_cmp(&highest(other, false)));
    let mut picked: Vec<Timeline> = Vec::new();
    let mut pick = |episode: Option<&&ScoredEpisode>, why: &'static str| {
        if let Some(episode) =
            episode.filter(|episode| picked.iter().all(|known| known.episode != episode.name))
        {
            picked.push(of(episode, why));
        }
    };
    pick(successes.get(successes.len() / 2), "a typical success");
    pick(failures.get(failures.len() / 2), "a typical failure");
    pick(successes.first(), "the success that it is least sure of");
    pick(failures.last(), "the failure that it scores highest");
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode(name: &str, logits: &[f64], truth: &[bool]) -> ScoredEpisode {
        ScoredEpisode { name: name.into(), logits: logits.to_vec(), truth: truth.to_vec() }
    }

    #[test]
    fn each_episode_is_picked_once_and_for_a_reason() {
        let episodes = [
            episode("sure", &[-3.0, 4.0], &[false, true]),
            episode("doubtful", &[-3.0, -1.0], &[false, true]),
            episode("good", &[-3.0, 3.0], &[false, true]),
            episode("quiet", &[-4.0, -4.0], &[false, false]),
            episode("loud", &[-4.0, 2.0], &[false, false]),
        ];
        let found = timelines(&episodes, 0.5);
        let reasons: Vec<(&str, &str)> = found.iter().map(|one| (one.why, one.episode.as_str())).collect();
        let expected = [
            ("a typical success", "good"),
            ("a typical failure", "loud"),
            ("the success that it is least sure of", "doubtful"),
        ];
        assert_eq!(reasons, expected, "the loudest failure of two is the middle one too, and shown once");
        assert_eq!((found[2].success_at, found[2].scores.len()), (Some(1), 2));
        assert!(timelines(&[], 0.5).is_empty());
    }
}
