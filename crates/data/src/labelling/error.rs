//! Why labels cannot be kept or made into a dataset.

use std::io;
use std::path::PathBuf;

use plaudit_pyfiles::WriteError;
use thiserror::Error;

/// Why labels cannot be kept or made into a dataset.
#[derive(Debug, Error)]
pub enum LabellingError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// Somebody else labels there.
    #[error("{}: another process labels there", path.display())]
    InUse {
        /// Which folder.
        path: PathBuf,
    },
    /// A line of the journal that is none.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// Which journal.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A folder with answers to other questions.
    #[error("{} has answers to other questions; {what}: {there} there, {here} here", path.display())]
    OtherQuestions {
        /// Which journal.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What it is there.
        there: String,
        /// What was asked for.
        here: String,
    },
    /// Frames of another size than the journal's.
    #[error("frames have {found} bytes, but those of {} have {expected}", path.display())]
    Size {
        /// Which journal.
        path: PathBuf,
        /// Bytes of a frame there.
        expected: usize,
        /// Bytes of this one.
        found: usize,
    },
    /// Pixels that changed since they were written.
    #[error("{}: frame {frame} (from byte {at}) is damaged", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Its number in the journal.
        frame: usize,
        /// Where it begins.
        at: u64,
    },
    /// A class has no frame to train on.
    #[error("no {class} is labelled that could be trained on ({labelled} are labelled)")]
    NoneOf {
        /// `success` or `failure`.
        class: &'static str,
        /// How many are labelled.
        labelled: usize,
    },
    /// A setting that makes no sense.
    #[error("{name} is {value}, but must be {expected}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// A file of the dataset cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
