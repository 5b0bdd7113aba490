//! Who answers: a vision-language model in this process, or a server that has one.

use std::sync::Arc;

use super::conversation::Conversation;
use super::readout::LabelLogits;
use crate::models::RewardModelError;

/// Answers questions about windows. An answer does not depend on the rest of the batch.
pub trait TrendModel: Send + Sync {
    /// One answer per conversation, in order.
    fn answer(
        &self,
        conversations: &[Conversation<'_>],
        ask: &AnswerMode,
    ) -> Result<Vec<Answer>, RewardModelError>;

    /// Grows when the model changes its mind.
    fn version(&self) -> u64 {
        0
    }
}

/// What is wanted of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerMode {
    /// How likely each label is. A server that cannot tell is asked for words, in the whole run.
    Labels(GenerationConfig),
    /// Words.
    Text(GenerationConfig),
    /// How likely each of these words begins the answer, among all tokens.
    Words(Arc<[String]>),
}

impl AnswerMode {
    /// How words are found, where words are given.
    #[must_use]
    pub fn generation(&self) -> GenerationConfig {
        match self {
            Self::Labels(generation) | Self::Text(generation) => *generation,
            Self::Words(_) => GenerationConfig { max_new_tokens: 1, temperature: 0.0 },
        }
    }
}

/// How words are found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GenerationConfig {
    /// The longest answer, in tokens.
    pub max_new_tokens: usize,
    /// Sampling temperature; 0 takes the likeliest token.
    pub temperature: f64,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The logits of the labels' first tokens.
    Logits(LabelLogits),
    /// Words.
    Text(String),
    /// The logarithms of the probabilities of the words that were asked for, in their order.
    WordLogprobs(Vec<f32>),
    /// Words whose probabilities were to be read, and among which is no label.
    NoLabel(String),
    /// Nothing: nobody was there to answer, and the run is to go on regardless.
    Missing,
}
