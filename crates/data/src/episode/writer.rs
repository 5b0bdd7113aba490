//! Writing finished episodes beside the stepping: a thread of its own, a bounded queue, whole files.
//!
//! Each episode is a file that is complete or absent, so a kill costs at most the episodes that were still in
//! memory. A queue that is full makes the stepping wait, and the time waited is reported, never hidden.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thiserror::Error;

use super::Episode;
use super::as_python::{as_frames, as_npy, as_pickle, pickle_name};
use crate::atomic_file::clear_leftovers_in;
use crate::lerobot;
use crate::python::{PickleStyle, write_npy, write_pickle};
use crate::store::{Origin, Store};

/// How episodes lie on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// One pickle per episode, all in one folder.
    Pickle,
    /// One pickle of frames per episode, in `success/` and `failure/`.
    Frames,
    /// One `.npy` dictionary per episode, in a folder for successes and one for failures.
    Npy {
        /// Where successes go.
        positive: PathBuf,
        /// Where failures go.
        negative: PathBuf,
        /// The cameras to keep; empty: all.
        cameras: Vec<String>,
    },
}

/// Where episodes go, one after the other.
pub trait EpisodeSink: Send {
    /// Writes one episode, whole or not at all.
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError>;

    /// Completes what only makes sense as a whole.
    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Why a sink could not write.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// How many of each outcome are wanted; nothing means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Targets {
    /// Successes.
    pub success: Option<u64>,
    /// Failures.
    pub failure: Option<u64>,
}

impl Targets {
    fn of(self, success: bool) -> Option<u64> {
        if success { self.success } else { self.failure }
    }

    /// Whether nothing more is wanted.
    pub fn are_met(self, counts: Counts) -> bool {
        let met = |target: Option<u64>, count| target.is_some_and(|target| count >= target);
        met(self.success, counts.successes) && met(self.failure, counts.failures)
    }
}

/// How many episodes of each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Successes.
    pub successes: u64,
    /// Failures.
    pub failures: u64,
}

impl Counts {
    /// Both together.
    pub fn all(self) -> u64 {
        self.successes + self.failures
    }

    fn add(&mut self, success: bool) {
        if success { self.successes += 1 } else { self.failures += 1 }
    }

    fn of(self, success: bool) -> u64 {
        if success { self.successes } else { self.failures }
    }
}

/// What was in the folder before anything was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Whole episodes of this layout.
    pub episodes: u64,
    /// Those of them that lay in a dataset which a killed run had left open; it is complete now.
    pub recovered: u64,
    /// Files that a killed run had not finished; they are removed.
    pub unfinished: u64,
}

/// Writes episodes as they come.
#[derive(Debug)]
pub struct EpisodeWriter {
    queue: Option<SyncSender<Episode>>,
    thread: Option<JoinHandle<Result<(), SinkError>>>,
    targets: Targets,
    taken: Counts,
    /// Episodes that are on disk.
    written: Arc<AtomicU64>,
    found: Found,
    waited: Duration,
}

/// Episodes that may wait to be written before the stepping waits for them.
const QUEUE: usize = 64;

impl EpisodeWriter {
    /// Makes the folders, clears away what a killed run left unfinished, and starts the thread. Numbers go on
    /// after the episodes that are there, so nothing is ever overwritten.
    pub fn start(directory: &Path, layout: Layout, targets: Targets) -> Result<Self, WriterError> {
        let folders = match &layout {
            Layout::Pickle => vec![directory.to_owned()],
            Layout::Frames => vec![directory.join("success"), directory.join("failure")],
            Layout::Npy { positive, negative, .. } => vec![positive.clone(), negative.clone()],
        };
        let mut found = Found::default();
        let mut next = Vec::new();
        for folder in &folders {
            std::fs::create_dir_all(folder)
                .map_err(|source| WriterError::Folder { folder: folder.clone(), source })?;
            let (episodes, unfinished, number) = look_into(folder, &layout)
                .map_err(|source| WriterError::Folder { folder: folder.clone(), source })?;
            found.episodes += episodes;
            found.unfinished += unfinished;
            next.push(number);
        }
        Ok(Self::with_sink(Box::new(Pen { layout, folders, next }), found, targets))
    }

