//! A reward model behind HTTP: requests in, batches to the model, answers out.
//!
//! ```text
//! connection ─server─► request ─chat, score─► question ─queue─► batch ─Model─► answers ─► replies
//! ```
//!
//! Whoever has a model implements [`Model`]; this crate does everything between it and the network. It knows the OpenAI chat
//! protocol with images, and a plain one for frames as bytes. Requests that arrive together are answered together. Nothing
//! that a client sends may cost more than [`Limits`] says: sizes are checked before anything is read or decoded, a slow
//! client loses its connection, and a full queue refuses with a Retry-After.
//!
//! It is not for the open internet: there is no TLS, and one token for everybody.

mod body;
mod chat;
mod chat_options;
mod connections;
mod error;
mod image;
mod limits;
mod memory;
mod metrics;
mod model;
mod queue;
mod reply;
mod routes;
mod score;
mod server;

pub use connections::{ConnectionLimits, Respond, serve_until};
pub use error::ApiError;
pub use limits::{Batching, Limits};
pub use model::{
    Answer, AnswerResult, Asked, Chat, ChatAnswer, ChatChoice, ChatMessage, ChatOptions, ContentPart, Cost,
    FrameBlock, Image, Model, ModelInfo, Question, Role, Scores, TextPiece, TokenLogprob, Video,
    WaitingClient,
};
pub use server::{ServeError, Server, ServerSettings, Shutdown};

/// Parses what a client sends, for tests that send anything: a chat request, or frames and their shape.
#[doc(hidden)]
pub mod parsing {
    pub use crate::chat::parse as chat;
    pub use crate::image::decode as image;
    pub use crate::score::parse as score;
}
