//! What a client may cost, and how requests are gathered.

use std::time::Duration;

/// What a client may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request's body.
    pub body_bytes: usize,
    /// Pixels of one image.
    pub image_pixels: usize,
    /// Images of one request.
    pub images: usize,
    /// Bytes of all requests together, as sent and as decoded.
    pub memory_bytes: usize,
    /// Connections at once; further ones wait.
    pub connections: usize,
    /// Requests that wait for the model at once; further ones are refused.
    pub queue: usize,
    /// How long a client may take for the head of a request, or to begin another.
    pub header_time: Duration,
    /// How long a client may take for the body.
    pub body_time: Duration,
    /// How long an answer may take.
    pub answer_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            image_pixels: 4 << 20,
            images: 64,
            memory_bytes: 1 << 30,
            connections: 256,
            queue: 256,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            answer_time: Duration::from_secs(300),
        }
    }
}

/// How requests are gathered into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batching {
    /// Images that the model is shown at once; one request may have more.
    pub images: usize,
    /// How long the first request of a batch waits for others.
    pub wait: Duration,
}

impl Default for Batching {
    fn default() -> Self {
        Self { images: 64, wait: Duration::from_millis(2) }
    }
}
