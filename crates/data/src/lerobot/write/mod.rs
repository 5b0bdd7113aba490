//! Writing datasets, an episode at a time.

mod film;
mod folder;
mod frames;
mod journal;
mod meta;
mod shard;
mod source;
mod stats;

use std::fs;
use std::path::{Path, PathBuf};

use self::folder::RankFolder;
use self::frames::EpisodeIndices;
use super::error::{InFile, LeRobotError, Problem, Result};
use super::feature::{Feature, describe};
use crate::episode::Episode;

pub use self::source::{ImageAt, KnownSuccess, SourceCamera, SourceEpisode};

/// What RLinf writes for episodes that name no task.
const NO_TASK: &str = "unknown task";

/// How datasets are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The robot named in the dataset.
    pub robot_type: String,
    /// Frames per second named in the dataset; timestamps follow it.
    pub fps: f64,
    /// A shard is completed after so many episodes. 0: however many they are.
    pub finalize_interval: u64,
    /// A shard is completed once it has so many frames, too. 0: however many they are.
    pub finalize_frames: u64,
    /// What to do where there are episodes already.
    pub existing: Existing,
    /// Where images go.
    pub images: ImageStorage,
    /// What columns are called, and which there are.
    pub columns: ColumnNames,
}

/// Where images go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageStorage {
    /// PNG files inside the parquet files: every pixel exact, as RLinf has them.
    #[default]
    Png,
    /// H.264 in MP4 files, several episodes a file: small, and slightly blurred.
    H264,
}

/// What columns are called, and which there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColumnNames {
    /// As RLinf's collector has them: `state`, `actions`, `done`, `is_success`, `image` and so on.
    #[default]
    Rlinf,
    /// As lerobot's own datasets have them, as far as the episode has what they name: `observation.state`, `action`,
    /// `next.reward`, `next.success`, `observation.images.base_camera` and so on.
    LeRobot,
}

/// What to do where there are episodes already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Touch nothing and say so.
    #[default]
    Refuse,
    /// Complete what a killed run left, and continue with the next shard.
    Continue,
    /// Resume a collection that was stopped, as if it had not been: it is given the same episodes again from the
    /// first, those that are there are passed over, and the shard that was open grows on.
    Resume {
        /// The first shard of that collection.
        first_shard: u64,
    },
}

impl Default for Settings {
    /// As RLinf's collector has them, and shards that close early enough for a kill to hide little.
    fn default() -> Self {
        Self {
            robot_type: "panda".into(),
            fps: 10.0,
            finalize_interval: 100,
            finalize_frames: 2000,
            existing: Existing::Refuse,
            images: ImageStorage::Png,
            columns: ColumnNames::Rlinf,
        }
    }
}

/// A complete dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Its folder, `rank_R/id_N`.
    pub path: PathBuf,
    /// Episodes in it.
    pub episodes: u64,
    /// Frames in it.
    pub frames: u64,
}

/// The shards that were in the folder when writing began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExistingShards {
    /// Complete shards.
    pub shards: u64,
    /// Episodes in those shards and in the recovered ones.
    pub episodes: u64,
    /// Shards that a killed run had left open and that are complete now, all their episodes kept.
    pub recovered: Vec<Shard>,
}

/// Writes LeRobot datasets, v3 with images inside the parquet files or in videos, under `save_dir/rank_R/id_N`.
///
/// Each episode is on disk when [`append`](Self::append) returns. Until its shard is complete it lies in a hidden
/// folder beside the shards; a dataset under its own name is always whole. A process that is killed loses the
/// episode in flight; the next writer that is set to [continue](Existing::Continue) completes the shard it finds, and
/// one that [resumes](Existing::Resume) appends to it.
/// The same goes for a writer that is dropped without [`finish`](Self::finish).
#[derive(Debug)]
pub struct Writer {
    folder: RankFolder,
    settings: Settings,
    found: ExistingShards,
    next_id: u64,
    open: Option<OpenShard>,
    /// Episodes to come that are on disk already.
    to_skip: u64,
}

