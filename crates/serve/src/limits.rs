//! What a client may cost, and how requests are gathered.

use std::time::Duration;

/// What a client may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request's body.
    pub body_bytes: usize,
    /// Pixels of one image.
    pub image_pixels: usize,
    /// Images of one chat request.
    pub images: usize,
    /// Frames of one request that brings them as bytes. Small ones cost the model as much as large ones.
    pub frames: usize,
    /// Bytes of all requests together, as far as they have arrived and as decoded.
    pub memory_bytes: usize,
    /// Bytes that the model may need for a batch; a request that needs more alone is refused.
    pub work_bytes: usize,
    /// Connections at once; further ones wait.
    pub connections: usize,
    /// Requests that wait for the model at once; further ones are refused.
    pub queue: usize,
    /// How long a client may take for the head of a request, or to begin another.
    pub header_time: Duration,
    /// How long a client may take for the body.
    pub body_time: Duration,
    /// How long a body may stall: after this, it must have come fast enough on average.
    pub stall_time: Duration,
    /// How long an answer may take.
    pub answer_time: Duration,
    /// How long requests under way may take once the server should stop.
    pub shutdown_time: Duration,
}

/// Bytes per second that a body must come at after a while.
pub(crate) const MIN_BODY_RATE: usize = 16 << 10;

impl Limits {
    /// What one client may have of something that is shared: three quarters, so that there is room for others.
    pub(crate) fn client_share(all: usize) -> usize {
        (all - all / 4).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            image_pixels: 4 << 20,
            images: 64,
            frames: 4096,
            memory_bytes: 1 << 29,
            work_bytes: 1 << 29,
            connections: 256,
            queue: 256,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(300),
            shutdown_time: Duration::from_secs(30),
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
    /// Bytes that a batch may need of memory; one request may need more.
    pub work_bytes: usize,
}

impl Default for Batching {
    fn default() -> Self {
        Self { images: 64, wait: Duration::from_millis(2), work_bytes: 1 << 29 }
    }
}
