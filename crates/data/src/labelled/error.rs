//! What can go wrong with labelled frames: which file, what is wrong, what to do.

use std::path::PathBuf;

use crate::convert::ConvertError;
use crate::recording::{BadFile, OpenError};

/// Why there are no labelled frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabelledError {
    /// There is no such file or folder.
    #[error("{} does not exist", path.display())]
    Nothing {
        /// The path.
        path: PathBuf,
    },
    /// No camera was asked for.
    #[error("no camera is named")]
    NoCamera,
    /// A recording that cannot be read.
    #[error(transparent)]
    Recording(#[from] ConvertError),
    /// A recording that cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is nothing in it yet.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
    },
    /// A file whose frames cannot be used.
    #[error("{0}")]
    Frames(BadFile),
    /// Too few episodes to have both a training and a validation split.
    #[error(
        "{episodes} usable episode(s) in {} leave none to train on beside those that validate",
        path.display()
    )]
    TooFewEpisodes {
        /// The data.
        path: PathBuf,
        /// How many episodes there are.
        episodes: usize,
    },
}

impl LabelledError {
    /// What can be done about it. Whoever knows how the data was asked for may know better.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Nothing { .. } => Some("give a train.pt, a folder of episodes, or a store"),
            Self::NoCamera => Some("name one, such as main_images"),
            Self::Recording(error) => error.hint(),
            Self::Open(error) => error.hint(),
            Self::Empty { .. } => Some("collect episodes into it"),
            Self::Frames(bad) => bad.problem.hint(),
            Self::TooFewEpisodes { .. } => {
                Some("collect more episodes, at least 2, or lower the share that validates")
            }
        }
    }
}
