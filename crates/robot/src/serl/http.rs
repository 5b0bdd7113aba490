//! As much of HTTP/1.1 as a robot server speaks: one request per connection, sizes and times bounded.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The largest request line and headers.
const LARGEST_HEAD: usize = 16 << 10;
/// The largest body of a request or a reply; a state is two kilobytes.
const LARGEST_BODY: usize = 256 << 10;

/// A request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path without the query.
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, content_type: "text/html; charset=utf-8", body: text.into().into_bytes() }
    }

    pub(crate) fn json(value: &serde_json::Value) -> Self {
        Self { status: 200, content_type: "application/json", body: value.to_string().into_bytes() }
    }
}

/// A stream that gives up at a deadline, however slowly bytes drip in.
struct Bounded<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl Bounded<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn read_some(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut chunk = [0; 4096];
        self.stream.set_read_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        let read = stream.read(&mut chunk).map_err(timed_out)?;
        into.extend_from_slice(&chunk[..read]);
        Ok(read)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        stream.write_all(bytes).map_err(timed_out)
    }

    /// The head, and what came after it.
    fn read_head(&mut self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut bytes = Vec::new();
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let body = bytes.split_off(end + 4);
                bytes.truncate(end);
                return Ok((bytes, body));
            }
            if bytes.len() > LARGEST_HEAD {
                return Err(invalid("headers are too long"));
            }
            if self.read_some(&mut bytes)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Unix says "would block" where it means that time ran out.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// First line and headers, with names in lower case.
struct Head {
    first: String,
    headers: Vec<(String, String)>,
}

impl Head {
    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("headers are not text"))?;
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default().to_string();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').ok_or_else(|| invalid("a header has no colon"))?;
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_string()))
        };
        let headers = lines.map(header).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { first, headers })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// How long the body is, if that is said.
    fn length(&self) -> io::Result<Option<usize>> {
        let Some(length) = self.get("content-length") else { return Ok(None) };
        let length = length.parse().map_err(|_| invalid("the content length is no number"))?;
        if length > LARGEST_BODY {
            return Err(invalid(format!("{length} bytes are more than the {LARGEST_BODY} that are read")));
        }
        Ok(Some(length))
    }

    fn is_chunked(&self) -> bool {
        self.get("transfer-encoding").is_some_and(|coding| !coding.eq_ignore_ascii_case("identity"))
    }
}

/// Reads a request within `timeout`.
pub(crate) fn read_request(stream: &TcpStream, timeout: Duration) -> io::Result<Request> {
    let mut bounded = Bounded { stream, deadline: Instant::now() + timeout };
    let (head, mut body) = bounded.read_head()?;
    let head = Head::parse(&head)?;
    let mut words = head.first.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(invalid("the first line is no request"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(invalid("the request is not HTTP/1"));
    }
    if head.is_chunked() {
        return Err(invalid("chunked requests are not read"));
    }
    let length = head.length()?.unwrap_or(0);
    if head.get("expect").is_some() {
        bounded.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    while body.len() < length {
        if bounded.read_some(&mut body)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    body.truncate(length);
    let path = target.split('?').next().unwrap_or_default().to_string();
    let content_type = head.get("content-type").unwrap_or_default().to_ascii_lowercase();
    Ok(Request { method: method.into(), path, content_type, body })
}

/// Writes a reply within `timeout`. Every reply is the connection's last, as with Flask.
pub(crate) fn write_reply(stream: &TcpStream, reply: &Reply, timeout: Duration) -> io::Result<()> {
    let Reply { status, content_type, body } = reply;
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        reason(*status),
        body.len()
    );
    let mut bounded = Bounded { stream, deadline: Instant::now() + timeout };
    bounded.write_all(&[head.as_bytes(), body].concat())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "BAD REQUEST",
        404 => "NOT FOUND",
        405 => "METHOD NOT ALLOWED",
        409 => "CONFLICT",
        415 => "UNSUPPORTED MEDIA TYPE",
        500 => "INTERNAL SERVER ERROR",
        503 => "SERVICE UNAVAILABLE",
        _ => "STATUS",
    }
}

/// Opens a connection, sends a request, and reads status and body of the reply, all within `timeout`.
pub(crate) fn exchange(
    (address, host): (SocketAddr, &str),
    (method, path): (&str, &str),
    json: Option<&serde_json::Value>,
    timeout: Duration,
) -> io::Result<(u16, Vec<u8>)> {
    let deadline = Instant::now() + timeout;
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    let body = json.map(ToString::to_string).unwrap_or_default();
    let kind = if json.is_some() { "Content-Type: application/json\r\n" } else { "" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{kind}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut bounded = Bounded { stream: &stream, deadline };
    bounded.write_all(request.as_bytes())?;
    let (status, head, mut body) = read_reply_head(&mut bounded)?;
    let length = head.length()?;
    while length.is_none_or(|length| body.len() < length) {
        if body.len() > LARGEST_BODY {
            return Err(invalid(format!("the reply is longer than {LARGEST_BODY} bytes")));
        }
        if bounded.read_some(&mut body)? == 0 {
            if length.is_some() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            break;
        }
    }
    if let Some(length) = length {
        body.truncate(length);
    }
    let body = if head.is_chunked() { unchunk(&body)? } else { body };
    Ok((status, body))
}

fn read_reply_head(bounded: &mut Bounded<'_>) -> io::Result<(u16, Head, Vec<u8>)> {
    let (head, body) = bounded.read_head()?;
    let head = Head::parse(&head)?;
    let mut words = head.first.split(' ');
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let status = words.next().and_then(|status| status.parse().ok());
    match (is_http, status) {
        (true, Some(status)) => Ok((status, head, body)),
        _ => Err(invalid("the reply is not HTTP/1")),
    }
}

/// A body that came in chunks, which is at most as long as what came.
fn unchunk(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end =
            rest.windows(2).position(|two| two == b"\r\n").ok_or_else(|| invalid("a chunk is cut off"))?;
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|line| line.split(';').next());
        let size = size.and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or_else(|| invalid("a chunk has no size"))?;
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok(body);
        }
        if rest.len() < size.saturating_add(2) {
            return Err(invalid("a chunk is cut off"));
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}

/// Opens a stream of parts: sends a GET and reads the head. Returns the stream, the content type, and what came after.
/// The request is HTTP/1.0, to which no server answers in chunks.
pub(crate) fn open_stream(
    (address, host): (SocketAddr, &str),
    path: &str,
    timeout: Duration,
) -> io::Result<(TcpStream, String, Vec<u8>)> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    let mut bounded = Bounded { stream: &stream, deadline: Instant::now() + timeout };
    bounded.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let (status, head, rest) = read_reply_head(&mut bounded)?;
    if status != 200 {
        return Err(invalid(format!("status {status}")));
    }
    if head.is_chunked() {
        return Err(invalid("it answers HTTP/1.0 in chunks, which are not read"));
    }
    let kind = head.get("content-type").unwrap_or_default().to_string();
    Ok((stream, kind, rest))
}

