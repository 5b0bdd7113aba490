//! Messages to and from the Python process.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::PythonError;

/// The largest message that is accepted: far above any traceback or description.
const MOST_BYTES: u32 = 16 << 20;
/// How often a long wait checks that the process is alive.
const POLL: Duration = Duration::from_millis(250);
/// The shortest wait: none at all means for ever.
const SHORTEST: Duration = Duration::from_millis(1);
/// How long the rest of an answer may take.
const REST: Duration = Duration::from_secs(1);

/// The socket to the Python process.
#[derive(Debug)]
pub(super) struct Link {
    socket: UnixStream,
    /// How long to look for an answer before going to sleep.
    spin: Duration,
    /// Whether the last answer came so soon that looking for the next is worth it.
    spins: bool,
}

/// What the process answers.
#[derive(Debug)]
pub enum Answer {
    /// Done: the rest lies in shared memory.
    Done,
    /// A description, as JSON.
    Description(Vec<u8>),
    /// Something went wrong.
    Error(PythonError),
}

/// Why there is no answer.
#[derive(Debug)]
pub enum NoAnswer {
    /// The other side closed.
    Closed,
    /// It took too long.
    TimedOut,
    /// It sent an invalid message.
    InvalidMessage(String),
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                Self::Closed
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Io(error),
        }
    }
}

impl Link {
    /// Our end, where a write may take at most `write_timeout`. Quick answers are busy-waited for, up to
    /// `spin`.
    pub(super) fn new(socket: UnixStream, write_timeout: Duration, spin: Duration) -> io::Result<Self> {
        socket.set_write_timeout(Some(write_timeout))?;
        socket.set_read_timeout(Some(POLL))?;
        Ok(Self { socket, spin, spins: false })
    }

    /// From now on a write may take at most `limit`.
    pub(super) fn limit_writes(&self, limit: Duration) -> io::Result<()> {
        self.socket.set_write_timeout(Some(limit))
    }

    /// Sends bytes as they are.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), NoAnswer> {
        Ok(self.socket.write_all(bytes)?)
    }

    /// Sends a message with its length before it.
    pub(super) fn send_message(&mut self, body: &[u8]) -> Result<(), NoAnswer> {
        self.send(&(body.len() as u32).to_le_bytes())?;
        self.send(body)
    }

    /// Sends JSON.
    pub(super) fn send_json(&mut self, message: &Value) -> Result<(), NoAnswer> {
        self.send_message(message.to_string().as_bytes())
    }

    /// Waits for an answer as long as `limit` lasts and the process `lives`.
    pub(super) fn answer(
        &mut self,
        limit: Duration,
        lives: impl FnMut() -> bool,
    ) -> Result<Answer, NoAnswer> {
        let began = Instant::now();
        let mut wait = Wait { deadline: began + limit, lives, gone: false };
        let mut mark = [0];
        if !self.spin(began, &mut mark) {
            self.socket.set_read_timeout(Some(limit.clamp(SHORTEST, POLL)))?;
            wait.fill(&mut self.socket, &mut mark)?;
        }
        // Whoever has begun an answer goes on at once; stopping in its middle would lose the rest.
        wait.deadline = wait.deadline.max(Instant::now() + REST);
        self.spins = began.elapsed() < self.spin;
        match mark[0] {
            b'k' => Ok(Answer::Done),
            b'j' => Ok(Answer::Description(self.body(&mut wait)?)),
            b'e' => Ok(Answer::Error(parse(&self.body(&mut wait)?)?)),
            other => Err(NoAnswer::InvalidMessage(format!("an answer that starts with byte {other}"))),
        }
    }

    /// Looks for one byte without going to sleep, which would take longer than a quick step.
    fn spin(&self, began: Instant, mark: &mut [u8; 1]) -> bool {
        while self.spins && began.elapsed() < self.spin {
            if let Ok((_, 1)) = recv(&self.socket, &mut mark[..], RecvFlags::DONTWAIT) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    fn body(&mut self, wait: &mut Wait<impl FnMut() -> bool>) -> Result<Vec<u8>, NoAnswer> {
        let mut length = [0; 4];
        wait.fill(&mut self.socket, &mut length)?;
        let length = u32::from_le_bytes(length);
        if length > MOST_BYTES {
            return Err(NoAnswer::InvalidMessage(format!("a message of {length} bytes")));
        }
        let mut body = vec![0; length as usize];
        wait.fill(&mut self.socket, &mut body)?;
        Ok(body)
    }
}

/// Reads JSON of a known form.
///
/// # Errors
/// When it is of another.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, NoAnswer> {
    serde_json::from_slice(body).map_err(|error| NoAnswer::InvalidMessage(error.to_string()))
}

