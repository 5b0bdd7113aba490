//! A model that scores frames in this process, whatever its making.

use std::path::PathBuf;

use super::classifier::fingerprint;
use super::{Capabilities, OpenClassifier, OpenError, OpenOptions};
use crate::audit::Audit;
use crate::card::KnownOfModel;
use crate::custom::{CustomLocation, CustomModel, CustomModelError, ImageScorer};
use crate::models::{CameraView, Classifier};

/// A model that scores frames in this process.
pub enum OpenFrameModel {
    /// An image classifier.
    Classifier(Box<OpenClassifier>),
    /// A model of one's own making.
    Custom(Box<CustomModel>),
}

impl OpenFrameModel {
    /// Opens a model of one's own making.
    ///
    /// # Errors
    /// When it cannot be read or started, or does not say what it must.
    pub fn open_custom(location: CustomLocation, options: &OpenOptions) -> Result<Self, OpenError> {
        let model = CustomModel::open(location, &options.network, &options.python)?;
        Ok(Self::Custom(Box::new(model)))
    }

    /// What had to be assumed about a model of one's own making, in words.
    #[must_use]
    pub fn assumed(&self) -> Option<String> {
        match self {
            Self::Classifier(_) => None, // who opens one says it with its own flags
            Self::Custom(model) => model.assumed.clone(),
        }
    }

    /// What gives frames their logits.
    #[must_use]
    pub fn scorer(&self) -> &dyn ImageScorer {
        match self {
            Self::Classifier(model) => &model.scorer,
            Self::Custom(model) => &*model.scorer,
        }
    }

    /// What it says about itself.
    #[must_use]
    pub fn known(&self) -> KnownOfModel<'_> {
        match self {
            Self::Classifier(model) => (&model.card).into(),
            Self::Custom(model) => (&model.card).into(),
        }
    }

    /// The views that it looks through.
    #[must_use]
    pub fn image_keys(&self) -> Vec<String> {
        match self {
            Self::Classifier(model) => model.card.settings.image_keys.clone(),
            Self::Custom(model) => model.card.views(),
        }
    }

    /// Height and width that it brings images to; none where it takes them as they are.
    #[must_use]
    pub fn image_size(&self) -> Option<[usize; 2]> {
        match self {
            Self::Classifier(model) => {
                let [_, height, width] = model.card.settings.image_size;
                Some([height, width])
            }
            Self::Custom(model) => model.image_size,
        }
    }

    /// What it is called: its file, or the function in it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Classifier(model) => model.file.display().to_string(),
            Self::Custom(model) => model.location.to_string(),
        }
    }

    /// Where its threshold and temperature stand: the file itself, or the card beside it.
    #[must_use]
    pub fn card_file(&self) -> PathBuf {
        match self {
            Self::Classifier(model) => model.file.clone(),
            Self::Custom(model) => model.location.card_file(),
        }
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        match self {
            Self::Classifier(model) => model.capabilities(),
            Self::Custom(model) => model.capabilities(),
        }
    }

    /// SHA-256 of its file, which tells it from every other model.
    ///
    /// # Errors
    /// When the file is gone.
    pub fn fingerprint(&self) -> std::io::Result<String> {
        match self {
            Self::Classifier(model) => fingerprint(&model.file),
            Self::Custom(model) => fingerprint(model.location.file()),
        }
    }

    /// The model as a reward model in an environment. `views` are what its views are there, in that order.
    #[must_use]
    pub fn reward_model(self, views: Vec<CameraView>) -> Classifier {
        match self {
            Self::Classifier(model) => model.reward_model(views),
            Self::Custom(model) => model.reward_model(views),
        }
    }

    /// Stores what an audit found, if the audit says so.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn store(&self, audit: &Audit) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        match self {
            Self::Classifier(model) => Ok(audit.store(&model.card)?),
            Self::Custom(model) => {
                let stored: Result<(), CustomModelError> = audit.store_beside(&model.location, &model.card);
                Ok(stored?)
            }
        }
    }
}
