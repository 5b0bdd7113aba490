//! A camera's images as an MP4 file, and such files joined without decoding them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use plaudit_mp4::{Encoder, Muxer, TICKS_PER_SEC};
use plaudit_pyfiles::AtomicFile;

use super::meta::VideoRange;
use super::source::SourceCamera;
use super::stats::{ImageCounts, Stats};
use crate::lerobot::error::{InFile, Problem, Result};
use crate::video::Video;

/// Every second frame stands alone, as lerobot has it: what is read at random costs two frames.
const KEY_EVERY: u32 = 2;
/// lerobot's measure of a video file.
const FILE_BYTES: u64 = 200 << 20;

/// Writes a camera's images to `path`, and says what their statistics are.
pub(super) fn write(
    path: &Path,
    camera: &SourceCamera<'_>,
    frames: usize,
    fps: f64,
) -> Result<Stats, Problem> {
    let shape = camera.shape;
    let mut encoder = Encoder::new((shape.width, shape.height), KEY_EVERY)?;
    let mut muxer = Muxer::new(AtomicFile::create(path)?)?;
    let mut counts = ImageCounts::new(shape.channels);
    for at in 0..frames {
        let image = camera.at(at)?;
        counts.add(&image);
        let sample = encoder.encode(&image)?;
        muxer.push(&sample.bytes, ticks(at as u64, fps), sample.is_key)?;
    }
    muxer.finish(encoder.size(), &encoder.config())?.commit()?;
    Ok(counts.stats())
}

/// What no video can hold, in words.
pub(super) fn check(camera: &SourceCamera<'_>) -> Result<(), Problem> {
    let shape = camera.shape;
    if shape.channels != 3 {
        let what = format!(
            "camera `{}` has {} channel(s), and a video holds red, green and blue; write its images as images",
            camera.name, shape.channels
        );
        return Err(Problem::Episode(what));
    }
    if shape.width % 2 + shape.height % 2 > 0 {
        let what = format!(
            "camera `{}` is {}x{}, and a video's sides are even; write its images as images",
            camera.name, shape.width, shape.height
        );
        return Err(Problem::Episode(what));
    }
    Ok(())
}

/// How long a frame is shown, so that frame n begins at n / fps to the nearest tick.
fn ticks(frame: u64, fps: f64) -> u32 {
    let begins = |frame: u64| (frame as f64 * f64::from(TICKS_PER_SEC) / fps).round() as u64;
    (begins(frame + 1) - begins(frame)) as u32
}

/// One camera's video files of a dataset in the making.
pub(super) struct Reel {
    root: PathBuf,
    feature: String,
    fps: f64,
    files: u64,
    open: Option<OpenFilm>,
}

/// The file that grows.
struct OpenFilm {
    path: PathBuf,
    muxer: Muxer<BufWriter<File>>,
    size: (usize, usize),
    config: Vec<u8>,
}

impl Reel {
    pub(super) fn new(root: &Path, feature: &str, fps: f64) -> Self {
        Self { root: root.into(), feature: feature.into(), fps, files: 0, open: None }
    }

    /// Adds the frames of an episode's video: to the file that is open, unless that is full or of another kind.
    pub(super) fn append(
        &mut self,
        episode: &Path,
        chunk_and_file: impl Fn(u64) -> (u64, u64),
    ) -> Result<VideoRange> {
        let video = Video::open(episode).in_file(episode)?;
        let size = (video.shape().width, video.shape().height);
        let is_full = |open: &OpenFilm| {
            open.muxer.bytes() >= FILE_BYTES || open.config != video.config() || open.size != size
        };
        if self.open.as_ref().is_some_and(is_full) {
            self.close()?;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let (chunk, file) = chunk_and_file(self.files);
                let folder = self.root.join("videos").join(&self.feature).join(format!("chunk-{chunk:03}"));
                fs::create_dir_all(&folder).in_file(&folder)?;
                let path = folder.join(format!("file-{file:03}.mp4"));
                self.files += 1;
                let out = BufWriter::new(File::create_new(&path).in_file(&path)?);
                OpenFilm {
                    muxer: Muxer::new(out).in_file(&path)?,
                    path,
                    size,
                    config: video.config().to_vec(),
                }
            }
        };
        let open = self.open.insert(open);
        let first = open.muxer.len() as u64;
        let copy = |bytes: &[u8], is_key: bool| {
            let ticks = ticks(open.muxer.len() as u64, self.fps);
            open.muxer.push(bytes, ticks, is_key)
        };
        video.copy_samples(copy).in_file(episode)?;
        let secs = |frame: u64| frame as f64 / self.fps;
        let file = chunk_and_file(self.files - 1);
        Ok(VideoRange { file, secs: (secs(first), secs(open.muxer.len() as u64)) })
    }

    /// Completes the file that is open and waits until it is on disk.
    pub(super) fn close(&mut self) -> Result<()> {
        let Some(OpenFilm { path, muxer, size, config }) = self.open.take() else { return Ok(()) };
        let close = || -> io::Result<()> {
            let mut out = muxer.finish(size, &config)?;
            out.flush()?;
            out.get_ref().sync_all()
        };
        close().in_file(&path)
    }
}
