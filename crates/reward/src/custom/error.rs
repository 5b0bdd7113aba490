//! Why a model of one's own making cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::images::ImageError;

use super::output::OutputError;

/// Why a model of one's own making cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CustomModelError {
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A card that makes no sense.
    #[error("{}: {why}", path.display())]
    Card {
        /// The card.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of Python without the name of a function.
    #[error(
        "{} is a file of Python, and a function in it is meant; name it, as in {}:score", file.display(), file.display()
    )]
    NoFunction {
        /// The file.
        file: PathBuf,
    },
    /// Other cameras than the card has.
    #[error("{model} was made for image_keys: [{}]", is.join(", "))]
    Cameras {
        /// The model.
        model: String,
        /// Its cameras.
        is: Vec<String>,
    },
    /// Images that the model cannot take.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// No such interpreter.
    #[error("cannot run `{}`: {source}; choose a Python interpreter that exists", python.display())]
    Interpreter {
        /// What was to be run.
        python: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A Python without what is needed.
    #[error(
        "the Python at {executable} has no module `{module}`; install it there \
         (`{executable} -m pip install {module}`), or choose another interpreter"
    )]
    NoModule {
        /// What is missing.
        module: String,
        /// The interpreter that misses it.
        executable: String,
    },
    /// A function that cannot be used, or an answer that is none.
    #[error("{model}: {message}")]
    Refused {
        /// The model.
        model: String,
        /// What is wrong.
        message: String,
    },
    /// Python raised an exception.
    #[error("{model}: {error}\n{}", traceback.trim_end())]
    Raised {
        /// The model.
        model: String,
        /// The exception's type and message.
        error: String,
        /// The last lines of the traceback.
        traceback: String,
    },
    /// The process of a function is gone.
    #[error("{model}: its Python process {how}{output}")]
    Process {
        /// The model.
        model: String,
        /// How it ended.
        how: String,
        /// What it printed last, set apart.
        output: String,
    },
    /// Numbers that are no scores.
    #[error("{model} gives {error}")]
    Output {
        /// The model.
        model: String,
        /// What is wrong with them.
        error: OutputError,
    },
    /// Not on this system.
    #[error("a Python function needs Linux, for its shared memory; this is {0}")]
    System(&'static str),
}

impl CustomModelError {
    pub(super) fn card(path: &Path, why: impl ToString) -> Self {
        Self::Card { path: path.into(), why: why.to_string() }
    }
}

impl From<CustomModelError> for ClassifierError {
    fn from(error: CustomModelError) -> Self {
        match error {
            CustomModelError::Image(error) => Self::Image(error),
            other => Self::Custom(Box::new(other)),
        }
    }
}
