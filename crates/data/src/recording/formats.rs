//! What format a folder or file has, and the items it is read in: the one place where that is decided.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use plaudit_pyfiles::{Access, Buffer, PyValue, Reader};

use super::collected::{self, Generation};
use super::error::OpenError;
use super::image_folder::{self, SortedImage};
use super::source::{InputFile, Source};
use super::{
    FileProblem, Recording, frames, image_list, keyboard, stored, trajectories, transitions, whole_episode,
    windows,
};
use crate::lerobot::{self, Dataset};
use crate::replay_buffer;
use crate::store::{EpisodeId, Store};

/// The formats of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DatasetFormat {
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
    /// PNG images that a person sorted into folders `success` and `failure`.
    ImageFolder,
    /// Windows of frames with a `segments.jsonl`.
    Windows,
    /// A LeRobot dataset.
    Lerobot,
    /// A replay buffer of RLinf's: files `trajectory_*.pt`.
    ReplayBuffer,
    /// plaudit's own store.
    Store,
}

impl DatasetFormat {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Episodes => "episodes, one pickle each",
            Self::Frames => "episodes as frames, in folders success and failure",
            Self::Trajectories => "trajectories, in folders positive and negative",
            Self::Transitions => "transitions of a real robot",
            Self::Keyboard => "a recording labelled by keyboard",
            Self::Images => "labelled images",
            Self::ImageFolder => "images, sorted into folders success and failure",
            Self::Windows => "labelled windows",
            Self::Lerobot => "a LeRobot dataset",
            Self::ReplayBuffer => "a replay buffer",
            Self::Store => "a plaudit store",
        }
    }

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Episodes => "episodes",
            Self::Frames => "frames",
            Self::Trajectories => "trajectories",
            Self::Transitions => "transitions",
            Self::Keyboard => "keyboard",
            Self::Images => "images",
            Self::ImageFolder => "image-folder",
            Self::Windows => "windows",
            Self::Lerobot => "lerobot",
            Self::ReplayBuffer => "replay-buffer",
            Self::Store => "store",
        }
    }

    /// What one thing of it is called, and several.
    pub fn noun(self) -> [&'static str; 2] {
        match self {
            Self::Images => ["split", "splits"],
            Self::ImageFolder => ["image", "images"],
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

/// What lies at a path: its format, and its items, none of which is read yet.
#[derive(Debug)]
pub struct Recordings {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is.
    pub format: DatasetFormat,
    /// Which collector wrote it, where it is a collector's.
    pub source: Option<Source>,
    pub(crate) items: Vec<Item>,
    /// Items that are known to be unusable before they are opened.
    pub(crate) broken: Vec<(PathBuf, FileProblem)>,
}

/// One item: what is opened and read in one go.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Its file, or a name where it has none of its own.
    pub(crate) path: PathBuf,
    /// `train`, `val` or whatever the dataset calls it.
    pub(crate) split: Option<String>,
    /// What its folder or manifest says: an outcome or a label.
    pub(crate) declared_label: Option<String>,
    kind: ItemKind,
}

#[derive(Clone, Debug)]
enum ItemKind {
    Collector(Source, Option<bool>),
    Images,
    SortedImage(SortedImage),
    Window,
    Stored(Arc<Store>, EpisodeId),
    Lerobot(Arc<Dataset>, usize),
    Trajectory,
}

impl Item {
    /// Its recordings.
    pub(crate) fn read(&self) -> Result<Vec<Recording>, FileProblem> {
        Ok(self.open()?.1)
    }

    /// Its recordings, and the bytes that their images are views of, where it is one mapped file.
    pub(crate) fn open(&self) -> Result<(Option<Buffer>, Vec<Recording>), FileProblem> {
        let in_file = |read: &dyn Fn(&PyValue) -> Result<Vec<Recording>, FileProblem>| {
            let (bytes, value) = self.open_value()?;
            Ok((Some(bytes), read(&value)?))
        };
        match &self.kind {
            ItemKind::Collector(source, outcome) => {
                let (bytes, mut found) = in_file(&|value| of_collector(value, *source, *outcome))?;
                found.iter_mut().for_each(|one| one.disagrees = self.disagreement(one));
                Ok((bytes, found))
            }
            ItemKind::Images => in_file(&|value| Ok(vec![image_list::read(value)?])),
            ItemKind::Window => {
                in_file(&|value| Ok(vec![windows::read(value, self.declared_label.as_deref())?]))
            }
            ItemKind::Trajectory => in_file(&whole_episode::replay_buffer),
            ItemKind::SortedImage(image) => Ok((None, vec![image_folder::read(image)?])),
            ItemKind::Stored(store, id) => Ok((None, vec![stored::read(store, *id)?])),
            ItemKind::Lerobot(dataset, episode) => {
                Ok((None, vec![whole_episode::lerobot(dataset, *episode)?]))
            }
        }
    }

    /// Its file as Python would have it.
    pub(crate) fn open_value(&self) -> Result<(Buffer, PyValue), FileProblem> {
        open_file(&self.path)
    }

    /// What messages call the image of an entry.
    pub(crate) fn location(&self, entry: usize, key: &str) -> String {
        match &self.kind {
            ItemKind::Collector(Source::Frames, _) => format!("frames[{entry}][\"obs\"][\"{key}\"]"),
            ItemKind::Collector(Source::Trajectories, _) | ItemKind::Images => format!("images[{entry}]"),
            ItemKind::Collector(Source::Transitions, _) => {
                format!("[{entry}][\"transitions\"][\"obs\"][\"{key}\"]")
            }
            ItemKind::SortedImage(_) => "the image".into(),
            ItemKind::Collector(..) | ItemKind::Window => format!("observations[{entry}][\"{key}\"]"),
            ItemKind::Stored(..) | ItemKind::Lerobot(..) | ItemKind::Trajectory => {
                format!("the image of `{key}` at entry {entry}")
            }
        }
    }

    /// The name of an episode without its folder.
    pub(crate) fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The folder that an episode lies in: a store is one.
    pub(crate) fn folder(&self) -> String {
        let folder = self.path.parent();
        let folder = match &self.kind {
            ItemKind::Stored(..) => folder.and_then(Path::parent),
            _ => folder,
        };
        folder.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(super) fn window(path: PathBuf, split: Option<String>, declared_label: Option<String>) -> Self {
        Self { path, split, declared_label, kind: ItemKind::Window }
    }

    fn plain(path: PathBuf, kind: ItemKind) -> Self {
        Self { path, split: None, declared_label: None, kind }
    }

    fn collector(file: InputFile, source: Source) -> Self {
        let declared_label = file.outcome.map(|success| outcome_name(success).to_string());
        Self { declared_label, ..Self::plain(file.path, ItemKind::Collector(source, file.outcome)) }
    }

    /// What the name or the folder of a file says, where the file says otherwise.
    fn disagreement(&self, recording: &Recording) -> Option<String> {
        let success = recording.success?;
        let stem = self.stem();
        let by_name = [("_success", true), ("_fail", false), ("_failure", false)];
        let named = by_name.into_iter().find(|(end, _)| stem.ends_with(end)).map(|(_, outcome)| outcome);
        let in_folder = match self.folder().as_str() {
            "success" | "positive" => Some(true),
            "failure" | "negative" => Some(false),
            _ => None,
        };
        for (who, said) in [("its name", named), ("its folder", in_folder)] {
            if said.is_some_and(|said| said != success) {
                let [said, found] = [!success, success].map(outcome_name);
                return Some(format!("{who} says {said}, the file {found}"));
            }
        }
        None
    }
}

fn outcome_name(success: bool) -> &'static str {
    if success { "success" } else { "failure" }
}

fn of_collector(
    value: &PyValue,
    source: Source,
    outcome: Option<bool>,
) -> Result<Vec<Recording>, FileProblem> {
    Ok(match source {
        Source::Collected => vec![collected::read(value, Generation::Current)?],
        Source::PreMerge => vec![collected::read(value, Generation::PreMerge)?],
        Source::Frames => vec![frames::read(value, outcome)?],
        Source::Trajectories => vec![trajectories::read(value)?],
        Source::Transitions => transitions::read(value)?,
        Source::Keyboard => vec![keyboard::read(value)?],
    })
}

/// Reads a file of Python's without naming it in errors.
fn open_file(path: &Path) -> Result<(Buffer, PyValue), FileProblem> {
    if !path.exists() {
        return Err(FileProblem::Gone);
    }
    let bytes = Buffer::open(path, Access::Map)?;
    let value = Reader::new().read_bytes(bytes.clone())?;
    Ok((bytes, value))
}

impl Recordings {
    /// Detects what is at a path, by names of folders and files and by the keys of the first file.
    ///
    /// # Errors
    /// When nothing is there, or nothing that is known, or when it could be several things.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        fs::metadata(path).map_err(|source| OpenError::Read { path: path.into(), source })?;
        let found = if path.is_file() { Self::of_file(path)? } else { Self::of_folder(path)? };
        Ok(Self { path: path.into(), ..found })
    }

    /// What is at a path if a collector is named; what is detected if not.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_as(path: &Path, source: Option<Source>) -> Result<Self, OpenError> {
        source.map_or_else(|| Self::open(path), |source| Self::of_collector(path, source))
    }

    /// Folders of successful and of failed `.npy` trajectories that need not lie together.
    ///
    /// # Errors
    /// When there is none in one of them.
    pub fn of_trajectories(positive: &Path, negative: &Path) -> Result<Self, OpenError> {
        let mut found = Self::empty(positive, DatasetFormat::Trajectories);
        found.source = Some(Source::Trajectories);
        for (folder, outcome) in [(positive, true), (negative, false)] {
            let files = super::list(folder, "npy")?;
            if files.is_empty() {
                return Err(OpenError::NoTrajectories { path: folder.into() });
            }
            let input = |path| InputFile { path, outcome: Some(outcome) };
            found
                .items
                .extend(files.into_iter().map(|path| Item::collector(input(path), Source::Trajectories)));
        }
        Ok(found)
    }

    /// What it is called: the collector's name, or the format's.
    pub fn name(&self) -> &'static str {
        self.source.map_or_else(|| self.format.name(), Source::name)
    }

    pub(super) fn empty(path: &Path, format: DatasetFormat) -> Self {
        Self { path: path.into(), format, source: None, items: Vec::new(), broken: Vec::new() }
    }

    fn of_folder(path: &Path) -> Result<Self, OpenError> {
        if Store::is_at(path) {
            return Self::of_stores(&[(path.into(), None)]);
        }
        if let Some(shards) = lerobot::shards(path).ok().filter(|shards| !shards.is_empty()) {
            return Ok(Self::of_lerobot(path, &shards));
        }
        if let Some(windows) = windows::manifests(path) {
            return Ok(windows);
        }
        if replay_buffer::is_at(path) {
            return Ok(Self::of_replay_buffer(path, replay_buffer::files(path)?));
        }
        if image_folder::is_at(path) {
            return Ok(Self::of_image_folder(path));
        }
        let archives = super::list(path, "pt")?;
        if !archives.is_empty() {
            return Ok(Self::of_images(path, archives));
        }
        if !super::list(path, "npy")?.is_empty() {
            return Self::of_collector(path, Source::Trajectories);
        }
        if holds_window(path)? {
            let files = super::list(path, "pkl")?;
            let items = files.into_iter().map(|file| Item::window(file, None, None)).collect();
            return Ok(Self { items, ..Self::empty(path, DatasetFormat::Windows) });
        }
        match (Source::detect(path), &stores_below(path)[..]) {
            (Err(OpenError::NoEpisodes { .. }), stores @ [_, ..]) => Self::of_stores(stores),
            (detected, _) => Self::of_collector(path, detected?),
        }
    }

    fn of_collector(path: &Path, source: Source) -> Result<Self, OpenError> {
        let items = source.files(path)?.into_iter().map(|file| Item::collector(file, source)).collect();
        Ok(Self { items, source: Some(source), ..Self::empty(path, DatasetFormat::of(source)) })
    }

    fn of_file(path: &Path) -> Result<Self, OpenError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = path.parent().unwrap_or(Path::new("."));
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let nothing = || OpenError::NoEpisodes { path: path.into() };
        match extension {
            "pt" | "pkl" if replay_buffer::is_trajectory(path) => {
                Ok(Self::of_replay_buffer(path, vec![path.into()]))
            }
            "pt" | "pth" => Ok(Self::of_images(path, vec![path.into()])),
            "npy" => Self::of_collector(path, Source::Trajectories),
            "jsonl" if name == "segments.jsonl" => windows::manifests(folder).ok_or_else(nothing),
            "jsonl" if name == "manifest.jsonl" => Self::of_stores(&[(folder.into(), None)]),
            "pkl" | "pickle" if is_window(path) => {
                let items = vec![Item::window(path.into(), None, None)];
                Ok(Self { items, ..Self::empty(path, DatasetFormat::Windows) })
            }
            "pkl" | "pickle" => Self::of_collector(path, Source::detect(path)?),
            _ => Err(nothing()),
        }
    }

    fn of_images(path: &Path, files: Vec<PathBuf>) -> Self {
        let item = |path: PathBuf| Item {
            split: path.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
            ..Item::plain(path, ItemKind::Images)
        };
        Self { items: files.into_iter().map(item).collect(), ..Self::empty(path, DatasetFormat::Images) }
    }

    fn of_image_folder(path: &Path) -> Self {
        let item = |(path, image)| Item::plain(path, ItemKind::SortedImage(image));
        let items = image_folder::frames(path).into_iter().map(item).collect();
        Self { items, ..Self::empty(path, DatasetFormat::ImageFolder) }
    }

    fn of_replay_buffer(path: &Path, files: Vec<PathBuf>) -> Self {
        let items = files.into_iter().map(|path| Item::plain(path, ItemKind::Trajectory)).collect();
        Self { items, ..Self::empty(path, DatasetFormat::ReplayBuffer) }
    }

    /// All episodes of all datasets that a collector left behind.
    fn of_lerobot(path: &Path, shards: &[PathBuf]) -> Self {
        let mut found = Self::empty(path, DatasetFormat::Lerobot);
        for shard in shards {
            match Dataset::open(shard) {
                Ok(dataset) => {
                    let dataset = Arc::new(dataset);
                    found.items.extend((0..dataset.len()).map(|episode| {
                        let name = shard.join(format!("episode {episode}"));
                        Item::plain(name, ItemKind::Lerobot(dataset.clone(), episode))
                    }));
                }
                Err(error) => found.broken.push((shard.clone(), error.into())),
            }
        }
        found
    }

    /// All episodes of these stores, each with the name of its split.
    fn of_stores(stores: &[(PathBuf, Option<String>)]) -> Result<Self, OpenError> {
        let path = stores.first().map(|(path, _)| path.as_path()).unwrap_or(Path::new("."));
        let mut found = Self::empty(path, DatasetFormat::Store);
        for (path, split) in stores {
            let store = Arc::new(Store::open(path)?);
            let item = |id: EpisodeId| {
                let file = path.join(format!("episodes/{id}.safetensors"));
                Item { split: split.clone(), ..Item::plain(file, ItemKind::Stored(store.clone(), id)) }
            };
            found.items.extend(store.episodes().iter().map(|entry| item(entry.id)));
        }
        Ok(found)
    }
}

fn is_window(path: &Path) -> bool {
    open_file(path).is_ok_and(|(_, value)| value.get("main_frames").is_some())
}

fn holds_window(folder: &Path) -> Result<bool, OpenError> {
    Ok(super::list(folder, "pkl")?.first().is_some_and(|first| is_window(first)))
}

/// The stores in a folder, each with its name: `train` and `val` of a dataset.
pub(crate) fn stores_below(path: &Path) -> Vec<(PathBuf, Option<String>)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.path(), entry.file_name().to_str().map(String::from)));
    let visible = |(path, name): &(PathBuf, Option<String>)| {
        Store::is_at(path) && name.as_ref().is_some_and(|name| !name.starts_with('.'))
    };
    let mut stores: Vec<_> = named.filter(visible).collect();
    stores.sort();
    stores
}
