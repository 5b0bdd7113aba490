//! What is replied, with the headers that keep other sites out.

use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, HeaderName,
    HeaderValue, LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

/// What a page may load: from here alone, and no script that stands in it. Charts place words by attributes of style.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
    img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";
/// Bytes of a file that are sent in one reply; players ask for the rest.
const RANGE_BYTES: u64 = 4 << 20;

/// What a page replies.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    media_type: &'static str,
    headers: Vec<(HeaderName, String)>,
    body: Content,
}

#[derive(Debug)]
enum Content {
    Whole(Vec<u8>),
    Events(mpsc::Receiver<Bytes>),
}

/// Why a page does not reply what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) why: String,
}

impl Refusal {
    /// The request makes no sense.
    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, why: why.into() }
    }

    /// What was asked for is not there.
    pub(crate) fn not_found(why: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, why: why.into() }
    }

    /// It is there, and not for this client.
    pub(crate) fn forbidden(why: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, why: why.into() }
    }

    /// It cannot be done as things are.
    pub(crate) fn conflict(why: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, why: why.into() }
    }

    /// The system or a file does not do it.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, why: why.into() }
    }
}

impl Reply {
    fn of(media_type: &'static str, body: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, media_type, headers: Vec::new(), body: Content::Whole(body) }
    }

    /// A page, or a part of one.
    pub(crate) fn html(text: String) -> Self {
        Self::of("text/html; charset=utf-8", text.into_bytes())
    }

    /// JSON.
    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self::of("application/json", value.to_string().into_bytes())
    }

    /// Plain text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::of("text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// Bytes of some kind.
    pub(crate) fn bytes(media_type: &'static str, bytes: Vec<u8>) -> Self {
        Self::of(media_type, bytes)
    }

    /// Bytes that a browser saves under a name.
    pub(crate) fn download(media_type: &'static str, name: &str, bytes: Vec<u8>) -> Self {
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .collect();
        Self::of(media_type, bytes).with(CONTENT_DISPOSITION, format!("attachment; filename=\"{plain}\""))
    }

    /// Events as they come.
    pub(crate) fn events(events: mpsc::Receiver<Bytes>) -> Self {
        Self { body: Content::Events(events), ..Self::of("text/event-stream", Vec::new()) }
    }

    /// Another page instead.
    pub(crate) fn redirect(to: &str) -> Self {
        Self { status: StatusCode::SEE_OTHER, ..Self::text("") }.with(LOCATION, to.into())
    }

    /// A part of a file, as players ask for it: from a byte on, up to one or as far as one reply goes.
    pub(crate) fn file(
        media_type: &'static str,
        path: &Path,
        range: Option<(u64, Option<u64>)>,
    ) -> Result<Self, Refusal> {
        let failed = |error: std::io::Error| Refusal::failed(error.to_string());
        let mut file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let (from, to) = match range {
            Some((from, to)) => (from, to.unwrap_or(u64::MAX)),
            None => (0, u64::MAX),
        };
        if from >= size {
            let refused = Self { status: StatusCode::RANGE_NOT_SATISFIABLE, ..Self::text("") };
            return Ok(refused.with(CONTENT_RANGE, format!("bytes */{size}")));
        }
        let to = to.min(size - 1).min(from.saturating_add(RANGE_BYTES - 1));
        let mut bytes = vec![0; (to.saturating_sub(from) + 1) as usize];
        file.seek(SeekFrom::Start(from)).and_then(|_| file.read_exact(&mut bytes)).map_err(failed)?;
        let whole = from == 0 && to == size - 1;
        let status = if whole && range.is_none() { StatusCode::OK } else { StatusCode::PARTIAL_CONTENT };
        let reply = Self { status, ..Self::of(media_type, bytes) }.with(ACCEPT_RANGES, "bytes".into());
        Ok(if whole && range.is_none() {
            reply
        } else {
            reply.with(CONTENT_RANGE, format!("bytes {from}-{to}/{size}"))
        })
    }

    /// The same under another status.
    pub(crate) fn of_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// The same with a header.
    pub(crate) fn with(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same with a cookie.
    pub(crate) fn with_cookie(self, cookie: String) -> Self {
        self.with(SET_COOKIE, cookie)
    }

    /// The same, which the browser may keep for so many seconds.
    pub(crate) fn cached(self, secs: u32) -> Self {
        self.with(CACHE_CONTROL, format!("private, max-age={secs}"))
    }

    /// A refusal in words.
    pub(crate) fn refused(refusal: &Refusal) -> Self {
        let reply = Self { status: refusal.status, ..Self::text(format!("{}\n", refusal.why)) };
        match refusal.status {
            StatusCode::METHOD_NOT_ALLOWED => reply.with(ALLOW, "GET, HEAD, POST".into()),
            _ => reply,
        }
    }

    /// What goes to the client.
    pub(crate) fn into_response(self, head_only: bool) -> Response<ReplyBody> {
        let body = match self.body {
            Content::Whole(_) if head_only => ReplyBody::Whole(Full::default()),
            Content::Whole(bytes) => ReplyBody::Whole(Full::new(Bytes::from(bytes))),
            Content::Events(events) => ReplyBody::Events(events),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        let fixed = [
            (CONTENT_TYPE, self.media_type),
            (hyper::header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (CACHE_CONTROL, "no-store"),
        ];
        for (name, value) in fixed {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The body of a reply.
pub(crate) enum ReplyBody {
    /// All at once.
    Whole(Full<Bytes>),
    /// As it is sent.
    Events(mpsc::Receiver<Bytes>),
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
    fn players_get_the_bytes_they_ask_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mp4");
        std::fs::write(&path, (0..100u8).collect::<Vec<_>>()).unwrap();
        let ask = |range| {
            let reply = Reply::file("video/mp4", &path, range).unwrap();
            let Content::Whole(bytes) = reply.body else { panic!("not whole") };
            (reply.status.as_u16(), bytes.first().copied(), bytes.len())
        };
        assert_eq!(ask(None), (200, Some(0), 100));
        assert_eq!(ask(Some((0, None))), (206, Some(0), 100));
        assert_eq!(ask(Some((10, Some(19)))), (206, Some(10), 10));
        assert_eq!(ask(Some((90, Some(5000)))), (206, Some(90), 10));
        assert_eq!(ask(Some((100, None))), (416, None, 0));
        assert_eq!(ask(Some((50, Some(3)))).0, 206, "a range that ends before it begins is one byte");
    }

    #[test]
    fn every_reply_keeps_other_sites_out() {
        let refused = Reply::refused(&Refusal::forbidden("no"));
        for reply in [Reply::html(String::new()), refused, Reply::redirect("/data")] {
            let response = reply.into_response(false);
            let header = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_string();
            assert!(header("content-security-policy").contains("default-src 'none'; script-src 'self';"));
            assert_eq!(header("x-frame-options"), "DENY");
            assert_eq!(header("x-content-type-options"), "nosniff");
            assert_eq!(header("cache-control"), "no-store");
        }
    }
}
