//! What carries messages between workers.
//!
//! A worker sees an [`Endpoint`]: it sends messages to peers by name and receives theirs, whole, in order, and once. Below
//! it is an engine that only has to try: threads and channels in one process ([`threads`]), dora between processes and
//! machines (a feature). Engines lose, repeat, delay and reorder; the streams above them do not (`stream`):
//!
//! - a message is cut into parts of at most [`MAX_PART`] bytes, numbered per pair of processes;
//! - a sender leaves at most a window of parts unacknowledged, since no engine here pushes back;
//! - what is not acknowledged in time is sent again, and what arrives twice is dropped by its number;
//! - every process has a number of its own for its lifetime (its incarnation). A process that was started again has another:
//!   its peers hear `Down` and `Up`, and send again whatever they still want answered;
//! - both sides say which protocol and which plaudit they are, and refuse each other by name if they differ.
//!
//! No clock of the machine is used, only how long something took.

#[cfg(feature = "dora")]
pub mod dora;
mod endpoint;
mod frame;
mod payload;
mod stream;
pub mod threads;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use endpoint::{Endpoint, Event, Identity, PeerCounts};
pub use payload::Payload;
pub use wire::{Reader, WireError};

/// The number of this protocol. Processes of different numbers refuse each other.
pub const PROTOCOL: u16 = 1;
/// Bytes of a message that travel at once, at most.
pub const MAX_PART: usize = 4 << 20;
/// Bytes of a message, at most: a peer that sends more is refused.
pub const MAX_MESSAGE: usize = 2 << 30;

/// The sending half of an engine.
pub trait LinkSender: Send {
    /// Sends `len` bytes to a peer, which `fill` writes straight into the engine's own buffer. It may get lost.
    fn send(&mut self, peer: &Arc<str>, len: usize, fill: &mut dyn FnMut(&mut [u8]))
    -> Result<(), LinkError>;
}

/// The receiving half of an engine.
pub trait LinkReceiver: Send {
    /// Waits for what comes next, and hands over the bytes where they lie, with the name of who sent them.
    fn recv(&mut self, timeout: Duration, on_bytes: &mut dyn FnMut(&str, &[u8])) -> Incoming;
}

/// What an engine received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// Bytes, which were handed over.
    Bytes,
    /// The engine saw a peer start again: it need not be waited for.
    PeerUp(String),
    /// The engine saw a peer go.
    PeerDown(String),
    /// Nothing came.
    Timeout,
    /// The engine stops, and why.
    Stop(String),
}

/// How messages are kept from getting lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamSettings {
    /// Parts that a sender leaves unacknowledged at most, per peer.
    pub window: usize,
    /// How long a part is unacknowledged at least before it is sent again.
    pub resend_after: Duration,
    /// How long a peer is silent before it counts as down.
    pub dead_after: Duration,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { window: 8, resend_after: Duration::from_millis(500), dead_after: Duration::from_secs(5) }
    }
}

/// Why a message could not be sent or received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LinkError {
    /// The engine failed.
    #[error("the link failed: {0}")]
    Engine(String),
    /// The engine stopped.
    #[error("the link was stopped: {0}")]
    Stopped(String),
    /// A peer that is not wired.
    #[error("nothing leads from here to `{peer}`")]
    NoPeer {
        /// Its name.
        peer: String,
    },
    /// A peer that is not there, or went while a message waited for it.
    #[error("`{peer}` is not there")]
    Down {
        /// Its name.
        peer: String,
    },
    /// A peer of another version.
    #[error("`{peer}` runs {theirs}, and this process runs {ours}: both must be the same version")]
    Version {
        /// Its name.
        peer: String,
        /// What it runs.
        theirs: String,
        /// What runs here.
        ours: String,
    },
    /// A message that is longer than any may be.
    #[error("a message of more than {limit} bytes")]
    TooLong {
        /// The most.
        limit: usize,
    },
}
