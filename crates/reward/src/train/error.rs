//! Why a training ended before its end.

use std::path::PathBuf;

use plaudit_core::SyncError;
use plaudit_nn::WeightsError;
use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::qwen3_vl::VlmError;

use crate::card::CardError;
use crate::dataset::DatasetError;

/// Why a training ended before its end. What was saved before stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Nothing can be learned from the data.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The network and the images do not fit.
    #[error(transparent)]
    Classifier(ClassifierError),
    /// The model cannot be read, trained or written.
    #[error(transparent)]
    Vlm(Box<VlmError>),
    /// Windows that cannot be read.
    #[error(transparent)]
    Windows(#[from] plaudit_data::windows::WindowsError),
    /// A window that the model cannot be shown.
    #[error("{}: {error}", path.display())]
    Window {
        /// Its pickle.
        path: PathBuf,
        /// Why.
        error: Box<VlmError>,
    },
    /// Windows that teach nothing.
    #[error("all {count} training windows are `{answer}`")]
    OneAnswer {
        /// How many there are.
        count: usize,
        /// What each of them says.
        answer: String,
    },
    /// A checkpoint could not be written or read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A checkpoint whose header makes no sense.
    #[error("{}: {source}", path.display())]
    Card {
        /// The checkpoint.
        path: PathBuf,
        /// What is wrong.
        source: CardError,
    },
    /// A checkpoint folder could not be made or renamed.
    #[error("cannot write {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The loss left the numbers.
    #[error("the loss of step {step} is {loss}, on the frames {frames}")]
    Loss {
        /// The step.
        step: u64,
        /// The loss.
        loss: f64,
        /// The frames of its batch.
        frames: String,
        /// The learning rate.
        lr: f64,
        /// What is safe.
        kept: String,
    },
    /// Gradients left the numbers, time and again.
    #[error(
        "the gradient of {steps} steps on end, up to step {step}, was not finite, last on the frames {frames}"
    )]
    Gradient {
        /// How many steps.
        steps: u64,
        /// The last of them.
        step: u64,
        /// The frames of its batch.
        frames: String,
        /// The learning rate.
        lr: f64,
        /// What is safe.
        kept: String,
    },
    /// A checkpoint to go on from that is not there.
    #[error("{} has no state to go on from", path.display())]
    NoState {
        /// The checkpoint.
        path: PathBuf,
    },
    /// Ranks that cannot share a step evenly.
    #[error(
        "{world} ranks cannot share the {accumulation} micro batches of a step: {global_batch} examples, {micro_batch} at once"
    )]
    UnevenRanks {
        /// How many ranks there are.
        world: u64,
        /// Micro batches of a step.
        accumulation: u64,
        /// Examples of a micro batch.
        micro_batch: usize,
        /// Examples of a step.
        global_batch: usize,
    },
    /// The ranks of this training no longer train together.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// A callback could not store the progress.
    #[error("{0}")]
    Callback(String),
}

impl TrainError {
    /// What can be done about it. Whoever knows how the training was asked for may know better.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Dataset(error) => error.hint().map(Into::into),
            Self::OneAnswer { .. } => Some("collect episodes that succeed and fail".into()),
            Self::Folder { .. } => Some("what was saved before is unchanged".into()),
            Self::Loss { kept, lr, .. } => {
                Some(format!("{kept}. Lower the learning rate (now {lr:e}), or look at those frames"))
            }
            Self::Gradient { kept, lr, .. } => Some(format!("{kept}. Lower the learning rate (now {lr:e})")),
            Self::NoState { .. } => {
                Some("resume the newest checkpoint of the run, or start a new run from its weights".into())
            }
            Self::Sync(SyncError::Different { .. }) => {
                Some("start every rank with the same program, config, data and weights".into())
            }
            Self::Sync(_) => {
                Some("start all ranks again; the training goes on from its last checkpoint".into())
            }
            Self::UnevenRanks { .. } => {
                Some("make a step a whole number of micro batches for each rank".into())
            }
            Self::Classifier(_)
            | Self::Vlm(_)
            | Self::Windows(_)
            | Self::Window { .. }
            | Self::Weights(_)
            | Self::Card { .. }
            | Self::Callback(_) => None,
        }
    }
}

impl From<ClassifierError> for TrainError {
    fn from(error: ClassifierError) -> Self {
        match error {
            ClassifierError::Ranks(error) => Self::Sync(error),
            other => Self::Classifier(other),
        }
    }
}

impl From<VlmError> for TrainError {
    fn from(error: VlmError) -> Self {
        match error {
            VlmError::Sync(error) => Self::Sync(error),
            other => Self::Vlm(Box::new(other)),
        }
    }
}
