//! A reward model behind HTTP: requests in, batches to the model, answers out.
//!
//! ```text
//! connection ─server─► request ─chat, score─► question ─queue─► batch ─Model─► answers ─► replies
//! ```
//!
//! Whoever has a model implements [`Model`]; this crate does everything between it and the network. It knows the OpenAI chat
//! protocol with pictures, and a plain one for frames as bytes. Requests that arrive together are answered together. Nothing
//! that a client sends may cost more than [`Limits`] says: sizes are checked before anything is read or decoded, a slow
//! client loses its connection, and a full queue refuses with a word about when to come back.
//!
//! It is not for the open internet: there is no TLS, and one token for everybody.

mod chat;
mod limits;
mod metrics;
mod model;
mod picture;
mod queue;
mod refusal;
mod reply;
mod score;
mod server;

pub use limits::{Batching, Limits};
pub use model::{
    About, Answer, Answered, Chat, FrameBlock, Likely, Model, Part, Picture, Question, Role, Said, Scores,
    Turn,
};
pub use refusal::Refusal;
pub use server::{ServeError, Server, ServerSettings};

/// Reads what a client sends, for tests that send anything: a chat request, or frames and their shape.
#[doc(hidden)]
pub mod reading {
    pub use crate::chat::read as chat;
    pub use crate::picture::decode as picture;
    pub use crate::score::read as score;
}
