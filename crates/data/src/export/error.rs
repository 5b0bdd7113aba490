//! Why nothing was exported.

use std::io;
use std::path::{Path, PathBuf};

use crate::lerobot::LeRobotError;
use crate::recording::{BadFile, OpenError};

/// Why recordings were not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// What lies at the source cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A frame rate that no video has.
    #[error("{fps} frames per second; use a number above 0 and at most 1000")]
    Fps {
        /// What was asked for.
        fps: f64,
    },
    /// There is something already.
    #[error("{} exists; choose a folder that is not there yet", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// A file that cannot be used.
    #[error(transparent)]
    File(BadFile),
    /// An episode that cannot be written in that format.
    #[error("{}: {problem}", path.display())]
    Episode {
        /// Where the episode lies.
        path: PathBuf,
        /// Why.
        problem: ExportProblem,
    },
    /// The output cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A LeRobot dataset that cannot be written.
    #[error("{0}")]
    LeRobot(LeRobotError),
    /// No episode can be used.
    #[error("there is no episode to export; {skipped} file(s) were left out")]
    NothingLeft {
        /// Files that were left out.
        skipped: usize,
    },
}

impl ExportError {
    pub(super) fn lerobot(error: LeRobotError) -> Self {
        Self::LeRobot(error)
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }
}

/// Why an episode cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportProblem {
    /// The LeRobot writer refused.
    #[error("{0}")]
    LeRobot(#[from] LeRobotError),
    /// The disk refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The MCAP writer refused.
    #[error("{0}")]
    Mcap(#[from] mcap::McapError),
    /// The HDF5 writer refused.
    #[error("{0}")]
    Hdf5(#[from] hdf5_pure::Error),
    /// Two cameras that would be one.
    #[error("the cameras `{camera}` and `{other}` would both be called `{group}`")]
    CameraName {
        /// One of them.
        camera: String,
        /// The other one.
        other: String,
        /// What they would be called.
        group: String,
    },
    /// A pose that the state does not have.
    #[error("the pose `{name}` at frame {frame}: {why}")]
    Pose {
        /// What it is of.
        name: String,
        /// Which frame.
        frame: usize,
        /// Why.
        why: String,
    },
    /// A reward model that cannot say what it thinks of a frame.
    #[error("{0}")]
    Scores(String),
    /// An image that cannot be had.
    #[error("image of `{camera}` at frame {frame}: {why}")]
    Image {
        /// The camera.
        camera: String,
        /// Which frame.
        frame: usize,
        /// Why.
        why: String,
    },
}

impl ExportProblem {
    pub(super) fn in_file(self, path: &Path) -> ExportError {
        ExportError::Episode { path: path.into(), problem: self }
    }
}
