//! Bodies of requests as they arrive, and bodies of replies: whole, or event by event.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::CONTENT_LENGTH;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::error::ApiError;
use crate::limits::{Limits, MIN_BODY_RATE};
use crate::memory::Reservation;

/// The body of a request. Memory is held as it arrives, so that a client that stalls holds next to nothing.
pub(crate) async fn receive(
    request: Request<Incoming>,
    limits: &Limits,
    memory: &mut Reservation,
) -> Result<Vec<u8>, ApiError> {
    refuse_declared_size(&request, limits)?;
    let began = Instant::now();
    let mut body = request.into_body();
    let mut received: Vec<u8> = Vec::new();
    loop {
        let deadline = began + stall_deadline(received.len(), limits);
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(ApiError::request_timeout()),
            Ok(None) => return Ok(received),
            Ok(Some(Err(_))) => return Err(ApiError::invalid("the body broke off")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if received.len() + data.len() > limits.body_bytes {
            return Err(too_large(limits.body_bytes));
        }
        memory.grow(data.len())?;
        received.extend_from_slice(&data);
    }
}

/// When the next part of a body must be there, from its beginning on.
fn stall_deadline(received: usize, limits: &Limits) -> Duration {
    let earned = Duration::from_secs_f64(received as f64 / MIN_BODY_RATE as f64);
    (limits.stall_time + earned).min(limits.body_time)
}

/// A body that says it is too large is not read.
fn refuse_declared_size(request: &Request<Incoming>, limits: &Limits) -> Result<(), ApiError> {
    let is_declared = request.headers().get(CONTENT_LENGTH).is_some();
    let declared = request.body().size_hint().lower();
    if !is_declared || usize::try_from(declared).is_ok_and(|bytes| bytes <= limits.body_bytes) {
        return Ok(());
    }
    Err(too_large(limits.body_bytes))
}

fn too_large(limit: usize) -> ApiError {
    ApiError::too_large(format!("the body has more than the {limit} bytes that are allowed"))
}

/// The body of a reply.
pub(crate) enum ReplyBody {
    /// All at once.
    Whole(Full<Bytes>),
    /// As it is sent.
    Events(mpsc::UnboundedReceiver<Bytes>),
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Whole(Full::new(Bytes::from(bytes)))
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Events(events) => {
                events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_earns_time_by_arriving() {
        let limits = Limits::default();
        assert_eq!(stall_deadline(0, &limits), Duration::from_secs(5));
        assert_eq!(stall_deadline(10 * MIN_BODY_RATE, &limits), Duration::from_secs(15));
        assert_eq!(stall_deadline(1 << 26, &limits), limits.body_time);
    }
}
