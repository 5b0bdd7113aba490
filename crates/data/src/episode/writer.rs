//! Writing finished episodes beside the stepping: a thread of its own, a bounded queue, whole files.
//!
//! Each episode is a file that is complete or absent, so a kill costs at most the episodes that were still in
//! memory. A queue that is full makes the stepping wait, and the time waited is reported, never hidden.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::Episode;
use super::claim::Claim;
use super::files::{EpisodeFormat, FileSink};
use crate::lerobot::{self, Existing};
use crate::recording::{DatasetFormat, format_in};
use crate::replay_buffer;
use crate::store::{Origin, Store};

/// Which collection run writes. A run that can be resumed has a unique name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionRun<'a> {
    /// A run without a name: it always appends.
    Anonymous,
    /// A new run: it appends to what is there.
    New(&'a str),
    /// A run that was stopped and is resumed. It gets the same episodes again from the first; those that are there
    /// stay as they are.
    Resumed(&'a str),
}

impl<'a> CollectionRun<'a> {
    fn name(self) -> Option<&'a str> {
        match self {
            Self::Anonymous => None,
            Self::New(name) | Self::Resumed(name) => Some(name),
        }
    }

    /// Locks the folders. A resumed collection must find them as it left them.
    fn claim(self, folders: &[PathBuf]) -> Result<Claim, WriterError> {
        let claim = Claim::take(folders, self.name())?;
        match (self, claim.begun(), folders.first()) {
            (Self::Resumed(_), None, Some(folder)) => Err(WriterError::NotOurs { folder: folder.clone() }),
            _ => Ok(claim),
        }
    }
}

/// How writing ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All that was wanted is there.
    Complete,
    /// More may follow when the collection is resumed. What is there can be used as it is.
    Paused,
}

/// Where episodes go, one after the other.
pub trait EpisodeSink: Send {
    /// Writes one episode, whole or not at all.
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError>;

    /// Completes what only makes sense as a whole.
    fn finish(&mut self, _ending: Ending) -> Result<(), SinkError> {
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

/// The episodes that were in the folder before the first write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExistingEpisodes {
    /// Complete episodes in this format.
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
    is_complete: Arc<AtomicBool>,
    found: ExistingEpisodes,
    waited: Duration,
}

/// Episodes that may wait to be written before the stepping waits for them.
const QUEUE: usize = 64;

impl EpisodeWriter {
    /// Makes the folders, clears away what a killed run left unfinished, and starts the thread. Numbering continues
    /// after the episodes that are there, so nothing is ever overwritten.
    ///
    /// # Errors
    /// When another collection writes there, or nothing can be written.
    pub fn start(
        directory: &Path,
        format: EpisodeFormat,
        targets: Targets,
        by: CollectionRun<'_>,
    ) -> Result<Self, WriterError> {
        let claimed = format.claimed(directory);
        // Folders by outcome are found by the folder above them.
        let by_outcome = claimed.iter().any(|folder| *folder == directory.join("positive"));
        for folder in claimed.iter().map(PathBuf::as_path).chain(by_outcome.then_some(directory)) {
            refuse_other_format(folder, format.dataset_format())?;
        }
        let mut claim = by.claim(&claimed)?;
        let (sink, found) = FileSink::open(directory, format, claim.begun())?;
        if claim.begun().is_none() {
            claim.begin(sink.next())?;
        }
        let found = ExistingEpisodes { unfinished: claim.unfinished(), ..found };
        Ok(Self::spawn(Box::new(sink), Some(claim), found, targets))
    }

    /// Adds episodes to a store, which is made if it is not there. `origin` says where they come from.
    ///
    /// # Errors
    /// When another collection writes there, or it is no store.
    pub fn into_store(
        directory: &Path,
        origin: Origin,
        targets: Targets,
        by: CollectionRun<'_>,
    ) -> Result<Self, WriterError> {
        refuse_other_format(directory, DatasetFormat::Store)?;
        let mut claim = by.claim(&[directory.to_owned()])?;
        let store =
            if Store::is_at(directory) { Store::open(directory) } else { Store::create(directory, None) };
        let store = store.map_err(|error| WriterError::Sink(error.into()))?;
        // Episodes are named by their content: one that is added again is the one that is there.
        if claim.begun().is_none() {
            claim.begin(&[])?;
        }
        let unfinished = claim.unfinished() + store.clear_leftovers() as u64;
        let found = ExistingEpisodes {
            episodes: store.episodes().len() as u64,
            unfinished,
            ..ExistingEpisodes::default()
        };
        Ok(Self::spawn(Box::new(StoreSink { store, origin }), Some(claim), found, targets))
    }

