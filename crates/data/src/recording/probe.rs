//! What lies at a path, looked at once for all formats.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::{self as pyfiles, PyValue};

use super::error::OpenError;
use crate::own_folder::OwnFolder;

/// A path whose format is to be found out.
pub(super) struct Probe<'a> {
    pub(super) path: &'a Path,
    is_file: bool,
    own: OnceCell<FirstPickle>,
    below: OnceCell<FirstPickle>,
}

/// The first pickle of a folder, or the pickle that a file is.
#[derive(Debug)]
pub(super) enum FirstPickle {
    /// There is none.
    None,
    /// It cannot be read. It is met again, and named, when it is read.
    Broken,
    /// Its content.
    Value(PathBuf, PyValue),
}

impl FirstPickle {
    fn read(path: Option<PathBuf>) -> Self {
        let Some(path) = path else { return Self::None };
        match pyfiles::read(&path) {
            Ok(value) => Self::Value(path, value),
            Err(_) => Self::Broken,
        }
    }

    /// Whether it is a dict with a key.
    pub(super) fn has(&self, key: &str) -> bool {
        matches!(self, Self::Value(_, value) if value.get(key).is_some())
    }
}

impl<'a> Probe<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self { path, is_file: path.is_file(), own: OnceCell::new(), below: OnceCell::new() }
    }

    /// Whether it is a file whose name ends so.
    pub(super) fn is_file(&self, extensions: &[&str]) -> bool {
        let extension = self.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        self.is_file && extensions.contains(&extension)
    }

    /// Whether it is a file of that name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.is_file && self.path.file_name().is_some_and(|found| found == name)
    }

    /// Whether it is a folder that has one of these.
    pub(super) fn has_folder(&self, names: [&str; 2]) -> bool {
        names.iter().any(|name| self.path.join(name).is_dir())
    }

    /// Whether it is a folder of such files.
    pub(super) fn has_files(&self, extension: &str) -> Result<bool, OpenError> {
        Ok(!self.is_file && !list(self.path, extension)?.is_empty())
    }

    /// The pickle that it is, or the first in it.
    pub(super) fn own_pickle(&self) -> Result<&FirstPickle, OpenError> {
        if let Some(found) = self.own.get() {
            return Ok(found);
        }
        let first = match self.is_file {
            true => self.is_file(&["pkl", "pickle"]).then(|| self.path.to_path_buf()),
            false => list(self.path, "pkl")?.into_iter().next(),
        };
        Ok(self.own.get_or_init(|| FirstPickle::read(first)))
    }

    /// The same; where a folder has none of its own, the first in the folders below it. Folders by outcome are formats of
    /// their own.
    pub(super) fn pickle(&self) -> Result<&FirstPickle, OpenError> {
        let own = self.own_pickle()?;
        let by_outcome = self.has_folder(["success", "failure"]) || self.has_folder(["positive", "negative"]);
        if self.is_file || by_outcome || !matches!(own, FirstPickle::None) {
            return Ok(own);
        }
        if let Some(found) = self.below.get() {
            return Ok(found);
        }
        let first = pickles(self.path)?.into_iter().next();
        Ok(self.below.get_or_init(|| FirstPickle::read(first)))
    }
}

/// The pickles of a folder; where it has none of its own, those of the folders in it, one collection after the other.
pub(super) fn pickles(folder: &Path) -> Result<Vec<PathBuf>, OpenError> {
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
pub(super) fn list(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, OpenError> {
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

/// The files of two folders by outcome, each with its outcome; or of one of them, or of any folder of such files.
pub(super) fn by_outcome(
    path: &Path,
    names: [&str; 2],
    extension: &str,
) -> Result<Vec<(PathBuf, Option<bool>)>, OpenError> {
    if path.is_file() {
        return Ok(vec![(path.into(), None)]);
    }
    let mut files = Vec::new();
    for (name, outcome) in names.into_iter().zip([true, false]) {
        let folder = path.join(name);
        if folder.is_dir() {
            files.extend(list(&folder, extension)?.into_iter().map(|path| (path, Some(outcome))));
        }
    }
    if files.is_empty() {
        let outcome = path.file_name().and_then(|name| names.iter().position(|known| name == *known));
        let found = list(path, extension)?;
        files.extend(found.into_iter().map(|path| (path, outcome.map(|at| at == 0))));
    }
    Ok(files)
}

/// Whether a file lies in the dataset's folder, wherever links lead.
pub(super) fn is_inside(root: &Path, file: &Path) -> bool {
    OwnFolder::of(root).has(file)
}
