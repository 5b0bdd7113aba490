//! What is wrong with one file of a recording: where, what, and what to do.

use std::io;
use std::path::PathBuf;

use plaudit_pyfiles::{DType, ReadError};

use crate::hdf5::Hdf5Error;
use crate::lerobot::LeRobotError;
use crate::mcap::McapError;
use crate::replay_buffer;
use crate::rlds::RldsError;
use crate::store::StoreError;
use crate::video::VideoError;
use crate::zarr::ZarrError;

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
    #[error("{location} is a {found}, not a {expected}")]
    Kind {
        /// Where: `the file`, `observations[3]`.
        location: String,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A key is missing.
    #[error("{location} has no `{key}` (it has {has})")]
    Missing {
        /// Where.
        location: String,
        /// What is missing.
        key: String,
        /// The keys that are there.
        has: String,
    },
    /// A list that should have entries has none.
    #[error("`{key}` is empty: nothing was recorded")]
    Empty {
        /// Which list.
        key: &'static str,
    },
    /// There are more infos than observations, so that labels have no images.
    #[error("{infos} infos but only {observations} observations: labels without images")]
    TooFewObservations {
        /// Number of infos.
        infos: usize,
        /// Number of observations.
        observations: usize,
    },
    /// A label that is neither 0 nor 1.
    #[error("{location} is {found}, and a label is 0 or 1 (false or true)")]
    Label {
        /// Where: `infos[3]["success"]`.
        location: String,
        /// What it is.
        found: String,
    },
    /// A label or number that is not one number.
    #[error("{location} is {found}, not one {expected}")]
    NotOne {
        /// Where: `infos[3]["success"]`.
        location: String,
        /// `bool` or `number`.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// No observation has an image.
    #[error("no observation has an image under `{key}` (the first has {has})")]
    NoImages {
        /// The key that was looked for.
        key: String,
        /// The keys of the first observation.
        has: String,
    },
    /// A camera view that the windows need is in no observation.
    #[error("no observation has the view `{view}` (the first has {has})")]
    MissingView {
        /// The view.
        view: String,
        /// The keys of the first observation.
        has: String,
    },
    /// An image of a shape that is no image.
    #[error("{location} has shape {shape:?}, not [height, width, channels]")]
    Shape {
        /// Where.
        location: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Channels come first where they should come last.
    #[error(
        "{location} has shape {shape:?}, which is [channels, height, width], but [height, width, channels] was expected"
    )]
    ChannelsFirst {
        /// Where.
        location: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Channels come last where they were said to come first.
    #[error(
        "{location} has shape {shape:?}, which is [height, width, channels], but channels were said to come first"
    )]
    ChannelsLast {
        /// Where.
        location: String,
        /// Its shape.
        shape: Vec<usize>,
    },
    /// Floats that are not in 0..1, or integers that are not in 0..255.
    #[error(
        "{location} is {dtype} with values from {low} to {high}, but images are uint8, or floats from 0 to 1"
    )]
    Range {
        /// Where.
        location: String,
        /// Its element type.
        dtype: DType,
        /// Its lowest value.
        low: f64,
        /// Its highest value.
        high: f64,
    },
    /// An image of a type that is no number.
    #[error("{location} is of type {dtype}; images are uint8, or floats from 0 to 1")]
    Type {
        /// Where.
        location: String,
        /// Its element type.
        dtype: DType,
    },
    /// A file of a store is damaged.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// An episode of a LeRobot dataset is damaged.
    #[error("{0}")]
    Lerobot(#[from] LeRobotError),
    /// A frame of a video cannot be decoded.
    #[error("{}: {source}", path.display())]
    Video {
        /// The video.
        path: PathBuf,
        /// Which frame, and why.
        source: VideoError,
    },
    /// An HDF5 file that is damaged, or lacks what is needed.
    #[error("{0}")]
    Hdf5(#[from] Hdf5Error),
    /// An episode of RLDS that is damaged, or stored in a way that is not read.
    #[error("{0}")]
    Rlds(#[from] RldsError),
    /// zarr data that is damaged, or stored in a way that is not read.
    #[error("{0}")]
    Zarr(#[from] ZarrError),
    /// An MCAP file that is damaged, or lacks what is needed.
    #[error("{0}")]
    Mcap(#[from] McapError),
    /// A trajectory of a replay buffer whose fields do not fit together.
    #[error("{0}")]
    Trajectory(#[from] replay_buffer::Problem),
    /// An image file that is none.
    #[error("{what}")]
    Image {
        /// What is wrong.
        what: String,
    },
    /// A link that leads out of the dataset's folder.
    #[error("it is a link that leads out of the dataset's folder")]
    Outside,
    /// Nobody knows which label is whose.
    #[error("{images} images and {labels} labels")]
    Uneven {
        /// How many images.
        images: usize,
        /// How many labels.
        labels: usize,
    },
    /// Lists that belong together have different lengths.
    #[error("{what}")]
    Lists {
        /// Which, and how long they are.
        what: String,
    },
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
    /// A recording that never says what succeeded.
    #[error("it does not say which frames show success")]
    NoLabels,
    /// Windows have labels of their own kind.
    #[error("it is a window, whose label is of the whole")]
    Windows,
    /// Images without an order of time.
    #[error("it is a set of images without an order of time, and a window is some frames in a row")]
    NoOrder,
    /// Nothing says how it goes.
    #[error("it holds no rewards, so nothing says which windows show progress")]
    NoScores,
    /// A recording without actions is nothing to imitate.
    #[error("it holds no actions, so there is nothing to imitate")]
    NoActions,
    /// An image of another size than the ones before.
    #[error(
        "{location} has shape {found:?}, but {} has {expected:?}; all images of a dataset have one size",
        other.display()
    )]
    Size {
        /// Where.
        location: String,
        /// Its shape.
        found: [usize; 3],
        /// The shape of the others.
        expected: [usize; 3],
        /// A file with that other shape.
        other: PathBuf,
    },
}

impl FileProblem {
    /// What can be done about it. Whoever knows how the file was asked for may know better.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Kind { .. } => "is it a file of another program?",
            Self::Missing { .. } => "is it what another collector wrote?",
            Self::Empty { .. } => "delete the file or collect it again",
            Self::TooFewObservations { .. } => "collect it again",
            Self::Label { .. } => "label it again",
            Self::NotOne { .. } => "record each environment in its own file",
            Self::NoImages { .. } => "collect with images, or name a camera that is there",
            Self::MissingView { .. } => "collect with that camera, or do without it",
            Self::ChannelsFirst { .. } | Self::ChannelsLast { .. } => "say in which order it was recorded",
            Self::Range { .. } => "divide by 255 before saving, or save uint8",
            Self::Image { .. } => "take this image out, or save it again",
            Self::Outside => "put the file itself there",
            Self::Hdf5(error) => error.hint(),
            Self::Rlds(error) => error.hint(),
            Self::Zarr(error) => error.hint(),
            Self::Mcap(error) => error.hint(),
            Self::Uneven { .. } => "convert the episodes again, or take the file out",
            Self::NoLabels => {
                "label its frames, record `next.success` or `is_success`, or say which reward means success"
            }
            Self::Windows => "train a vision-language model on it, or name the episodes",
            Self::NoOrder => "name the episodes they are from",
            Self::NoScores => {
                "collect with rewards (pickle, store or replay_buffer), or let success say how windows end"
            }
            Self::NoActions => "name episodes as they were collected",
            Self::Size { .. } => "convert the two recordings apart, or collect one of them again",
            Self::Unreadable(_)
            | Self::Unopened(_)
            | Self::Shape { .. }
            | Self::Type { .. }
            | Self::Store(_)
            | Self::Lerobot(_)
            | Self::Video { .. }
            | Self::Trajectory(_)
            | Self::Lists { .. }
            | Self::Gone
            | Self::Line { .. } => return None,
        })
    }

    /// What is wrong and what can be done about it, for lists that have one line for each file.
    pub fn with_hint(&self) -> String {
        self.hint().map_or_else(|| self.to_string(), |hint| format!("{self}; {hint}"))
    }

    /// Names the file.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> BadFile {
        BadFile { path: path.into(), problem: Box::new(self) }
    }
}