/// The shard that grows.
#[derive(Debug)]
struct OpenShard {
    id: u64,
    folder: PathBuf,
    features: Vec<Feature>,
    tasks: Vec<String>,
    episodes: u64,
    frames: u64,
}

impl Writer {
    /// Begins to write in `save_dir/rank_R`, which is made if it is not there.
    ///
    /// # Errors
    /// Where there are episodes and `settings` say to refuse, or another process writes there.
    pub fn new(save_dir: &Path, rank: u64, settings: Settings) -> Result<Self> {
        if !(settings.fps > 0.0 && settings.fps.is_finite()) {
            let problem = Problem::Episode(format!("{} frames per second", settings.fps));
            return Err(LeRobotError::new(save_dir, problem));
        }
        let folder = RankFolder::lock(save_dir, rank)?;
        let (complete, begun) = (folder.complete()?, folder.begun()?);
        if settings.existing == Existing::Refuse && complete.len() + begun.len() > 0 {
            return Err(LeRobotError::new(folder.path(), Problem::Exists));
        }
        let first = match settings.existing {
            Existing::Resume { first_shard } => first_shard,
            _ => u64::MAX,
        };
        let (mut recovered, mut open) = (Vec::new(), None);
        for &id in &begun {
            match id == begun.iter().copied().max().unwrap_or(0) && id >= first {
                true => open = OpenShard::resume(&folder, id)?,
                false => recovered.extend(recover(&folder, id, complete.contains(&id))?),
            }
        }
        let complete: Vec<u64> = folder.complete()?;
        let total = |ids: &mut dyn Iterator<Item = &u64>| -> u64 {
            ids.map(|&id| meta::total_episodes(&folder.shard(id).done)).sum()
        };
        let in_open = open.as_ref().map_or(0, |open| open.episodes);
        let to_skip = in_open + total(&mut complete.iter().filter(|id| **id >= first));
        let last = complete.iter().copied().chain(open.as_ref().map(|open| open.id)).max();
        let next_id = last.map_or(0, |id| id + 1);
        let shards = complete.len() as u64 - recovered.len() as u64;
        let found = ExistingShards { shards, episodes: in_open + total(&mut complete.iter()), recovered };
        let mut writer = Self { folder, settings, found, next_id, open, to_skip };
        writer.complete_if_full()?;
        Ok(writer)
    }

    /// The number of the shard that the next new one will be.
    pub fn next_shard(&self) -> u64 {
        self.next_id
    }

    /// What was there already.
    pub fn found(&self) -> &ExistingShards {
        &self.found
    }

    /// Writes an episode to disk. Returns the shard, if this episode completed it. Episodes in which nothing was
    /// done are passed over.
    ///
    /// # Errors
    /// When the episode's parts do not fit together or it has other columns than those before it; then nothing is
    /// written, and others may follow. When the disk refuses.
    pub fn append(&mut self, episode: &Episode) -> Result<Option<Shard>> {
        self.append_from(&SourceEpisode::from(episode))
    }

