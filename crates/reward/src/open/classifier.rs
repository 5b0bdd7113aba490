//! The checkpoint of an image classifier, read, and opened.

use std::path::{Path, PathBuf};

use plaudit_nn::Weights;
use plaudit_nn::classifier::{ClassifierError, ClassifierSettings, Device, Scorer};
use sha2::{Digest, Sha256};

use super::error::OpenError;
use super::network::{Assumed, CheckpointNetwork, GivenNetwork, network_of};
use crate::card::ModelCard;
use crate::dataset::ViewKey;
use crate::models::{CameraView, Classifier};

/// A checkpoint that was read: a network is not built yet.
pub struct ClassifierCheckpoint {
    /// The file, also where the caller named a folder.
    pub file: PathBuf,
    /// Its tensors.
    pub weights: Weights,
    /// What it says about itself, if it does.
    pub card: Option<ModelCard>,
}

impl ClassifierCheckpoint {
    /// The file of a run or of a checkpoint folder, or the file itself.
    ///
    /// # Errors
    /// When there is none.
    pub fn locate(path: &Path) -> Result<PathBuf, OpenError> {
        Ok(Weights::locate(path)?)
    }

    /// Reads a run, a checkpoint folder or a file.
    ///
    /// # Errors
    /// When it cannot be read, or is of a newer plaudit.
    pub fn read(path: &Path) -> Result<Self, OpenError> {
        let file = Self::locate(path)?;
        let weights = Weights::read(&file)?;
        let card = ModelCard::from_header(weights.metadata())
            .map_err(|error| OpenError::Card { file: file.clone(), error })?;
        Ok(Self { file, weights, card })
    }

    /// Its network, next to what the caller says about it.
    #[must_use]
    pub fn network(&self, given: &GivenNetwork) -> CheckpointNetwork {
        network_of(&self.weights, self.card.as_ref(), given)
    }

    /// The model in it.
    ///
    /// # Errors
    /// When the caller says otherwise than the checkpoint was made with, or when weights and card do not fit each other.
    pub fn open(&self, given: &GivenNetwork, device: Device) -> Result<OpenClassifier, OpenError> {
        let CheckpointNetwork { settings, differences, assumed } = self.network(given);
        let file = self.file.clone();
        if !differences.is_empty() {
            return Err(OpenError::Differs { file, differences });
        }
        let scorer = Scorer::new(&settings, &self.weights, device)
            .map_err(|error| OpenError::Unfit { file: file.clone(), error: Box::new(error) })?;
        let known = self.card.clone().unwrap_or_else(|| ModelCard::of(settings.clone()));
        let card = ModelCard { settings, ..known };
        Ok(OpenClassifier { file, card, has_card: self.card.is_some(), assumed, scorer, device })
    }
}

/// An image classifier, ready to score.
pub struct OpenClassifier {
    /// Its file.
    pub file: PathBuf,
    /// What it says about itself; of a file that says nothing, what is known.
    pub card: ModelCard,
    /// Whether it says anything.
    pub has_card: bool,
    /// What had to be assumed about it.
    pub assumed: Option<Assumed>,
    /// The network.
    pub scorer: Scorer,
    /// Where it computes.
    pub device: Device,
}

impl OpenClassifier {
    /// The classifier as a reward model in an environment. `views` are what its `image_keys` are there, in that order.
    #[must_use]
    pub fn reward_model(self, views: Vec<CameraView>) -> Classifier {
        let threshold = self.card.threshold.map(|threshold| threshold as f32);
        Classifier::new(self.scorer, views, threshold)
            .at_temperature(self.card.temperature())
            .with_success_features(self.card.success_features)
    }
}

/// SHA-256 of a model's file, which tells it from every other model.
pub(super) fn fingerprint(file: &Path) -> std::io::Result<String> {
    let digest = Sha256::digest(std::fs::read(file)?);
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The reward model of weights that were trained in this process: `views` are what its `image_keys` are in an environment.
///
/// # Errors
/// When the weights are not of this network, or the device is not there.
pub fn trained_model(
    settings: &ClassifierSettings,
    weights: &Weights,
    device: Device,
    views: Vec<CameraView>,
    threshold: f64,
) -> Result<Classifier, ClassifierError> {
    Ok(Classifier::new(Scorer::new(settings, weights, device)?, views, Some(threshold as f32)))
}

/// How many past frames a model with these views stacks with each frame.
pub(super) fn history_len(image_keys: &[String]) -> usize {
    let back = |key: &String| key.parse().map_or(0, |view: ViewKey| view.back);
    image_keys.iter().map(back).max().unwrap_or(0)
}
