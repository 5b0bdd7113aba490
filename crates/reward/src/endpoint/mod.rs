//! A reward model on a server: a vision-language model behind the OpenAI chat protocol (vLLM, SGLang, `plaudit serve`), or an image
//! classifier behind `plaudit serve`.
//!
//! Several requests are under way at once. A server that is down is waited for, since a rollout is too dear to be lost: it is
//! asked again after growing pauses until it has been down for too long. Then the run stops, or, if the user chose so, a
//! window gets no reward.

mod backoff;
mod chat;
mod connection;
mod error;
mod frames;
mod reply;
mod request;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

pub use chat::{ChatEndpoint, LabelReadout, VISION_LANGUAGE_MODEL};
pub use error::EndpointError;
pub use frames::{FrameEndpoint, IMAGE_CLASSIFIER, RemoteClassifier, ServerModel};

/// Where the server is, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointSettings {
    /// Its address, with or without `/v1`.
    pub api_base: String,
    /// The model's name there; not set: the first that it lists.
    pub model: Option<String>,
    /// What proves that we may ask.
    pub api_key: Option<String>,
    /// Sent along with every request.
    pub sampling_params: Map<String, Value>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How long a server that is down is waited for.
    pub give_up: Duration,
    /// Requests under way at once.
    pub concurrency: NonZeroUsize,
    /// What happens with a window that gets no answer.
    pub on_failure: OnFailure,
}

impl EndpointSettings {
    /// A server at this address, with its first model and without a key.
    #[must_use]
    pub fn at(api_base: impl Into<String>) -> Self {
        Self {
            api_base: api_base.into(),
            model: None,
            api_key: None,
            sampling_params: Map::new(),
            timeout: Duration::from_secs(120),
            give_up: Duration::from_secs(600),
            concurrency: NonZeroUsize::MIN,
            on_failure: OnFailure::Stop,
        }
    }
}

/// What happens with a window that gets no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The run stops.
    Stop,
    /// It counts as a step without a window.
    Skip,
}

/// Callbacks: notices about a server that does not answer, and whether to stop waiting.
#[derive(Clone)]
pub struct EndpointCallbacks {
    /// Called with notices for the user.
    pub notify: Arc<dyn Fn(&str) + Send + Sync>,
    /// Whether to give up at once.
    pub stop: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl EndpointCallbacks {
    /// No notices, and no stop.
    #[must_use]
    pub fn none() -> Self {
        Self { notify: Arc::new(|_| ()), stop: Arc::new(|| false) }
    }
}