    /// Adds episodes to a store, which is made if it is not there. `origin` says where they come from.
    pub fn into_store(directory: &Path, origin: Origin, targets: Targets) -> Result<Self, WriterError> {
        let store =
            if Store::is_at(directory) { Store::open(directory) } else { Store::create(directory, None) };
        let store = store.map_err(|error| WriterError::Sink(error.into()))?;
        let unfinished = store.clear_leftovers() as u64;
        let found = Found { episodes: store.episodes().len() as u64, unfinished, ..Found::default() };
        Ok(Self::with_sink(Box::new(StoreSink { store, origin }), found, targets))
    }

    /// Adds episodes to a LeRobot dataset; what a killed run left open is completed first.
    pub fn into_lerobot(
        directory: &Path,
        settings: lerobot::Settings,
        targets: Targets,
    ) -> Result<Self, WriterError> {
        let writer =
            lerobot::Writer::new(directory, 0, settings).map_err(|error| WriterError::Sink(error.into()))?;
        let recovered = writer.found().recovered.iter().map(|shard| shard.episodes).sum();
        let found = Found { episodes: writer.found().episodes, recovered, ..Found::default() };
        Ok(Self::with_sink(Box::new(LerobotSink { writer }), found, targets))
    }

    /// Hands episodes to any sink, from a thread of its own.
    pub fn with_sink(mut sink: Box<dyn EpisodeSink>, found: Found, targets: Targets) -> Self {
        let (queue, episodes): (_, Receiver<Episode>) = sync_channel(QUEUE);
        let written = Arc::new(AtomicU64::new(0));
        let count = written.clone();
        let thread = std::thread::spawn(move || {
            episodes.iter().try_for_each(|episode| {
                sink.write(&episode)?;
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<(), SinkError>(())
            })?;
            sink.finish()
        });
        Self {
            queue: Some(queue),
            thread: Some(thread),
            targets,
            taken: Counts::default(),
            written,
            found,
            waited: Duration::ZERO,
        }
    }

    /// Takes an episode, unless enough of its kind were taken; tells whether it did. Waits where the queue is full.
    pub fn write(&mut self, episode: Episode) -> Result<bool, WriterError> {
        let success = episode.success;
        if self.targets.of(success).is_some_and(|target| self.taken.of(success) >= target) {
            return Ok(false);
        }
        let Some(queue) = &self.queue else { return Ok(false) };
        let sent = match queue.try_send(episode) {
            Err(TrySendError::Full(episode)) => {
                let began = Instant::now();
                let sent = queue.send(episode).is_ok();
                self.waited += began.elapsed();
                sent
            }
            other => other.is_ok(),
        };
        if !sent {
            return Err(self.why_it_stopped());
        }
        self.taken.add(success);
        Ok(true)
    }

    /// How many were taken.
    pub fn taken(&self) -> Counts {
        self.taken
    }

    /// What was in the folder before.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// How long the stepping had to wait for the disk.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether nothing more is wanted.
    pub fn is_done(&self) -> bool {
        self.targets.are_met(self.taken)
    }

    /// Waits until everything is on disk.
    pub fn finish(mut self) -> Result<Counts, WriterError> {
        self.queue = None;
        match self.join() {
            Some(error) => Err(error),
            None => Ok(self.taken),
        }
    }

    fn why_it_stopped(&mut self) -> WriterError {
        self.queue = None;
        self.join().unwrap_or(WriterError::Gone)
    }

    fn join(&mut self) -> Option<WriterError> {
        match self.thread.take()?.join() {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                Some(WriterError::Stopped { error, written: self.written.load(Ordering::Relaxed) })
            }
            Err(_) => Some(WriterError::Gone),
        }
    }
}

