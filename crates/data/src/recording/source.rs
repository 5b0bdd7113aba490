//! Which generation of collector wrote a folder, and which files belong to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use plaudit_pyfiles::{self as pyfiles, PyValue};

use super::error::OpenError;
use super::keys;

/// The collectors whose recordings can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of `*.pkl` episodes as RLinf's `CollectEpisode` writes them since 0.3: lists of `observations` and
    /// `infos`. The label is `info["success"]`, else `info["episode"]["success_once"]`, else failure.
    Collected,
    /// The same from before that: the label is `info["is_obj_placed"]`, and the last observation is left out, since
    /// it belongs to the next episode.
    PreMerge,
    /// Folders `success` and `failure` of pickles with a list of `frames`. The label is the frame's `success`, or
    /// the episode's `label` where frames have none.
    Frames,
    /// Folders `positive` and `negative` of `.npy` trajectories: `images` `[T, C, H, W]` by camera, `labels` `[T]`.
    Trajectories,
    /// One `data.pkl` with a list of transitions from a real robot. It is cut where an episode ends; transitions
    /// that do nothing are dropped unless they end it; the label is `rewards > 0.5`.
    Transitions,
    /// One long recording (`*.pkl` with `observations` and `labels`) whose frames a person labelled by keyboard: 1,
    /// 0, or None for no key. The unit of the split is a run of frames under one key.
    Keyboard,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Collected,
        Self::PreMerge,
        Self::Frames,
        Self::Trajectories,
        Self::Transitions,
        Self::Keyboard,
    ];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Collected => "collected",
            Self::PreMerge => "pre-merge",
            Self::Frames => "frames",
            Self::Trajectories => "trajectories",
            Self::Transitions => "transitions",
            Self::Keyboard => "keyboard",
        }
    }

    /// The names of all, as a list.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Detects the source by names of folders and files, and by the keys of the first file.
    ///
    /// # Errors
    /// When nothing is there, or when it could be several things or none.
    pub fn detect(path: &Path) -> Result<Self, OpenError> {
        if path.is_file() {
            return Self::of_file(path);
        }
        let folders = |names: [&str; 2]| names.iter().any(|name| path.join(name).is_dir());
        let mut found = Vec::new();
        if folders(["success", "failure"]) {
            found.push(Self::Frames);
        }
        if folders(["positive", "negative"]) {
            found.push(Self::Trajectories);
        }
        let own = list(path, "pkl")?;
        let within = if found.is_empty() { pickles(path)? } else { Vec::new() };
        if let Some(first) = own.first().or(within.first()) {
            found.push(Self::of_file(first)?);
        }
        match found[..] {
            [] => Err(OpenError::NoEpisodes { path: path.into() }),
            [one] => Ok(one),
            _ => {
                let names: Vec<&str> = found.iter().map(|source| source.name()).collect();
                let why = format!("it could be {}", names.join(" or "));
                Err(OpenError::Unsure { path: path.into(), why })
            }
        }
    }

    fn of_file(path: &Path) -> Result<Self, OpenError> {
        // A broken first file must not hide what the folder is: it is met again, and named, when it is read.
        let Ok(value) = pyfiles::read(path) else { return Ok(Self::Collected) };
        if let Some(items) = value.as_items() {
            let transitions = items.first().is_some_and(|first| first.get("transitions").is_some());
            return if transitions {
                Ok(Self::Transitions)
            } else {
                Err(unsure(path, "a list of something else"))
            };
        }
        let has = |key: &str| value.get(key).is_some();
        if has("observations") && has("labels") {
            Ok(Self::Keyboard)
        } else if has("observations") {
            Ok(if is_pre_merge(&value) { Self::PreMerge } else { Self::Collected })
        } else if has("frames") {
            Ok(Self::Frames)
        } else {
            Err(unsure(path, &format!("a {} with {}", value.kind(), keys::of(Some(&value)))))
        }
    }

    /// The files of a recording, in the order in which they are read.
    pub(crate) fn files(self, path: &Path) -> Result<Vec<InputFile>, OpenError> {
        let plain =
            |files: Vec<PathBuf>| files.into_iter().map(|path| InputFile { path, outcome: None }).collect();
        let files: Vec<InputFile> = match self {
            Self::Transitions if path.is_dir() => plain(vec![path.join("data.pkl")]),
            _ if path.is_file() => plain(vec![path.into()]),
            Self::Frames => labelled(path, ["success", "failure"], "pkl")?,
            Self::Trajectories => labelled(path, ["positive", "negative"], "npy")?,
            _ => plain(pickles(path)?),
        };
        if files.is_empty() { Err(OpenError::NoEpisodes { path: path.into() }) } else { Ok(files) }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|source| source.name() == text);
        found.ok_or_else(|| format!("`{text}` is none of {}", Self::names()))
    }
}

/// A file, and what its folder says about it.
#[derive(Clone, Debug)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) outcome: Option<bool>,
}

fn unsure(path: &Path, why: &str) -> OpenError {
    OpenError::Unsure { path: path.into(), why: why.into() }
}

/// Infos that say `is_obj_placed` and nothing that newer collectors say.
fn is_pre_merge(episode: &PyValue) -> bool {
    let infos = episode.get("infos").and_then(PyValue::as_items).unwrap_or_default();
    let any = |key: &str| infos.iter().any(|info| info.get(key).is_some());
    any("is_obj_placed") && !any("success") && !any("episode")
}

/// The pickles of a folder; where it has none of its own, those of the folders in it, one collection after the other.
fn pickles(folder: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let own = list(folder, "pkl")?;
    if !own.is_empty() {
        return Ok(own);
    }
    let failed = |source| OpenError::Read { path: folder.into(), source };
    let mut collections = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_dir() {
            collections.push(entry.path());
        }
    }
    collections.sort();
    let files: Vec<Vec<PathBuf>> =
        collections.iter().map(|folder| list(folder, "pkl")).collect::<Result<_, _>>()?;
    Ok(files.concat())
}

/// As `sorted(glob("folder/*.ext"))`: no hidden files, in the order of their names.
pub(crate) fn list(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, OpenError> {
    let failed = |source| OpenError::Read { path: folder.into(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    Ok(files)
}

fn labelled(path: &Path, names: [&str; 2], extension: &str) -> Result<Vec<InputFile>, OpenError> {
    let mut files = Vec::new();
    for (name, outcome) in names.into_iter().zip([true, false]) {
        let folder = path.join(name);
        if folder.is_dir() {
            let found = list(&folder, extension)?;
            files.extend(found.into_iter().map(|path| InputFile { path, outcome: Some(outcome) }));
        }
    }
    if files.is_empty() {
        // The folder of one outcome, or any folder of such files.
        let outcome = path.file_name().and_then(|name| names.iter().position(|known| name == *known));
        let found = list(path, extension)?;
        files.extend(found.into_iter().map(|path| InputFile { path, outcome: outcome.map(|at| at == 0) }));
    }
    Ok(files)
}
