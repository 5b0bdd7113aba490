//! Windows that cannot be used.

use plaudit_pyfiles::ReadError;
use std::path::PathBuf;

/// Why windows cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WindowsError {
    /// There is no manifest.
    #[error("{}: cannot be read ({source}); windows are made by `plaudit dataset windows`, which writes train/segments.jsonl and eval/segments.jsonl", path.display())]
    Manifest {
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A manifest without lines.
    #[error("{}: lists no windows; collect more episodes, or lower --val-split or --window-size of `plaudit dataset windows`", path.display())]
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
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A pickle that cannot be read.
    #[error("{}: {source}; make the windows again with `plaudit dataset windows`", path.display())]
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
        /// What is wrong, and what to do.
        problem: String,
    },
}
