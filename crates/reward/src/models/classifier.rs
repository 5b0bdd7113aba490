//! The image classifier as a reward model of frames.

use std::sync::Arc;

use plaudit_core::{FrameShape, Score};
use plaudit_nn::classifier::{ProgressDistribution, Scorer};
use plaudit_nn::images::{ImageBatch, ImageLayout, Pixels, ViewPixels};

use super::{FrameRewardModel, FrameStack, RewardModelError};
use crate::custom::ImageScorer;
use crate::hacking_monitor::{OodCheck, SuccessFeatures};

/// What a view of a model is in an environment: a camera, now or some steps ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CameraView {
    /// The environment's name of the camera.
    pub camera: Arc<str>,
    /// How many steps ago.
    pub back: usize,
}

/// A trained image classifier that looks through an environment's cameras.
pub struct Classifier {
    scorer: Arc<dyn ImageScorer>,
    /// The views that it looks through, as it names them.
    image_keys: Vec<String>,
    cameras: Vec<Arc<str>>,
    /// How many steps back each of the model's views is.
    backs: Vec<usize>,
    threshold: Option<f32>,
    temperature: f64,
    success_features: Option<SuccessFeatures>,
    caution: f64,
}

impl Classifier {
    /// `views` are in the order of the model's `image_keys`; `threshold` is the checkpoint's own.
    pub fn new(scorer: Scorer, views: Vec<CameraView>, threshold: Option<f32>) -> Self {
        let image_keys = scorer.settings().image_keys.clone();
        Self::of(Arc::new(scorer), image_keys, views, threshold)
    }

    /// The same of any model that gives images logits; it names its views `image_keys`.
    pub fn of(
        scorer: Arc<dyn ImageScorer>,
        image_keys: Vec<String>,
        views: Vec<CameraView>,
        threshold: Option<f32>,
    ) -> Self {
        let (cameras, backs) = views.into_iter().map(|CameraView { camera, back }| (camera, back)).unzip();
        Self {
            scorer,
            image_keys,
            cameras,
            backs,
            threshold,
            temperature: 1.0,
            success_features: None,
            caution: 0.0,
        }
    }

    /// The same, with the success features of its checkpoint.
    #[must_use]
    pub fn with_success_features(self, success_features: Option<SuccessFeatures>) -> Self {
        Self { success_features, ..self }
    }

    /// The same; so many standard deviations are taken off what a network of progress says. Of a classifier, nothing is.
    #[must_use]
    pub fn with_caution(self, caution: f64) -> Self {
        Self { caution, ..self }
    }

    /// The same, with logits divided by the checkpoint's temperature.
    #[must_use]
    pub fn at_temperature(self, temperature: f64) -> Self {
        Self { temperature, ..self }
    }
}

impl FrameRewardModel for Classifier {
    fn cameras(&self) -> &[Arc<str>] {
        &self.cameras
    }

    fn history_len(&self) -> usize {
        self.backs.iter().copied().max().unwrap_or(0)
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        if frames.is_empty() {
            return Ok(Vec::new());
        }
        let view_batches = self.view_batches(frames)?;
        if self.caution > 0.0
            && let Some(network) = self.scorer.network()
            && let Some(found) = network.progress(&self.batch(&view_batches)?).map_err(backend)?
        {
            return found.iter().enumerate().map(|(frame, found)| self.cautious(frame, found)).collect();
        }
        let logits = self.scorer.logits(&self.batch(&view_batches)?).map_err(backend)?;
        let score = |(frame, logit): (usize, f32)| {
            let score = Score::at_temperature(logit, self.temperature);
            score.ok_or(RewardModelError::NotAScore { value: logit, frame })
        };
        logits.into_iter().enumerate().map(score).collect()
    }

    fn threshold(&self) -> Option<f32> {
        self.threshold
    }

    fn check_ood(&self, frames: &[FrameStack<'_>]) -> Result<Option<Vec<OodCheck>>, RewardModelError> {
        let known = self.success_features.as_ref().zip(self.scorer.network());
        let Some((success_features, network)) = known.filter(|_| !frames.is_empty()) else {
            return Ok(None);
        };
        let view_batches = self.view_batches(frames)?;
        success_features.check(network, &self.batch(&view_batches)?).map(Some).map_err(backend)
    }
}

impl Classifier {
    /// The lower end of what a network of progress says.
    fn cautious(&self, frame: usize, found: &ProgressDistribution) -> Result<Score, RewardModelError> {
        let value = (found.mean - self.caution * found.std).clamp(0.0, 1.0) as f32;
        Score::new(value).ok_or(RewardModelError::NotAScore { value, frame })
    }

    /// The images of each of its views.
    fn view_batches(&self, frames: &[FrameStack<'_>]) -> Result<Vec<ViewBatch>, RewardModelError> {
        let views = self.cameras.iter().zip(&self.backs);
        views.map(|(camera, back)| ViewBatch::of(camera, *back, frames)).collect()
    }

    fn batch<'a>(&'a self, view_batches: &'a [ViewBatch]) -> Result<ImageBatch<'a>, RewardModelError> {
        let views = view_batches
            .iter()
            .zip(&self.image_keys)
            .map(|(view_batches, key)| view_batches.view(key))
            .collect();
        ImageBatch::new(views).map_err(backend)
    }
}

fn backend(error: impl std::error::Error + Send + Sync + 'static) -> RewardModelError {
    RewardModelError::Backend(Box::new(error))
}

/// One camera's images, one after the other.
struct ViewBatch {
    shape: FrameShape,
    pixels: Vec<u8>,
}

impl ViewBatch {
    fn of(camera: &Arc<str>, back: usize, frames: &[FrameStack<'_>]) -> Result<Self, RewardModelError> {
        let images = frames.iter().map(|frame| frame.back(back).image(camera)).collect::<Option<Vec<_>>>();
        let images = images.ok_or_else(|| RewardModelError::Camera { camera: camera.clone() })?;
        let shape = images[0].0;
        if images.iter().any(|(other, _)| *other != shape) {
            return Err(RewardModelError::Shapes { camera: camera.clone() });
        }
        let pixels = images.into_iter().map(|(_, pixels)| pixels).collect::<Vec<_>>().concat();
        Ok(Self { shape, pixels })
    }

    fn view<'a>(&'a self, key: &'a str) -> ViewPixels<'a> {
        let FrameShape { height, width, channels } = self.shape;
        let count = self.pixels.len() / self.shape.bytes();
        ViewPixels {
            key,
            pixels: Pixels::U8(&self.pixels),
            layout: ImageLayout::Hwc,
            count,
            height,
            width,
            channels,
        }
    }
}
