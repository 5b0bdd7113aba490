//! Who answers: a vision-language model in this process, or a server that has one.

use super::conversation::Conversation;
use super::readout::LabelLogits;
use crate::judge::JudgeError;

/// Answers questions about windows. An answer does not depend on what is asked beside it.
pub trait TrendModel: Send + Sync {
    /// One answer per conversation, in order.
    fn answer(&self, conversations: &[Conversation<'_>], ask: &Ask) -> Result<Vec<Answer>, JudgeError>;

    /// Grows when the model changes its mind.
    fn version(&self) -> u64 {
        0
    }
}

/// What is wanted of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ask {
    /// How likely each label is. A model that cannot tell answers in words.
    Labels(Generation),
    /// Words.
    Text(Generation),
}

impl Ask {
    /// How words are found, where words are given.
    #[must_use]
    pub fn generation(&self) -> Generation {
        match self {
            Self::Labels(generation) | Self::Text(generation) => *generation,
        }
    }
}

/// How words are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Generation {
    /// The longest answer, in tokens.
    pub max_new_tokens: usize,
    /// How freely tokens are drawn; 0 takes the likeliest.
    pub temperature: f64,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The logits of the labels' first tokens.
    Logits(LabelLogits),
    /// Words.
    Text(String),
    /// Nothing: nobody was there to answer, and the run is to go on regardless.
    Missing,
}
