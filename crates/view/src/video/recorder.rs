//! Videos of environments at work.

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_core::{End, Facts, Obs, Step};

use super::cell::{Cell, Outcome};
use super::row_queue::{Kind, RowQueue};
use super::thread::{Stalls, VideoThread};
use super::tile::tile_all;
use super::{Canvas, Video, VideoError, VideoFile, VideoFormat};

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
    /// Whether to write step, reward, success and end into the image.
    pub info: bool,
    /// Facts of the environment to write there as well, by name.
    pub extra: Vec<String>,
    /// How long the outcome of an episode is shown, in seconds.
    pub hold_secs: f64,
    /// How many images may wait for a thread that writes them; without it, they are written right away.
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
/// `StepView { reward: &learned, ..StepView::from(&step) }`.
#[derive(Debug, Clone, Copy)]
pub struct StepView<'a> {
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
    /// Other facts by name.
    pub facts: &'a Facts,
}

impl<'a> From<&'a Step> for StepView<'a> {
    fn from(step: &'a Step) -> Self {
        let Step { obs, last, reward, end, success, facts, interventions: _ } = step;
        Self { obs, last, reward, end, success, facts }
    }
}

/// Images that a row may be behind the others, beside those that an end stays for: then the others wait after all.
const MOST_BEHIND: usize = 64;

