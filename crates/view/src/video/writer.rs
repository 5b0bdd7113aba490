//! One video file.

use std::fmt;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::apng::Apng;
use super::encode::Encode;
use super::error::cannot_write;
use super::gif::Gif;
use super::mp4::Mp4;
use super::staged::Staged;
use super::{Picture, VideoError, VideoFormat};

/// Writes one video, picture by picture, with bounded memory (a GIF keeps up to 16 MiB to choose its colours).
///
/// The file has its name once [`Video::finish`] succeeded, and is complete then. Until then it grows under a hidden
/// temporary name beside it; a video that fails or is dropped unfinished leaves nothing.
///
/// ```
/// use plaudit_view::video::{Picture, Video};
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mut video = Video::create(&dir.join("fade.gif"), 20.0)?;
/// for shade in 0..10 {
///     video.push(&Picture::filled(32, 32, [25 * shade; 3]))?;
/// }
/// let written = video.finish()?;
/// assert_eq!(written.frames, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Video {
    encoder: Box<dyn Encode>,
    staged: Staged,
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
    /// [`VideoError::Format`] for another ending, [`VideoError::Fps`] for a speed that is none, and
    /// [`VideoError::Create`] when the file cannot be made.
    pub fn create(path: &Path, fps: f64) -> Result<Self, VideoError> {
        let format = VideoFormat::of(path).ok_or_else(|| VideoError::Format { path: path.to_owned() })?;
        if !(fps > 0.0 && fps <= 1000.0) {
            return Err(VideoError::Fps { path: path.to_owned(), fps });
        }
        let (staged, file) =
            Staged::create(path).map_err(|source| VideoError::Create { path: path.to_owned(), source })?;
        let file = BufWriter::new(file);
        let encoder: Box<dyn Encode> = match format {
            VideoFormat::Gif => Box::new(Gif::new(file)),
            VideoFormat::Apng => Box::new(Apng::new(file)),
            VideoFormat::Mp4 => Box::new(Mp4::new(file)),
        };
        Ok(Self { encoder, staged, format, frame_secs: fps.recip(), size: None, frames: 0, secs: 0.0 })
    }

    /// Adds a picture for one frame's time.
    ///
    /// # Errors
    /// [`VideoError::Resized`] and [`VideoError::TooLarge`] for a picture that does not fit (the video can go on
    /// without it), [`VideoError::Write`] when the file cannot be written.
    pub fn push(&mut self, picture: &Picture) -> Result<(), VideoError> {
        self.push_for(picture, self.frame_secs)
    }

    /// Adds a picture that stays for `secs` seconds, at least for one frame's time.
    ///
    /// # Errors
    /// As [`Video::push`].
    pub fn push_for(&mut self, picture: &Picture, secs: f64) -> Result<(), VideoError> {
        self.check(picture)?;
        // The longest time that all formats can tell.
        let secs = secs.max(self.frame_secs).min(60.0);
        self.encoder.picture(picture, secs).map_err(cannot_write(self.staged.path()))?;
        self.size = Some(picture.size());
        self.frames += 1;
        self.secs += secs;
        Ok(())
    }

    fn check(&self, picture: &Picture) -> Result<(), VideoError> {
        let (path, got) = (|| self.staged.path().to_owned(), picture.size());
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
        let path = self.staged.path().to_owned();
        if self.frames == 0 {
            return Err(VideoError::Empty { path });
        }
        let file = self.encoder.finish().map_err(cannot_write(&path))?;
        let bytes = file.metadata().map_or(0, |data| data.len());
        self.staged.complete(&file).map_err(cannot_write(&path))?;
        Ok(VideoFile { path, frames: self.frames, secs: self.secs, bytes })
    }
}

impl fmt::Debug for Video {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.staged.path();
        f.debug_struct("Video").field("path", &path).field("frames", &self.frames).finish_non_exhaustive()
    }
}

/// A complete video.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoFile {
    /// Where it is.
    pub path: PathBuf,
    /// Pictures it was given.
    pub frames: usize,
    /// How long it runs.
    pub secs: f64,
    /// Its size on the disk.
    pub bytes: u64,
}
