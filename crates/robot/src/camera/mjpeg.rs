//! Cameras that send MJPEG over HTTP: webcams, mjpg-streamer, robot servers, the simulated robot.

use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plaudit_core::FrameShape;

use super::resize::square;
use super::{Camera, CameraError, CameraFrame, decode};
use crate::serl::http;
use crate::{AddressError, Clock, StopToken, Time};

/// How long a camera may be silent before it is called again, in the machine's time.
const SILENCE: Duration = Duration::from_secs(2);
/// How long to wait before that.
const PAUSE: Duration = Duration::from_millis(200);
/// The largest frame, as JPEG.
const LARGEST_FRAME: usize = 8 << 20;
/// The longest headers of a frame.
const LONGEST_HEADERS: usize = 4 << 10;

/// A camera behind an address, read on a thread of its own.
///
/// Frames are cut to a square from their middle and scaled. A frame's time is when it arrived; where the camera stamps
/// its frames (`X-Timestamp`, seconds), a frame that took longer on its way than the quickest one counts as that much
/// older, and one that was sent before is not a new one. Without stamps, a frame of exactly the same bytes is the old
/// one: no sensor sees the same noise twice.
pub struct MjpegCamera {
    name: String,
    shape: FrameShape,
    latest: Arc<Latest>,
    ended: StopToken,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Latest {
    frame: Mutex<Option<CameraFrame>>,
    trouble: Mutex<Option<CameraError>>,
}

impl MjpegCamera {
    /// Begins to read the stream at `url`, such as `http://127.0.0.1:5000/camera/wrist_1`. A camera that does not
    /// answer is called again and again.
    pub fn open(
        name: &str,
        url: &str,
        shape: FrameShape,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AddressError> {
        let wrong = |why: String| AddressError { address: url.into(), why };
        let (host, path) = http::parse_address(url, 80).map_err(wrong)?;
        let mut found = host.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
        let address = found.next().ok_or_else(|| wrong("the name leads nowhere".into()))?;
        let (latest, ended) = (Arc::new(Latest::default()), StopToken::new());
        let mut reader = Reader {
            place: (address, host, path),
            name: name.into(),
            shape,
            clock,
            latest: latest.clone(),
            ended: ended.clone(),
            number: 0,
            delays: Delays::default(),
            last_bytes: Vec::new(),
        };
        let thread = std::thread::Builder::new().name(format!("camera-{name}"));
        let thread = thread.spawn(move || reader.run()).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { name: name.into(), shape, latest, ended, thread: Some(thread) })
    }
}

impl Camera for MjpegCamera {
    fn name(&self) -> &str {
        &self.name
    }

    fn shape(&self) -> FrameShape {
        self.shape
    }

    fn newest(&mut self) -> Option<CameraFrame> {
        lock(&self.latest.frame).clone()
    }

