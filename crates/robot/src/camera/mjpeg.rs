//! MJPEG over HTTP: an endless multipart reply with a JPEG in each part.

use std::io::{ErrorKind, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use super::jpeg::{self, LARGEST_JPEG, MarkerWalk, Progress};
use super::live::{Delivery, FrameDevice, FrameStream, READ_SLICE};
use crate::serl::http;
use crate::{CameraError, Clock, FrameFit, LiveCamera, Time};

/// HTTP's own port.
const PORT: u16 = 80;
/// How long connecting and the head of the reply may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// The largest head of a part.
const LARGEST_HEAD: usize = 8 << 10;
/// The longest boundary; RFC 2046 allows 70.
const LONGEST_BOUNDARY: usize = 200;
/// Bytes of one read; a read that fills them has more waiting.
const CHUNK: usize = 64 << 10;
/// Reads before an image is shown, so that a server that never pauses is seen.
const MOST_CHUNKS: usize = 256;
/// How fast two clocks may drift apart, in seconds per second: more than quartz does.
const DRIFT: f64 = 1e-4;

/// A camera that sends MJPEG over HTTP: webcams, mjpg-streamer, robot servers, the simulated robot.
///
/// A frame's time is when its first byte came. Where the server stamps its frames (`X-Timestamp`, seconds with a
/// fraction), a frame that took longer on its way than the quickest one counts as that much older. A frame of the same
/// bytes and the same stamp is the old one: no sensor sees the same noise twice.
pub type MjpegCamera = LiveCamera<HttpDevice>;

impl MjpegCamera {
    /// Begins to read the stream at `url`, such as `http://127.0.0.1:5000/camera/wrist_1`. A camera that does not
    /// answer is called again and again.
    pub fn open(
        name: &str,
        url: &str,
        fit: impl Into<FrameFit>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CameraError> {
        let wrong = |why| CameraError::Unreachable { name: name.into(), address: url.into(), why };
        let (host, path) = http::parse_address(url, PORT).map_err(wrong)?;
        Self::start(name, HttpDevice { host, path, clock: clock.clone() }, fit.into(), clock)
    }
}

/// What is behind an address.
pub struct HttpDevice {
    host: String,
    path: String,
    clock: Arc<dyn Clock>,
}

impl FrameDevice for HttpDevice {
    fn address(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    fn open(&mut self) -> Result<Box<dyn FrameStream>, String> {
        let said = |error: std::io::Error| match error.kind() {
            ErrorKind::TimedOut => "no answer in time".to_string(),
            ErrorKind::UnexpectedEof => "it hung up".to_string(),
            _ => error.to_string(),
        };
        let address = self.host.to_socket_addrs().map_err(said)?.next().ok_or("the name leads nowhere")?;
        let (stream, content_type, rest) =
            http::open_stream((address, &self.host), &self.path, OPEN_TIMEOUT).map_err(said)?;
        stream.set_read_timeout(Some(READ_SLICE)).map_err(said)?;
        let mut parts = Parts::new(&boundary(&content_type)?);
        parts.push(&rest, self.clock.now());
        Ok(Box::new(HttpStream {
            stream,
            parts,
            clock: self.clock.clone(),
            last: None,
            delays: Delays::default(),
        }))
    }
}

/// The boundary between the parts, from the content type of the whole.
fn boundary(content_type: &str) -> Result<String, String> {
    let mut words = content_type.split(';').map(str::trim);
    let kind = words.next().unwrap_or_default().to_ascii_lowercase();
    if !kind.starts_with("multipart/") {
        let hint = if kind == "image/jpeg" { ", one image; its stream has another address" } else { "" };
        return Err(format!("it sends `{kind}` instead of multipart/x-mixed-replace{hint}"));
    }
    let value = words.find_map(|word| {
        let (name, value) = word.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    });
    // Some servers write the dashes, which stand before every boundary, into it.
    let value = value.unwrap_or_default().trim_start_matches('-');
    match value.len() {
        1..=LONGEST_BOUNDARY => Ok(value.to_string()),
        0 => Err("its content type names no boundary".into()),
        length => Err(format!("a boundary of {length} characters is longer than {LONGEST_BOUNDARY}")),
    }
}

struct HttpStream {
    stream: TcpStream,
    parts: Parts,
    clock: Arc<dyn Clock>,
    /// The part before this one.
    last: Option<Part>,
    delays: Delays,
}

impl FrameStream for HttpStream {
    fn read(&mut self) -> Result<Delivery, String> {
        let mut newest = None;
        let mut chunk = [0; CHUNK];
        for _ in 0..MOST_CHUNKS {
            let came = match self.stream.read(&mut chunk) {
                Ok(0) => return Err("it hung up".into()),
                Ok(came) => came,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
                Err(error) => return Err(error.to_string()),
            };
            self.parts.push(&chunk[..came], self.clock.now());
            while let Some(part) = self.parts.take()? {
                newest = Some(part);
            }
            if came < CHUNK {
                break;
            }
        }
        // Images that waited behind each other: only the newest is worth decoding.
        Ok(newest.map_or(Delivery::Nothing, |part| self.deliver(part)))
    }
}

impl HttpStream {
    /// Two equal images with different stamps are a still scene.
    fn deliver(&mut self, part: Part) -> Delivery {
        let is_repeated = self
            .last
            .as_ref()
            .is_some_and(|last| last.timestamp == part.timestamp && last.image == part.image);
        if is_repeated {
            return Delivery::Repeated;
        }
        let delivery = match jpeg::decode(&part.image) {
            Ok(image) => Delivery::Image(image, self.delays.taken(part.stamp_secs(), part.time)),
            Err(why) => Delivery::Broken(why),
        };
        self.last = Some(part);
        delivery
    }
}

/// When frames were taken, from their stamps: the quickest frame had no delay.
#[derive(Debug, Default)]
struct Delays {
    /// The last stamp, when its frame arrived, and how far the camera's clock is behind ours, in seconds.
    last: Option<(f64, f64, f64)>,
}

impl Delays {
    fn taken(&mut self, stamp_secs: Option<f64>, arrived: Time) -> Time {
        let Some(stamp) = stamp_secs else { return arrived };
        let now = arrived.elapsed().as_secs_f64();
        let behind = match self.last {
            // Clocks drift: without an allowance, frames would seem to grow late over the hours.
            Some((last, then, behind)) if stamp >= last => (behind + DRIFT * (now - then)).min(now - stamp),
            // The first frame, or a camera that started anew.
            _ => now - stamp,
        };
        self.last = Some((stamp, now, behind));
        let taken = Duration::try_from_secs_f64(stamp + behind).unwrap_or_default();
        Time::after_start(taken).min(arrived)
    }
}

/// One part: an image that may be broken.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    image: Vec<u8>,
    /// When its first byte came.
    time: Time,
    /// The `X-Timestamp` of its server.
    timestamp: Option<String>,
}

impl Part {
    /// The stamp as a number. Whole seconds are too coarse to tell late frames by.
    fn stamp_secs(&self) -> Option<f64> {
        let stamp = self.timestamp.as_deref().filter(|stamp| stamp.contains('.'))?;
        stamp.parse().ok().filter(|secs: &f64| secs.is_finite())
    }
}

/// Where in the stream the buffer begins.
#[derive(Debug)]
enum Place {
    /// Before a boundary.
    Between,
    /// Behind the line of a boundary.
    Head,
    /// In an image.
    Image(Arriving),
}

/// An image of which some may have come.
#[derive(Debug)]
struct Arriving {
    /// How long it is, if its head says so.
    length: Option<usize>,
    timestamp: Option<String>,
    /// When its first byte came.
    since: Option<Time>,
    walk: MarkerWalk,
    /// The boundary does not begin before this byte.
    searched: usize,
}

/// Takes a multipart stream apart, whichever way its bytes arrive, in bounded memory.
#[derive(Debug)]
struct Parts {
    boundary: Vec<u8>,
    buffer: Vec<u8>,
    place: Place,
    /// When the last bytes came.
    came: Time,
}

impl Parts {
    fn new(boundary: &str) -> Self {
        let boundary = format!("--{boundary}").into_bytes();
        Self { boundary, buffer: Vec::new(), place: Place::Between, came: Time::default() }
    }

    fn push(&mut self, bytes: &[u8], now: Time) {
        self.buffer.extend_from_slice(bytes);
        self.came = now;
        if let Place::Image(image) = &mut self.place
            && !bytes.is_empty()
        {
            image.since.get_or_insert(now);
        }
    }

    /// The next part, if it has wholly come. After an error the stream is of no use.
    fn take(&mut self) -> Result<Option<Part>, String> {
        loop {
            let has_moved = match &mut self.place {
                Place::Between => self.skip_boundary(),
                Place::Head => self.read_head()?,
                Place::Image(image) => match image.end(&self.buffer, &self.boundary)? {
                    Some(end) => return Ok(Some(self.cut_image(end))),
                    None => false,
                },
            };
            if !has_moved {
                return Ok(None);
            }
        }
    }

    /// Skips everything up to and with the line of the next boundary.
    fn skip_boundary(&mut self) -> bool {
        let Some(at) = find(&self.buffer, &self.boundary) else {
            // The boundary may have come in part.
            let keep = self.boundary.len().min(self.buffer.len());
            self.buffer.drain(..self.buffer.len() - keep);
            return false;
        };
        self.buffer.drain(..at);
        if let Some(line) = find(&self.buffer, b"\n") {
            self.buffer.drain(..=line);
            self.place = Place::Head;
            return true;
        }
        if self.buffer.len() > LARGEST_HEAD {
            // A boundary whose line does not end is none.
            self.buffer.drain(..self.boundary.len());
        }
        false
    }

    fn read_head(&mut self) -> Result<bool, String> {
        let head = head_length(&self.buffer);
        if head.unwrap_or(self.buffer.len()) > LARGEST_HEAD {
            return Err(format!("a part's head is longer than {LARGEST_HEAD} bytes"));
        }
        let Some(head) = head else { return Ok(false) };
        let image = Arriving::new(&String::from_utf8_lossy(&self.buffer[..head]))?;
        self.buffer.drain(..head);
        let since = (!self.buffer.is_empty()).then_some(self.came);
        self.place = Place::Image(Arriving { since, ..image });
        Ok(true)
    }

    fn cut_image(&mut self, end: usize) -> Part {
        let rest = self.buffer.split_off(end);
        let image = std::mem::replace(&mut self.buffer, rest);
        match std::mem::replace(&mut self.place, Place::Between) {
            Place::Image(Arriving { since, timestamp, .. }) => {
                Part { image, time: since.unwrap_or(self.came), timestamp }
            }
            Place::Between | Place::Head => Part { image, time: self.came, timestamp: None },
        }
    }
}

impl Arriving {
    /// What the head of a part says about its image.
    fn new(head: &str) -> Result<Self, String> {
        let field = |wanted: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(name, _)| name.trim().eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
        };
        let length = match field("content-length").map(str::parse::<usize>) {
            None => None,
            Some(Ok(length)) if length <= LARGEST_JPEG => Some(length),
            Some(Ok(length)) => {
                return Err(format!(
                    "a part of {length} bytes is more than the {LARGEST_JPEG} that are read"
                ));
            }
            Some(Err(_)) => return Err("a part's content length is no number".into()),
        };
        let timestamp = field("x-timestamp").map(str::to_string);
        Ok(Self { length, timestamp, since: None, walk: MarkerWalk::default(), searched: 0 })
    }

    /// Where the image ends, if it has wholly come: after as many bytes as its head says, or where a JPEG ends, or
    /// else at the next boundary.
    fn end(&mut self, buffer: &[u8], boundary: &[u8]) -> Result<Option<usize>, String> {
        if let Some(length) = self.length {
            return Ok((buffer.len() >= length).then_some(length));
        }
        let end = match self.walk.advance(buffer) {
            Progress::Ended(end) => Some(end),
            Progress::Torn | Progress::NotJpeg => {
                let found = find(&buffer[self.searched..], boundary).map(|at| self.searched + at);
                self.searched = buffer.len().saturating_sub(boundary.len());
                found
            }
        };
        if end.is_none() && buffer.len() > LARGEST_JPEG {
            return Err(format!("a part is longer than the {LARGEST_JPEG} bytes that are read"));
        }
        Ok(end)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// How long a head is with the empty line that ends it, if that has come.
fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut start = 0;
    loop {
        let line = find(&bytes[start..], b"\n")?;
        let is_empty = matches!(&bytes[start..start + line], [] | [b'\r']);
        start += line + 1;
        if is_empty {
            return Some(start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::jpeg::tests::jpeg;
    use super::*;
    use crate::{Camera, RealClock};
    use proptest::prelude::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    fn at(millis: u64) -> Time {
        Time::after_start(Duration::from_millis(millis))
    }

    fn all(parts: &mut Parts) -> Vec<Part> {
        std::iter::from_fn(|| parts.take().unwrap()).collect()
    }

    /// A part as a server sends it that says how long it is.
    fn sized(image: &[u8], more: &str) -> Vec<u8> {
        let head =
            format!("--frame\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n{more}\r\n", image.len());
        [head.as_bytes(), image, b"\r\n"].concat()
    }

    /// A part as a Flask generator sends it.
    fn unsized_part(image: &[u8]) -> Vec<u8> {
        [b"--frame\r\nContent-Type: image/jpeg\r\n\r\n", image, b"\r\n"].concat()
    }

    #[test]
    fn boundaries_are_read_and_others_refused() {
        for (said, wanted) in [
            ("multipart/x-mixed-replace; boundary=frame", "frame"),
            ("multipart/x-mixed-replace;boundary=\"--my frame\"", "my frame"),
            ("Multipart/Mixed; charset=x; Boundary=--b", "b"),
        ] {
            assert_eq!(boundary(said).unwrap(), wanted);
        }
        assert!(boundary("image/jpeg").unwrap_err().contains("one image"));
        assert!(boundary("text/html; boundary=x").unwrap_err().contains("`text/html`"));
        assert!(boundary("multipart/mixed").unwrap_err().contains("no boundary"));
        assert!(boundary(&format!("multipart/mixed; boundary={}", "x".repeat(300))).is_err());
    }

    /// The time is that of the first byte, and an image without a length is there before the next one comes.
    #[test]
    fn images_have_the_time_of_their_first_byte() {
        let image = jpeg(16, 16, [1, 2, 3]);
        for bytes in [sized(&image, "X-Timestamp: 5.25\r\n"), unsized_part(&image)] {
            let mut parts = Parts::new("frame");
            let (early, late) = bytes.split_at(bytes.len() - image.len());
            parts.push(early, at(10));
            assert!(all(&mut parts).is_empty());
            parts.push(late, at(30));
            let [part] = &all(&mut parts)[..] else { panic!("one part") };
            assert_eq!((part.image == image, part.time), (true, at(10)), "two bytes of it came early");
            let said = bytes.starts_with(b"--frame\r\nContent-Type: image/jpeg\r\nContent-L");
            assert_eq!(part.timestamp.as_deref(), said.then_some("5.25"));
        }
    }

    #[test]
    fn a_torn_image_costs_no_other() {
        let image = jpeg(16, 16, [1, 2, 3]);
        let torn = &image[..image.len() / 2];
        let mut parts = Parts::new("frame");
        parts.push(
            &[unsized_part(torn), unsized_part(b"no image"), sized(torn, ""), unsized_part(&image)].concat(),
            at(1),
        );
        let images = all(&mut parts);
        let is_whole: Vec<bool> = images.iter().map(|part| jpeg::decode(&part.image).is_ok()).collect();
        assert_eq!(is_whole, [false, false, false, true]);
    }

    #[test]
    fn oversized_parts_are_refused_by_their_size() {
        let mut parts = Parts::new("b");
        parts.push(b"--b\r\nContent-Length: 99999999999\r\n\r\n", at(0));
        assert!(parts.take().unwrap_err().contains("99999999999 bytes"));
        let mut parts = Parts::new("b");
        parts.push(b"--b\nContent-Length: many\n\n", at(0));
        assert!(parts.take().unwrap_err().contains("no number"));
        let mut parts = Parts::new("b");
        parts.push(&[b"--b\n", &[b'h'; LARGEST_HEAD + 1][..]].concat(), at(0));
        assert!(parts.take().unwrap_err().contains("head is longer"));
        let mut parts = Parts::new("b");
        parts.push(b"--b\n\n", at(0));
        let refused = (0..=LARGEST_JPEG / CHUNK).find_map(|_| {
            parts.push(&[7; CHUNK], at(0));
            parts.take().err()
        });
        assert!(refused.unwrap().contains("longer than"));
    }

    #[test]
    fn stamps_tell_late_frames() {
        let mut delays = Delays::default();
        assert_eq!(delays.taken(Some(100.0), at(2000)), at(2000));
        assert_eq!(delays.taken(Some(100.5), at(2500)), at(2500));
        let late = delays.taken(Some(100.6), at(3100)).elapsed().as_secs_f64();
        assert!((late - 2.6).abs() < 1e-3, "half a second late: {late}");
        assert_eq!(delays.taken(Some(1.0), at(3200)), at(3200), "the camera started anew");
        assert_eq!(delays.taken(None, at(3300)), at(3300));
        // A clock that is slow by 50 millionths seems late by none of the 0.36 s of two hours.
        let drifts = (0..7200)
            .map(|sec| delays.taken(Some(f64::from(sec) * (1.0 - 5e-5) + 2.0), at(4000 + sec as u64 * 1000)));
        let last = drifts.last().unwrap();
        assert!(at(4000 + 7_199_000).since(last) < Duration::from_millis(1), "{last:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn parts_do_not_depend_on_how_bytes_arrive(kinds in prop::collection::vec(any::<bool>(), 1..5), cut in 1usize..900) {
            let image = |at: usize| jpeg(16, 16, [at as u8 * 40, 7, 99]);
            let part = |(at, kind): (usize, &bool)| if *kind { sized(&image(at), "") } else { unsized_part(&image(at)) };
            let bytes = kinds.iter().enumerate().flat_map(part).collect::<Vec<u8>>();
            let (mut parts, mut came) = (Parts::new("frame"), Vec::new());
            for chunk in bytes.chunks(cut) {
                parts.push(chunk, at(0));
                came.extend(all(&mut parts).into_iter().map(|part| part.image));
            }
            prop_assert_eq!(came, (0..kinds.len()).map(image).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_taken_in_bounded_memory(
            pieces in prop::collection::vec(prop_oneof![
                Just(b"--b".to_vec()), Just(b"\r\n".to_vec()), Just(b"\n\n".to_vec()), Just(b"Content-Length: 5\r\n".to_vec()),
                Just(vec![0xff, 0xd8]), Just(vec![0xff, 0xd9]), Just(vec![0xff, 0xda, 0, 2]), prop::collection::vec(any::<u8>(), 0..60),
            ], 0..200),
        ) {
            let mut parts = Parts::new("b");
            let total: usize = pieces.iter().map(Vec::len).sum();
            for piece in pieces {
                parts.push(&piece, at(0));
                loop {
                    match parts.take() {
                        Ok(Some(part)) => prop_assert!(part.image.len() <= total),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                if matches!(parts.place, Place::Between) {
                    prop_assert!(parts.buffer.len() <= LARGEST_HEAD + piece.len(), "what lies between is thrown away");
                }
            }
        }
    }

    /// A server that answers each connection with the next of these streams, and leaves the last one open.
    fn server(streams: Vec<Vec<Vec<u8>>>) -> (String, std::thread::JoinHandle<Vec<TcpStream>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/camera/wrist_1", listener.local_addr().unwrap());
        let serve = move || {
            let (mut open, last) = (Vec::new(), streams.len() - 1);
            for (number, stream) in streams.into_iter().enumerate() {
                let (mut socket, _) = listener.accept().unwrap();
                http::read_request(&socket, Duration::from_secs(5)).unwrap();
                for bytes in stream {
                    socket.write_all(&bytes).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                }
                if number == last {
                    open.push(socket);
                }
            }
            open
        };
        (address, std::thread::spawn(serve))
    }

    const HEAD: &[u8] = b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n";

    fn until(camera: &mut MjpegCamera, is_so: impl Fn(&mut MjpegCamera) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so(camera) {
            assert!(Instant::now() < deadline, "{:?} {:?}", camera.counts(), camera.trouble());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Torn, repeated and wrongly sized images, a server that hangs up, and one that stalls.
    #[test]
    fn a_camera_on_the_loopback_survives_its_server() {
        let (red, blue) = (jpeg(32, 32, [200, 0, 0]), jpeg(32, 32, [0, 0, 200]));
        let first = vec![
            HEAD.to_vec(),
            sized(&red, ""),
            sized(&red, ""),
            sized(&red[..red.len() / 2], ""),
            sized(&jpeg(64, 32, [0; 3]), ""),
        ];
        let second = vec![[HEAD, &unsized_part(&red)[..], &sized(&blue, "")[..]].concat()];
        let refusal = vec![b"HTTP/1.0 404 NOT FOUND\r\n\r\n".to_vec()];
        let (address, server) = server(vec![refusal, first, second]);
        let clock = Arc::new(RealClock::new());
        let mut camera = MjpegCamera::open("wrist_1", &address, FrameFit::square(8), clock.clone()).unwrap();
        until(&mut camera, |camera| {
            camera.trouble().is_some_and(|why| why.to_string().contains("status 404"))
        });
        until(&mut camera, |camera| camera.newest().is_some());
        let seen = camera.newest().unwrap();
        assert!(seen.image.pixels[0] > 150 && seen.image.shape == camera.shape());
        until(&mut camera, |camera| camera.newest().is_some_and(|frame| frame.image.pixels[2] > 150));
        let newest = camera.newest().unwrap();
        assert!(newest.time > seen.time && newest.time <= clock.now());
        let counts = camera.counts();
        assert!(counts.frames >= 2 && counts.opened == 2, "{counts:?}");
        assert_eq!((counts.broken, counts.repeated), (2, 1), "torn and of another size, and sent twice");
        let open = server.join().unwrap();
        until(&mut camera, |camera| {
            camera.trouble().is_some_and(|why| why.to_string().contains("no new frame"))
        });
        assert_eq!(camera.newest().unwrap(), newest, "the last frame stays and grows old");
        drop(open);
        let before = Instant::now();
        drop(camera);
        assert!(before.elapsed() < Duration::from_secs(3));
    }

    #[test]
    fn addresses_that_are_none_are_refused_at_once() {
        let open =
            |address| MjpegCamera::open("wrist_1", address, FrameFit::square(8), Arc::new(RealClock::new()));
        let error = open("rtsp://10.0.0.3/stream").err().unwrap().to_string();
        assert!(
            error.contains("camera `wrist_1` at rtsp://10.0.0.3/stream") && error.contains("http"),
            "{error}"
        );
    }
}