    /// Adds episodes to a LeRobot dataset; what a killed run left open is completed first, or resumed if it is this
    /// run's own.
    ///
    /// # Errors
    /// When another collection writes there, or there are episodes and `settings` say to refuse.
    pub fn into_lerobot(
        directory: &Path,
        mut settings: lerobot::Settings,
        targets: Targets,
        by: CollectionRun<'_>,
    ) -> Result<Self, WriterError> {
        refuse_other_format(directory, DatasetFormat::Lerobot)?;
        let mut claim = by.claim(&[directory.to_owned()])?;
        if let Some(first) = claim.begun().and_then(<[u64]>::first) {
            settings.existing = Existing::Resume { first_shard: *first };
        }
        let writer =
            lerobot::Writer::new(directory, 0, settings).map_err(|error| WriterError::Sink(error.into()))?;
        if claim.begun().is_none() {
            claim.begin(&[writer.next_shard()])?;
        }
        let recovered = writer.found().recovered.iter().map(|shard| shard.episodes).sum();
        let unfinished = claim.unfinished();
        let found = ExistingEpisodes { episodes: writer.found().episodes, recovered, unfinished };
        Ok(Self::spawn(Box::new(LerobotSink { writer }), Some(claim), found, targets))
    }

    /// Adds trajectories to a replay buffer of RLinf's, which is made if it is not there.
    ///
    /// # Errors
    /// When another collection writes there, or a trajectory that is there cannot be read.
    pub fn into_replay_buffer(
        directory: &Path,
        targets: Targets,
        by: CollectionRun<'_>,
    ) -> Result<Self, WriterError> {
        refuse_other_format(directory, DatasetFormat::ReplayBuffer)?;
        let mut claim = by.claim(&[directory.to_owned()])?;
        let mut buffer =
            replay_buffer::Writer::open(directory).map_err(|error| WriterError::Sink(error.into()))?;
        match claim.begun().and_then(<[u64]>::first) {
            Some(first) => buffer.resume_from(*first),
            None => claim.begin(&[buffer.next_id()])?,
        }
        let episodes = buffer.trajectories() as u64;
        let found =
            ExistingEpisodes { episodes, unfinished: claim.unfinished(), ..ExistingEpisodes::default() };
        Ok(Self::spawn(Box::new(buffer), Some(claim), found, targets))
    }

    fn spawn(
        mut sink: Box<dyn EpisodeSink>,
        claim: Option<Claim>,
        found: ExistingEpisodes,
        targets: Targets,
    ) -> Self {
        let (queue, episodes): (_, Receiver<Episode>) = sync_channel(QUEUE);
        let (written, is_complete) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, complete) = (written.clone(), is_complete.clone());
        let thread = std::thread::spawn(move || {
            episodes.iter().try_for_each(|episode| {
                sink.write(&episode)?;
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<(), SinkError>(())
            })?;
            let ended = complete.load(Ordering::Acquire);
            sink.finish(if ended { Ending::Complete } else { Ending::Paused })?;
            drop(claim); // held until everything is on disk
            Ok(())
        });
        Self {
            queue: Some(queue),
            thread: Some(thread),
            targets,
            taken: Counts::default(),
            written,
            is_complete,
            found,
            waited: Duration::ZERO,
        }
    }

