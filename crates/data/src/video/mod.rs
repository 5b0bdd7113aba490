//! Videos as LeRobot and cameras write them: MP4 with AV1, H.264, or whatever `ffmpeg` decodes.
//!
//! [`Video`] decodes frames into memory that it is given; [`VideoFrames`] gives any frame when it is asked for, and keeps some in a
//! [`FrameCache`]. Opening reads the index of the container and no frame. Decoding some frames begins at the last keyframe before them, so
//! that any frame costs one group of pictures; frames that are asked for in a row are decoded once. Planes and
//! RGB are bit by bit those of FFmpeg on x86, which the lerobot package decodes with.

mod av1;
mod colour;
mod decoding;
mod disk_cache;
mod error;
mod ffmpeg;
mod frame_cache;
mod frames;
mod h264;
mod mp4;

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;
use plaudit_pyfiles::{Access, Buffer};

pub use disk_cache::DiskCache;
pub use error::VideoError;
pub use frame_cache::{FrameCache, FrameCacheLimits, FrameCacheStats};
pub use frames::{VideoFrames, VideoSegment};

use colour::{Matrix, Yuv};
use decoding::Decoding;
use mp4::Track;

/// Pixels of the largest frame that is decoded: no file makes memory run out by what its head says.
const MOST_PIXELS: u64 = 1 << 26;

/// What decodes a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoDecoder {
    /// AV1, inside the program.
    Rav1d,
    /// H.264, inside the program.
    RustyH264,
    /// The program of that name.
    Ffmpeg,
}

impl fmt::Display for VideoDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rav1d => av1::NAME,
            Self::RustyH264 => h264::NAME,
            Self::Ffmpeg => ffmpeg::NAME,
        })
    }
}

/// Decodes one sample after the other, and gives the frames that are complete with the samples that they were.
trait Decode: Send {
    fn decode(&mut self, sample: usize, bytes: &[u8]) -> Result<Vec<(usize, Yuv)>, String>;

    /// Begins with another video, whose container says this of the codec; whether it can.
    fn restart(&mut self, codec: &[u8; 4], config: &[u8]) -> bool;
}

/// The video track of an MP4 file.
#[derive(Debug)]
pub struct Video {
    path: PathBuf,
    /// How long the file is.
    file_bytes: u64,
    /// What the codec needs before the first frame.
    config: Vec<u8>,
    track: Track,
}

impl Video {
    /// Reads the index of a file.
    ///
    /// # Errors
    /// When it is no MP4, has no video, or its index does not fit the file.
    pub fn open(path: &Path) -> Result<Self, VideoError> {
        let bytes = Buffer::open(path, Access::Map)?;
        let track = Track::find(&bytes)?;
        let [width, height] = track.size.map(u64::from);
        if width * height > MOST_PIXELS || width * height == 0 {
            return Err(VideoError::TooLarge { width, height, most: MOST_PIXELS });
        }
        // The map goes again: a dataset has thousands of videos, and what is mapped of them would count as memory.
        let config = bytes[track.config.clone()].to_vec();
        Ok(Self { path: path.into(), file_bytes: bytes.len() as u64, config, track })
    }