/// The thread's own part: where the next episode goes.
struct Pen {
    layout: Layout,
    folders: Vec<PathBuf>,
    /// Per folder, the next free number; for single pickles, the rank no file has yet.
    next: Vec<u64>,
}

impl EpisodeSink for Pen {
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError> {
        let side = usize::from(!episode.success && self.folders.len() > 1);
        match &self.layout {
            Layout::Pickle => {
                let rank = self.next[0];
                let path = self.folders[0].join(pickle_name(episode, rank));
                write_pickle(path, &as_pickle(episode, rank), PickleStyle::default())?;
            }
            Layout::Frames => {
                // One counter for both folders, as that collector had it.
                let number = self.next.iter().copied().max().unwrap_or(0);
                self.next.fill(number + 1);
                let path = self.folders[side].join(format!("episode_{number:06}.pkl"));
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                write_pickle(path, &as_frames(episode, number, now), PickleStyle::default())?;
            }
            Layout::Npy { cameras, .. } => {
                let path = self.folders[side].join(format!("{:06}.npy", self.next[side]));
                self.next[side] += 1;
                write_npy(path, &as_npy(episode, cameras))?;
            }
        }
        Ok(())
    }
}

/// Episodes into plaudit's own store.
struct StoreSink {
    store: Store,
    origin: Origin,
}

impl EpisodeSink for StoreSink {
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError> {
        self.store.add(episode, &self.origin)?;
        Ok(())
    }
}

/// Episodes into LeRobot datasets.
struct LerobotSink {
    writer: lerobot::Writer,
}

impl EpisodeSink for LerobotSink {
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError> {
        self.writer.append(episode)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.writer.complete()?;
        Ok(())
    }
}

/// Whole episodes, unfinished files (which are removed), and the next free number of a folder.
fn look_into(folder: &Path, layout: &Layout) -> io::Result<(u64, u64, u64)> {
    let (mut episodes, unfinished, mut next) = (0, clear_leftovers_in(folder) as u64, 0);
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(number) = number_of(&name, layout) {
            episodes += 1;
            next = next.max(number + 1);
        }
    }
    Ok((episodes, unfinished, next))
}

/// The number in a file name of this layout: the rank of a single pickle, otherwise the episode's.
fn number_of(name: &str, layout: &Layout) -> Option<u64> {
    match layout {
        Layout::Pickle => name.strip_prefix("rank_")?.split('_').next()?.parse().ok(),
        Layout::Frames => name.strip_prefix("episode_")?.strip_suffix(".pkl")?.parse().ok(),
        Layout::Npy { .. } => name.strip_suffix(".npy")?.parse().ok(),
    }
}

/// Why episodes could not be written.
#[derive(Debug, Error)]
pub enum WriterError {
    /// A folder that cannot be used.
    #[error("cannot keep episodes in {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is there cannot be added to.
    #[error(transparent)]
    Sink(SinkError),
    /// An episode could not be written. What was written before is whole.
    #[error("{error}; the {written} episodes that were written before it are safe")]
    Stopped {
        /// Why.
        #[source]
        error: SinkError,
        /// Episodes that are on disk.
        written: u64,
    },
    /// The thread is gone for no reason it could tell.
    #[error("the thread that writes episodes stopped")]
    Gone,
}

#[cfg(test)]
mod tests {
    use super::super::{CameraTrack, Moment};
    use super::*;
    use crate::python;
    use plaudit_core::{End, FrameShape};

