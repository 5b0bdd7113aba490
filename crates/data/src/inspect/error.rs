//! Why a dataset, or one file of it, could not be looked at.

use std::io;
use std::path::PathBuf;

use super::report::Report;
use crate::convert::FileProblem;
use crate::lerobot::LeRobotError;
use crate::python::ReadError;
use crate::replay_buffer::{Problem, ReplayBufferError};
use crate::store::StoreError;

/// Why a dataset could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The operating system would not show it.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing in it looks like a dataset.
    #[error("{} holds nothing that looks like a dataset{}", path.display(), instead(.nearby))]
    Nothing {
        /// The folder or file.
        path: PathBuf,
        /// Folders further down that do.
        nearby: Vec<PathBuf>,
    },
    /// A store that cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A replay buffer whose index cannot be trusted.
    #[error(transparent)]
    ReplayBuffer(#[from] ReplayBufferError),
    /// Every file of it is broken.
    #[error("none of the {} files in {} can be read; the first: {}", report.files, path.display(), first(report))]
    NothingRead {
        /// The folder or file.
        path: PathBuf,
        /// What is known all the same.
        report: Box<Report>,
    },
    /// A picture that could not be made.
    #[error("cannot draw the contact sheet: {why}")]
    Sheet {
        /// Why.
        why: String,
    },
}

fn instead(nearby: &[PathBuf]) -> String {
    let Some(first) = nearby.first() else { return String::new() };
    let more =
        if nearby.len() > 1 { format!(" or {} other folder(s)", nearby.len() - 1) } else { String::new() };
    format!("; did you mean {}{more}?", first.display())
}

fn first(report: &Report) -> String {
    report.broken.first().map_or_else(String::new, |broken| format!("{}: {}", broken.file, broken.problem))
}

/// Why one file could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The operating system would not give it.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is damaged, or asks for more than data.
    #[error("{0}")]
    Python(#[from] ReadError),
    /// An image of it is none.
    #[error("{0}")]
    Image(#[from] FileProblem),
    /// A file of a store is damaged.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// An episode of a LeRobot dataset is damaged.
    #[error("{0}")]
    Lerobot(#[from] LeRobotError),
    /// A trajectory of a replay buffer whose fields do not fit together.
    #[error("{0}")]
    Trajectory(#[from] Problem),
    /// Something is not there.
    #[error("there is no `{key}` in it (it has {has})")]
    Missing {
        /// What.
        key: &'static str,
        /// What is there.
        has: String,
    },
    /// Nothing is in it.
    #[error("it is empty: nothing was recorded")]
    Empty,
    /// A manifest names a file that is not there.
    #[error("a manifest names it, and it is not there")]
    Gone,
    /// A line of a manifest that says nothing.
    #[error("line {line} is not as expected: {why}")]
    Line {
        /// Which, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}
