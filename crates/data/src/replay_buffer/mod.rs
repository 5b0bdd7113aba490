//! RLinf's replay buffers on disk: one file per trajectory, and two small indices.
//!
//! ```text
//! demos/
//!   trajectory_{id}_{weights}.pt     tensors [T, B, …]: actions, rewards, terminations, curr_obs, next_obs, …
//!   metadata.json                    how many, and where numbering continues
//!   trajectory_index.json            what each file holds
//! ```
//!
//! [`Writer`] writes episodes as trajectories of one environment, as RLinf's collection of demonstrations does. Such folders,
//! also those with whole batches in each file, are read as every format is: by [`Recordings`](crate::recording::Recordings).

mod folder;
mod trajectory;
mod writer;

pub use folder::{files, is_at, is_trajectory};
pub use trajectory::Problem;
pub use writer::Writer;

use std::path::PathBuf;

use plaudit_pyfiles::{ReadError, WriteError};
use thiserror::Error;

use crate::episode::as_python::UnwritableEpisode;

/// Why a replay buffer could not be read or written.
#[derive(Debug, Error)]
pub enum ReplayBufferError {
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A trajectory that cannot be read at all.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A trajectory that could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An episode that cannot be a trajectory.
    #[error(transparent)]
    Unwritable(#[from] UnwritableEpisode),
    /// An index that says something else than an index should.
    #[error("{}: {problem}; delete it and plaudit goes by the names of the files", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A trajectory whose fields do not fit together.
    #[error("{}: {problem}", path.display())]
    Trajectory {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: Problem,
    },
}
