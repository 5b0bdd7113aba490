//! One thing that a person should know about a dataset.

use serde::Serialize;

use super::suspicion::Suspicion;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// What is learned from it will be wrong.
    Wrong,
    /// Probably not meant.
    Doubtful,
    /// Good to know.
    Note,
}

/// One thing that a person should know: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is.
    pub kind: Suspicion,
    /// What was seen.
    pub what: String,
    /// How many items it is about; 0 where it is about the whole.
    pub count: usize,
    /// The first of them, with what is wrong with each.
    pub examples: Vec<String>,
    /// What to do.
    pub advice: String,
}

/// How many examples are kept.
const EXAMPLES: usize = 5;

impl Finding {
    /// About several items of a dataset.
    pub(super) fn about(kind: Suspicion, mut examples: Vec<String>) -> Self {
        let count = examples.len();
        examples.truncate(EXAMPLES);
        Self {
            severity: kind.severity(),
            kind,
            what: kind.describe().into(),
            count,
            examples,
            advice: kind.advice().into(),
        }
    }

    /// About the dataset as a whole.
    pub(super) fn of_dataset(kind: Suspicion, examples: Vec<String>) -> Self {
        Self { count: 0, ..Self::about(kind, examples) }
    }
}
