//! Datasets that nothing can be learned from.

use plaudit_core::FrameShape;
use plaudit_data::labelled::LabelledError;

use crate::shaping::GuardError;

/// Why there is nothing to train on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// Data that cannot be read.
    #[error(transparent)]
    Read(#[from] LabelledError),
    /// Conditions on the state that are none.
    #[error(transparent)]
    Conditions(#[from] GuardError),
    /// No frames.
    #[error("the {part} split has no frames")]
    Empty {
        /// Which part.
        part: &'static str,
    },
    /// Labels that teach nothing.
    #[error("all {frames} training frames are labelled {found}, none {missing}: a classifier needs both")]
    OneClass {
        /// How many frames there are.
        frames: usize,
        /// The label that all have.
        found: &'static str,
        /// The label that none has.
        missing: &'static str,
    },
    /// Recordings whose images differ in size.
    #[error(
        "`{view}` is {}x{}x{} in {second} and {}x{}x{} in {first}; all images of a camera have one size in a dataset",
        found.height, found.width, found.channels, expected.height, expected.width, expected.channels
    )]
    Sizes {
        /// The camera.
        view: String,
        /// The first recording.
        first: String,
        /// Its size.
        expected: FrameShape,
        /// The other recording.
        second: String,
        /// Its size.
        found: FrameShape,
    },
    /// A name of a view that cannot be read.
    #[error("`{text}` names no view")]
    View {
        /// What was written.
        text: String,
    },
    /// Progress where frames have no order.
    #[error("progress is counted in whole episodes, and {path} does not have every frame of its episodes")]
    NoEpisodes {
        /// The data.
        path: String,
    },
    /// Progress without an episode that succeeds.
    #[error("none of the episodes of these {frames} frames succeeds: progress is learned from success")]
    NoSuccess {
        /// How many frames there are.
        frames: usize,
    },
    /// A frame stack over data without past frames.
    #[error("`{view}` stacks past frames, but {path} does not have every frame of its episodes")]
    NoHistory {
        /// The view.
        view: String,
        /// The data.
        path: String,
    },
}

impl DatasetError {
    /// What can be done about it. Whoever knows how the data was asked for may know better.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Read(error) => return error.hint(),
            Self::Conditions(_) => "write conditions on numbers of the state, such as abs(state[0]) < 0.2",
            Self::Empty { .. } => "collect episodes, or give another dataset",
            Self::OneClass { .. } => "collect episodes with both, or check that labels are recorded",
            Self::Sizes { .. } => "train on one of them, or collect the other again",
            Self::View { .. } => "write a camera, or a camera some steps ago, such as main_images@-4",
            Self::NoHistory { .. } | Self::NoEpisodes { .. } => "train from the episodes themselves",
            Self::NoSuccess { .. } => {
                "collect demonstrations that succeed, or check that labels are recorded"
            }
        })
    }
}
