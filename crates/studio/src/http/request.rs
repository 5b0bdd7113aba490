//! A request that was let in, with its form.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, RANGE};
use hyper::{Method, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::{Params, Refusal, decode};

/// The largest body of a request: forms alone are sent, and nobody can send a file.
const BODY_BYTES: usize = 64 << 10;
/// How long a client may take for it.
const BODY_TIME: Duration = Duration::from_secs(5);

/// A request that was let in.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The words of the path, decoded.
    pub(crate) path: Vec<String>,
    pub(crate) query: Params,
    /// What a form sends; nothing of a GET.
    pub(crate) form: Params,
    /// From which byte, and up to which one.
    pub(crate) range: Option<(u64, Option<u64>)>,
}

impl Request {
    /// Whether it may change something.
    pub(crate) fn is_post(&self) -> bool {
        self.method == Method::POST
    }

    /// A word of the path, counted from 0; empty where there is none.
    pub(crate) fn word(&self, at: usize) -> &str {
        self.path.get(at).map_or("", String::as_str)
    }
}

/// Reads a request to its end.
pub(crate) async fn receive(request: hyper::Request<Incoming>) -> Result<Request, Refusal> {
    let (parts, body) = request.into_parts();
    let method = match parts.method {
        Method::GET | Method::HEAD | Method::POST => parts.method,
        _ => {
            let why = "only GET, HEAD and POST".into();
            return Err(Refusal { status: StatusCode::METHOD_NOT_ALLOWED, why });
        }
    };
    let path = parts.uri.path().split('/').filter(|word| !word.is_empty()).map(decode).collect();
    let query = Params::parse(parts.uri.query().unwrap_or(""));
    let form = match method == Method::POST {
        true => form(&parts.headers, body).await?,
        false => Params::default(),
    };
    let range = parts.headers.get(RANGE).and_then(|value| range(value.to_str().ok()?));
    Ok(Request { method, path, query, form, range })
}

async fn form(headers: &HeaderMap, body: Incoming) -> Result<Params, Refusal> {
    let too_large = || Refusal {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        why: format!("a form has {BODY_BYTES} bytes at most, and files are not taken"),
    };
    let declared = headers.get(CONTENT_LENGTH).map(|_| body.size_hint().lower());
    if declared.is_some_and(|bytes| bytes > BODY_BYTES as u64) {
        return Err(too_large());
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !kind.starts_with("application/x-www-form-urlencoded") {
        let why = "only forms are taken, and no files".into();
        return Err(Refusal { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, why });
    }
    let text = within_time(body, BODY_BYTES, Instant::now() + BODY_TIME).await?.ok_or_else(too_large)?;
    Ok(Params::parse(&String::from_utf8_lossy(&text)))
}

/// The bytes of a body; nothing where there are too many.
async fn within_time(mut body: Incoming, most: usize, deadline: Instant) -> Result<Option<Vec<u8>>, Refusal> {
    let mut received = Vec::new();
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => {
                let why = "the body took too long".into();
                return Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, why });
            }
            Ok(None) => return Ok(Some(received)),
            Ok(Some(Err(_))) => return Err(Refusal::bad("the body broke off")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        if received.len() + data.len() > most {
            return Ok(None);
        }
        received.extend_from_slice(&data);
    }
}

/// `bytes=3-9` or `bytes=3-`. Several ranges, or the last so many bytes, are answered with the whole.
fn range(text: &str) -> Option<(u64, Option<u64>)> {
    let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
    let to = if to.is_empty() { None } else { Some(to.parse().ok()?) };
    Some((from.parse().ok()?, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_players() {
        for (text, expected) in [
            ("bytes=0-", Some((0, None))),
            ("bytes=5-9", Some((5, Some(9)))),
            ("bytes=-5", None),
            ("bytes=1-2,4-5", None),
            ("lines=1-2", None),
            ("bytes=a-2", None),
        ] {
            assert_eq!(range(text), expected, "{text}");
        }
    }
}
