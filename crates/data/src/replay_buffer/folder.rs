//! A folder of trajectories, read.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::trajectory::episodes_of;
use super::{ReplayBufferError, writer};
use crate::episode::Episode;
use crate::python;

/// Whether a folder is a replay buffer: it has an index, or files that are named like trajectories.
pub fn is_at(folder: &Path) -> bool {
    folder.join(writer::INDEX).is_file() || files(folder).is_ok_and(|files| !files.is_empty())
}

/// Every episode in a replay buffer, in the order they were added.
///
/// # Errors
/// When the folder, its index, or one of the trajectories that it names cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Episode>, ReplayBufferError> {
    let mut episodes = Vec::new();
    for path in listed(folder)? {
        let trajectory = python::read(&path)?;
        let found = episodes_of(&trajectory);
        episodes.extend(found.map_err(|problem| ReplayBufferError::Trajectory { path, problem })?);
    }
    Ok(episodes)
}

#[derive(Deserialize)]
struct Index {
    trajectory_id_list: Vec<u64>,
}

/// The files that the index names, in its order; without an index, all of them by number.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, ReplayBufferError> {
    let found = files(folder).map_err(|source| ReplayBufferError::Io { path: folder.to_owned(), source })?;
    let index = folder.join(writer::INDEX);
    let text = match std::fs::read(&index) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(found.into_iter().map(|(_, path)| path).collect());
        }
        Err(source) => return Err(ReplayBufferError::Io { path: index, source }),
    };
    let wrong = |problem: String| ReplayBufferError::Index { path: index.clone(), problem };
    let ids: Index = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let place = |id: &u64| {
        let path = found.iter().find(|(number, _)| number == id).map(|(_, path)| path.clone());
        path.ok_or_else(|| wrong(format!("it names trajectory {id}, which is not there")))
    };
    ids.trajectory_id_list.iter().map(place).collect()
}

/// Files that are named `trajectory_{id}_…`, by id.
pub(super) fn files(folder: &Path) -> std::io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_data = name.ends_with(".pt") || name.ends_with(".pkl");
        let number =
            name.strip_prefix("trajectory_").and_then(|rest| rest.split('_').next()?.parse::<u64>().ok());
        found.extend(number.filter(|_| is_data).map(|number| (number, path)));
    }
    found.sort();
    Ok(found)
}
