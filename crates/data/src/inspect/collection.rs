//! What a folder or file is, and the parts it is read in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::error::{InspectError, Unusable};
use super::read;
use super::recorded::Recorded;
use crate::convert::Source;
use crate::lerobot::{self, Dataset};
use crate::python::{self, PyValue};
use crate::replay_buffer;
use crate::store::{EpisodeId, Store};

/// What people have lying around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// One pickle per episode, as RLinf's collectors write them.
    Episodes,
    /// Folders `success` and `failure` of pickles with a list of frames.
    Frames,
    /// Folders `positive` and `negative` of `.npy` trajectories.
    Trajectories,
    /// One `data.pkl` with a list of transitions of a real robot.
    Transitions,
    /// One long recording with a key pressed for each frame.
    Keyboard,
    /// `train.pt` and `val.pt`: images with labels.
    Images,
    /// Windows of frames with a `segments.jsonl`.
    Windows,
    /// A LeRobot dataset.
    Lerobot,
    /// A replay buffer of RLinf's: files `trajectory_*.pt`.
    ReplayBuffer,
    /// plaudit's own store.
    Store,
}

impl Format {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Episodes => "episodes, one pickle each",
            Self::Frames => "episodes as frames, in folders success and failure",
            Self::Trajectories => "trajectories, in folders positive and negative",
            Self::Transitions => "transitions of a real robot",
            Self::Keyboard => "a recording labelled by keyboard",
            Self::Images => "labelled images",
            Self::Windows => "labelled windows",
            Self::Lerobot => "a LeRobot dataset",
            Self::ReplayBuffer => "a replay buffer",
            Self::Store => "a plaudit store",
        }
    }

    /// What one thing of it is called, and several.
    pub fn noun(self) -> [&'static str; 2] {
        match self {
            Self::Images => ["part", "parts"],
            Self::Windows => ["window", "windows"],
            _ => ["episode", "episodes"],
        }
    }

    fn of(source: Source) -> Self {
        match source {
            Source::Collected | Source::PreMerge => Self::Episodes,
            Source::Frames => Self::Frames,
            Source::Trajectories => Self::Trajectories,
            Source::Transitions => Self::Transitions,
            Source::Keyboard => Self::Keyboard,
        }
    }
}

/// A dataset before it is read.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) format: Format,
    pub(super) parts: Vec<Part>,
    /// Parts that are known to be unusable before they are opened.
    pub(super) broken: Vec<(PathBuf, Unusable)>,
}

/// Something that is opened and read in one go.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Its file.
    pub(super) path: PathBuf,
    /// `train`, `val` or whatever the dataset calls it.
    pub(super) split: Option<String>,
    /// What its folder or manifest says: an outcome or a label.
    pub(super) said: Option<String>,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Recording(Source),
    Images,
    Window,
    Stored(Arc<Store>, EpisodeId),
    Lerobot(Arc<Dataset>, usize),
    Trajectory,
}

impl Part {
    pub(super) fn read(&self) -> Result<Vec<Recorded>, Unusable> {
        match &self.how {
            How::Recording(source) => read::recordings(&open(&self.path)?, *source, self),
            How::Images => read::images(&open(&self.path)?),
            How::Window => read::window(&open(&self.path)?, self),
            How::Stored(store, id) => read::stored(store, *id),
            How::Lerobot(dataset, episode) => read::lerobot(dataset, *episode),
            How::Trajectory => read::trajectory(&open(&self.path)?),
        }
    }

    pub(super) fn window(path: PathBuf, split: Option<String>, said: Option<String>) -> Self {
        Self { path, split, said, how: How::Window }
    }

    fn plain(path: PathBuf, how: How) -> Self {
        Self { path, split: None, said: None, how }
    }
}

/// Reads a file of Python's without naming it in errors.
fn open(path: &Path) -> Result<PyValue, Unusable> {
    if !path.exists() {
        return Err(Unusable::Gone);
    }
    let bytes = python::Buffer::open(path, python::Access::Map)?;
    Ok(python::Reader::new().read_bytes(bytes)?)
}

impl Collection {
    /// Tells what is at a path, by names of folders and files and by the keys of the first file.
    pub(super) fn find(path: &Path) -> Result<Self, InspectError> {
        if let Err(source) = fs::metadata(path) {
            return Err(InspectError::Read { path: path.into(), source });
        }
        match Self::try_find(path)? {
            Some(found) => Ok(found),
            None => Err(InspectError::Nothing { path: path.into(), nearby: nearby(path) }),
        }
    }

    fn try_find(path: &Path) -> Result<Option<Self>, InspectError> {
        if path.is_file() {
            return Ok(Self::of_file(path));
        }
        if Store::is_at(path) {
            return Self::of_stores(&[(path.into(), None)]).map(Some);
        }
        let stores = stores_below(path);
        if !stores.is_empty() {
            return Self::of_stores(&stores).map(Some);
        }
        if let Some(shards) = lerobot::shards(path).ok().filter(|shards| !shards.is_empty()) {
            return Ok(Some(Self::of_lerobot(&shards)));
        }
        if let Some(windows) = read::manifests(path) {
            return Ok(Some(windows));
        }
        if replay_buffer::is_at(path) {
            return Ok(Some(Self::of_trajectories(replay_buffer::files(path)?)));
        }
        let archives = list(path, "pt");
        if !archives.is_empty() {
            return Ok(Some(Self::of_images(archives)));
        }
        let trajectories = list(path, "npy");
        if !trajectories.is_empty() {
            return Ok(Some(Self::of_recordings(trajectories, Source::Trajectories)));
        }
        Ok(Self::of_folder(path))
    }

