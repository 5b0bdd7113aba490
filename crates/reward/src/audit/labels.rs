//! Labels that look wrong.
//!
//! The rule is confident learning's: a frame is suspected when the model gives the other label a probability that is higher
//! than what frames of that other label get on average. Frames beside a change of the label are left out, since when
//! exactly success begins is a matter of a frame or two. It is only as good as the model: a list to look at.

use serde::Serialize;

use super::ScoredEpisode;

/// Frames on end whose label looks wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuspectedLabel {
    /// Which episode, counted.
    #[serde(skip)]
    pub episode_index: usize,
    /// Which episode.
    pub episode: String,
    /// The first of the frames, counted in the episode.
    pub from: usize,
    /// The last of them.
    pub to: usize,
    /// What they are labelled.
    pub labelled_success: bool,
    /// Their mean score.
    pub score: f64,
}

/// Frames this near to a change of the label are not suspected.
const BORDER: usize = 2;

/// Runs of suspected frames, the surest first.
#[must_use]
pub(super) fn suspected_labels(episodes: &[ScoredEpisode]) -> Vec<SuspectedLabel> {
    let (Some(of_success), Some(of_failure)) = (mean_score(episodes, true), mean_score(episodes, false))
    else {
        return Vec::new();
    };
    let mut found: Vec<SuspectedLabel> = Vec::new();
    for (index, episode) in episodes.iter().enumerate() {
        let scores = episode.scores();
        let is_suspected = |at: usize| match episode.truth[at] {
            true => scores[at] < of_failure,
            false => scores[at] > of_success,
        };
        let mut at = 0;
        while at < scores.len() {
            let label = episode.truth[at];
            let same = |other: &usize| is_suspected(*other) && episode.truth[*other] == label;
            let run = (at..scores.len()).take_while(same).count();
            let inner: Vec<usize> = (at..at + run).filter(|at| !near_border(&episode.truth, *at)).collect();
            if let (Some(from), Some(to)) = (inner.first(), inner.last()) {
                found.push(SuspectedLabel {
                    episode_index: index,
                    episode: episode.name.clone(),
                    from: *from,
                    to: *to,
                    labelled_success: label,
                    score: inner.iter().map(|at| scores[*at]).sum::<f64>() / inner.len() as f64,
                });
            }
            at += run.max(1);
        }
    }
    let sureness = |one: &SuspectedLabel| if one.labelled_success { 1.0 - one.score } else { one.score };
    found.sort_by(|a, b| sureness(b).total_cmp(&sureness(a)));
    found
}

fn mean_score(episodes: &[ScoredEpisode], label: bool) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0usize);
    for episode in episodes {
        for (score, _) in episode.scores().iter().zip(&episode.truth).filter(|(_, truth)| **truth == label) {
            sum += score;
            count += 1;
        }
    }
    (count > 0).then(|| sum / count as f64)
}

fn near_border(truth: &[bool], at: usize) -> bool {
    let near = at.saturating_sub(BORDER)..(at + BORDER + 1).min(truth.len());
    truth[near].iter().any(|other| *other != truth[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_was_turned_round_is_found_and_a_late_one_is_not() {
        let clean = |name: &str| ScoredEpisode {
            name: name.into(),
            logits: (0..20).map(|at| if at >= 10 { 4.0 } else { -4.0 }).collect(),
            truth: (0..20).map(|at| at >= 10).collect(),
        };
        let mut late = clean("late");
        late.truth[10] = false;
        let mut wrong = clean("wrong");
        wrong.truth = vec![false; 20];
        wrong.logits[15] = 5.0;
        let found = suspected_labels(&[clean("a"), clean("b"), late, wrong]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].episode.as_str(), found[0].labelled_success), ("wrong", false));
        assert!(suspected_labels(&[clean("a")]).is_empty());
    }
}
