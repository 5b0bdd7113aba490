//! What can be said about a window.

use std::fmt;

/// Which way things go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trend {
    /// They get better.
    Positive,
    /// They get worse.
    Negative,
    /// No trend can be seen.
    Unclear,
    /// The answer was none of these.
    Invalid,
}

impl Trend {
    /// The answers a model is asked for, in the order of every triple of numbers about them.
    pub const LABELS: [Self; 3] = [Self::Positive, Self::Negative, Self::Unclear];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::Negative => "negative",
            Self::Unclear => "unclear",
            Self::Invalid => "invalid",
        }
    }

    /// The label of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::LABELS.into_iter().find(|label| label.word() == word)
    }
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
