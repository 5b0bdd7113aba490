//! Reading datasets, one episode at a time.

mod episode;
mod info;
mod json;
mod limits;
mod locations;
mod metadata;
mod template;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use self::info::{Info, Version};
pub use self::limits::Limits;
pub use self::metadata::DatasetMetadata;

pub use self::episode::FilmedEpisode;

use self::episode::EpisodeReader;
use self::locations::{EpisodeLocation, Tasks};
use super::error::{InFile, LeRobotError, Problem, Result};
use super::feature::Feature;
use super::table::Table;
use crate::episode::Episode;
use crate::own_folder::OwnFolder;
use crate::video::{FrameCache, Video, VideoDecoder, VideoError, VideoFrames};

/// A LeRobot dataset on disk: v3 or v2, images inside the parquet files or in videos.
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
    videos: OpenVideos,
    own: Arc<OwnFolder>,
}

/// Videos that were opened: a v3 dataset has many episodes in each.
#[derive(Debug)]
struct OpenVideos {
    cache: Arc<FrameCache>,
    open: Mutex<HashMap<Arc<Path>, Arc<VideoFrames>>>,
    own: Arc<OwnFolder>,
}

impl OpenVideos {
    fn get(&self, path: &Arc<Path>) -> Result<Arc<VideoFrames>, VideoError> {
        let open = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open().get(path) {
            return Ok(found.clone());
        }
        if self.own.is_outside(path) {
            return Err(VideoError::Outside);
        }
        let opened = Arc::new(VideoFrames::open(path, self.cache.clone())?);
        Ok(open().entry(path.clone()).or_insert(opened).clone())
    }
}

impl Dataset {
    /// Opens the dataset in a folder.
    ///
    /// # Errors
    /// When something under `meta/` is missing or damaged, or the version is not read.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_within(root, Limits::default())
    }

    /// Opens the dataset in a folder, within other limits.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_within(root: impl AsRef<Path>, limits: Limits) -> Result<Self> {
        let root = root.as_ref().to_owned();
        let own = Arc::new(OwnFolder::of(&root));
        check_metadata(&own, &root.join("meta"), META_DEPTH)?;
        let info = Info::read(&root.join("meta/info.json"), &limits)?;
        let tasks = locations::tasks(&root, &info, &limits)?;
        let locations = locations::find(&root, &info, &limits)?;
        let videos = OpenVideos { cache: FrameCache::shared(), open: Mutex::default(), own: own.clone() };
        Ok(Self { root, limits, info, tasks, locations, videos, own })
    }

    /// The same with a cache of its own for the frames of its videos.
    #[must_use]
    pub fn with_frame_cache(self, cache: Arc<FrameCache>) -> Self {
        let own = self.own.clone();
        Self { videos: OpenVideos { cache, open: Mutex::default(), own }, ..self }
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
        let location = self.location(episode)?;
        self.read_from(&self.table(&location.file)?, location)
    }

    /// Reads one episode, counted from 0, but for the frames of its videos: those are decoded when they are asked for.
    ///
    /// # Errors
    /// As [`read`](Self::read); damage inside a video's frames is found when one is asked for.
    pub fn read_filmed(&self, episode: usize) -> Result<FilmedEpisode> {
        let location = self.location(episode)?;
        self.reader(&self.table(&location.file)?, location).read_filmed()
    }

    /// A data file, which lies in the dataset's folder.
    fn table(&self, file: &Path) -> Result<Table> {
        check_inside(&self.own, file)?;
        Table::open(file)
    }

    fn location(&self, episode: usize) -> Result<&EpisodeLocation> {
        self.locations.get(episode).ok_or_else(|| {
            let (got, limit) = (episode as u64, self.locations.len() as u64);
            let hint = "episodes count from 0";
            LeRobotError::new(
                &self.root,
                Problem::Limit { what: "as number of an episode", got, limit, hint },
            )
        })
    }

    /// How each video feature is decoded, by its first file: the container's word for the codec, and the decoder.
    ///
    /// # Errors
    /// When a file is missing or damaged, or nothing decodes it.
    pub fn video_decoders(&self) -> Result<Vec<(String, String, VideoDecoder)>> {
        let features = self.info.features.iter().filter(|feature| feature.is_video());
        let first = |(at, feature): (usize, &Feature)| {
            let location = self.locations.first()?.videos.get(at)?;
            let open = || match self.own.is_outside(&location.file) {
                true => Err(VideoError::Outside),
                false => Video::open(&location.file),
            };
            let opened = open().and_then(|video| Ok((video.codec(), video.decoder()?)));
            let named = opened.map(|(codec, decoder)| (feature.name.clone(), codec, decoder));
            Some(named.in_column(&location.file, &feature.name))
        };
        features.enumerate().filter_map(first).collect()
    }

    /// All episodes in order, each read when it is asked for.
    pub fn episodes(&self) -> Episodes<'_> {
        Episodes { dataset: self, next: 0, file: None }
    }

    fn read_from(&self, table: &Table, location: &EpisodeLocation) -> Result<Episode> {
        self.reader(table, location).read()
    }

    fn reader<'a>(&'a self, table: &'a Table, location: &'a EpisodeLocation) -> EpisodeReader<'a> {
        let (info, limits, tasks, videos) = (&self.info, &self.limits, &self.tasks, &self.videos);
        EpisodeReader { info, limits, tasks, videos, table, location }
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
            None => self.file.insert((location.file.clone(), self.dataset.table(&location.file)?)),
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

/// Folders below `meta/` that are looked into.
const META_DEPTH: usize = 3;

/// No file of the metadata is a link that leads elsewhere.
fn check_metadata(own: &OwnFolder, folder: &Path, depth: usize) -> Result<()> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        check_inside(own, &path)?;
        if depth > 0 && path.is_dir() {
            check_metadata(own, &path, depth - 1)?;
        }
    }
    Ok(())
}

fn check_inside(own: &OwnFolder, file: &Path) -> Result<()> {
    match own.is_outside(file) {
        true => Err(LeRobotError::new(file, Problem::Outside)),
        false => Ok(()),
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
