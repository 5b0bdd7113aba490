//! Writing datasets, an episode at a time.

mod folder;
mod frames;
mod journal;
mod meta;
mod shard;
mod stats;

use std::fs;
use std::path::{Path, PathBuf};

use self::folder::RankFolder;
use self::frames::Place;
use super::error::{InFile, LeRobotError, Problem, Result};
use super::feature::{Feature, describe};
use crate::episode::Episode;

/// What RLinf writes for episodes that name no task.
const NO_TASK: &str = "unknown task";

/// How datasets are written.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The robot named in the dataset.
    pub robot_type: String,
    /// Frames per second named in the dataset; timestamps follow it.
    pub fps: f64,
    /// A shard is completed after so many episodes. 0: only at the end.
    pub finalize_interval: u64,
    /// What to do where there are episodes already.
    pub existing: Existing,
}

/// What to do where there are episodes already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// Touch nothing and say so.
    #[default]
    Refuse,
    /// Complete what a killed run left, and go on with the next shard.
    Continue,
}

impl Default for Settings {
    /// As RLinf's collector has them.
    fn default() -> Self {
        Self { robot_type: "panda".into(), fps: 10.0, finalize_interval: 100, existing: Existing::Refuse }
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

/// What was in the folder when writing began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Complete shards.
    pub shards: u64,
    /// Episodes in those shards and in the recovered ones.
    pub episodes: u64,
    /// Shards that a killed run had left open and that are complete now, all their episodes kept.
    pub recovered: Vec<Shard>,
}

/// Writes LeRobot datasets, v3 in the image layout, under `save_dir/rank_R/id_N`.
///
/// Each episode is on disk when [`append`](Self::append) returns. Until its shard is complete it lies in a hidden
/// folder beside the shards; a dataset under its own name is always whole. A process that is killed loses the
/// episode in flight; the next writer that is told to [continue](Existing::Continue) completes the shard it finds.
/// The same goes for a writer that is dropped without [`finish`](Self::finish).
#[derive(Debug)]
pub struct Writer {
    folder: RankFolder,
    settings: Settings,
    found: Found,
    next_id: u64,
    open: Option<Open>,
}

/// The shard that grows.
#[derive(Debug)]
struct Open {
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
        let mut recovered = Vec::new();
        for &id in &begun {
            recovered.extend(recover(&folder, id, complete.contains(&id))?);
        }
        let next_id = complete.iter().chain(&begun).max().map_or(0, |id| id + 1);
        let before: u64 = complete.iter().map(|&id| meta::total_episodes(&folder.shard(id).done)).sum();
        let episodes = before + recovered.iter().map(|shard| shard.episodes).sum::<u64>();
        let found = Found { shards: complete.len() as u64, episodes, recovered };
        Ok(Self { folder, settings, found, next_id, open: None })
    }

    /// What was there already.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Writes an episode to disk. Returns the shard, if this episode completed it. Episodes in which nothing was
    /// done are passed over.
    ///
    /// # Errors
    /// When the episode's parts do not fit together or it has other columns than those before it; then nothing is
    /// written, and others may follow. When the disk refuses.
    pub fn append(&mut self, episode: &Episode) -> Result<Option<Shard>> {
        if episode.is_empty() {
            return Ok(None);
        }
        frames::check(episode).in_file(self.folder.path())?;
        let features = frames::features(episode);
        let open = match &mut self.open {
            Some(open) => open,
            None => {
                let open = Open::new(&self.folder, self.next_id, features.clone())?;
                self.next_id += 1;
                self.open.insert(open)
            }
        };
        open.write(episode, &features, &self.settings)?;
        let full = self.settings.finalize_interval != 0 && open.episodes >= self.settings.finalize_interval;
        if full { self.complete() } else { Ok(None) }
    }

    /// Completes the open shard; the next episode begins another. Nothing, if there is none.
    pub fn complete(&mut self) -> Result<Option<Shard>> {
        let Some(open) = &self.open else { return Ok(None) };
        let shard = shard::complete(&self.folder.shard(open.id))?;
        self.open = None;
        Ok(shard)
    }

    /// Completes what is open and lets go of the folder.
    pub fn finish(mut self) -> Result<Option<Shard>> {
        self.complete()
    }
}

/// Completes a shard that a killed run left. If that run was killed just after completing it, there is nothing left
/// to do but to clean up.
fn recover(folder: &RankFolder, id: u64, is_complete: bool) -> Result<Option<Shard>> {
    let place = folder.shard(id);
    if is_complete {
        fs::remove_dir_all(&place.open).in_file(&place.open)?;
        return Ok(None);
    }
    shard::complete(&place)
}

impl Open {
    fn new(folder: &RankFolder, id: u64, features: Vec<Feature>) -> Result<Self> {
        let path = folder.shard(id).open;
        fs::create_dir(&path).in_file(&path)?;
        Ok(Self { id, folder: path, features, tasks: Vec::new(), episodes: 0, frames: 0 })
    }

    fn write(&mut self, episode: &Episode, features: &[Feature], settings: &Settings) -> Result<()> {
        if features != self.features {
            let (expected, found) = (describe(&self.features), describe(features));
            return Err(LeRobotError::new(&self.folder, Problem::OtherFeatures { expected, found }));
        }
        let task = episode.task.as_deref().unwrap_or(NO_TASK);
        let known = self.tasks.iter().position(|known| known == task);
        let number = known.unwrap_or(self.tasks.len()) as u64;
        let place = Place { episode: self.episodes, first_frame: self.frames, task: number };
        journal::write(&self.folder, episode, task, place, settings)?;
        if known.is_none() {
            self.tasks.push(task.to_owned());
        }
        self.episodes += 1;
        self.frames += episode.len() as u64;
        Ok(())
    }
}
