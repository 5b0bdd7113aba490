//! A process that goes on is asked and told something: over a socket on the loopback, which a file in its folder names.
//!
//! A request is one line of JSON. Its reply is one line, too, and bytes after it where the line says how many. Each has a connection of
//! its own, and each is served on a thread of its own, so that none waits for another. Whoever may read the file may ask: it holds a
//! token, and is nobody else's to read. A page of another site may not, since what a browser sends begins with no such line.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A file of this name in the folder of a process that moves an arm has the arm held: for whoever cannot reach the process.
pub const HOLD_FILE: &str = "hold";
/// Where a process listens, in its folder.
const FILE: &str = "control.json";
/// Bytes that a token is made of.
const TOKEN_BYTES: usize = 16;
/// The longest line, and the most bytes after one.
const LINE_BYTES: u64 = 1 << 20;
const MOST_BYTES: usize = 64 << 20;
/// How long a request may take to arrive, and a reply to leave.
const TRANSFER_TIME: Duration = Duration::from_secs(2);
/// Requests at once.
const MOST_REQUESTS: usize = 64;

/// What is answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ControlReply {
    /// In JSON.
    pub value: Value,
    /// What JSON has no place for: an image.
    pub bytes: Vec<u8>,
}

impl From<Value> for ControlReply {
    fn from(value: Value) -> Self {
        Self { value, bytes: Vec::new() }
    }
}

/// A process that answers.
pub trait Controlled: Send + Sync + 'static {
    /// Answers a request, soon and from any thread.
    ///
    /// # Errors
    /// Why what was asked for is not done, in words.
    fn reply(&self, request: &Value) -> Result<ControlReply, String>;
}

/// Where a process listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    address: SocketAddr,
    token: String,
}

/// A request as it is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Sent {
    token: String,
    request: Value,
}

/// Listens until it is dropped.
pub struct ControlServer {
    file: PathBuf,
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens on the loopback alone, and writes into a folder where.
    ///
    /// # Errors
    /// When there is no socket, no thread or no random number, or the file cannot be written.
    pub fn start(folder: &Path, controlled: Arc<dyn Controlled>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let place = Place { address, token: token()? };
        let file = folder.join(FILE);
        write_for_the_owner(&file, &serde_json::to_vec(&place)?)?;
        let ended = Arc::new(AtomicBool::new(false));
        let has_ended = ended.clone();
        let accept = move || accept_all(&listener, &Arc::from(place.token), &controlled, &has_ended);
        let thread = std::thread::Builder::new().name("control".into()).spawn(accept)?;
        Ok(Self { file, address, ended, thread: Some(thread) })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections; where nobody listens there is nobody to wake.
        let _ = TcpStream::connect_timeout(&self.address, TRANSFER_TIME);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.file);
    }
}

fn token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A file that nobody else reads, and that appears whole.
fn write_for_the_owner(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&new)?.write_all(bytes)?;
    fs::rename(&new, path)
}