    /// Takes an episode, unless enough of its kind were taken; returns whether it did. Waits where the queue is full.
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
            return Err(self.stop_error());
        }
        self.taken.add(success);
        Ok(true)
    }

    /// How many were taken.
    pub fn taken(&self) -> Counts {
        self.taken
    }

    /// What was in the folder before.
    pub fn found(&self) -> &ExistingEpisodes {
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
    pub fn finish(mut self, ending: Ending) -> Result<Counts, WriterError> {
        self.is_complete.store(ending == Ending::Complete, Ordering::Release);
        self.queue = None;
        match self.join() {
            Some(error) => Err(error),
            None => Ok(self.taken),
        }
    }

    fn stop_error(&mut self) -> WriterError {
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

/// A folder of two formats would be read as one of them, and the episodes of the other would be lost from sight.
fn refuse_other_format(folder: &Path, format: DatasetFormat) -> Result<(), WriterError> {
    match format_in(folder).filter(|there| *there != format) {
        Some(there) => Err(WriterError::OtherFormat { folder: folder.into(), there, format }),
        None => Ok(()),
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

    fn finish(&mut self, ending: Ending) -> Result<(), SinkError> {
        match ending {
            Ending::Complete => self.writer.complete()?,
            Ending::Paused => self.writer.pause()?,
        };
        Ok(())
    }
}

/// Why episodes could not be written.
#[derive(Debug, Error)]
pub enum WriterError {
    /// A folder that cannot be used.
    #[error("cannot write episodes to {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another collection writes there now.
    #[error(
        "another collection is writing to {} now; wait for it, or give this one another folder (data_collection.save_dir)",
        folder.display()
    )]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// Episodes of another format are there.
    #[error(
        "{} holds {}, and {} would be added to them; a folder has one format: give another data_collection.save_dir, \
         or the export_format of what is there",
        folder.display(), there.describe(), format.describe()
    )]
    OtherFormat {
        /// The folder.
        folder: PathBuf,
        /// What is there.
        there: DatasetFormat,
        /// What was to be written.
        format: DatasetFormat,
    },
    /// A collection that is resumed is not the last that wrote there.
    #[error(
        "the collection cannot be resumed in {}: another one wrote there since, or the folder was moved or emptied; start a new run, which adds to what is there",
        folder.display()
    )]
    NotOurs {
        /// The folder.
        folder: PathBuf,
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
    /// The thread panicked.
    #[error("the thread that writes episodes stopped")]
    Gone,
}

#[cfg(test)]
mod tests {
    use super::super::claim::CLAIM;
    use super::super::{CameraTrack, Timestep};
    use super::*;
    use plaudit_core::{End, FrameShape};
    use plaudit_pyfiles as pyfiles;

    fn episode(row: usize, success: bool) -> Episode {
        let timestep =
            |end, success| Timestep { reward: 0.5, end, success, facts: vec![("is_grasped".into(), 1.0)] };
        let pixels = Arc::new((0..9).collect());
        Episode {
            row,
            number: 0,
            batch_step: 2,
            success,
            task: None,
            cameras: vec![CameraTrack { name: "base_camera".into(), shape: FrameShape::rgb(1, 1), pixels }],
            states: vec![vec![0.0, 1.0]; 3],
            actions: vec![vec![0.1]; 2],
            timesteps: vec![
                timestep(End::No, None),
                timestep(End::No, Some(false)),
                timestep(End::Terminated, Some(success)),
            ],
        }
    }

    fn writer(folder: &Path, format: EpisodeFormat) -> Result<EpisodeWriter, WriterError> {
        EpisodeWriter::start(folder, format, Targets::default(), CollectionRun::Anonymous)
    }

    fn write_one(mut writer: EpisodeWriter, episode: Episode) {
        writer.write(episode).unwrap();
        writer.finish(Ending::Complete).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name != CLAIM).collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_of_another_format_is_refused_before_anything_is_written() {
        let formats = ["pickle", "frames", "npy", "store", "lerobot", "replay_buffer"];
        let begin = |folder: &Path, format: &str| {
            let (targets, by) = (Targets::default(), CollectionRun::Anonymous);
            match format {
                "pickle" => writer(folder, EpisodeFormat::Pickle),
                "frames" => writer(folder, EpisodeFormat::Frames),
                "npy" => {
                    let [positive, negative] = ["positive", "negative"].map(|name| folder.join(name));
                    writer(folder, EpisodeFormat::Npy { positive, negative, cameras: Vec::new() })
                }
                "store" => EpisodeWriter::into_store(folder, Origin::new("a test"), targets, by),
                "lerobot" => {
                    let settings = lerobot::Settings { existing: Existing::Continue, ..Default::default() };
                    EpisodeWriter::into_lerobot(folder, settings, targets, by)
                }
                _ => EpisodeWriter::into_replay_buffer(folder, targets, by),
            }
        };
        for there in formats {
            let folder = tempfile::tempdir().unwrap();
            write_one(begin(folder.path(), there).unwrap(), episode(0, true));
            let before = names(folder.path());
            for format in formats {
                let begun = begin(folder.path(), format);
                if format == there {
                    begun.unwrap().finish(Ending::Paused).unwrap();
                    continue;
                }
                let error = begun.unwrap_err().to_string();
                assert!(error.contains("a folder has one format"), "{format} into {there}: {error}");
                assert_eq!(names(folder.path()), before, "{format} into {there}");
            }
            // A folder of its own below is another matter.
            begin(&folder.path().join("below"), "store").unwrap().finish(Ending::Complete).unwrap();
        }
    }

