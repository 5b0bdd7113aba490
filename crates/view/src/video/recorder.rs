//! Videos of environments at work.

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_core::{End, Facts, Obs, Step};

use super::cell::{Cell, Outcome};
use super::thread::{Stalls, VideoThread};
use super::{Picture, Video, VideoError, VideoFile, VideoFormat, tile};

/// What to record, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoSettings {
    /// Videos go to `{directory}/seed_{seed}/{n}.{ending of the format}`.
    pub directory: PathBuf,
    /// The seed of the environments; names the folder.
    pub seed: u64,
    /// The format.
    pub format: VideoFormat,
    /// Frames per second; the environment's own `control_hz` shows it in real time.
    pub fps: f64,
    /// How many environments to show: the first ones.
    pub envs: usize,
    /// The cameras to show side by side; the main one if none is named.
    pub cameras: Vec<String>,
    /// Whether to write step, reward, success and end into the picture.
    pub info: bool,
    /// Facts of the environment to write there as well, by name.
    pub extra: Vec<String>,
    /// How long the outcome of an episode is shown, in seconds.
    pub hold_secs: f64,
    /// How many pictures may wait for a thread that writes them; without it, they are written right away.
    pub queue: Option<usize>,
}

impl VideoSettings {
    /// Small files that play everywhere, in real time at `fps`: up to 16 environments, with captions, written by a thread.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, seed: u64, fps: f64) -> Self {
        Self {
            directory: directory.into(),
            seed,
            format: VideoFormat::default(),
            fps,
            envs: 16,
            cameras: Vec::new(),
            info: true,
            extra: Vec::new(),
            hold_secs: 1.0,
            queue: Some(64),
        }
    }
}

/// What one step shows of all environments. Made from a [`Step`], any part can be put in its place:
/// `Seen { reward: &learned, ..Seen::from(&step) }`.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What is seen next; for an ended row, the first observation of its next episode.
    pub obs: &'a Obs,
    /// For each ended row, the last real observation of its old episode.
    pub last: &'a [(usize, Obs)],
    /// The reward to show, `[B]`.
    pub reward: &'a [f32],
    /// How each row ended, `[B]`.
    pub end: &'a [End],
    /// Whether the task is solved at this moment, `[B]`.
    pub success: &'a [bool],
    /// Other truths by name.
    pub facts: &'a Facts,
}

impl<'a> From<&'a Step> for Seen<'a> {
    fn from(step: &'a Step) -> Self {
        let Step { obs, last, reward, end, success, facts } = step;
        Self { obs, last, reward, end, success, facts }
    }
}

/// Records environments step by step, one file per [`flush`](VideoRecorder::flush).
///
/// Rows reset themselves, so a row that ends shows the last real picture of its episode, and then the first of the next
/// one. The outcome is framed: green when the episode ended in success, amber when it succeeded and lost it again, red
/// when it never did. When all shown rows end together, the picture stands still for a moment; otherwise the frame stays
/// around that row while the others go on.
pub struct VideoRecorder {
    settings: VideoSettings,
    cells: Vec<Cell>,
    /// The first pictures after a reset: shown if anything follows in this video, else in the next.
    reset: Option<Picture>,
    sink: Sink,
    /// Number of the video at work, and whether it has pictures yet.
    number: u64,
    begun: bool,
    written: Vec<VideoFile>,
}

impl VideoRecorder {
    /// Starts to record. Numbers go on after the videos that the folder already holds.
    ///
    /// # Errors
    /// [`VideoError::Thread`] when the system starts no thread.
    pub fn new(settings: VideoSettings) -> Result<Self, VideoError> {
        let sink = match settings.queue {
            Some(queue) => Sink::Thread(VideoThread::start(queue)?),
            None => Sink::Here(None),
        };
        let number = next_number(&folder(&settings));
        let (cells, reset, begun, written) = (Vec::new(), None, false, Vec::new());
        Ok(Self { settings, cells, reset, sink, number, begun, written })
    }

    /// Shows the observations that all environments start from.
    ///
    /// # Errors
    /// [`VideoError::Camera`] when they hold no such picture, or why an earlier video was not written.
    pub fn start(&mut self, obs: &Obs) -> Result<(), VideoError> {
        self.cells = vec![Cell::default(); self.settings.envs.min(obs.batch()).max(1)];
        self.reset = Some(self.compose(obs, None)?);
        Ok(())
    }

    /// Shows one step.
    ///
    /// # Errors
    /// [`VideoError::Rows`] for columns of the wrong length, [`VideoError::Camera`] when there is no such picture, or
    /// why a video could not be written.
    pub fn step(&mut self, seen: Seen<'_>) -> Result<(), VideoError> {
        check_rows(&seen)?;
        self.collect()?;
        self.cells.resize(self.settings.envs.min(seen.obs.batch()).max(1), Cell::default());
        if let Some(picture) = self.reset.take() {
            self.push(picture, 0.0)?;
        }
        let linger = (self.settings.hold_secs * self.settings.fps).round() as usize;
        for (row, cell) in self.cells.iter_mut().enumerate() {
            cell.step(seen.success[row], seen.end[row], linger);
        }
        let picture = self.compose(seen.obs, Some(&seen))?;
        let ended = seen.end[..self.cells.len()].iter().filter(|end| end.is_end()).count();
        let hold = if ended == self.cells.len() { self.settings.hold_secs } else { 0.0 };
        self.push(picture, hold)?;
        if ended > 0 {
            self.reset_ended(&seen, ended)?;
        }
        Ok(())
    }

