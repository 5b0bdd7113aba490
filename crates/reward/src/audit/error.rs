//! Why an audit could not be done.

use plaudit_nn::classifier::ClassifierError;

use super::ConditionsError;
use crate::dataset::DatasetError;
use crate::train::TrainError;

/// Why an audit could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// Nothing to audit on.
    #[error("there are no frames to audit on; give labelled episodes that the model has not learned from")]
    NoFrames,
    /// The network and the images do not fit.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// The frames that the model learned from cannot be read.
    #[error(transparent)]
    TrainingData(#[from] DatasetError),
    /// Windows that cannot be read or shown.
    #[error(transparent)]
    Windows(#[from] TrainError),
    /// Conditions of the model that cannot be checked on this data.
    #[error(transparent)]
    Conditions(#[from] ConditionsError),
    /// Answers that are no numbers.
    #[error("{model} gives {what} that are no numbers; its weights are broken")]
    NotFinite {
        /// The model.
        model: String,
        /// Its answers: `scores`, `logits`.
        what: &'static str,
    },
}