    /// Folders that the converters know too, and folders of one outcome.
    fn of_folder(path: &Path) -> Option<Self> {
        if let Ok(source) = Source::detect(path) {
            let files = source.files(path).ok()?;
            let part = |file: crate::convert::InputFile| Part {
                said: file.outcome.map(|success| read::outcome_name(success).into()),
                ..Part::plain(file.path, How::Recording(source))
            };
            let parts = files.into_iter().map(part).collect();
            return Some(Self { format: Format::of(source), parts, broken: Vec::new() });
        }
        let pickles = list(path, "pkl");
        let first = Self::of_file(pickles.first()?)?;
        let how = first.parts.into_iter().next()?.how;
        let parts = pickles.into_iter().map(|path| Part::plain(path, how.clone())).collect();
        Some(Self { format: first.format, parts, broken: Vec::new() })
    }

    fn of_file(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        match path.extension()?.to_str()? {
            "pt" | "pkl" if replay_buffer::is_trajectory(path) => {
                Some(Self::of_trajectories(vec![path.into()]))
            }
            "pt" | "pth" => Some(Self::of_images(vec![path.into()])),
            "npy" => Some(Self::of_recordings(vec![path.into()], Source::Trajectories)),
            "jsonl" if name == "segments.jsonl" => read::manifests(path.parent()?),
            "jsonl" if name == "manifest.jsonl" => Self::of_stores(&[(path.parent()?.into(), None)]).ok(),
            "pkl" | "pickle" => Some(Self::of_pickle(path)),
            _ => None,
        }
    }

    fn of_pickle(path: &Path) -> Self {
        let holds = |key: &str| open(path).is_ok_and(|value| value.get(key).is_some());
        if holds("main_frames") {
            let parts = vec![Part::window(path.into(), None, None)];
            return Self { format: Format::Windows, parts, broken: Vec::new() };
        }
        let source = match Source::detect(path) {
            Ok(source) => source,
            Err(_) if holds("frames") => Source::Frames,
            Err(_) => Source::Collected,
        };
        Self::of_recordings(vec![path.into()], source)
    }

    fn of_recordings(files: Vec<PathBuf>, source: Source) -> Self {
        let parts = files.into_iter().map(|path| Part::plain(path, How::Recording(source))).collect();
        Self { format: Format::of(source), parts, broken: Vec::new() }
    }

    fn of_images(files: Vec<PathBuf>) -> Self {
        let part = |path: PathBuf| Part {
            split: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
            ..Part::plain(path, How::Images)
        };
        Self { format: Format::Images, parts: files.into_iter().map(part).collect(), broken: Vec::new() }
    }

    fn of_trajectories(files: Vec<PathBuf>) -> Self {
        let parts = files.into_iter().map(|path| Part::plain(path, How::Trajectory)).collect();
        Self { format: Format::ReplayBuffer, parts, broken: Vec::new() }
    }

    /// All episodes of all datasets that a collector left behind.
    fn of_lerobot(shards: &[PathBuf]) -> Self {
        let mut found = Self { format: Format::Lerobot, parts: Vec::new(), broken: Vec::new() };
        for shard in shards {
            match Dataset::open(shard) {
                Ok(dataset) => {
                    let dataset = Arc::new(dataset);
                    found.parts.extend((0..dataset.len()).map(|episode| {
                        let name = shard.join(format!("episode {episode}"));
                        Part::plain(name, How::Lerobot(dataset.clone(), episode))
                    }));
                }
                Err(error) => found.broken.push((shard.clone(), error.into())),
            }
        }
        found
    }

    /// All episodes of these stores, each with the name of its part.
    fn of_stores(stores: &[(PathBuf, Option<String>)]) -> Result<Self, InspectError> {
        let mut found = Self { format: Format::Store, parts: Vec::new(), broken: Vec::new() };
        for (path, split) in stores {
            let store = Arc::new(Store::open(path)?);
            let part = |id: EpisodeId| {
                let file = path.join(format!("episodes/{id}.safetensors"));
                Part { split: split.clone(), ..Part::plain(file, How::Stored(store.clone(), id)) }
            };
            found.parts.extend(store.episodes().iter().map(|entry| part(entry.id)));
        }
        Ok(found)
    }
}

/// The stores in a folder, each with its name: `train` and `val` of a dataset.
fn stores_below(path: &Path) -> Vec<(PathBuf, Option<String>)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.path(), entry.file_name().to_str().map(String::from)));
    let visible = |(path, name): &(PathBuf, Option<String>)| {
        Store::is_at(path) && name.as_ref().is_some_and(|name| !name.starts_with('.'))
    };
    let mut stores: Vec<_> = named.filter(visible).collect();
    stores.sort();
    stores
}

/// Files of a folder by extension, in the order of their names.
pub(super) fn list(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let hidden =
        |path: &PathBuf| path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let wanted = |path: &PathBuf| !hidden(path) && path.extension().is_some_and(|found| found == extension);
    let mut files: Vec<PathBuf> = entries.filter(wanted).collect();
    files.sort();
    files
}

/// Folders up to two levels down that hold a dataset.
fn nearby(path: &Path) -> Vec<PathBuf> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).take(100).collect();
        folders.sort();
        folders
    };
    let first = below(path);
    let second: Vec<PathBuf> = first.iter().flat_map(|folder| below(folder)).collect();
    let holds = |folder: &PathBuf| matches!(Collection::try_find(folder), Ok(Some(_)));
    first.into_iter().chain(second).filter(holds).collect()
}