    /// Prepares the picture of the new episodes.
    fn reset_ended(&mut self, seen: &Seen<'_>, ended: usize) -> Result<(), VideoError> {
        let all = ended == self.cells.len();
        for (cell, end) in self.cells.iter_mut().zip(seen.end) {
            if end.is_end() {
                cell.reset(all);
            }
        }
        self.reset = Some(self.compose(seen.obs, None)?);
        Ok(())
    }

    /// Completes the video at work, and says where it is (or will be in a moment, if a thread writes it). `None` when
    /// nothing was shown since the last one.
    ///
    /// # Errors
    /// Why this or an earlier video could not be written.
    pub fn flush(&mut self) -> Result<Option<PathBuf>, VideoError> {
        self.collect()?;
        if !std::mem::take(&mut self.begun) {
            return Ok(None);
        }
        let path = self.path();
        self.number += 1;
        match &mut self.sink {
            Sink::Here(video) => self.written.extend(video.take().map(Video::finish).transpose()?),
            Sink::Thread(thread) => thread.finish()?,
        }
        Ok(Some(path))
    }

    /// How much the environments had to wait for the videos.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
        match &self.sink {
            Sink::Here(_) => Stalls::default(),
            Sink::Thread(thread) => thread.stalls(),
        }
    }

    /// Completes the video at work, waits until all are written, and lists them.
    ///
    /// # Errors
    /// Why the first one that failed was not written.
    pub fn close(mut self) -> Result<Vec<VideoFile>, VideoError> {
        self.flush()?;
        if let Sink::Thread(thread) = &mut self.sink {
            thread.wait()?;
        }
        self.collect()?;
        Ok(self.written)
    }

    /// Takes note of what the thread finished.
    fn collect(&mut self) -> Result<(), VideoError> {
        let Sink::Thread(thread) = &self.sink else { return Ok(()) };
        for done in thread.done() {
            match done {
                Ok(video) => self.written.push(video),
                Err(error) => {
                    // The video at work was given up: the next picture starts it anew.
                    self.begun &= error.path() != Some(&self.path());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, picture: Picture, secs: f64) -> Result<(), VideoError> {
        let fps = self.settings.fps;
        let first = (!self.begun).then(|| self.path());
        match &mut self.sink {
            Sink::Here(video) => {
                if let Some(path) = first {
                    *video = Some(Video::create(&path, fps)?);
                }
                video.as_mut().map_or(Ok(()), |video| video.push_for(&picture, secs))?;
            }
            Sink::Thread(thread) => {
                if let Some(path) = first {
                    thread.create(path, fps)?;
                }
                thread.push(picture, secs)?;
            }
        }
        self.begun = true;
        Ok(())
    }

    fn path(&self) -> PathBuf {
        folder(&self.settings).join(format!("{}.{}", self.number, self.settings.format.extension()))
    }

    /// One picture of all shown environments: after a step, or (without one) as they start.
    fn compose(&self, obs: &Obs, seen: Option<&Seen<'_>>) -> Result<Picture, VideoError> {
        let cells: Result<Vec<_>, _> = self
            .cells
            .iter()
            .enumerate()
            .map(|(row, cell)| {
                let last = seen.and_then(|seen| seen.last.iter().find(|(ended, _)| *ended == row));
                let shown = last.map_or(obs.row(row), |(_, last)| last.row(0));
                let now = seen.map(|seen| Outcome::of(seen, row));
                cell.draw(shown, known_cameras(obs), &self.settings, now)
            })
            .collect();
        Ok(tile(&cells?))
    }
}

/// Where finished pictures go.
enum Sink {
    Here(Option<Video>),
    Thread(VideoThread),
}

fn folder(settings: &VideoSettings) -> PathBuf {
    settings.directory.join(format!("seed_{}", settings.seed))
}

/// The number after the highest that a folder holds.
fn next_number(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.path().file_stem()?.to_str()?.parse::<u64>().ok();
    entries.filter_map(number).max().map_or(0, |highest| highest + 1)
}

fn known_cameras(obs: &Obs) -> Vec<&str> {
    obs.cameras.iter().map(|(name, _)| &**name).collect()
}

fn check_rows(seen: &Seen<'_>) -> Result<(), VideoError> {
    let batch = seen.obs.batch();
    let columns =
        [("rewards", seen.reward.len()), ("ends", seen.end.len()), ("success flags", seen.success.len())];
    match columns.into_iter().find(|(_, rows)| *rows != batch) {
        Some((what, rows)) => Err(VideoError::Rows { what, rows, batch }),
        None => Ok(()),
    }
}
