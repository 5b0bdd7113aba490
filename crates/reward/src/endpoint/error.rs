//! What can go wrong with a server: what is worth another try, and what is told to the user.

use std::time::Duration;

use thiserror::Error;

/// A server that cannot judge.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// An address that is none.
    #[error("`{address}` is no address to ask: {why}")]
    Address {
        /// As written.
        address: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nobody is there.
    #[error("no reward server answers at {base}: {why}; start it, or correct reward.api.api_base")]
    Away {
        /// Where.
        base: String,
        /// What happened instead.
        why: String,
    },
    /// It has other models.
    #[error("the server at {base} has no model `{model}`, but {names}; set reward.api.model to one of them")]
    Model {
        /// Where.
        base: String,
        /// What was asked for.
        model: String,
        /// What there is.
        names: String,
    },
    /// It wants a key.
    #[error(
        "the server at {base} wants a key, or another one; put it into the variable that reward.api.api_key_env names"
    )]
    Access {
        /// Where.
        base: String,
    },
    /// It did not answer in the end.
    #[error(
        "the reward server at {base} gave no answer in {tries} tries over {secs} s ({why}); start it again and resume \
         the run, or set reward.api.on_failure: skip"
    )]
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
    #[error(
        "the reward server at {base} gave {count} answers, all of them empty; is max_new_tokens too small for a model \
         that thinks first?"
    )]
    Silence {
        /// Where.
        base: String,
        /// How many.
        count: usize,
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

/// What went wrong with one request.
#[derive(Debug, Error)]
pub(super) enum Trouble {
    #[error("{}", in_words(.0))]
    Transport(#[from] ureq::Error),
    #[error("status {status}{}{message}", if message.is_empty() { "" } else { ": " })]
    Status { status: u16, message: String, pause: Option<Duration> },
    #[error("{0}")]
    Garbled(String),
}

impl Trouble {
    /// Whether asking the same again would be refused again.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                (400..500).contains(status) && !matches!(status, 408 | 409 | 425 | 429)
            }
            Self::Transport(_) | Self::Garbled(_) => false,
        }
    }

    /// Whether the server answered, only not with sense.
    pub(super) fn is_garbled(&self) -> bool {
        matches!(self, Self::Garbled(_) | Self::Transport(ureq::Error::BodyExceedsLimit(_)))
    }

    /// How long the server asks to be left alone.
    pub(super) fn pause(&self) -> Option<Duration> {
        match self {
            Self::Status { pause, .. } => *pause,
            Self::Transport(_) | Self::Garbled(_) => None,
        }
    }
}

fn in_words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::ConnectionFailed => "nobody listens there".into(),
        other => other.to_string(),
    }
}
