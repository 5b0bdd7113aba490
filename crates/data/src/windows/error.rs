//! Windows that cannot be used.

use plaudit_pyfiles::ReadError;
use std::path::PathBuf;

/// Why windows cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowsError {
    /// There is no manifest.
    #[error("{}: cannot be read ({source})", path.display())]
    Manifest {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A manifest without lines.
    #[error("{}: lists no windows", path.display())]
    Empty {
        /// The manifest.
        path: PathBuf,
    },
    /// A line that is no window.
    #[error("{} line {line}: {problem}", path.display())]
    Line {
        /// The manifest.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// A pickle that cannot be read.
    #[error("{}: {source}", path.display())]
    Pickle {
        /// The pickle.
        path: PathBuf,
        /// What is wrong.
        source: ReadError,
    },
    /// A pickle that is not such a window.
    #[error("{}: {problem}", path.display())]
    Window {
        /// The pickle.
        path: PathBuf,
        /// What is wrong with it.
        problem: WindowProblem,
    },
}

/// What is wrong with a line of a manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineProblem {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(std::io::Error),
    /// It is no JSON.
    #[error("no JSON: {0}")]
    Json(serde_json::Error),
    /// It asks nothing.
    #[error("has no `{key}`, which is its question")]
    NoQuestion {
        /// The key of the question.
        key: String,
    },
    /// It answers nothing.
    #[error("has no `{key}`, which is its answer")]
    NoAnswer {
        /// The key of the answer.
        key: String,
    },
    /// A question of a kind that is not known.
    #[error("the objective is {said}, not one of {known}")]
    Objective {
        /// What it says.
        said: String,
        /// What it may say.
        known: String,
    },
    /// A question of a kind that is not for this.
    #[error("asks for {objective}, where windows for {expected} are needed")]
    OtherObjective {
        /// What it asks for.
        objective: &'static str,
        /// What it may ask for.
        expected: String,
    },
    /// An answer that is none of those that are known.
    #[error("the answer is `{said}`, not one of {answers}")]
    Answer {
        /// What it says.
        said: String,
        /// What it may say.
        answers: String,
    },
    /// Its frames are in a video.
    #[error("shows a video file (`{key}`), and only frames in pickles are read")]
    Video {
        /// The key that names the video.
        key: &'static str,
    },
    /// It names no frames.
    #[error("has no `pkl_path`")]
    NoPickle,
    /// Its frames are not there.
    #[error("`{written}` is not there, nor below the root of the data, nor in pkl/ beside the manifest")]
    Gone {
        /// The path as written.
        written: String,
    },
}

/// What is wrong with a window's pickle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowProblem {
    /// A view is missing.
    #[error("has no `{key}`")]
    NoView {
        /// The key of its frames.
        key: String,
        /// Whether it is the view of a second camera.
        is_extra: bool,
    },
    /// A view has too few frames.
    #[error("`{key}` has {found} frames, and the window is to have {expected}")]
    Short {
        /// The key of its frames.
        key: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A frame that is none.
    #[error("`{key}[{at}]` {what}")]
    Frame {
        /// The key of its frames.
        key: String,
        /// Which frame.
        at: usize,
        /// What is wrong with it.
        what: String,
    },
}
