//! A model of one's own making, opened.

use std::path::Path;
use std::sync::Arc;

use plaudit_nn::classifier::Device;

use super::network::GivenNetwork;
use super::{Capabilities, ModelInput};
use crate::custom::{
    CustomCard, CustomLocation, CustomModel, CustomModelError, ImageScorer, OnnxScorer, PythonScorer,
};
use crate::models::{CameraView, Classifier};

impl CustomModel {
    /// Opens what is at a location. Of what is `given` the cameras count, where the model's card names none; `python` runs a
    /// function.
    ///
    /// # Errors
    /// When it cannot be read or started, is of other cameras, or leaves open what its numbers mean.
    pub(super) fn open(
        location: CustomLocation,
        given: &GivenNetwork,
        python: &Path,
    ) -> Result<Self, CustomModelError> {
        let card = with_cameras(CustomCard::beside(&location)?, &location, given)?;
        match &location {
            CustomLocation::Onnx(file) => {
                let (scorer, assumed) = OnnxScorer::open(file, &card)?;
                let image_size = scorer.image_size();
                Ok(Self { location, card, image_size, assumed, scorer: Arc::new(scorer) })
            }
            CustomLocation::Python(function) => {
                let scorer: Arc<dyn ImageScorer> =
                    Arc::new(PythonScorer::start(function.clone(), &card, python)?);
                Ok(Self { location, card, image_size: None, assumed: None, scorer })
            }
        }
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        Capabilities { input: ModelInput::frames(&self.card.views()), device: Device::Cpu }
    }

    /// The model as a reward model in an environment. `views` are what its cameras are there, in that order.
    #[must_use]
    pub fn reward_model(self, views: Vec<CameraView>) -> Classifier {
        let threshold = self.card.threshold.map(|threshold| threshold as f32);
        Classifier::of(self.scorer, self.card.views(), views, threshold)
            .at_temperature(self.card.temperature())
    }
}

/// The card with the cameras that the caller names, where it names none itself.
fn with_cameras(
    card: CustomCard,
    location: &CustomLocation,
    given: &GivenNetwork,
) -> Result<CustomCard, CustomModelError> {
    match &given.image_keys {
        Some(keys) if card.image_keys.is_empty() => Ok(CustomCard { image_keys: keys.clone(), ..card }),
        Some(keys) if *keys != card.image_keys => {
            Err(CustomModelError::Cameras { model: location.to_string(), is: card.image_keys })
        }
        _ => Ok(card),
    }
}
