//! What can go wrong when episodes become training data: which file, what is wrong with it, what to do.

use std::io;
use std::path::PathBuf;

use super::source::Source;
use crate::python::{DType, ReadError, WriteError};
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
    /// Nothing in the folder looks like episodes.
    #[error(
        "no episodes in {}: expected *.pkl episodes, folders `success` and `failure` of pickles, folders \
         `positive` and `negative` of .npy, or a data.pkl; point --raw-data-path at the folder that holds the files",
        path.display()
    )]
    NoEpisodes {
        /// The folder.
        path: PathBuf,
    },
    /// Episodes in a form that is not converted.
    #[error("{} is {what}, which is not converted; {hint}", path.display())]
    OtherForm {
        /// The folder.
        path: PathBuf,
        /// What it is.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The folder or file could be read in more than one way, or in none that is known.
    #[error("cannot tell what {} holds: {why}; say it with --source ({})", path.display(), Source::names())]
    Unsure {
        /// The folder or file.
        path: PathBuf,
        /// What was seen.
        why: String,
    },
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
    /// Too few episodes to have both a training and a validation part.
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
    /// One part would be empty, since failures are kept in proportion to successes.
    #[error(
        "the {split} part of {} would be empty: none of its {episodes} episodes has a success, and failures are kept \
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

/// An input file that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct BadFile {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Box<FileProblem>,
}

/// What is wrong with one input file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// It cannot be read at all: cut short, damaged, or not data.
    #[error("{0}")]
    Unreadable(#[from] ReadError),
    /// The operating system would not open it.
    #[error("cannot open it: {0}")]
    Unopened(#[from] io::Error),
    /// Something else is where a dict, list or array should be.
    #[error("{place} is a {found}, not a {expected}; is it a file of another program?")]
    Kind {
        /// Where: `the file`, `observations[3]`.
        place: String,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A key is missing.
    #[error("{place} has no `{key}` (it has {has}); is --source right?")]
    Missing {
        /// Where.
        place: String,
        /// What is missing.
        key: String,
        /// The keys that are there.
        has: String,
    },
    /// A list that should have entries has none.
    #[error("`{key}` is empty: nothing was recorded; delete the file or collect it again")]
    Empty {
        /// Which list.
        key: &'static str,
    },
    /// There are more infos than observations, so that labels have no images.
    #[error("{infos} infos but only {observations} observations: labels without images; collect it again")]
    TooFewObservations {
        /// Number of infos.
        infos: usize,
        /// Number of observations.
        observations: usize,
    },
    /// A label or number that is not one number.
    #[error("{place} is {found}, not one {expected}; record each environment in its own file")]
    NotOne {
        /// Where: `infos[3]["success"]`.
        place: String,
        /// `truth` or `number`.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// No observation has an image.
    #[error(
        "no observation has an image under `{key}` (the first has {has}); collect with images (obs_mode rgb), or \
         name the key with --image-key"
    )]
    NoImages {
        /// The key that was looked for.
        key: String,
        /// The keys of the first observation.
        has: String,
    },
    /// A camera view that the windows need is in no observation.
    #[error(
        "no observation has the view `{view}` (the first has {has}); collect with that camera, choose others with \
         --extra-views, or --extra-views none to use the main camera alone"
    )]
    MissingView {
        /// The view.
        view: String,
        /// The keys of the first observation.
        has: String,
    },
    /// An image of a shape that is no image.
    #[error("{place} has shape {shape:?}, not [height, width, channels]")]
    Shape {
        /// Where.
        place: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Channels come first where they should come last.
    #[error(
        "{place} has shape {shape:?}, which is [channels, height, width], but [height, width, channels] was expected; \
         if that is how it was recorded, pass --chw"
    )]
    ChannelsFirst {
        /// Where.
        place: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Channels come last where they were said to come first.
    #[error("{place} has shape {shape:?}, which is [height, width, channels]; leave out --chw")]
    ChannelsLast {
        /// Where.
        place: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Floats that are not in 0..1, or integers that are not in 0..255.
    #[error(
        "{place} is {dtype} with values from {low} to {high}, but images are uint8, or floats from 0 to 1; divide by \
         255 before saving, or save uint8"
    )]
    Range {
        /// Where.
        place: String,
        /// Its element type.
        dtype: DType,
        /// Its lowest value.
        low: f64,
        /// Its highest value.
        high: f64,
    },
    /// An image of a type that is no number.
    #[error("{place} is of type {dtype}; images are uint8, or floats from 0 to 1")]
    Type {
        /// Where.
        place: String,
        /// Its element type.
        dtype: DType,
    },
    /// An image of another size than the ones before.
    #[error(
        "{place} has shape {found:?}, but {} has {expected:?}; all images of a dataset have one size: convert the two \
         recordings apart, or collect one of them again",
        other.display()
    )]
    Size {
        /// Where.
        place: String,
        /// Its shape.
        found: [usize; 3],
        /// The shape of the others.
        expected: [usize; 3],
        /// A file with that other shape.
        other: PathBuf,
    },
}

impl FileProblem {
    /// Names the file.
    pub(crate) fn in_file(self, path: impl Into<PathBuf>) -> BadFile {
        BadFile { path: path.into(), problem: Box::new(self) }
    }
}
