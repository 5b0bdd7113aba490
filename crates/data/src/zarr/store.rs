//! Where the files of zarr data lie: in a folder, or in a zip archive.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::{Access, Archive, Buffer};

use super::error::ZarrError;
use crate::own_folder::OwnFolder;

/// The files of zarr data, by their paths in it.
#[derive(Debug)]
pub(crate) enum Store {
    Folder(PathBuf, OwnFolder),
    Zip(Archive),
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, ZarrError> {
        if !path.is_file() {
            return Ok(Self::Folder(path.into(), OwnFolder::of(path)));
        }
        let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failed = |what: String| ZarrError::Unreadable { key: key.clone(), what };
        let bytes = Buffer::open(path, Access::Map).map_err(|error| failed(error.to_string()))?;
        Archive::open(&bytes).map(Self::Zip).map_err(|error| failed(error.to_string()))
    }

    /// A file, if it is there. One that lies outside, by a link, is refused.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Buffer>, ZarrError> {
        let failed = |what: String| ZarrError::Unreadable { key: key.into(), what };
        match self {
            Self::Zip(archive) => archive.member(key).map_err(|error| failed(error.to_string())),
            Self::Folder(root, own) => {
                let file = root.join(key);
                if !file.exists() {
                    return Ok(None);
                }
                if !own.has(&file) {
                    return Err(failed("it is a link that leads out of the dataset's folder".into()));
                }
                let bytes = Buffer::open(&file, Access::Copy).map_err(|error| failed(error.to_string()))?;
                Ok(Some(bytes))
            }
        }
    }

    /// The names right below a group, sorted.
    pub(crate) fn below(&self, group: &str) -> Vec<String> {
        let names: BTreeSet<String> = match self {
            Self::Zip(archive) => {
                let inner = |name: &str| {
                    Some(name.strip_prefix(group)?.strip_prefix('/')?.split_once('/')?.0.to_owned())
                };
                archive.names().filter_map(inner).collect()
            }
            Self::Folder(root, _) => {
                let entries = fs::read_dir(root.join(group)).into_iter().flatten().flatten();
                let folders = entries.filter(|entry| entry.path().is_dir());
                folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
            }
        };
        names.into_iter().filter(|name| !name.starts_with('.')).collect()
    }
}
