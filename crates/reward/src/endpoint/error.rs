//! What can go wrong with a server: what is worth a retry, and what the user reads.

use std::time::Duration;

use thiserror::Error;

use crate::models::RewardModelError;

/// A server that cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// An address that is none.
    #[error("`{address}` is not a server address: one is written as http://127.0.0.1:8000")]
    Address {
        /// As written.
        address: String,
    },
    /// Nobody is there.
    #[error("no reward server answers at {base}: {why}")]
    Unreachable {
        /// Where.
        base: String,
        /// What happened instead.
        why: String,
    },
    /// It has other models.
    #[error("the server at {base} has no model `{model}`, but {names}")]
    Model {
        /// Where.
        base: String,
        /// What was asked for.
        model: String,
        /// What there is.
        names: String,
    },
    /// It has several, and nobody says which is meant.
    #[error("the server at {base} has several models, and nobody says which is meant: {names}")]
    SeveralModels {
        /// Where.
        base: String,
        /// What there is.
        names: String,
    },
    /// It does not say which models it has.
    #[error("the server at {base} does not list its models")]
    NoModels {
        /// Where.
        base: String,
    },
    /// It has another model than when it was opened.
    #[error("the server at {base} was started again with another model than `{model}` was")]
    Changed {
        /// Where.
        base: String,
        /// What was there.
        model: String,
    },
    /// An image classifier that looks at nothing.
    #[error("the server at {base} does not say which cameras its model looks through")]
    NoViews {
        /// Where.
        base: String,
    },
    /// It wants a key.
    #[error("the server at {base} wants a key, or another one")]
    Access {
        /// Where.
        base: String,
    },
    /// It did not answer in the end.
    #[error("the reward server at {base} gave no answer in {tries} tries over {secs} s ({why})")]
    Unanswered {
        /// Where.
        base: String,
        /// What happened last.
        why: String,
        /// How often it was asked.
        tries: u32,
        /// For how long.
        secs: u64,
    },
    /// It answers with nothing.
    #[error("the reward server at {base} gave {count} answers, all of them empty")]
    EmptyAnswers {
        /// Where.
        base: String,
        /// How many.
        count: usize,
    },
    /// It does not say how likely words are.
    #[error("the reward server at {base} tells no logprobs, and the answer is to be read from probabilities")]
    NoLogprobs {
        /// Where.
        base: String,
    },
    /// Its likely tokens do not tell words apart.
    #[error(
        "the reward server at {base} tells the first token of an answer alone, and `{longer}` begins with `{word}`"
    )]
    WordsAlike {
        /// Where.
        base: String,
        /// A word.
        word: String,
        /// Another, which begins with it.
        longer: String,
    },
    /// The user did not want to wait.
    #[error("stopped while the reward server at {base} did not answer ({why})")]
    Stopped {
        /// Where.
        base: String,
        /// What happened last.
        why: String,
    },
}

impl From<EndpointError> for RewardModelError {
    fn from(error: EndpointError) -> Self {
        Self::Backend(Box::new(error))
    }
}

/// What went wrong with one request.
#[derive(Debug, Error)]
pub(super) enum RequestError {
    #[error("{}", describe(.0))]
    Transport(#[from] ureq::Error),
    #[error("status {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status { status: u16, message: String, pause: Option<Duration> },
    #[error("{0}")]
    Malformed(String),
}

impl RequestError {
    /// Whether asking the same again would be refused again.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                (400..500).contains(status) && !matches!(status, 408 | 409 | 425 | 429)
            }
            Self::Transport(_) | Self::Malformed(_) => false,
        }
    }

    /// Whether the server answered, only not with sense.
    pub(super) fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::Transport(ureq::Error::BodyExceedsLimit(_)))
    }

    /// How long the server asks to be left alone.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Status { pause, .. } => *pause,
            Self::Transport(_) | Self::Malformed(_) => None,
        }
    }
}

fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::ConnectionFailed => "connection refused".into(),
        other => other.to_string(),
    }
}
