//! MP4 files with H.264, as every browser and player has it.

use std::io;

use plaudit_draw::Canvas;
use plaudit_mp4::{Encoder, Muxer, TICKS_PER_SEC};
use plaudit_pyfiles::AtomicFile;

use super::encode::Encode;

/// Every so many images one stands alone, so that players can jump.
const KEY_EVERY: u32 = 250;

/// Writes an MP4 file.
pub(super) struct Mp4 {
    state: State,
    /// Shown so far, in seconds.
    secs: f64,
}

/// The size is known with the first image.
enum State {
    Empty(AtomicFile),
    Open(Box<Encoder>, Muxer<AtomicFile>),
    /// Something went wrong while it was begun.
    Lost,
}

impl Mp4 {
    pub(super) fn new(file: AtomicFile) -> Self {
        Self { state: State::Empty(file), secs: 0.0 }
    }

    fn open(&mut self, size: (usize, usize)) -> io::Result<(&mut Encoder, &mut Muxer<AtomicFile>)> {
        if let State::Empty(_) = self.state
            && let State::Empty(file) = std::mem::replace(&mut self.state, State::Lost)
        {
            let encoder = Encoder::new(size, KEY_EVERY).map_err(io::Error::other)?;
            self.state = State::Open(Box::new(encoder), Muxer::new(file)?);
        }
        match &mut self.state {
            State::Open(encoder, muxer) => Ok((encoder, muxer)),
            _ => Err(io::Error::other("the video was not begun")),
        }
    }
}

impl Encode for Mp4 {
    fn image(&mut self, image: &Canvas, secs: f64) -> io::Result<()> {
        let ticks = |secs: f64| (secs * f64::from(TICKS_PER_SEC)).round() as u64;
        let shown = (ticks(self.secs + secs) - ticks(self.secs)) as u32;
        self.secs += secs;
        let (encoder, muxer) = self.open(image.size())?;
        let sample = encoder.encode(image.pixels()).map_err(io::Error::other)?;
        muxer.push(&sample.bytes, shown, sample.is_key)
    }

    fn finish(self: Box<Self>) -> io::Result<AtomicFile> {
        match self.state {
            State::Open(encoder, muxer) => muxer.finish(encoder.size(), &encoder.config()),
            _ => Err(io::Error::other("no image was shown")),
        }
    }
}
