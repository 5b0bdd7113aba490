//! Why no recording could be opened.

use std::io;
use std::path::PathBuf;

use crate::lerobot::LeRobotError;
use crate::replay_buffer::ReplayBufferError;
use crate::rlds::RldsError;
use crate::store::StoreError;

/// Why no recording could be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system would not show a folder or give a file.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A store that cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A LeRobot dataset whose metadata cannot be read.
    #[error(transparent)]
    Lerobot(#[from] LeRobotError),
    /// A replay buffer whose index cannot be trusted.
    #[error(transparent)]
    ReplayBuffer(#[from] ReplayBufferError),
    /// A dataset of RLDS whose description cannot be used.
    #[error("{}: {source}", path.display())]
    Rlds {
        /// The dataset's folder.
        path: PathBuf,
        /// What is wrong.
        source: RldsError,
    },
    /// Nothing in the folder looks like episodes.
    #[error(
        "no episodes in {}: expected a store, a LeRobot dataset, HDF5 files of ManiSkill or robomimic, an RLDS \
         dataset (features.json, dataset_info.json and *.tfrecord files), a .zarr, *.mcap files, a replay \
         buffer, *.pkl episodes, folders `success` and \
         `failure` of pickles, folders `positive` and `negative` of .npy, or a data.pkl",
        path.display()
    )]
    NoEpisodes {
        /// The folder.
        path: PathBuf,
    },
    /// A table of labels that says nothing, or something of an episode that is not there.
    #[error("line {line} of {}: {why}", path.display())]
    Labels {
        /// The table.
        path: PathBuf,
        /// Which line or entry, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A folder that should hold trajectories has none.
    #[error("no .npy trajectory in {}", path.display())]
    NoTrajectories {
        /// The folder.
        path: PathBuf,
    },
    /// The folder or file could be read in more than one way, or in none that is known.
    #[error("cannot tell what {} holds: {why}", path.display())]
    Unsure {
        /// The folder or file.
        path: PathBuf,
        /// What was seen.
        why: String,
    },
}

impl OpenError {
    /// What can be done about it. Whoever knows how the recording was asked for may know better.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoEpisodes { .. } => Some("give the folder that holds the files"),
            Self::NoTrajectories { .. } => Some("give the folder that the collector wrote"),
            Self::Labels { .. } => Some(
                "a table has the columns episode,label or episode,start,end,label; frames are counted from 0, and `end` is left out",
            ),
            Self::Rlds { source, .. } => Some(source.hint()),
            Self::Unsure { .. } => Some("say which kind of recording it is"),
            Self::Read { .. } | Self::Store(_) | Self::Lerobot(_) | Self::ReplayBuffer(_) => None,
        }
    }
}