/// Records environments step by step, one file per [`flush`](VideoRecorder::flush).
///
/// Rows reset themselves, so a row that ends shows the last real image of its episode, and then the first of the next
/// one: each observation once and in order. The last image of an episode has a border and stays for a moment: green
/// when the episode ended in success, amber when it succeeded and lost it again, red when it never did. The other rows
/// go on meanwhile; the row that ended follows behind them.
pub struct VideoRecorder {
    settings: VideoSettings,
    cells: Vec<Cell>,
    row_queues: Vec<RowQueue>,
    sink: Sink,
    /// Number of the video at work, and whether it has images yet.
    number: u64,
    begun: bool,
    /// Where in its video the newest image begins, and where it ends, in seconds.
    newest_secs: (f64, f64),
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
        let (cells, row_queues, begun) = (Vec::new(), Vec::new(), false);
        let (newest_secs, written) = ((0.0, 0.0), Vec::new());
        Ok(Self { settings, cells, row_queues, sink, number, begun, newest_secs, written })
    }

    /// Shows the observations that all environments start from.
    ///
    /// # Errors
    /// [`VideoError::Camera`] when they hold no such image, or why an earlier video was not written.
    pub fn start(&mut self, obs: &Obs) -> Result<(), VideoError> {
        self.show_rest()?;
        let rows = self.rows(obs);
        self.cells = vec![Cell::default(); rows];
        self.row_queues = (0..rows).map(|_| RowQueue::default()).collect();
        for (row, queue) in self.row_queues.iter_mut().enumerate() {
            let image = self.cells[row].draw(obs.row(row), known_cameras(obs), &self.settings, None)?;
            queue.push(Kind::First, image);
        }
        Ok(())
    }

    /// Shows one step.
    ///
    /// # Errors
    /// [`VideoError::Rows`] for columns of the wrong length, [`VideoError::Camera`] when there is no such image, or
    /// why a video could not be written.
    pub fn step(&mut self, step: StepView<'_>) -> Result<(), VideoError> {
        check_rows(&step)?;
        self.collect()?;
        let rows = self.rows(step.obs);
        self.cells.resize(rows, Cell::default());
        self.row_queues.resize_with(rows, RowQueue::default);
        for row in 0..rows {
            self.step_row(&step, row)?;
        }
        self.show_frame()?;
        let most = self.linger().saturating_add(MOST_BEHIND);
        while self.row_queues.iter().all(RowQueue::is_ready)
            || self.row_queues.iter().any(|queue| queue.behind() > most)
        {
            self.show_frame()?;
        }
        Ok(())
    }

    /// Draws the result of a step of one row: one image, or the last of an episode and the first of the next.
    fn step_row(&mut self, step: &StepView<'_>, row: usize) -> Result<(), VideoError> {
        let (cell, queue) = (&mut self.cells[row], &mut self.row_queues[row]);
        let known = || known_cameras(step.obs);
        let now = Some(Outcome::of(step, row));
        cell.step(step.success[row]);
        let last = step.last.iter().find(|(ended, _)| *ended == row);
        let shown = last.map_or(step.obs.row(row), |(_, last)| last.row(0));
        let image = cell.draw(shown, known(), &self.settings, now)?;
        if !step.end[row].is_end() {
            queue.push(Kind::Within, image);
            return Ok(());
        }
        *cell = Cell::default();
        let first = cell.draw(step.obs.row(row), known(), &self.settings, None)?;
        queue.push(Kind::Last, image);
        queue.push(Kind::First, first);
        Ok(())
    }

    /// How many environments of a batch are shown.
    fn rows(&self, obs: &Obs) -> usize {
        self.settings.envs.min(obs.batch()).max(1)
    }

    /// Frames for which the end of an episode stays.
    fn linger(&self) -> usize {
        (self.settings.hold_secs.min(60.0) * self.settings.fps).round() as usize
    }

    /// One frame of the video, with the next image of each row. While nothing changes anywhere, it is one long frame.
    fn show_frame(&mut self) -> Result<(), VideoError> {
        let linger = self.linger();
        self.row_queues.iter_mut().for_each(|queue| queue.advance(linger));
        let still = self.row_queues.iter().map(RowQueue::hold).min().unwrap_or(0);
        self.row_queues.iter_mut().for_each(|queue| queue.skip_hold(still));
        let images: Vec<&Canvas> = self.row_queues.iter().filter_map(RowQueue::shown).collect();
        let image = tile_all(&images);
        self.push(image, (1 + still) as f64 / self.settings.fps)
    }

    /// Shows what the rows that are behind have not shown yet.
    fn show_rest(&mut self) -> Result<(), VideoError> {
        while self.row_queues.iter().any(RowQueue::is_due) {
            self.show_frame()?;
        }
        // An end belongs to the video that showed it.
        self.row_queues.iter_mut().for_each(|queue| queue.skip_hold(usize::MAX));
        Ok(())
    }

    /// Completes the video at work, and says where it is (or will be in a moment, if a thread writes it). `None` when
    /// nothing was shown since the last one.
    ///
    /// # Errors
    /// Why this or an earlier video could not be written.
    pub fn flush(&mut self) -> Result<Option<PathBuf>, VideoError> {
        self.collect()?;
        self.show_rest()?;
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

    /// How many environments are shown.
    #[must_use]
    pub fn shown_envs(&self) -> usize {
        self.cells.len()
    }

    /// Where in its video the newest image begins, and where it ends, in seconds.
    #[must_use]
    pub fn newest_secs(&self) -> (f64, f64) {
        self.newest_secs
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
                    // The video at work was given up: the next image starts it anew.
                    self.begun &= error.path() != Some(&self.path());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, image: Canvas, secs: f64) -> Result<(), VideoError> {
        let fps = self.settings.fps;
        let first = (!self.begun).then(|| self.path());
        match &mut self.sink {
            Sink::Here(video) => {
                if let Some(path) = first {
                    *video = Some(Video::create(&path, fps)?);
                }
                video.as_mut().map_or(Ok(()), |video| video.push_for(&image, secs))?;
            }
            Sink::Thread(thread) => {
                if let Some(path) = first {
                    thread.create(path, fps)?;
                }
                thread.push(image, secs)?;
            }
        }
        let begins = if self.begun { self.newest_secs.1 } else { 0.0 };
        self.begun = true;
        self.newest_secs = (begins, begins + secs.max(fps.recip()));
        Ok(())
    }

    fn path(&self) -> PathBuf {
        folder(&self.settings).join(format!("{}.{}", self.number, self.settings.format.extension()))
    }
}

/// Where finished images go.
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

fn check_rows(step: &StepView<'_>) -> Result<(), VideoError> {
    let batch = step.obs.batch();
    let columns =
        [("rewards", step.reward.len()), ("ends", step.end.len()), ("success flags", step.success.len())];
    match columns.into_iter().find(|(_, rows)| *rows != batch) {
        Some((what, rows)) => Err(VideoError::Rows { what, rows, batch }),
        None => Ok(()),
    }
}
