//! What can be wrong with a LeRobot dataset, with the file, the column and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::video::VideoError;

/// A dataset that could not be read or written: which file, which column, and why.
#[derive(Debug)]
pub struct LeRobotError(Box<Details>);

#[derive(Debug)]
struct Details {
    path: PathBuf,
    column: Option<String>,
    problem: Problem,
}

/// Why a LeRobot dataset could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Not parquet, or damaged parquet.
    #[error("not a whole parquet file: {0}")]
    Parquet(#[from] ParquetError),
    /// Not JSON, or JSON of another shape.
    #[error("not the JSON expected here: {0}")]
    Json(#[from] serde_json::Error),
    /// Something that every dataset has is not there.
    #[error("{what} is missing; {hint}")]
    Missing {
        /// What.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The contents are of another kind than the dataset says.
    #[error("expected {expected}, found {found}")]
    Mismatch {
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Well-formed, but of a kind that is not read.
    #[error("{what} cannot be read; {hint}")]
    Unsupported {
        /// What was met.
        what: String,
        /// What to do.
        hint: &'static str,
    },
    /// A video that cannot be read or decoded.
    #[error("{0}")]
    Video(#[from] VideoError),
    /// An image that cannot be encoded as a video's.
    #[error("a video cannot be written: {0}")]
    Encode(#[from] plaudit_mp4::EncodeError),
    /// An image that does not decode.
    #[error("image of frame {frame}: {why}")]
    Image {
        /// The frame, counted in its episode.
        frame: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Reading on would need more than the limits allow.
    #[error("{got} {what}, where {limit} are allowed; {hint}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        got: u64,
        /// How much is allowed.
        limit: u64,
        /// What to do.
        hint: &'static str,
    },
    /// An episode whose parts do not fit together.
    #[error("this episode cannot be written: {0}")]
    Episode(String),
    /// An episode that differs in kind from those before it.
    #[error("an episode with {found} cannot join a dataset with {expected}; use one folder for each kind")]
    OtherFeatures {
        /// The features of the dataset.
        expected: String,
        /// Those of the episode.
        found: String,
    },
    /// There are episodes already.
    #[error("holds episodes already; resume to add to them, or choose another folder")]
    Exists,
    /// A link that leads out of the dataset's folder.
    #[error("it is a link that leads out of the dataset's folder; put the file itself there")]
    Outside,
    /// Another process writes here.
    #[error("another process writes here; give each its own rank")]
    Busy,
}

/// What reading and writing datasets return.
pub(super) type Result<T, E = LeRobotError> = std::result::Result<T, E>;

impl LeRobotError {
    pub(super) fn new(path: impl Into<PathBuf>, problem: Problem) -> Self {
        Self(Box::new(Details { path: path.into(), column: None, problem }))
    }

    pub(super) fn in_column(path: impl Into<PathBuf>, column: &str, problem: Problem) -> Self {
        Self(Box::new(Details { path: path.into(), column: Some(column.to_owned()), problem }))
    }

    /// The file or folder.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The column or feature, where it is one that is wrong.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }
}

impl fmt::Display for LeRobotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.path.display())?;
        if let Some(column) = &self.0.column {
            write!(f, "column `{column}`: ")?;
        }
        write!(f, "{}", self.0.problem)
    }
}

impl std::error::Error for LeRobotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.problem)
    }
}

/// Names the file (and the column) that a lower error is about.
pub(super) trait InFile<T> {
    fn in_file(self, path: &Path) -> Result<T>;
    fn in_column(self, path: &Path, column: &str) -> Result<T>;
}

impl<T, E: Into<Problem>> InFile<T> for std::result::Result<T, E> {
    fn in_file(self, path: &Path) -> Result<T> {
        self.map_err(|error| LeRobotError::new(path, error.into()))
    }

    fn in_column(self, path: &Path, column: &str) -> Result<T> {
        self.map_err(|error| LeRobotError::in_column(path, column, error.into()))
    }
}

pub(super) fn mismatch(expected: impl Into<String>, found: impl Into<String>) -> Problem {
    Problem::Mismatch { expected: expected.into(), found: found.into() }
}
