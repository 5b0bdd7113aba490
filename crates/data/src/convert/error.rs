//! What can go wrong when episodes become training data: which file, what is wrong with it, what to do.

use std::io;
use std::path::PathBuf;

use plaudit_pyfiles::WriteError;

use crate::recording::{BadFile, OpenError};
use crate::store::StoreError;

/// Why a conversion did not happen. Nothing that was there before is damaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The operating system would not show a folder or give a file.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system would not take a file.
    #[error("cannot write {}: {source}; what was there before is unchanged", path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A Python file could not be written.
    #[error(transparent)]
    WritePython(#[from] WriteError),
    /// A store could not be written.
    #[error("{}", without_open(.0))]
    WriteStore(#[from] StoreError),
    /// No recording can be opened there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One input file is broken.
    #[error("{first}; {}--skip-bad leaves such files out", more(*.others))]
    BadFile {
        /// The first one.
        first: BadFile,
        /// How many others are.
        others: usize,
    },
    /// Every input file is broken.
    #[error("none of the {count} files in {} can be used. The first is {first}", path.display())]
    AllBad {
        /// The folder.
        path: PathBuf,
        /// How many files there are.
        count: usize,
        /// What is wrong with the first.
        first: BadFile,
    },
    /// Too few episodes to have both a training and a validation split.
    #[error(
        "{episodes} usable episode(s) in {} with --val-split {val_split} leave none to train on; collect more \
         episodes, at least 2, or lower --val-split",
        path.display()
    )]
    TooFewEpisodes {
        /// The folder.
        path: PathBuf,
        /// How many episodes there are.
        episodes: usize,
        /// The share that was asked for.
        val_split: f64,
    },
    /// No image anywhere shows success, so there is nothing to learn from.
    #[error(
        "none of the {frames} images in {} is labelled a success; collect successful episodes, or check that the \
         environment reports `success` in its infos",
        path.display()
    )]
    NoSuccess {
        /// The folder.
        path: PathBuf,
        /// How many images there are.
        frames: usize,
    },
    /// One split would be empty, since failures are kept in proportion to successes.
    #[error(
        "the {split} split of {} would be empty: none of its {episodes} episodes has a success, and failures are kept \
         in proportion to successes; collect more successful episodes, or change --seed (now {seed}) or --val-split",
        path.display()
    )]
    EmptySplit {
        /// `train` or `val`.
        split: &'static str,
        /// The folder.
        path: PathBuf,
        /// How many episodes are in it.
        episodes: usize,
        /// The seed that made it so.
        seed: i64,
    },
    /// No episode is long enough for one window.
    #[error(
        "no episode in {} has a whole window of {window_size} observations with scores; the longest has {longest}; \
         lower --window-size",
        path.display()
    )]
    NoWindows {
        /// The folder.
        path: PathBuf,
        /// Frames in a window.
        window_size: usize,
        /// Observations of the longest episode.
        longest: usize,
    },
    /// A file changed while it was read.
    #[error("{} changed while it was being converted; wait until collection is over and start again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// An option has a value that makes no sense.
    #[error("{option} {value}: {hint}")]
    Option {
        /// The flag.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        hint: &'static str,
    },
}

/// A conversion makes new stores and adds to none, whatever the store itself would advise.
fn without_open(error: &StoreError) -> String {
    match error {
        StoreError::Exists { path } | StoreError::NotEmpty { path } => {
            format!("{} is there already; give another --output-dir, or remove it", path.display())
        }
        other => other.to_string(),
    }
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!("{others} more file(s) are bad; ") }
}
