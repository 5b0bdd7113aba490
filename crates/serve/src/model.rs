//! Who answers, and what it is asked.

use crate::refusal::Refusal;

/// A model that answers requests, many at a time.
pub trait Model: Send + Sync {
    /// What it is.
    fn about(&self) -> &About;

    /// Whether it could answer this; asked before a request has to wait.
    ///
    /// # Errors
    /// What the client should change.
    fn check(&self, question: &Question) -> Result<(), Refusal>;

    /// One answer per question, in order. An answer does not depend on what is asked beside it.
    fn answer(&self, questions: &[Question]) -> Vec<Answered>;
}

/// An answer, or why there is none.
pub type Answered = Result<Answer, Refusal>;

/// What a model is.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// The name that clients ask for.
    pub name: String,
    /// What is told of it to whoever lists models, beside its name.
    pub details: serde_json::Map<String, serde_json::Value>,
}

/// What a client asks.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// In words and pictures.
    Chat(Chat),
    /// How frames are scored.
    Score(FrameBlock),
}

impl Question {
    /// How many pictures it has.
    #[must_use]
    pub fn pictures(&self) -> usize {
        match self {
            Self::Chat(chat) => chat.pictures().count(),
            Self::Score(block) => block.pictures(),
        }
    }
}

/// A conversation that ends with a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Chat {
    /// Who said what, oldest first.
    pub turns: Vec<Turn>,
    /// The longest answer, in tokens, if the client says.
    pub max_tokens: Option<usize>,
    /// How freely tokens are drawn, if the client says; 0 takes the likeliest.
    pub temperature: Option<f64>,
    /// How many tokens' probabilities are wanted at each place; `None`: not any.
    pub top_logprobs: Option<usize>,
}

impl Chat {
    /// Every picture, in order.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        self.turns.iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
            Part::Picture(picture) => Some(picture),
            Part::Text(_) => None,
        })
    }

    /// All words of the last turn.
    #[must_use]
    pub fn last_words(&self) -> String {
        let parts = self.turns.last().map_or(&[][..], |turn| &turn.parts);
        let words = parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::Picture(_) => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

/// What somebody said.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Who.
    pub role: Role,
    /// What, in order.
    pub parts: Vec<Part>,
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

/// A part of what was said.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A picture.
    Picture(Picture),
}

/// An RGB picture, HWC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
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
    pub fn pictures(&self) -> usize {
        self.leading.iter().product()
    }
}

/// What a model answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To a chat.
    Said(Said),
    /// To frames.
    Scores(Scores),
}

/// An answer in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// The words.
    pub text: String,
    /// How likely each of its tokens was, if the model can tell and was asked.
    pub tokens: Option<Vec<Likely>>,
    /// Tokens of the question, as the model counts.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// Whether it was cut off at `max_tokens`.
    pub is_cut: bool,
}

/// A token and what might have stood in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Likely {
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
