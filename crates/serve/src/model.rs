//! The model behind the server, its requests and its answers.

use crate::error::ApiError;

/// A model that answers requests, many at a time.
pub trait Model: Send + Sync {
    /// What it is.
    fn info(&self) -> &ModelInfo;

    /// Whether it could answer this; asked before a request has to wait.
    ///
    /// # Errors
    /// What the client should change.
    fn check(&self, question: &Question) -> Result<(), ApiError>;

    /// One answer per question, in order. An answer does not depend on what is asked beside it.
    fn answer(&self, questions: &[Question]) -> Vec<AnswerResult>;
}

/// An answer, or why there is none.
pub type AnswerResult = Result<Answer, ApiError>;

/// What a model is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The name that clients ask for.
    pub name: String,
    /// What the list of models says about it, besides its name.
    pub details: serde_json::Map<String, serde_json::Value>,
}

/// What a client asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// In words and images.
    Chat(Chat),
    /// How frames are scored.
    Score(FrameBlock),
}

impl Question {
    /// How many images it has.
    #[must_use]
    pub fn images(&self) -> usize {
        match self {
            Self::Chat(chat) => chat.images().count(),
            Self::Score(block) => block.images(),
        }
    }
}

/// A conversation that ends with a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// The messages, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The longest answer, in tokens, if the client says.
    pub max_tokens: Option<usize>,
    /// The sampling temperature, if the client says; 0 is greedy.
    pub temperature: Option<f64>,
    /// How many tokens' probabilities are wanted at each position; `None`: none.
    pub top_logprobs: Option<usize>,
}

impl Chat {
    /// Every image, in order.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.messages.iter().flat_map(|message| &message.parts).filter_map(|part| match part {
            ContentPart::Image(image) => Some(image),
            ContentPart::Text(_) => None,
        })
    }

    /// All text of the last message.
    #[must_use]
    pub fn last_text(&self) -> String {
        let parts = self.messages.last().map_or(&[][..], |message| &message.parts);
        let words = parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            ContentPart::Image(_) => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage {
    /// Who.
    pub role: Role,
    /// What, in order.
    pub parts: Vec<ContentPart>,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Whoever set things up.
    System,
    /// Whoever asks.
    User,
    /// The model.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    /// Words.
    Text(String),
    /// An image.
    Image(Image),
}

/// An RGB image, HWC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Three bytes for each pixel.
    pub pixels: Vec<u8>,
}

/// Frames as bytes: `[…, H, W, 3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameBlock {
    /// Every size but the colours': what comes before height and width is up to the model.
    pub leading: Vec<usize>,
    /// Rows of each frame.
    pub height: usize,
    /// Columns of each frame.
    pub width: usize,
    /// All of them.
    pub pixels: Vec<u8>,
}

impl FrameBlock {
    /// How many frames there are.
    #[must_use]
    pub fn images(&self) -> usize {
        self.leading.iter().product()
    }
}

/// What a model answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To a chat.
    Chat(ChatAnswer),
    /// To frames.
    Scores(Scores),
}

/// An answer in words.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatAnswer {
    /// The words.
    pub text: String,
    /// Log-probabilities of its tokens, if they were asked for and the model has them.
    pub tokens: Option<Vec<TokenLogprob>>,
    /// Tokens of the question, as the model counts.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// Whether it ended at `max_tokens`.
    pub is_truncated: bool,
}

/// A token, its log-probability and its alternatives.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: String,
    /// The logarithm of its probability.
    pub logprob: f32,
    /// The likeliest tokens there, and theirs.
    pub top: Vec<(String, f32)>,
}

/// Scores of frames.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// What each number of a row means.
    pub columns: Vec<String>,
    /// Rows of as many numbers, one after the other.
    pub numbers: Vec<f32>,
    /// For each row whether the model calls it a success, if it does.
    pub success: Option<Vec<bool>>,
}
