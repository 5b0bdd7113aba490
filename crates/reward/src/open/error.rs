//! Why a reward model could not be opened.

use std::path::PathBuf;

use plaudit_nn::WeightsError;
use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::qwen3_vl::VlmError;
use thiserror::Error;

use super::network::SettingDifference;
use crate::card::CardError;
use crate::custom::CustomModelError;
use crate::endpoint::EndpointError;
use crate::models::RewardModelError;
use crate::trend::NoBaseModel;

/// Why a reward model could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Weights that cannot be read.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// A card that cannot be understood.
    #[error("{}: {error}", file.display())]
    Card {
        /// The checkpoint.
        file: PathBuf,
        /// What is wrong with it.
        error: CardError,
    },
    /// The caller says otherwise than the checkpoint was made with.
    #[error("{} was made with {}", file.display(), made_with(differences))]
    Differs {
        /// The checkpoint.
        file: PathBuf,
        /// What it was made with, where the caller says otherwise.
        differences: Vec<SettingDifference>,
    },
    /// Weights and a network that do not fit each other.
    #[error("{}: {error}", file.display())]
    Unfit {
        /// The checkpoint.
        file: PathBuf,
        /// What does not fit.
        error: Box<ClassifierError>,
    },
    /// Adapters whose model is not there.
    #[error(transparent)]
    NoBaseModel(#[from] NoBaseModel),
    /// A vision-language model that cannot be opened.
    #[error(transparent)]
    Vlm(#[from] VlmError),
    /// A model of one's own making that cannot be opened.
    #[error(transparent)]
    Custom(#[from] CustomModelError),
    /// A server that cannot be used.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
}

fn made_with(differences: &[SettingDifference]) -> String {
    differences.iter().map(|one| format!("{}: {}", one.key, one.is)).collect::<Vec<_>>().join(", ")
}

impl From<OpenError> for RewardModelError {
    fn from(error: OpenError) -> Self {
        Self::Backend(Box::new(error))
    }
}