    /// How many frames there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.track.samples.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.track.samples.is_empty()
    }

    /// The size of its frames, as the container has it.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let [width, height] = self.track.size;
        FrameShape::rgb(height as usize, width as usize)
    }

    /// The codec in the container's word: `av01`, `avc1`, `hvc1`.
    #[must_use]
    pub fn codec(&self) -> String {
        self.track.codec.escape_ascii().to_string()
    }

    /// What decodes it here.
    ///
    /// # Errors
    /// When nothing does.
    pub fn decoder(&self) -> Result<VideoDecoder, VideoError> {
        match &self.track.codec {
            b"av01" => Ok(VideoDecoder::Rav1d),
            b"avc1" | b"avc3" => Ok(VideoDecoder::RustyH264),
            _ if ffmpeg::is_installed() => Ok(VideoDecoder::Ffmpeg),
            _ => Err(VideoError::NoDecoder { codec: self.codec() }),
        }
    }

    /// The frame that is shown nearest to a time in seconds; nothing if none is within half of a frame's duration.
    #[must_use]
    pub fn nearest(&self, secs: f64) -> Option<usize> {
        let ticks = secs * f64::from(self.track.ticks_per_second);
        let after = self.track.shown.partition_point(|at| (self.shown(*at) as f64) < ticks);
        let around = after.saturating_sub(1)..(after + 1).min(self.len());
        let distance = |at: &usize| (self.shown(self.track.shown[*at]) as f64 - ticks).abs();
        let nearest = around.min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let (first, last) = (self.track.shown.first()?, self.track.shown.last()?);
        let between = (self.shown(*last) - self.shown(*first)) as f64 / (self.len() - 1).max(1) as f64;
        (distance(&nearest) <= (between / 2.0).max(1.0)).then_some(nearest)
    }

    /// When a sample is shown.
    fn shown(&self, sample: u32) -> i64 {
        self.track.samples[sample as usize].shown
    }

    /// Decodes frames, counted in the order in which they are shown, into RGB one after the other.
    ///
    /// # Errors
    /// When there are not so many, or they cannot be decoded.
    pub fn decode(&self, frames: Range<usize>, rgb: &mut [u8]) -> Result<(), VideoError> {
        self.check(&frames)?;
        let each = self.shape().bytes();
        let wanted = frames.len();
        let mut place = rgb.chunks_exact_mut(each).map(Some).take(wanted).collect::<Vec<_>>();
        if place.len() < wanted {
            let why = "room for fewer frames than are asked for".into();
            return Err(self.undecodable(frames.start, why));
        }
        if self.decoder()? == VideoDecoder::Ffmpeg {
            return self.by_ffmpeg(frames, each, &mut place);
        }
        self.decode_planes(frames.clone(), &mut |at, planes| {
            if let Some(rgb) = place[at - frames.start].take() {
                colour::to_rgb(planes, rgb);
            }
        })
    }

    /// What the codec needs before the first frame, as the container has it.
    pub(crate) fn config(&self) -> &[u8] {
        &self.config
    }

    /// Hands over every frame's bytes as they are, in the order of decoding, and whether decoding can begin there.
    ///
    /// # Errors
    /// When the file ends before, or the receiver fails.
    pub(crate) fn copy_samples(
        &self,
        mut take: impl FnMut(&[u8], bool) -> std::io::Result<()>,
    ) -> Result<(), VideoError> {
        let file = File::open(&self.path)?;
        for (at, sample) in self.track.samples.iter().enumerate() {
            take(&self.sample(&file, at)?, sample.is_key)?;
        }
        Ok(())
    }

    /// Whether the file has the bytes of these frames: most damage is a copy that was cut short.
    ///
    /// # Errors
    /// When it ends before.
    pub(crate) fn check_bytes(&self, frames: Range<usize>) -> Result<(), VideoError> {
        self.check(&frames)?;
        self.track.shown[frames].iter().try_for_each(|sample| self.sample_place(*sample as usize).map(drop))
    }

    /// Whether its first frame can be decoded.
    ///
    /// # Errors
    /// When it cannot.
    pub(crate) fn check_first(&self) -> Result<(), VideoError> {
        if self.is_empty() {
            return Err(VideoError::NoVideo);
        }
        self.decode(0..1, &mut vec![0; self.shape().bytes()])
    }

    fn by_ffmpeg(
        &self,
        frames: Range<usize>,
        each: usize,
        place: &mut [Option<&mut [u8]>],
    ) -> Result<(), VideoError> {
        let ticks = f64::from(self.track.ticks_per_second);
        let secs = |frame: usize| self.shown(self.track.shown[frame]) as f64 / ticks;
        // A little before the first, since a time is a number with six digits there.
        let from = match frames.start {
            0 => 0.0,
            first => (secs(first - 1) + secs(first)) / 2.0,
        };
        let mut take = |at: usize, frame: &[u8]| {
            if let Some(rgb) = place[at].take() {
                rgb.copy_from_slice(frame);
            }
        };
        let decoded = ffmpeg::decode(&self.path, from, frames.len(), each, &mut take);
        decoded.map_err(|(at, why)| self.undecodable(frames.start + at, why))
    }

    fn check(&self, frames: &Range<usize>) -> Result<(), VideoError> {
        if frames.is_empty() || frames.end <= self.len() {
            return Ok(());
        }
        Err(VideoError::Frames { first: frames.start, last: frames.end - 1, frames: self.len() })
    }

    fn undecodable(&self, frame: usize, why: String) -> VideoError {
        let decoder = match self.decoder() {
            Ok(VideoDecoder::Rav1d) => av1::NAME,
            Ok(VideoDecoder::RustyH264) => h264::NAME,
            _ => ffmpeg::NAME,
        };
        VideoError::Decode { frame, decoder, why }
    }

    /// Decodes frames and hands over the planes of each, in the order of decoding.
    fn decode_planes(
        &self,
        frames: Range<usize>,
        take: &mut dyn FnMut(usize, &Yuv),
    ) -> Result<(), VideoError> {
        let samples = &self.track.shown[frames.clone()];
        let (Some(&first), Some(&last)) = (samples.iter().min(), samples.iter().max()) else { return Ok(()) };
        let mut is_missing = vec![true; frames.len()];
        let decoding = Decoding::at(self, self.key_before(first as usize));
        let mut decoding = decoding.map_err(|why| self.undecodable(frames.start, why))?;
        decoding.to(self, last as usize, &mut |sample, planes| {
            let frame = self.shown_at(sample);
            if frames.contains(&frame) {
                is_missing[frame - frames.start] = false;
                take(frame, planes);
            }
            Ok(())
        })?;
        match is_missing.iter().position(|missing| *missing) {
            Some(at) => Err(self.undecodable(frames.start + at, "its bytes hold no frame".into())),
            None => Ok(()),
        }
    }

    /// The last sample up to this one where decoding can begin.
    fn key_before(&self, sample: usize) -> usize {
        (0..=sample).rev().find(|at| self.track.samples[*at].is_key).unwrap_or(0)
    }

    /// Which frame a sample is, in the order in which they are shown.
    fn shown_at(&self, sample: usize) -> usize {
        let time = |at: &u32| (self.track.samples[*at as usize].shown, *at);
        let wanted = self.track.samples.get(sample).map(|found| (found.shown, sample as u32));
        wanted.map_or(usize::MAX, |wanted| self.track.shown.partition_point(|at| time(at) < wanted))
    }

    fn new_decoder(&self) -> Result<Box<dyn Decode>, String> {
        let config = &self.config;
        let (matrix, is_full) = self.track.colour.unwrap_or((2, false));
        let matrix =
            || Matrix::numbered(matrix).ok_or(format!("colours by matrix {matrix} are not converted"));
        Ok(match &self.track.codec {
            b"av01" => Box::new(av1::Av1::new(config)?),
            _ => Box::new(h264::H264::new(config, (matrix()?, is_full))?),
        })
    }

    /// The bytes of a sample.
    fn sample(&self, file: &File, at: usize) -> Result<Vec<u8>, VideoError> {
        let (start, size) = self.sample_place(at)?;
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }

    /// Where a sample begins, and how many bytes it has: as many as the file has there.
    fn sample_place(&self, at: usize) -> Result<(u64, usize), VideoError> {
        let sample = self.track.samples[at];
        let end = sample.at.saturating_add(u64::from(sample.size));
        if end <= self.file_bytes {
            return Ok((sample.at, sample.size as usize));
        }
        let what = format!("frame {at} of {}", self.len());
        Err(VideoError::Cut { what, end, len: self.file_bytes })
    }

    /// The frame is as large as the container says, and its planes have every pixel.
    fn check_planes(&self, planes: &Yuv) -> Result<(), String> {
        let [width, height] = self.track.size.map(|side| side as usize);
        if [planes.width, planes.height] != [width, height] {
            let (found, wide) = (planes.height, planes.width);
            return Err(format!("{wide}x{found} pixels, where the container says {width}x{height}"));
        }
        let holds = |(plane, stride): &(Vec<u8>, usize), width: usize, height: usize| {
            *stride >= width && plane.len() >= stride * (height - 1) + width
        };
        let halves = (width.div_ceil(2), height.div_ceil(2));
        let chroma = planes.chroma.iter().flatten().all(|plane| holds(plane, halves.0, halves.1));
        if holds(&planes.y, width, height) && chroma { Ok(()) } else { Err("planes that lack pixels".into()) }
    }
}

#[cfg(test)]
mod tests;
