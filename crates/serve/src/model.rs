//! The model behind the server, its requests and its answers.

use crate::error::ApiError;

/// A model that answers requests, many at a time.
pub trait Model: Send + Sync {
    /// What it is.
    fn info(&self) -> &ModelInfo;

    /// What answering this would cost; asked before a request has to wait, on a thread that may take a while.
    ///
    /// # Errors
    /// What the client should change.
    fn cost(&self, question: &Question) -> Result<Cost, ApiError>;

    /// One answer per question, in order. An answer does not depend on what is asked beside it. A question whose client has
    /// left need not be answered well.
    fn answer(&self, asked: &[Asked<'_>]) -> Vec<AnswerResult>;
}

/// What answering a question costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of memory while it is computed.
    pub bytes: usize,
}

/// A question, and who waits for its answer.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// What is asked.
    pub question: &'a Question,
    /// Who waits.
    pub client: &'a dyn WaitingClient,
}

/// Whoever waits for an answer.
pub trait WaitingClient: Sync {
    /// Whether an answer is still wanted.
    fn is_waiting(&self) -> bool;

    /// The next token of a choice, for clients that read along. Nothing happens for others.
    fn piece(&self, choice: usize, piece: &TextPiece);
}

/// A piece of an answer: what a token adds to the text.
#[derive(Debug, Clone, PartialEq)]
pub struct TextPiece {
    /// The words; none while a character is not complete.
    pub text: String,
    /// Its log-probability and its alternatives, if they were asked for.
    pub token: Option<TokenLogprob>,
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
    /// How the answer is found, and what is told of it.
    pub options: ChatOptions,
}

/// How an answer is found, and what is told of it. What a client leaves out is up to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatOptions {
    /// The longest answer, in tokens.
    pub max_tokens: Option<usize>,
    /// The sampling temperature; 0 is greedy.
    pub temperature: Option<f64>,
    /// Tokens are sampled from the likeliest ones that have this probability together.
    pub top_p: Option<f64>,
    /// The seed of the sampling; without one, each request is sampled anew.
    pub seed: Option<u64>,
    /// Texts that end an answer, and are no part of it.
    pub stop: Vec<String>,
    /// What is added to the logits of tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Taken off the logits of tokens that were said.
    pub presence_penalty: f64,
    /// Taken off the logits of tokens for each time they were said.
    pub frequency_penalty: f64,
    /// How many answers are wanted.
    pub choices: usize,
    /// How many tokens' probabilities are wanted at each position; `None`: none.
    pub top_logprobs: Option<usize>,
    /// Words whose logits are wanted at the beginning of the answer. Nothing is generated then: the likeliest of them is the
    /// answer.
    pub label_logits: Vec<String>,
    /// The same with the logarithms of their probabilities among all tokens.
    pub label_logprobs: Vec<String>,
    /// Whether the model's processor chooses among the frames of a video, if the client says.
    pub samples_frames: Option<bool>,
    /// Whether the answer goes on right after the question's last words, in no turn of its own.
    pub continues_question: bool,
}

impl Default for ChatOptions {
    fn default() -> Self {
        Self {
            max_tokens: None,
            temperature: None,
            top_p: None,
            seed: None,
            stop: Vec::new(),
            logit_bias: Vec::new(),
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            choices: 1,
            top_logprobs: None,
            label_logits: Vec::new(),
            label_logprobs: Vec::new(),
            samples_frames: None,
            continues_question: false,
        }
    }
}

impl Chat {
    /// Every image, in order, also those of videos.
    pub fn images(&self) -> impl Iterator<Item = &Image> {
        self.messages.iter().flat_map(|message| &message.parts).flat_map(|part| match part {
            ContentPart::Image(image) => std::slice::from_ref(image),
            ContentPart::Video(video) => &video.frames,
            ContentPart::Text(_) => &[],
        })
    }

    /// All text of the last message.
    #[must_use]
    pub fn last_text(&self) -> String {
        let parts = self.messages.last().map_or(&[][..], |message| &message.parts);
        let words = parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            ContentPart::Image(_) | ContentPart::Video(_) => None,
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
    /// A video.
    Video(Video),
}

/// Images one after the other, all of one size.
#[derive(Debug, Clone, PartialEq)]
pub struct Video {
    /// Oldest first; never none.
    pub frames: Vec<Image>,
    /// How many make a second, if the client says.
    pub fps: Option<f64>,
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

/// Answers in words to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatAnswer {
    /// As many as were asked for.
    pub choices: Vec<ChatChoice>,
    /// Tokens of the question, as the model counts.
    pub prompt_tokens: usize,
}

/// An answer in words.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatChoice {
    /// The words.
    pub text: String,
    /// Log-probabilities of its tokens, if they were asked for and the model has them.
    pub tokens: Option<Vec<TokenLogprob>>,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// Whether it ended at `max_tokens`.
    pub is_truncated: bool,
    /// The logits of words that were asked for, in their order.
    pub label_logits: Option<Vec<f32>>,
    /// The logarithms of their probabilities, in their order.
    pub label_logprobs: Option<Vec<f32>>,
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