/// Host and port of an address such as `http://127.0.0.1:5000/`, and the path behind them.
pub(crate) fn parse_address(address: &str, usual_port: u16) -> Result<(String, String), String> {
    let rest = match address.trim().split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme, _)) => {
            return Err(format!("`{scheme}` is not spoken here; robot servers speak plain http"));
        }
        None => address.trim(),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-_:[]".contains(letter);
    if host.is_empty() || !host.chars().all(is_host) || !path.chars().all(|letter| letter.is_ascii_graphic())
    {
        return Err("write it as http://127.0.0.1:5000".into());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(before, port)| {
        port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
    });
    let host = if has_port { host.to_string() } else { format!("{host}:{usual_port}") };
    Ok((host, format!("/{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What a server that answers with these bytes is understood to say.
    fn answer(bytes: &'static [u8]) -> io::Result<(u16, Vec<u8>)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&stream, Duration::from_secs(5)).unwrap();
            // A client that has understood enough may be gone.
            let _ = stream.write_all(bytes);
        });
        let reply = exchange((address, "robot"), ("POST", "/getstate"), None, Duration::from_millis(500));
        server.join().unwrap();
        reply
    }

    #[test]
    fn replies_of_several_servers_are_understood() {
        let flask = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nMoved");
        assert_eq!(flask.unwrap(), (200, b"Moved".to_vec()));
        let closing = answer(b"HTTP/1.0 500 X\r\n\r\nsorry");
        assert_eq!(closing.unwrap(), (500, b"sorry".to_vec()));
        let chunked = answer(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nMov\r\n2;x\r\ned\r\n0\r\n\r\n",
        );
        assert_eq!(chunked.unwrap(), (200, b"Moved".to_vec()));
    }

    #[test]
    fn broken_replies_are_errors() {
        for broken in [
            &b"ICY 200 OK\r\n\r\n"[..],
            b"HTTP/1.1 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx\r\n0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"",
        ] {
            assert!(answer(broken).is_err(), "{:?}", String::from_utf8_lossy(broken));
        }
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let before = Instant::now();
        let reply = exchange((address, "robot"), ("POST", "/pose"), None, Duration::from_millis(80));
        assert_eq!(reply.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(before.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn addresses_are_read_and_others_refused() {
        let parsed = |address: &str| parse_address(address, 5000).unwrap();
        assert_eq!(parsed("http://10.0.0.2:5001/"), ("10.0.0.2:5001".into(), "/".into()));
        assert_eq!(
            parsed("robot.local/camera/wrist_1"),
            ("robot.local:5000".into(), "/camera/wrist_1".into())
        );
        assert_eq!(parsed("http://[::1]"), ("[::1]:5000".into(), "/".into()));
        for wrong in ["https://robot", "http://", "http://a b", "http://robot/a b", "ftp://robot"] {
            assert!(parse_address(wrong, 5000).is_err(), "{wrong}");
        }
    }
}
