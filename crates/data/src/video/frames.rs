//! Frames of a video, each decoded when it is asked for.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use plaudit_core::FrameShape;
use sha2::{Digest, Sha256};

use super::decoding::Decoding;
use super::disk_cache::DiskFrames;
use super::frame_cache::FrameCache;
use super::{Video, VideoDecoder, VideoError, colour};

/// Frames that the program `ffmpeg` is asked for at a time: starting it costs more than decoding them.
const AT_A_TIME: usize = 32;

/// A video whose frames are decoded when they are asked for, in any order and on any thread.
///
/// A frame costs its group of pictures at most; frames in a row are decoded once, and what a [`FrameCache`] still has is
/// not decoded again.
#[derive(Debug)]
pub struct VideoFrames {
    video: Video,
    /// Among all videos of this program.
    number: u64,
    cache: Arc<FrameCache>,
    disk: OnceLock<Option<DiskFrames>>,
    digests: OnceLock<Vec<[u8; 32]>>,
}

impl VideoFrames {
    /// Reads the index of a file.
    ///
    /// # Errors
    /// See [`Video::open`].
    pub fn open(path: &Path, cache: Arc<FrameCache>) -> Result<Self, VideoError> {
        static VIDEOS: AtomicU64 = AtomicU64::new(0);
        let (video, number) = (Video::open(path)?, VIDEOS.fetch_add(1, Ordering::Relaxed));
        Ok(Self { video, number, cache, disk: OnceLock::new(), digests: OnceLock::new() })
    }

    /// The video.
    #[must_use]
    pub fn video(&self) -> &Video {
        &self.video
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.video.path
    }

    /// The size of its frames.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        self.video.shape()
    }

    /// A frame, counted in the order in which they are shown, as RGB.
    ///
    /// # Errors
    /// When there is no such frame, or it cannot be decoded.
    pub fn rgb(&self, at: usize) -> Result<Arc<[u8]>, VideoError> {
        if let Some(pixels) = self.cache.get((self.number, at)) {
            return Ok(pixels);
        }
        self.video.check(&(at..at.saturating_add(1)))?;
        let sample = self.video.track.shown[at] as usize;
        let key = self.video.key_before(sample);
        let _group = self.cache.group(self.number, key);
        // Somebody else may have decoded it meanwhile.
        if let Some(pixels) = self.cache.get((self.number, at)) {
            return Ok(pixels);
        }
        if let Some(pixels) = self.disk().and_then(|disk| disk.read(at)) {
            let pixels: Arc<[u8]> = pixels.into();
            self.cache.add_read((self.number, at), pixels.clone());
            return Ok(pixels);
        }
        match self.video.decoder()? {
            VideoDecoder::Ffmpeg => self.by_ffmpeg(at),
            VideoDecoder::Rav1d | VideoDecoder::RustyH264 => self.decode(at, key, sample),
        }
    }

    /// SHA-256 of what a frame is decoded from: its bytes, and those of every sample of its group before it.
    ///
    /// # Errors
    /// When the file ends before them.
    pub fn digest(&self, at: usize) -> Result<[u8; 32], VideoError> {
        self.video.check(&(at..at.saturating_add(1)))?;
        let digests = match self.digests.get() {
            Some(digests) => digests,
            None => {
                let found = self.all_digests()?;
                self.digests.get_or_init(|| found)
            }
        };
        Ok(digests[self.video.track.shown[at] as usize])
    }

    fn all_digests(&self) -> Result<Vec<[u8; 32]>, VideoError> {
        let config: [u8; 32] = Sha256::digest(&self.video.config).into();
        let (file, mut before) = (File::open(self.path())?, config);
        let digest = |sample: usize| {
            if self.video.track.samples[sample].is_key {
                before = config;
            }
            let bytes = self.video.sample(&file, sample)?;
            before = Sha256::new().chain_update(before).chain_update(bytes).finalize().into();
            Ok(before)
        };
        (0..self.video.len()).map(digest).collect()
    }

    fn disk(&self) -> Option<&DiskFrames> {
        let open = || self.cache.disk()?.frames_of(self.path(), self.shape().bytes(), self.video.len());
        self.disk.get_or_init(open).as_ref()
    }

    fn decode(&self, at: usize, key: usize, sample: usize) -> Result<Arc<[u8]>, VideoError> {
        let decoding = match self.cache.decoder(self.number, key, sample) {
            Some((video, decoding)) if video == self.number => Ok(decoding),
            Some((_, decoding)) => decoding.moved(&self.video, key),
            None => Decoding::at(&self.video, key),
        };
        let mut decoding = decoding.map_err(|why| self.video.undecodable(at, why))?;
        if !(key + 1..=sample).contains(&decoding.next) {
            decoding.next = key;
        }
        let mut wanted = None;
        decoding.to(&self.video, sample, &mut |sample, planes| {
            let mut rgb = vec![0; self.shape().bytes()];
            colour::to_rgb(planes, &mut rgb);
            let (frame, rgb) = (self.video.shown_at(sample), Arc::from(rgb));
            if frame == at {
                wanted = Some(Arc::clone(&rgb));
            }
            self.keep(frame, rgb);
            Ok(())
        })?;
        // One that failed is dropped instead.
        self.cache.put_back(self.number, decoding);
        wanted.ok_or_else(|| self.video.undecodable(at, "its bytes hold no frame".into()))
    }

    fn by_ffmpeg(&self, at: usize) -> Result<Arc<[u8]>, VideoError> {
        let frames = at..(at + AT_A_TIME).min(self.video.len());
        let each = self.shape().bytes();
        let mut rgb = vec![0; frames.len() * each];
        if self.video.decode(frames.clone(), &mut rgb).is_err() {
            // The wanted one may be whole where a later one is not.
            rgb.truncate(each);
            self.video.decode(at..at + 1, &mut rgb)?;
        }
        let wanted = Arc::from(&rgb[..each]);
        frames.zip(rgb.chunks_exact(each)).for_each(|(frame, rgb)| self.keep(frame, rgb.into()));
        Ok(wanted)
    }

    fn keep(&self, frame: usize, rgb: Arc<[u8]>) {
        if let Some(disk) = self.disk() {
            disk.write(frame, &rgb);
        }
        self.cache.add_decoded((self.number, frame), rgb);
    }
}

/// Frames of a video that are one episode's.
#[derive(Clone, Debug)]
pub struct VideoSegment {
    /// The whole.
    pub frames: Arc<VideoFrames>,
    /// The first frame.
    pub first: usize,
    /// How many frames.
    pub len: usize,
}

impl VideoSegment {
    /// What a frame of the episode is decoded from ([`VideoFrames::digest`]).
    ///
    /// # Errors
    /// When the file ends before it.
    pub fn digest(&self, at: usize) -> Result<[u8; 32], VideoError> {
        self.frames.digest(self.first + at.min(self.len.saturating_sub(1)))
    }

    /// A frame of the episode as RGB. Beyond the last is the last, again.
    ///
    /// # Errors
    /// See [`VideoFrames::rgb`].
    pub fn rgb(&self, at: usize) -> Result<Arc<[u8]>, VideoError> {
        self.frames.rgb(self.first + at.min(self.len.saturating_sub(1)))
    }
}