    fn episode(row: usize, success: bool) -> Episode {
        let moment =
            |end, success| Moment { reward: 0.5, end, success, facts: vec![("is_grasped".into(), 1.0)] };
        let pixels = (0..9).collect();
        Episode {
            row,
            number: 0,
            batch_step: 2,
            success,
            task: None,
            cameras: vec![CameraTrack { name: "base_camera".into(), shape: FrameShape::rgb(1, 1), pixels }],
            states: vec![vec![0.0, 1.0]; 3],
            actions: vec![vec![0.1]; 2],
            moments: vec![
                moment(End::No, None),
                moment(End::No, Some(false)),
                moment(End::Terminated, Some(success)),
            ],
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_second_collection_adds_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..2 {
            let mut writer = EpisodeWriter::start(folder.path(), Layout::Pickle, Targets::default()).unwrap();
            assert_eq!(writer.found().episodes, 2 * rank);
            writer.write(episode(0, true)).unwrap();
            writer.write(episode(1, false)).unwrap();
            assert_eq!(writer.finish().unwrap(), Counts { successes: 1, failures: 1 });
            std::fs::write(folder.path().join(".x.pkl.1-2.partial"), "half").unwrap();
        }
        assert_eq!(
            names(folder.path())[1..],
            [
                "rank_0_env_0_episode_0_step_2_success.pkl",
                "rank_0_env_1_episode_0_step_2_fail.pkl",
                "rank_1_env_0_episode_0_step_2_success.pkl",
                "rank_1_env_1_episode_0_step_2_fail.pkl",
            ]
        );
        let writer = EpisodeWriter::start(folder.path(), Layout::Pickle, Targets::default()).unwrap();
        assert_eq!(*writer.found(), Found { episodes: 4, unfinished: 1, ..Found::default() });
    }

    #[test]
    fn enough_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let targets = Targets { success: Some(2), failure: Some(1) };
        let mut writer = EpisodeWriter::start(folder.path(), Layout::Frames, targets).unwrap();
        let took: Vec<bool> =
            [true, true, true, false, false].map(|success| writer.write(episode(0, success)).unwrap()).into();
        assert_eq!(took, [true, true, false, true, false]);
        assert!(writer.is_done());
        writer.finish().unwrap();
        assert_eq!(names(&folder.path().join("success")), ["episode_000000.pkl", "episode_000001.pkl"]);
        assert_eq!(names(&folder.path().join("failure")), ["episode_000002.pkl"]);
    }

    #[test]
    fn files_hold_what_rlinfs_scripts_look_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = EpisodeWriter::start(folder.path(), Layout::Pickle, Targets::default()).unwrap();
        writer.write(episode(3, true)).unwrap();
        writer.finish().unwrap();
        let value = python::read(folder.path().join("rank_0_env_3_episode_0_step_2_success.pkl")).unwrap();
        let length = |key: &str| value.get(key).and_then(|list| list.as_items()).unwrap().len();
        assert_eq!(["observations", "rewards", "terminated", "truncated", "infos"].map(length), [3; 5]);
        assert_eq!(length("actions"), 2);
        let last = &value.get("infos").unwrap().as_items().unwrap()[2];
        assert_eq!(last.get("success").and_then(|flag| flag.to_bool()), Some(true));
        let first = &value.get("observations").unwrap().as_items().unwrap()[0];
        assert_eq!(first.get("main_images").unwrap().as_array().unwrap().bytes(), [0, 1, 2]);

        let (positive, negative) = (folder.path().join("p"), folder.path().join("n"));
        let layout = Layout::Npy { positive: positive.clone(), negative, cameras: vec![] };
        let mut writer = EpisodeWriter::start(folder.path(), layout, Targets::default()).unwrap();
        writer.write(episode(0, true)).unwrap();
        writer.finish().unwrap();
        assert_eq!(names(&positive), ["000000.npy"]);
    }

    #[test]
    fn a_store_takes_each_episode_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        for found in [0, 1] {
            let mut writer =
                EpisodeWriter::into_store(&path, Origin::new("a test"), Targets::default()).unwrap();
            assert_eq!(writer.found().episodes, found);
            writer.write(episode(0, true)).unwrap();
            writer.finish().unwrap();
        }
        assert_eq!(Store::open(&path).unwrap().episodes().len(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = EpisodeWriter::start(&file, Layout::Pickle, Targets::default()).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
