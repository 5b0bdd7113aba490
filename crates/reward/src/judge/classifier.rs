//! The image classifier as a judge of frames.

use std::sync::Arc;

use plaudit_core::{FrameShape, Score};
use plaudit_nn::classifier::Scorer;
use plaudit_nn::images::{ImageBatch, Layout, Pixels, View};

use super::{FrameJudge, JudgeError, Moment};
use crate::watch::{KnownSuccesses, Look};

/// What a view of a model is in an environment: a camera, now or some steps ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The environment's name of the camera.
    pub camera: Arc<str>,
    /// How many steps ago.
    pub back: usize,
}

/// A trained image classifier that looks through an environment's cameras.
pub struct Classifier {
    scorer: Scorer,
    cameras: Vec<Arc<str>>,
    /// How many steps back each of the model's views is.
    backs: Vec<usize>,
    threshold: Option<f32>,
    temperature: f32,
    known: Option<KnownSuccesses>,
}

impl Classifier {
    /// `sights` are in the order of the model's `image_keys`; `threshold` is the checkpoint's own.
    pub fn new(scorer: Scorer, sights: Vec<Sight>, threshold: Option<f32>) -> Self {
        let (cameras, backs) = sights.into_iter().map(|Sight { camera, back }| (camera, back)).unzip();
        Self { scorer, cameras, backs, threshold, temperature: 1.0, known: None }
    }

    /// The same, with the successes that its checkpoint knows.
    #[must_use]
    pub fn knowing(self, known: Option<KnownSuccesses>) -> Self {
        Self { known, ..self }
    }

    /// The same, with logits divided by the checkpoint's temperature.
    #[must_use]
    pub fn at_temperature(self, temperature: f64) -> Self {
        Self { temperature: temperature as f32, ..self }
    }
}

impl FrameJudge for Classifier {
    fn cameras(&self) -> &[Arc<str>] {
        &self.cameras
    }

    fn reach(&self) -> usize {
        self.backs.iter().copied().max().unwrap_or(0)
    }

    fn scores(&self, moments: &[Moment<'_>]) -> Result<Vec<Score>, JudgeError> {
        if moments.is_empty() {
            return Ok(Vec::new());
        }
        let pictures = self.pictures(moments)?;
        let logits = self.scorer.logits(&self.batch(&pictures)?).map_err(backend)?;
        let score = |(moment, logit): (usize, f32)| {
            Score::from_logit(logit / self.temperature).ok_or(JudgeError::NotAScore { value: logit, moment })
        };
        logits.into_iter().enumerate().map(score).collect()
    }

    fn threshold(&self) -> Option<f32> {
        self.threshold
    }

    fn look(&self, moments: &[Moment<'_>]) -> Result<Option<Vec<Look>>, JudgeError> {
        let Some(known) = self.known.as_ref().filter(|_| !moments.is_empty()) else { return Ok(None) };
        let pictures = self.pictures(moments)?;
        known.look(&self.scorer, &self.batch(&pictures)?).map(Some).map_err(backend)
    }
}

impl Classifier {
    /// What each of its views shows of the moments.
    fn pictures(&self, moments: &[Moment<'_>]) -> Result<Vec<Pictures>, JudgeError> {
        let sights = self.cameras.iter().zip(&self.backs);
        sights.map(|(camera, back)| Pictures::of(camera, *back, moments)).collect()
    }

    fn batch<'a>(&'a self, pictures: &'a [Pictures]) -> Result<ImageBatch<'a>, JudgeError> {
        let keys = &self.scorer.settings().image_keys;
        let views = pictures.iter().zip(keys).map(|(pictures, key)| pictures.view(key)).collect();
        ImageBatch::new(views).map_err(backend)
    }
}

fn backend(error: impl std::error::Error + Send + Sync + 'static) -> JudgeError {
    JudgeError::Backend(Box::new(error))
}

/// One camera's pictures, one after the other.
struct Pictures {
    shape: FrameShape,
    pixels: Vec<u8>,
}

impl Pictures {
    fn of(camera: &Arc<str>, back: usize, moments: &[Moment<'_>]) -> Result<Self, JudgeError> {
        let images = moments.iter().map(|moment| moment.back(back).image(camera)).collect::<Option<Vec<_>>>();
        let images = images.ok_or_else(|| JudgeError::Camera { camera: camera.clone() })?;
        let shape = images[0].0;
        if images.iter().any(|(other, _)| *other != shape) {
            return Err(JudgeError::Shapes { camera: camera.clone() });
        }
        let pixels = images.into_iter().map(|(_, pixels)| pixels).collect::<Vec<_>>().concat();
        Ok(Self { shape, pixels })
    }

    fn view<'a>(&'a self, key: &'a str) -> View<'a> {
        let FrameShape { height, width, channels } = self.shape;
        let count = self.pixels.len() / self.shape.bytes();
        View { key, pixels: Pixels::U8(&self.pixels), layout: Layout::Hwc, count, height, width, channels }
    }
}
