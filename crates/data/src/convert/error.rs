//! What can go wrong when episodes become training data: which file, what is wrong with it, what to do.

use crate::windows::Objective;
use std::fmt;
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
    #[error("cannot write {}: {source}", path.display())]
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
    #[error("{}", without_advice(.0))]
    WriteStore(#[from] StoreError),
    /// No recording can be opened there.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One input file is broken.
    #[error("{first}{}", more(*.others))]
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
        "{episodes} usable episode(s) in {} leave none to train on when a share of {val_split} validates",
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
    #[error("none of the {frames} images in {} is labelled a success", path.display())]
    NoSuccess {
        /// The folder.
        path: PathBuf,
        /// How many images there are.
        frames: usize,
    },
    /// One split would be empty, since failures are kept in proportion to successes.
    #[error(
        "the {split} split of {} would be empty: none of its {episodes} episodes has a success, and failures are kept \
         in proportion to successes",
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
    /// Episodes without anything to ask about.
    #[error("no question about {objective} can be asked about the episodes in {}", path.display())]
    NothingToAsk {
        /// The folder.
        path: PathBuf,
        /// What was to be asked.
        objective: Objective,
    },
    /// No episode is long enough for one window.
    #[error(
        "no episode in {} has a whole window of {window_size} observations with scores (the longest has {longest})",
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
    #[error("{} changed while it was being converted", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// An option has a value that makes no sense.
    #[error("{option} is {value}: {expected}")]
    Option {
        /// Which.
        option: ConvertOption,
        /// Its value.
        value: String,
        /// What it must be.
        expected: &'static str,
    },
}

/// An option of a conversion that has values which make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvertOption {
    /// The share of episodes that validates.
    ValSplit,
    /// How many failures are kept for each success.
    FailSuccessRatio,
    /// Where the validation split goes.
    ValOutput,
    /// Frames in a window.
    WindowSize,
    /// Frames from one window to the next.
    Stride,
    /// The last share of each episode whose windows are unclear whatever the score does.
    TailUnclearRatio,
    /// The largest change of score that is unclear.
    DeltaThreshold,
    /// Cameras besides the main one.
    ExtraViews,
}

impl fmt::Display for ConvertOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ValSplit => "the share that validates",
            Self::FailSuccessRatio => "the number of failures per success",
            Self::ValOutput => "the place of the validation split",
            Self::WindowSize => "the size of windows",
            Self::Stride => "the stride of windows",
            Self::TailUnclearRatio => "the share of each episode that is unclear",
            Self::DeltaThreshold => "the change of score that is unclear",
            Self::ExtraViews => "the list of extra cameras",
        })
    }
}

impl ConvertError {
    /// What can be done about it. Whoever knows how the conversion was asked for may know better.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Write { .. } => Some("what was there before is unchanged"),
            Self::WriteStore(StoreError::Exists { .. } | StoreError::NotEmpty { .. }) => {
                Some("choose another place, or remove it")
            }
            Self::Open(error) => error.hint(),
            Self::BadFile { first, .. } | Self::AllBad { first, .. } => first.problem.hint(),
            Self::TooFewEpisodes { .. } => {
                Some("collect more episodes, at least 2, or lower the share that validates")
            }
            Self::NoSuccess { .. } => Some(
                "collect successful episodes, or check that the environment reports `success` in its infos",
            ),
            Self::EmptySplit { .. } => {
                Some("collect more successful episodes, or change the seed or the share that validates")
            }
            Self::NoWindows { .. } => Some("make windows shorter"),
            Self::NothingToAsk { objective, .. } => Some(match objective {
                Objective::Trend => "collect episodes whose score changes",
                Objective::Progress => "collect episodes that are solved",
                Objective::Success | Objective::Preference => {
                    "collect episodes that are solved and others that are not"
                }
            }),
            Self::Changed { .. } => Some("wait until collection is over and start again"),
            Self::Read { .. } | Self::WritePython(_) | Self::WriteStore(_) | Self::Option { .. } => None,
        }
    }
}

/// A conversion makes new stores and adds to none, whatever the store itself would advise.
fn without_advice(error: &StoreError) -> String {
    match error {
        StoreError::Exists { path } | StoreError::NotEmpty { path } => {
            format!("{} is there already", path.display())
        }
        other => other.to_string(),
    }
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and {others} more file(s) are bad") }
}