    #[test]
    fn a_second_collection_adds_and_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        for rank in 0..2 {
            let mut writer = writer(folder.path(), EpisodeFormat::Pickle).unwrap();
            assert_eq!(writer.found().episodes, 2 * rank);
            writer.write(episode(0, true)).unwrap();
            writer.write(episode(1, false)).unwrap();
            assert_eq!(writer.finish(Ending::Complete).unwrap(), Counts { successes: 1, failures: 1 });
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
        assert_eq!(
            *writer(folder.path(), EpisodeFormat::Pickle).unwrap().found(),
            ExistingEpisodes { episodes: 4, unfinished: 1, ..ExistingEpisodes::default() }
        );
    }

    #[test]
    fn enough_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let targets = Targets { success: Some(2), failure: Some(1) };
        let mut writer =
            EpisodeWriter::start(folder.path(), EpisodeFormat::Frames, targets, CollectionRun::Anonymous)
                .unwrap();
        let took: Vec<bool> =
            [true, true, true, false, false].map(|success| writer.write(episode(0, success)).unwrap()).into();
        assert_eq!(took, [true, true, false, true, false]);
        assert!(writer.is_done());
        writer.finish(Ending::Complete).unwrap();
        assert_eq!(names(&folder.path().join("success")), ["episode_000000.pkl", "episode_000001.pkl"]);
        assert_eq!(names(&folder.path().join("failure")), ["episode_000002.pkl"]);
    }

    #[test]
    fn files_hold_what_rlinfs_scripts_look_for() {
        let folder = tempfile::tempdir().unwrap();
        write_one(writer(folder.path(), EpisodeFormat::Pickle).unwrap(), episode(3, true));
        let value = pyfiles::read(folder.path().join("rank_0_env_3_episode_0_step_2_success.pkl")).unwrap();
        let length = |key: &str| value.get(key).and_then(|list| list.as_items()).unwrap().len();
        assert_eq!(["observations", "rewards", "terminated", "truncated", "infos"].map(length), [3; 5]);
        assert_eq!(length("actions"), 2);
        let last = &value.get("infos").unwrap().as_items().unwrap()[2];
        assert_eq!(last.get("success").and_then(|flag| flag.to_bool()), Some(true));
        let first = &value.get("observations").unwrap().as_items().unwrap()[0];
        assert_eq!(first.get("main_images").unwrap().as_array().unwrap().bytes(), [0, 1, 2]);

        let (positive, negative) = (folder.path().join("p"), folder.path().join("n"));
        let format = EpisodeFormat::Npy { positive: positive.clone(), negative, cameras: vec![] };
        write_one(writer(folder.path(), format).unwrap(), episode(0, true));
        assert_eq!(names(&positive), ["000000.npy"]);
    }

    #[test]
    fn a_store_takes_each_episode_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        for found in [0, 1] {
            let (targets, by) = (Targets::default(), CollectionRun::Anonymous);
            let writer = EpisodeWriter::into_store(&path, Origin::new("a test"), targets, by).unwrap();
            assert_eq!(writer.found().episodes, found);
            write_one(writer, episode(0, true));
        }
        assert_eq!(Store::open(&path).unwrap().episodes().len(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = writer(&file, EpisodeFormat::Pickle).unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