fn accept_all(
    listener: &TcpListener,
    token: &Arc<str>,
    controlled: &Arc<dyn Controlled>,
    ended: &AtomicBool,
) {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let accepted = listener.accept();
        if ended.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(Duration::from_millis(5)); // out of file descriptors, perhaps not for long
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= MOST_REQUESTS {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let (token, controlled, count) = (token.clone(), controlled.clone(), open.clone());
        let serve = move || {
            // Errors of a connection end it, and nothing else.
            let _ = serve(&stream, &token, controlled.as_ref());
            count.fetch_sub(1, Ordering::SeqCst);
        };
        if std::thread::Builder::new().name("control-request".into()).spawn(serve).is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve(stream: &TcpStream, token: &str, controlled: &dyn Controlled) -> io::Result<()> {
    let line = read_line(&mut BufReader::new(stream), stream, Instant::now() + TRANSFER_TIME)?;
    let sent: Sent = serde_json::from_str(&line)?;
    if !is_same(token, &sent.token) {
        return Ok(()); // whoever has no token learns nothing
    }
    let (head, bytes) = match controlled.reply(&sent.request) {
        Ok(ControlReply { value, bytes }) => (json!({"value": value, "bytes": bytes.len()}), bytes),
        Err(why) => (json!({"refused": why}), Vec::new()),
    };
    stream.set_write_timeout(Some(TRANSFER_TIME))?;
    let mut to = stream;
    to.write_all(&[head.to_string().as_bytes(), b"\n", &bytes].concat())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// Whether two texts are the same, in a time that does not tell how much of them is.
fn is_same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

/// A line that is whole before a deadline, however slowly it drips in.
fn read_line(reader: &mut impl BufRead, stream: &TcpStream, deadline: Instant) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        line.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        reader.consume(taken);
        if end.is_some() {
            return String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into());
        }
        if line.len() as u64 > LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Why nothing was answered.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The process is gone, stands still, or answers something else.
    #[error("the process does not answer: {0}")]
    Silent(#[from] io::Error),
    /// It says why it does not do it.
    #[error("{0}")]
    Refused(String),
}

/// Asks a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlClient {
    place: Place,
}

impl ControlClient {
    /// The process that listens for a folder; nothing where none does. Other machines are not asked, whatever the file says.
    #[must_use]
    pub fn of(folder: &Path) -> Option<Self> {
        let place: Place = serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()?;
        place.address.ip().is_loopback().then_some(Self { place })
    }

    /// Asks, and waits for so long at most.
    ///
    /// # Errors
    /// When nobody answers in time, or what was asked for is refused.
    pub fn ask(&self, request: &Value, patience: Duration) -> Result<ControlReply, ControlError> {
        let deadline = Instant::now() + patience;
        let stream = TcpStream::connect_timeout(&self.place.address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        let sent = Sent { token: self.place.token.clone(), request: request.clone() };
        let mut to = &stream;
        to.write_all(format!("{}\n", serde_json::to_string(&sent).map_err(io::Error::other)?).as_bytes())?;
        let mut reader = BufReader::new(&stream);
        let head: Value =
            serde_json::from_str(&read_line(&mut reader, &stream, deadline)?).map_err(io::Error::other)?;
        if let Some(why) = head["refused"].as_str() {
            return Err(ControlError::Refused(why.into()));
        }
        let count = head["bytes"].as_u64().and_then(|count| usize::try_from(count).ok());
        let count = count.filter(|count| *count <= MOST_BYTES);
        let mut bytes = vec![0; count.ok_or(io::Error::from(io::ErrorKind::InvalidData))?];
        stream.set_read_timeout(Some(patience))?;
        reader.read_exact(&mut bytes)?;
        Ok(ControlReply { value: head["value"].clone(), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Controlled for Echo {
        fn reply(&self, request: &Value) -> Result<ControlReply, String> {
            match request["do"].as_str() {
                Some("say") => Ok(json!({"said": request["what"]}).into()),
                Some("show") => Ok(ControlReply { value: json!({"width": 3}), bytes: vec![7; 300_000] }),
                Some("sleep") => {
                    std::thread::sleep(Duration::from_secs(30));
                    Ok(Value::Null.into())
                }
                _ => Err("not now".into()),
            }
        }
    }

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn whoever_has_the_token_is_answered_and_nobody_waits_for_another() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ControlClient::of(folder.path()), None);
        let server = ControlServer::start(folder.path(), Arc::new(Echo)).unwrap();
        let client = ControlClient::of(folder.path()).unwrap();
        let slow = client.ask(&json!({"do": "sleep"}), Duration::from_millis(50));
        assert!(matches!(slow, Err(ControlError::Silent(_))), "{slow:?}");
        let said = client.ask(&json!({"do": "say", "what": "a\nb"}), SOON).unwrap();
        assert_eq!(said.value, json!({"said": "a\nb"}));
        let shown = client.ask(&json!({"do": "show"}), SOON).unwrap();
        assert_eq!((shown.value["width"].as_u64(), shown.bytes.len()), (Some(3), 300_000));
        let refused = client.ask(&json!({}), SOON).unwrap_err();
        assert_eq!(refused.to_string(), "not now");

        let other = Place { token: "0".repeat(2 * TOKEN_BYTES), ..client.place.clone() };
        let stranger = ControlClient { place: other }.ask(&json!({"do": "say"}), SOON);
        assert!(matches!(stranger, Err(ControlError::Silent(_))), "{stranger:?}");
        // A browser of this machine that another site sends here.
        let mut page = TcpStream::connect(client.place.address).unwrap();
        page.write_all(b"POST / HTTP/1.1\r\n\r\n{}\n").unwrap();
        assert_eq!(page.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
        drop(server);
        assert_eq!(ControlClient::of(folder.path()), None, "its file is gone");
        assert!(client.ask(&json!({"do": "say"}), SOON).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_the_token_and_other_machines_are_not_asked() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let _server = ControlServer::start(folder.path(), Arc::new(Echo)).unwrap();
        let file = folder.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0);
        fs::write(&file, r#"{"address": "10.0.0.1:80", "token": "a"}"#).unwrap();
        assert_eq!(ControlClient::of(folder.path()), None);
    }
}
