//! Reading datasets, one episode at a time.

mod episode;
mod info;
mod json;
mod limits;
mod locations;
mod metadata;
mod template;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::info::{Info, Version};
pub use self::limits::Limits;
pub use self::metadata::DatasetMetadata;

use self::episode::EpisodeReader;
use self::locations::{EpisodeLocation, Tasks};
use super::error::{InFile, LeRobotError, Problem, Result};
use super::table::Table;
use crate::episode::Episode;

/// A LeRobot dataset on disk: v3 or v2, images inside the parquet files.
///
/// Opening reads what is under `meta/`; frames are read when an episode is asked for. Cameras keep the names of
/// their features, `image` first. The layout has no observation after the last action, so an episode's last
/// observation is the one before it, again. RLinf's `is_success` is the success of an episode and is known at its
/// last step; `next.success` is known at each.
#[derive(Debug)]
pub struct Dataset {
    root: PathBuf,
    limits: Limits,
    info: Info,
    tasks: Tasks,
    locations: Vec<EpisodeLocation>,
}

impl Dataset {
    /// Opens the dataset in a folder.
    ///
    /// # Errors
    /// When something under `meta/` is missing or damaged, the version is not read, or images are in video files.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_within(root, Limits::default())
    }

    /// Opens the dataset in a folder, within other limits.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_within(root: impl AsRef<Path>, limits: Limits) -> Result<Self> {
        let root = root.as_ref().to_owned();
        let info_path = root.join("meta/info.json");
        let info = Info::read(&info_path, &limits)?;
        if let Some(video) = info.features.iter().find(|feature| feature.is_video()) {
            let codec = video.codec.clone().unwrap_or_else(|| "a codec the dataset does not name".into());
            return Err(Problem::Video { codec }).in_column(&info_path, &video.name);
        }
        let tasks = locations::tasks(&root, &info, &limits)?;
        let locations = locations::find(&root, &info, &limits)?;
        Ok(Self { root, limits, info, tasks, locations })
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What it says of itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// How many episodes it has.
    pub fn len(&self) -> usize {
        self.locations.len()
    }

    /// Whether there is no episode.
    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// How many frames it has.
    pub fn frames(&self) -> u64 {
        self.locations.iter().fold(0, |sum, location| sum.saturating_add(location.frames))
    }

    /// Reads one episode, counted from 0.
    ///
    /// # Errors
    /// When there is no such episode, or its file or one of its columns is missing, damaged, or not what the dataset
    /// declares.
    pub fn read(&self, episode: usize) -> Result<Episode> {
        let location = self.locations.get(episode).ok_or_else(|| {
            let (got, limit) = (episode as u64, self.locations.len() as u64);
            let hint = "episodes count from 0";
            LeRobotError::new(
                &self.root,
                Problem::Limit { what: "as number of an episode", got, limit, hint },
            )
        })?;
        self.read_from(&Table::open(&location.file)?, location)
    }

    /// All episodes in order, each read when it is asked for.
    pub fn episodes(&self) -> Episodes<'_> {
        Episodes { dataset: self, next: 0, file: None }
    }

    fn read_from(&self, table: &Table, location: &EpisodeLocation) -> Result<Episode> {
        EpisodeReader { info: &self.info, limits: &self.limits, tasks: &self.tasks, table, location }.read()
    }
}

/// Episodes of a [`Dataset`], one after the other.
pub struct Episodes<'a> {
    dataset: &'a Dataset,
    next: usize,
    /// The last file, still open: the next episode is often in it.
    file: Option<(Arc<Path>, Table)>,
}

impl Episodes<'_> {
    fn read(&mut self, location: &EpisodeLocation) -> Result<Episode> {
        let current = self.file.take().filter(|(path, _)| *path == location.file);
        let (_, table) = match current {
            Some(current) => self.file.insert(current),
            None => self.file.insert((location.file.clone(), Table::open(&location.file)?)),
        };
        self.dataset.read_from(table, location)
    }
}

impl Iterator for Episodes<'_> {
    type Item = Result<Episode>;

    fn next(&mut self) -> Option<Self::Item> {
        let location = self.dataset.locations.get(self.next)?;
        self.next += 1;
        Some(self.read(location))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.dataset.locations.len() - self.next;
        (left, Some(left))
    }
}

/// The complete datasets that a [`Writer`](super::Writer) left under `save_dir`, or `save_dir` itself if it is one.
/// In order of ranks and ids.
///
/// # Errors
/// When a folder cannot be listed.
pub fn shards(save_dir: &Path) -> Result<Vec<PathBuf>> {
    if save_dir.join("meta/info.json").is_file() {
        return Ok(vec![save_dir.to_owned()]);
    }
    let mut all = Vec::new();
    for rank in numbered(save_dir, "rank_")? {
        // One without its metadata is a damaged dataset, and found to be one when it is opened.
        let is_dataset = |path: &PathBuf| path.join("meta").exists() || path.join("data").exists();
        all.extend(numbered(&rank, "id_")?.into_iter().filter(is_dataset));
    }
    Ok(all)
}

fn numbered(folder: &Path, before: &str) -> Result<Vec<PathBuf>> {
    let mut all: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder).in_file(folder)? {
        let path = entry.in_file(folder)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix(before)?.parse::<u64>().ok());
        all.extend(number.map(|number| (number, path)));
    }
    all.sort();
    Ok(all.into_iter().map(|(_, path)| path).collect())
}