    fn trouble(&self) -> Option<CameraError> {
        lock(&self.latest.trouble).clone()
    }
}

impl Drop for MjpegCamera {
    fn drop(&mut self) {
        self.ended.raise();
        if let Some(thread) = self.thread.take() {
            // A reader that panicked has no more to say.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader {
    place: (SocketAddr, String, String),
    name: String,
    shape: FrameShape,
    clock: Arc<dyn Clock>,
    latest: Arc<Latest>,
    ended: StopToken,
    number: u64,
    delays: Delays,
    last_bytes: Vec<u8>,
}

impl Reader {
    fn run(&mut self) {
        while !self.ended.is_raised() {
            if let Err(error) = self.read_stream() {
                let (_, host, path) = &self.place;
                let address = format!("http://{host}{path}");
                let unreachable =
                    CameraError::Unreachable { name: self.name.clone(), address, why: error.to_string() };
                *lock(&self.latest.trouble) = Some(unreachable);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn read_stream(&mut self) -> io::Result<()> {
        let (address, host, path) = &self.place;
        let (mut stream, kind, rest) = http::open_stream((*address, host), path, SILENCE)?;
        let mut parts = Parts::new(&kind)?;
        parts.feed(&rest);
        // Short, so that the thread ends when it should.
        stream.set_read_timeout(Some(PAUSE))?;
        let (mut chunk, mut silent) = (vec![0; 64 << 10], Duration::ZERO);
        while !self.ended.is_raised() {
            while let Some(part) = parts.next()? {
                self.take(part);
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    silent = Duration::ZERO;
                    parts.feed(&chunk[..read]);
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    silent += PAUSE;
                    if silent >= SILENCE {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Shows a frame, if it is a new and whole one.
    fn take(&mut self, part: Part) {
        let arrived = self.clock.now();
        let time = match part.stamp_secs {
            Some(stamp) => self.delays.taken(stamp, arrived),
            None => (part.bytes != self.last_bytes).then_some(arrived),
        };
        let Some(time) = time else { return };
        let frame = decode::jpeg(&part.bytes).map(|frame| square(&frame, self.shape));
        self.last_bytes = part.bytes;
        match frame {
            Ok(image) => {
                self.number += 1;
                let frame = CameraFrame { image: Arc::new(image), time, number: self.number };
                *lock(&self.latest.frame) = Some(frame);
                *lock(&self.latest.trouble) = None;
            }
            Err(why) => {
                *lock(&self.latest.trouble) = Some(CameraError::Broken { name: self.name.clone(), why });
            }
        }
    }
}

/// When frames were taken, from their stamps: the quickest frame so far had no delay.
#[derive(Debug, Default)]
struct Delays {
    last_stamp: Option<f64>,
    /// The camera's clock, seconds behind ours.
    behind: Option<f64>,
}

impl Delays {
    /// When the frame was taken; nothing if it was seen before.
    fn taken(&mut self, stamp: f64, arrived: Time) -> Option<Time> {
        if self.last_stamp == Some(stamp) {
            return None;
        }
        if self.last_stamp.is_some_and(|last| stamp < last) {
            self.behind = None; // the camera started anew
        }
        self.last_stamp = Some(stamp);
        let arrived_secs = arrived.elapsed().as_secs_f64();
        let behind = self.behind.map_or(arrived_secs - stamp, |behind| behind.min(arrived_secs - stamp));
        self.behind = Some(behind);
        let taken = Duration::try_from_secs_f64(stamp + behind).unwrap_or_default();
        Some(Time::after_start(taken).min(arrived))
    }
}

/// A frame as it was sent.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    stamp_secs: Option<f64>,
    bytes: Vec<u8>,
}

/// Cuts a multipart stream into its parts.
struct Parts {
    boundary: Vec<u8>,
    buffer: Vec<u8>,
}

impl Parts {
    fn new(content_type: &str) -> io::Result<Self> {
        let boundary = content_type.split(';').find_map(|word| word.trim().strip_prefix("boundary="));
        let boundary = boundary.map(|boundary| boundary.trim_matches('"').trim_start_matches("--"));
        let is_multipart = content_type.trim_start().to_ascii_lowercase().starts_with("multipart/");
        match boundary.filter(|boundary| is_multipart && !boundary.is_empty() && boundary.len() <= 200) {
            Some(boundary) => Ok(Self { boundary: format!("--{boundary}").into_bytes(), buffer: Vec::new() }),
            None => Err(invalid(format!("`{content_type}` is no MJPEG stream"))),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole part, if it is there.
    fn next(&mut self) -> io::Result<Option<Part>> {
        let Some(at) = find(&self.buffer, &self.boundary) else {
            return self.check_size(LARGEST_FRAME).map(|()| None);
        };
        let start = at + self.boundary.len();
        let Some(headers) = find(&self.buffer[start..], b"\r\n\r\n") else {
            self.buffer.drain(..at);
            return self.check_size(LONGEST_HEADERS).map(|()| None);
        };
        let body = start + headers + 4;
        let header = |name: &str| {
            let text = String::from_utf8_lossy(&self.buffer[start..body]).to_ascii_lowercase();
            let value =
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_string));
            value.map(|value| value.trim().to_string())
        };
        let length = match header("content-length").map(|length| length.parse::<usize>()) {
            Some(Ok(length)) if length <= LARGEST_FRAME => Some(length),
            Some(_) => return Err(invalid("a frame has an impossible length")),
            None => find(&self.buffer[body..], &self.boundary),
        };
        let stamp_secs =
            header("x-timestamp").and_then(|stamp| stamp.parse().ok()).filter(|s: &f64| s.is_finite());
        let Some(length) = length.filter(|length| self.buffer.len() >= body + length) else {
            return self.check_size(LARGEST_FRAME + LONGEST_HEADERS).map(|()| None);
        };
        let bytes = self.buffer[body..body + length].to_vec();
        self.buffer.drain(..body + length);
        Ok(Some(Part { stamp_secs, bytes }))
    }

    fn check_size(&self, most: usize) -> io::Result<()> {
        if self.buffer.len() > most { Err(invalid("a frame does not end")) } else { Ok(()) }
    }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] = b"--b\r\nContent-Length: 5\r\nX-Timestamp: 1.5\r\n\r\nhello\r\n--b\r\n\r\nworld--b\r\nContent-Length: 0\r\n\r\n";

    proptest! {
        /// However the network cuts a stream, its parts are the same.
        #[test]
        fn parts_do_not_depend_on_packets(cuts in proptest::collection::vec(1usize..20, 1..40)) {
            let mut parts = Parts::new("multipart/x-mixed-replace; boundary=--b").unwrap();
            let (mut found, mut rest) = (Vec::new(), STREAM);
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                parts.feed(now);
                rest = later;
                while let Some(part) = parts.next().unwrap() {
                    found.push((part.stamp_secs, String::from_utf8(part.bytes).unwrap()));
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(found, [(Some(1.5), "hello".into()), (None, "world".into()), (None, String::new())]);
        }
    }

    #[test]
    fn streams_that_are_none_are_refused() {
        for wrong in ["text/html", "multipart/x-mixed-replace", "multipart/mixed; boundary="] {
            assert!(Parts::new(wrong).is_err(), "{wrong}");
        }
        let mut parts = Parts::new("multipart/x-mixed-replace; boundary=b").unwrap();
        parts.feed(b"--b\r\nContent-Length: 99999999999\r\n\r\n");
        assert!(parts.next().is_err());
        let mut parts = Parts::new("multipart/x-mixed-replace; boundary=b").unwrap();
        parts.feed(&vec![b'x'; LARGEST_FRAME + 1]);
        assert!(parts.next().is_err());
    }

    #[test]
    fn stamps_tell_late_and_repeated_frames() {
        let at = |secs: f64| Time::after_start(Duration::from_secs_f64(secs));
        let mut delays = Delays::default();
        assert_eq!(delays.taken(100.0, at(2.0)), Some(at(2.0)));
        assert_eq!(delays.taken(100.1, at(2.1)), Some(at(2.1)));
        assert_eq!(delays.taken(100.1, at(2.2)), None, "seen before");
        let late = delays.taken(100.2, at(2.7)).unwrap();
        assert!((late.elapsed().as_secs_f64() - 2.2).abs() < 1e-9, "half a second late");
        let anew = delays.taken(1.0, at(3.0)).unwrap();
        assert_eq!(anew, at(3.0));
    }
}