/// A wait with an end.
struct Wait<F> {
    deadline: Instant,
    lives: F,
    gone: bool,
}

impl<F: FnMut() -> bool> Wait<F> {
    fn fill(&mut self, socket: &mut UnixStream, mut buffer: &mut [u8]) -> Result<(), NoAnswer> {
        while !buffer.is_empty() {
            match socket.read(buffer) {
                Ok(0) => return Err(NoAnswer::Closed),
                Ok(count) => buffer = &mut buffer[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.go_on(socket)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// After a slice of waiting: whether there is reason to wait on.
    fn go_on(&mut self, socket: &UnixStream) -> Result<(), NoAnswer> {
        if self.gone {
            return Err(NoAnswer::Closed);
        }
        self.gone = !(self.lives)(); // what it sent last is still read
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoAnswer::TimedOut);
        }
        Ok(socket.set_read_timeout(Some(left.min(POLL)))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(bytes: &[u8], limit_ms: u64) -> Result<Answer, NoAnswer> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(bytes).unwrap();
        let mut link = Link::new(ours, Duration::from_secs(1), Duration::from_micros(100)).unwrap();
        link.answer(Duration::from_millis(limit_ms), || true)
    }

    #[test]
    fn answers_are_read_whole() {
        assert!(matches!(answer_to(b"k", 100), Ok(Answer::Done)));
        let described = answer_to(b"j\x02\0\0\0{}", 100);
        assert!(matches!(described, Ok(Answer::Description(body)) if body == b"{}"));
        let reply = br#"e00{"kind": "raised", "error": "E", "traceback": ""}"#;
        let mut reply = reply.to_vec();
        let length = (reply.len() - 3) as u32;
        reply.splice(1..3, length.to_le_bytes());
        assert!(matches!(answer_to(&reply, 100), Ok(Answer::Error(_))));
    }

    #[test]
    fn invalid_messages_are_refused_before_they_are_allocated() {
        let words = |bytes: &[u8]| match answer_to(bytes, 100) {
            Err(NoAnswer::InvalidMessage(words)) => words,
            other => panic!("{other:?}"),
        };
        assert_eq!(words(b"j\xff\xff\xff\xff"), "a message of 4294967295 bytes");
        assert_eq!(words(b"hello"), "an answer that starts with byte 104");
        assert!(
            words(b"e\x02\0\0\0[]").contains("missing field") || words(b"e\x02\0\0\0[]").contains("invalid")
        );
    }

    #[test]
    fn waits_end_with_the_clock_or_the_process() {
        let started = Instant::now();
        assert!(matches!(answer_to(b"j\x02\0", 300), Err(NoAnswer::TimedOut)));
        assert!(started.elapsed() < Duration::from_secs(3));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut link = Link::new(ours, Duration::from_secs(1), Duration::from_micros(100)).unwrap();
        let gone = link.answer(Duration::from_secs(9), || false);
        assert!(matches!(gone, Err(NoAnswer::Closed)), "a grandchild may hold the socket open");
        drop(theirs);
        assert!(matches!(link.answer(Duration::from_secs(9), || true), Err(NoAnswer::Closed)));
    }
}
