//! One video file.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::AtomicFile;

use super::apng::Apng;
use super::encode::Encode;
use super::error::cannot_write;
use super::mp4::Mp4;
use super::{Canvas, VideoError, VideoFormat};

/// Writes one video, image by image, with bounded memory.
///
/// The file has its name once [`Video::finish`] succeeded, and is complete then. Until then it grows under a hidden
/// temporary name beside it; a video that fails or is dropped unfinished leaves nothing.
///
/// ```
/// use plaudit_view::video::{Canvas, Video};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mut video = Video::create(&dir.join("fade.mp4"), 20.0)?;
/// for shade in 0..10 {
///     video.push(&Canvas::filled(32, 32, [25 * shade; 3]))?;
/// }
/// let written = video.finish()?;
/// assert_eq!(written.frames, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Video {
    encoder: Box<dyn Encode>,
    path: PathBuf,
    format: VideoFormat,
    frame_secs: f64,
    size: Option<(usize, usize)>,
    frames: usize,
    secs: f64,
}

impl Video {
    /// Starts a video; the end of the name chooses the format, and missing directories are made.
    ///
    /// # Errors
    /// [`VideoError::Format`] for another ending, [`VideoError::Fps`] for an invalid frame rate, and
    /// [`VideoError::Create`] when the file cannot be made.
    pub fn create(path: &Path, fps: f64) -> Result<Self, VideoError> {
        let format = VideoFormat::of(path).ok_or_else(|| VideoError::Format { path: path.to_owned() })?;
        if !(fps > 0.0 && fps <= 1000.0) {
            return Err(VideoError::Fps { path: path.to_owned(), fps });
        }
        let file = begin(path).map_err(|source| VideoError::Create { path: path.to_owned(), source })?;
        let encoder: Box<dyn Encode> = match format {
            VideoFormat::Apng => Box::new(Apng::new(file)),
            VideoFormat::Mp4 => Box::new(Mp4::new(file)),
        };
        Ok(Self {
            encoder,
            path: path.to_owned(),
            format,
            frame_secs: fps.recip(),
            size: None,
            frames: 0,
            secs: 0.0,
        })
    }

    /// Adds an image for one frame's time.
    ///
    /// # Errors
    /// [`VideoError::Resized`] and [`VideoError::TooLarge`] for an image that does not fit (the video can go on
    /// without it), [`VideoError::Write`] when the file cannot be written.
    pub fn push(&mut self, image: &Canvas) -> Result<(), VideoError> {
        self.push_for(image, self.frame_secs)
    }

    /// Adds an image that stays for `secs` seconds, at least for one frame's time.
    ///
    /// # Errors
    /// As [`Video::push`].
    pub fn push_for(&mut self, image: &Canvas, secs: f64) -> Result<(), VideoError> {
        self.check(image)?;
        // The longest time that all formats can store.
        let secs = secs.max(self.frame_secs).min(60.0);
        self.encoder.image(image, secs).map_err(cannot_write(&self.path))?;
        self.size = Some(image.size());
        self.frames += 1;
        self.secs += secs;
        Ok(())
    }

    fn check(&self, image: &Canvas) -> Result<(), VideoError> {
        let (path, got) = (|| self.path.clone(), image.size());
        match self.size {
            Some(expected) if expected != got => Err(VideoError::Resized { path: path(), expected, got }),
            None if got.0.max(got.1) > self.format.longest_side() => {
                Err(VideoError::TooLarge { path: path(), size: got, most: self.format.longest_side() })
            }
            _ => Ok(()),
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// [`VideoError::Empty`] when nothing was pushed, [`VideoError::Write`] when the file cannot be completed. Nothing
    /// is left then.
    pub fn finish(self) -> Result<VideoFile, VideoError> {
        let path = self.path;
        if self.frames == 0 {
            return Err(VideoError::Empty { path });
        }
        self.encoder.finish().and_then(AtomicFile::commit).map_err(cannot_write(&path))?;
        let bytes = fs::metadata(&path).map_or(0, |data| data.len());
        Ok(VideoFile { path, frames: self.frames, secs: self.secs, bytes })
    }
}

/// Starts the file, and the directories on its way.
fn begin(path: &Path) -> io::Result<AtomicFile> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    AtomicFile::create(path)
}

impl fmt::Debug for Video {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Video")
            .field("path", &self.path)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}

/// A complete video.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoFile {
    /// Where it is.
    pub path: PathBuf,
    /// Images it was given.
    pub frames: usize,
    /// How long it runs.
    pub secs: f64,
    /// Its size on the disk.
    pub bytes: u64,
}