    /// The same for an episode whose images are not in memory together.
    ///
    /// # Errors
    /// As [`append`](Self::append), and when an image cannot be had.
    pub fn append_from(&mut self, source: &SourceEpisode<'_>) -> Result<Option<Shard>> {
        if source.episode.is_empty() {
            return Ok(None);
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return Ok(None);
        }
        frames::check(source, self.settings.images).in_file(self.folder.path())?;
        let features = frames::features(source, &self.settings);
        frames::check_names(&features).in_file(self.folder.path())?;
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let open = OpenShard::new(&self.folder, self.next_id, features.clone())?;
                self.next_id += 1;
                self.open.insert(open)
            }
        };
        open.write(source, &features, &self.settings)?;
        self.complete_if_full()
    }

    fn complete_if_full(&mut self) -> Result<Option<Shard>> {
        let Settings { finalize_interval, finalize_frames, .. } = self.settings;
        let reached = |limit: u64, count: u64| limit != 0 && count >= limit;
        let full = |open: &OpenShard| {
            reached(finalize_interval, open.episodes) || reached(finalize_frames, open.frames)
        };
        if self.open.as_ref().is_some_and(full) { self.complete() } else { Ok(None) }
    }

    /// Completes the open shard; the next episode begins another. Nothing, if there is none.
    pub fn complete(&mut self) -> Result<Option<Shard>> {
        let Some(open) = &self.open else { return Ok(None) };
        let shard = shard::complete(&self.folder.shard(open.id))?;
        self.open = None;
        Ok(shard)
    }

    /// Completes the open shard, and keeps what is needed to let it grow on when the collection is
    /// [resumed](Existing::Resume).
    pub fn pause(&mut self) -> Result<Option<Shard>> {
        let Some(open) = self.open.take() else { return Ok(None) };
        shard::assemble(&self.folder.shard(open.id))
    }

    /// Completes what is open and lets go of the folder.
    pub fn finish(mut self) -> Result<Option<Shard>> {
        self.complete()
    }
}

/// Completes a shard that a killed run left. If that run was killed just after completing it, there is nothing left
/// to do but to clean up.
fn recover(folder: &RankFolder, id: u64, is_complete: bool) -> Result<Option<Shard>> {
    let paths = folder.shard(id);
    if is_complete {
        fs::remove_dir_all(&paths.open).in_file(&paths.open)?;
        return Ok(None);
    }
    shard::complete(&paths)
}

impl OpenShard {
    fn new(folder: &RankFolder, id: u64, features: Vec<Feature>) -> Result<Self> {
        let path = folder.shard(id).open;
        fs::create_dir(&path).in_file(&path)?;
        Ok(Self { id, folder: path, features, tasks: Vec::new(), episodes: 0, frames: 0 })
    }

    /// A shard that was begun, with the episodes that are in it. Nothing, if there are none.
    fn resume(folder: &RankFolder, id: u64) -> Result<Option<Self>> {
        let paths = folder.shard(id);
        // A collection that was paused left a dataset of what there was. It never has its name in part.
        if paths.done.exists() {
            shard::remove_partial(&paths)?;
            fs::rename(&paths.done, &paths.partial).in_file(&paths.done)?;
        }
        shard::remove_partial(&paths)?;
        let path = paths.open;
        let mut open =
            Self { id, folder: path, features: Vec::new(), tasks: Vec::new(), episodes: 0, frames: 0 };
        for file in journal::episodes(&open.folder)? {
            let journal::Record { task, frames, features, .. } = journal::record(&file)?;
            if !open.tasks.contains(&task) {
                open.tasks.push(task);
            }
            (open.episodes, open.frames, open.features) = (open.episodes + 1, open.frames + frames, features);
        }
        if open.episodes == 0 {
            fs::remove_dir_all(&open.folder).in_file(&open.folder)?;
            return Ok(None);
        }
        Ok(Some(open))
    }

    fn write(&mut self, source: &SourceEpisode<'_>, features: &[Feature], settings: &Settings) -> Result<()> {
        let episode = source.episode;
        if features != self.features {
            let (expected, found) = (describe(&self.features), describe(features));
            return Err(LeRobotError::new(&self.folder, Problem::OtherFeatures { expected, found }));
        }
        let task = episode.task.as_deref().unwrap_or(NO_TASK);
        let known = self.tasks.iter().position(|known| known == task);
        let number = known.unwrap_or(self.tasks.len()) as u64;
        let indices = EpisodeIndices { episode: self.episodes, first_frame: self.frames, task: number };
        journal::write(&self.folder, source, features, (task, indices), settings)?;
        if known.is_none() {
            self.tasks.push(task.to_owned());
        }
        self.episodes += 1;
        self.frames += episode.len() as u64;
        Ok(())
    }
}
