//! Where there is no bridge to Python yet: everything but Linux.

use std::convert::Infallible;
use std::path::Path;

use plaudit_nn::classifier::ClassifierError;
use plaudit_nn::images::ImageBatch;

use super::error::CustomModelError;
use super::{CustomCard, ImageScorer, PythonFunction};

/// A function in a Python process. There are none on this system.
pub struct PythonScorer(Infallible);

impl PythonScorer {
    /// Says that it needs Linux.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: PythonFunction, _: &CustomCard, _: &Path) -> Result<Self, CustomModelError> {
        Err(CustomModelError::System(std::env::consts::OS))
    }

    /// The number of the process.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        match self.0 {}
    }
}

impl ImageScorer for PythonScorer {
    fn logits(&self, _: &ImageBatch<'_>) -> Result<Vec<f32>, ClassifierError> {
        match self.0 {}
    }
}
