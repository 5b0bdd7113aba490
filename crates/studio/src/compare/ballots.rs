//! What people chose between two curves.

use serde::{Deserialize, Serialize};

use crate::library::EpisodeKey;

/// The file of all choices, in the folder of labels.
pub(crate) const BALLOTS_FILE: &str = "comparisons.jsonl";

/// Which of two curves is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    First,
    Second,
    /// Both are, or neither.
    Tie,
}

impl Verdict {
    /// The choice for the first: a half where nobody can tell.
    pub(crate) fn share_of_first(self) -> f64 {
        match self {
            Self::First => 1.0,
            Self::Second => 0.0,
            Self::Tie => 0.5,
        }
    }
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ballot {
    /// Seconds since the epoch.
    pub(crate) at: u64,
    /// Who chose; empty where they did not say.
    pub(crate) annotator: String,
    pub(crate) dataset: String,
    pub(crate) item: usize,
    pub(crate) part: usize,
    /// The model whose curve stood first.
    pub(crate) first: String,
    pub(crate) second: String,
    pub(crate) verdict: Verdict,
}

impl Ballot {
    #[cfg(test)]
    pub(crate) fn new(first: &str, second: &str, verdict: Verdict) -> Self {
        let (dataset, annotator) = ("d".into(), String::new());
        Self {
            at: 0,
            annotator,
            dataset,
            item: 0,
            part: 0,
            first: first.into(),
            second: second.into(),
            verdict,
        }
    }

    /// A choice about an episode, made now.
    pub(crate) fn now(
        episode: &EpisodeKey,
        annotator: &str,
        (first, second): (&str, &str),
        verdict: Verdict,
    ) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            at: since.map_or(0, |since| since.as_secs()),
            annotator: annotator.into(),
            dataset: episode.dataset.to_string(),
            item: episode.item,
            part: episode.part,
            first: first.into(),
            second: second.into(),
            verdict,
        }
    }
}
