//! A folder of trajectories, read.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use plaudit_pyfiles::plain_file;

use super::{ReplayBufferError, writer};

/// A larger index is none.
const INDEX_BYTES: u64 = 1 << 30;

/// Whether a folder is a replay buffer: it has an index, or files that are named like trajectories.
pub fn is_at(folder: &Path) -> bool {
    folder.join(writer::INDEX).is_file() || numbered(folder).is_ok_and(|files| !files.is_empty())
}

#[derive(Deserialize)]
struct Index {
    trajectory_id_list: Vec<u64>,
}

/// The trajectories that the index names, in its order; without an index, all of them by number.
///
/// # Errors
/// When the folder or its index cannot be read, or the index names what is not there.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, ReplayBufferError> {
    let found =
        numbered(folder).map_err(|source| ReplayBufferError::Io { path: folder.to_owned(), source })?;
    let index = folder.join(writer::INDEX);
    let text = match plain_file::read(&index, INDEX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(found.into_iter().map(|(_, path)| path).collect());
        }
        Err(source) => return Err(ReplayBufferError::Io { path: index, source }),
    };
    let wrong = |problem: String| ReplayBufferError::Index { path: index.clone(), problem };
    let ids: Index = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let path_of = |id: &u64| {
        let path = found.iter().find(|(number, _)| number == id).map(|(_, path)| path.clone());
        path.ok_or_else(|| wrong(format!("it names trajectory {id}, which is not there")))
    };
    ids.trajectory_id_list.iter().map(path_of).collect()
}

/// Whether a file is named like a trajectory.
pub fn is_trajectory(file: &Path) -> bool {
    number(file).is_some()
}

/// Files that are named like trajectories, by number.
pub(super) fn numbered(folder: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        found.extend(number(&path).map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}

/// The `{id}` in `trajectory_{id}_….pt`.
fn number(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    let stem = name.strip_suffix(".pt").or_else(|| name.strip_suffix(".pkl"))?;
    stem.strip_prefix("trajectory_")?.split('_').next()?.parse().ok()
}
