//! Camera frames as an endless MJPEG stream.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use jpeg_encoder::{ColorType, Encoder};
use plaudit_core::Frames;

use super::Shared;
use crate::Time;

/// How good the images are: what webcams send.
const QUALITY: u8 = 90;
/// A client that takes no bytes for so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a stream looks for a new frame.
const LOOKS_EVERY: Duration = Duration::from_millis(3);

pub(super) const BOUNDARY: &str = "plauditframe";

/// Sends every frame of a camera until the client or the server ends.
pub(super) fn stream_frames(shared: &Arc<Shared>, camera: &str, mut stream: &TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary={BOUNDARY}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut sent: Option<Time> = None;
    let mut frozen: Option<(Time, Vec<u8>)> = None;
    while !shared.has_ended() {
        let newest = shared.frame(camera).filter(|(time, _)| sent != Some(*time) && !shared.is_paused());
        let Some((time, frame)) = newest else {
            std::thread::sleep(LOOKS_EVERY);
            continue;
        };
        sent = Some(time);
        let faults = shared.faults();
        if shared.dice.hits(&faults, "drop", faults.drop_frames) {
            continue;
        }
        if !faults.freeze_frames || frozen.is_none() {
            frozen = Some((time, jpeg(&frame)?));
        }
        let Some((time, image)) = &frozen else { continue };
        if faults.late_frames_ms > 0.0 {
            shared.sleep(super::faults::millis(faults.late_frames_ms));
        }
        let is_torn = shared.dice.hits(&faults, "tear", faults.tear_frames);
        let image = if is_torn { &image[..image.len() / 2] } else { &image[..] };
        let head = format!(
            "--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\nX-Timestamp: {:.6}\r\n\r\n",
            image.len(),
            time.elapsed().as_secs_f64()
        );
        stream.write_all(&[head.as_bytes(), image, b"\r\n"].concat())?;
    }
    Ok(())
}

fn jpeg(frame: &Frames) -> io::Result<Vec<u8>> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let side = |side: usize| u16::try_from(side).map_err(|error| wrong(error.to_string()));
    let mut bytes = Vec::new();
    let (width, height) = (side(frame.shape.width)?, side(frame.shape.height)?);
    let color = if frame.shape.channels == 3 { ColorType::Rgb } else { ColorType::Luma };
    let encoder = Encoder::new(&mut bytes, QUALITY);
    encoder.encode(frame.image(0), width, height, color).map_err(|error| wrong(error.to_string()))?;
    Ok(bytes)
}
