//! Whether a camera sends frames: how often, how old, how large.

use std::io::Read;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Finding, quantile};
use crate::serl::http;
use crate::{CameraAddress, CameraError, Clock, FrameFit};

const ABOUT: &str = "camera";
/// How long a first frame may take, how long frames are watched after it, and how often.
const FIRST_FRAME: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(3);
const LOOKS_EVERY: Duration = Duration::from_millis(5);
/// Pixels of a side of the frames that are looked at.
const SIDE: usize = 128;
/// A frame's header is somewhere in the first bytes of a stream.
const HEADER_BYTES: usize = 256 << 10;
/// Older frames than this, and the arm holds.
const OLDEST_MS: f64 = 300.0;

/// What is known about a camera.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CameraCheck {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// Frames per second.
    pub hz: f64,
    /// How old the newest frame is at any time, half of the time.
    pub age_median_ms: f64,
    /// How old the newest frame got.
    pub age_max_ms: f64,
    /// Width and height as a stream has them.
    pub size: Option<[usize; 2]>,
    /// Why no frames came.
    pub trouble: Option<String>,
}

/// Watches a camera for some seconds.
pub fn check_camera(
    name: &str,
    address: &CameraAddress,
    clock: Arc<dyn Clock>,
) -> Result<CameraCheck, CameraError> {
    let mut camera = address.open(name, FrameFit::square(SIDE), clock.clone())?;
    let begun = Instant::now();
    while camera.newest().is_none() && begun.elapsed() < FIRST_FRAME {
        std::thread::sleep(LOOKS_EVERY);
    }
    let mut check = CameraCheck {
        name: name.into(),
        address: address.to_string(),
        hz: 0.0,
        age_median_ms: 0.0,
        age_max_ms: 0.0,
        size: None,
        trouble: None,
    };
    let Some(first) = camera.newest() else {
        let silent = || "no frame came".to_string();
        check.trouble = Some(camera.trouble().map_or_else(silent, |trouble| trouble.to_string()));
        return Ok(check);
    };
    let (begun, mut ages_ms, mut last) = (Instant::now(), Vec::new(), first.number);
    while begun.elapsed() < WATCHED {
        std::thread::sleep(LOOKS_EVERY);
        if let Some(frame) = camera.newest() {
            ages_ms.push(1e3 * clock.now().since(frame.time).as_secs_f64());
            last = frame.number;
        }
    }
    ages_ms.sort_by(f64::total_cmp);
    check.hz = (last - first.number) as f64 / begun.elapsed().as_secs_f64();
    check.age_median_ms = quantile(&ages_ms, 0.5);
    check.age_max_ms = quantile(&ages_ms, 1.0);
    check.trouble = camera.trouble().map(|trouble| trouble.to_string());
    if let CameraAddress::Http(url) = address {
        check.size = size_at(url);
    }
    Ok(check)
}

impl CameraCheck {
    /// What that means for a loop of `control_hz`.
    pub fn findings(&self, control_hz: f64) -> Vec<Finding> {
        if let (Some(trouble), true) = (&self.trouble, self.hz == 0.0) {
            let advice = match self.address.starts_with("http") {
                true => format!(
                    "open {} in a browser, and look at the camera's cable and its server",
                    self.address
                ),
                false => "look at the camera's cable and at its path".into(),
            };
            return vec![Finding::wrong(ABOUT, trouble.clone(), advice)];
        }
        let size = self.size.map_or_else(String::new, |[width, height]| format!(", {width}x{height}"));
        let text = format!(
            "`{}`: {:.1} frames per second{size}; the newest is {:.0} ms old (median; oldest {:.0})",
            self.name, self.hz, self.age_median_ms, self.age_max_ms
        );
        let mut findings = if self.age_max_ms > OLDEST_MS {
            let advice = format!(
                "the arm holds when a frame is {OLDEST_MS:.0} ms old; look for a busy USB port or network"
            );
            vec![Finding::wrong(ABOUT, text, advice)]
        } else if self.hz < control_hz {
            let advice =
                format!("a step of {control_hz} Hz sees some frames twice; let the camera send more");
            vec![Finding::warning(ABOUT, text, advice)]
        } else {
            vec![Finding::fine(ABOUT, text)]
        };
        if let Some(trouble) = &self.trouble {
            findings.push(Finding::warning(ABOUT, trouble.clone(), "some frames are lost"));
        }
        findings
    }
}

/// The size of the frames behind an address, if it can be read.
fn size_at(url: &str) -> Option<[usize; 2]> {
    let (host, path) = http::parse_address(url, 80).ok()?;
    let address = host.to_socket_addrs().ok()?.next()?;
    let (mut stream, _, mut bytes) = http::open_stream((address, &host), &path, FIRST_FRAME).ok()?;
    stream.set_read_timeout(Some(FIRST_FRAME)).ok()?;
    let mut chunk = [0; 4096];
    while bytes.len() < HEADER_BYTES {
        let start = bytes.windows(2).position(|two| two == [0xff, 0xd8]);
        if let Some(size) = start.and_then(|start| jpeg_size(&bytes[start..])) {
            return Some(size);
        }
        let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
    }
    None
}

/// Width and height from the header of a JPEG; nothing while it has not come that far.
fn jpeg_size(bytes: &[u8]) -> Option<[usize; 2]> {
    let mut at = 2;
    loop {
        let segment = bytes.get(at..at + 4)?;
        let (marker, length) = (segment[1], usize::from(u16::from_be_bytes([segment[2], segment[3]])));
        // Start of frame, in any coding; C4, C8 and CC are tables.
        if segment[0] == 0xff && (0xc0..=0xcf).contains(&marker) && ![0xc4, 0xc8, 0xcc].contains(&marker) {
            let size = bytes.get(at + 5..at + 9)?;
            let number = |at: usize| usize::from(u16::from_be_bytes([size[at], size[at + 1]]));
            return Some([number(2), number(0)]);
        }
        at += 2 + length.max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn sizes_stand_in_the_header() {
        // Start of image, a comment of three bytes, a start of frame of 480 by 640.
        let jpeg = b"\xff\xd8\xff\xfe\x00\x05abc\xff\xc0\x00\x11\x08\x01\xe0\x02\x80\x03";
        assert_eq!(jpeg_size(jpeg), Some([640, 480]));
        assert_eq!(jpeg_size(&jpeg[..14]), None, "not there yet");
    }

    #[test]
    fn slow_old_and_dead_cameras_are_told_apart() {
        let good = CameraCheck {
            name: "wrist_1".into(),
            address: "http://robot/camera/wrist_1".into(),
            hz: 30.0,
            age_median_ms: 20.0,
            age_max_ms: 45.0,
            size: Some([640, 480]),
            trouble: None,
        };
        let level = |check: &CameraCheck| check.findings(10.0)[0].level;
        assert_eq!(level(&good), Level::Fine);
        assert!(good.findings(10.0)[0].text.contains("30.0 frames per second, 640x480"));
        assert_eq!(level(&CameraCheck { hz: 7.6, ..good.clone() }), Level::Warning);
        assert_eq!(level(&CameraCheck { age_max_ms: 301.0, ..good.clone() }), Level::Wrong);
        let dead = CameraCheck { hz: 0.0, trouble: Some("no frame came".into()), ..good };
        assert_eq!((level(&dead), dead.findings(10.0).len()), (Level::Wrong, 1));
    }
}
