//! Whether a model is as good on every part of the data.

use serde::Serialize;

use super::{RuleAt, ScoredEpisode, detection};
use crate::metrics::{Metrics, roc_auc};

/// How a model does on some of the episodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slice {
    /// Which.
    pub name: String,
    /// How many episodes.
    pub episodes: usize,
    /// How many frames.
    pub frames: usize,
    /// Probability that a success scores higher than a failure.
    pub auc: Option<f64>,
    /// Share of the frames of success that are called so.
    pub recall: Option<f64>,
    /// Share of what is called a success that is one.
    pub precision: Option<f64>,
    /// Share of the successful episodes that are noticed.
    pub detected: Option<f64>,
    /// Share of the episodes with a false alarm.
    pub false_alarms: Option<f64>,
}

impl Slice {
    /// Measures some episodes.
    #[must_use]
    pub fn of(name: impl Into<String>, episodes: &[&ScoredEpisode], rule: RuleAt) -> Self {
        let scores: Vec<f64> = episodes.iter().flat_map(|episode| episode.scores()).collect();
        let logits: Vec<f64> = episodes.iter().flat_map(|episode| episode.logits.iter().copied()).collect();
        let truth: Vec<bool> = episodes.iter().flat_map(|episode| episode.truth.iter().copied()).collect();
        let metrics = Metrics::of(&scores, &truth, rule.threshold);
        let share = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let found: Vec<_> = episodes.iter().filter_map(|episode| detection(episode, rule)).collect();
        let alarmed = |episode: &&&ScoredEpisode| rule.first_false_alarm(episode).is_some();
        Self {
            name: name.into(),
            episodes: episodes.len(),
            frames: truth.len(),
            auc: roc_auc(&logits, &truth),
            recall: metrics.recall,
            precision: metrics.precision,
            detected: share(found.iter().filter(|found| found.detected_at.is_some()).count(), found.len()),
            false_alarms: share(episodes.iter().filter(alarmed).count(), episodes.len()),
        }
    }
}

/// Short, middling and long episodes: thirds by length, where lengths differ at all.
#[must_use]
pub(super) fn by_length(episodes: &[ScoredEpisode], rule: RuleAt) -> Vec<Slice> {
    let mut sorted: Vec<&ScoredEpisode> = episodes.iter().collect();
    sorted.sort_by_key(|episode| episode.truth.len());
    let lengths = |part: &[&ScoredEpisode]| {
        let of = |one: Option<&&ScoredEpisode>| one.map_or(0, |episode| episode.truth.len());
        (of(part.first()), of(part.last()))
    };
    let (shortest, longest) = lengths(&sorted);
    if sorted.len() < 3 || shortest == longest {
        return vec![Slice::of(format!("{shortest} frames"), &sorted, rule)];
    }
    // Episodes of one length stay together: a third ends where the length changes.
    let mut parts: Vec<Vec<&ScoredEpisode>> = Vec::new();
    let third = sorted.len().div_ceil(3);
    for same in sorted.chunk_by(|a, b| a.truth.len() == b.truth.len()) {
        match parts.last_mut() {
            Some(part) if part.len() < third => part.extend(same),
            _ => parts.push(same.to_vec()),
        }
    }
    let slice = |part: Vec<&ScoredEpisode>| {
        let (from, to) = lengths(&part);
        let name = if from == to { format!("{from} frames") } else { format!("{from} to {to} frames") };
        Slice::of(name, &part, rule)
    };
    parts.into_iter().map(slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_cut_into_thirds_that_keep_equals_together() {
        let episode = |frames: usize| ScoredEpisode {
            name: String::new(),
            logits: vec![1.0; frames],
            truth: vec![true; frames],
        };
        let names = |lengths: &[usize]| -> Vec<String> {
            let episodes: Vec<_> = lengths.iter().map(|length| episode(*length)).collect();
            by_length(&episodes, RuleAt::frames(0.5)).into_iter().map(|slice| slice.name).collect()
        };
        assert_eq!(names(&[5, 5, 5, 5]), ["5 frames"]);
        assert_eq!(names(&[1, 2, 3, 4, 5, 6]), ["1 to 2 frames", "3 to 4 frames", "5 to 6 frames"]);
        assert_eq!(names(&[5, 5, 5, 5, 5, 9]), ["5 frames", "9 frames"]);
    }
}
