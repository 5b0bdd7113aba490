//! Demonstrations, in whatever form they were kept: plaudit's store, LeRobot datasets, RLinf's replay buffers, pickled
//! episodes, or a list of transitions. All become [`Episode`]s.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::episode::Episode;
use crate::episode::from_python::{NoEpisode, from_pickle, from_transitions};
use crate::lerobot::{self, LeRobotError};
use crate::python::{self, PyValue, ReadError};
use crate::replay_buffer::{self, ReplayBufferError, episodes_of};
use crate::store::{Store, StoreError};

/// Why demonstrations could not be read.
#[derive(Debug, Error)]
pub enum DemonstrationError {
    /// There is nothing under the name.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nothing in the folder is a demonstration.
    #[error(
        "{}: no demonstrations in it; expected a store, a LeRobot dataset, a replay buffer (trajectory_*.pt) or \
         pickled episodes (*.pkl)", path.display()
    )]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
    /// A store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A LeRobot dataset.
    #[error(transparent)]
    LeRobot(#[from] LeRobotError),
    /// A replay buffer.
    #[error(transparent)]
    ReplayBuffer(#[from] ReplayBufferError),
    /// A Python file.
    #[error(transparent)]
    Python(#[from] ReadError),
    /// A Python file without an episode in it.
    #[error("{}: {problem}", path.display())]
    NoEpisode {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: NoEpisode,
    },
}

/// Reads all demonstrations under a path: a folder of any form, or a single `.pkl` or `.pt` file.
///
/// # Errors
/// When there are none, or one of them cannot be read.
pub fn read(path: &Path) -> Result<Vec<Episode>, DemonstrationError> {
    if path.is_file() {
        return read_file(path);
    }
    let io = |source| DemonstrationError::Io { path: path.to_owned(), source };
    let entries: Vec<PathBuf> = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(io)?;
    if Store::is_at(path) {
        return read_store(path);
    }
    if replay_buffer::is_at(path) {
        return Ok(replay_buffer::read(path)?);
    }
    let shards = lerobot::shards(path)?;
    if !shards.is_empty() {
        return read_lerobot(&shards);
    }
    let mut files: Vec<PathBuf> = entries
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "pkl"))
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(DemonstrationError::Nothing { path: path.to_owned() });
    }
    let episodes = files.iter().map(|file| read_file(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(episodes.into_iter().flatten().collect())
}

fn read_store(path: &Path) -> Result<Vec<Episode>, DemonstrationError> {
    let store = Store::open(path)?;
    let ids: Vec<_> = store.episodes().iter().map(|entry| entry.id).collect();
    ids.into_iter().map(|id| Ok(store.episode(id)?.to_episode())).collect()
}

fn read_lerobot(shards: &[PathBuf]) -> Result<Vec<Episode>, DemonstrationError> {
    let mut episodes = Vec::new();
    for shard in shards {
        for episode in lerobot::Dataset::open(shard)?.episodes() {
            episodes.push(episode?);
        }
    }
    Ok(episodes)
}

/// An episode, a trajectory of a replay buffer, or a list of transitions; told apart by what is in it.
fn read_file(path: &Path) -> Result<Vec<Episode>, DemonstrationError> {
    let value = python::read(path)?;
    if value.get("curr_obs").is_some() {
        let found = episodes_of(&value);
        return found
            .map_err(|problem| ReplayBufferError::Trajectory { path: path.to_owned(), problem }.into());
    }
    let found = match &value {
        PyValue::List(_) | PyValue::Tuple(_) => from_transitions(&value),
        _ => from_pickle(&value).map(|episode| vec![episode]),
    };
    found.map_err(|problem| DemonstrationError::NoEpisode { path: path.to_owned(), problem })
}
