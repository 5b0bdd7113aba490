//! A reward model that a reward worker has, and the other side of it.

use std::sync::Arc;
use std::time::Duration;

use plaudit_cluster::worker::messages::ModelFacts;
use plaudit_cluster::worker::{FrameScorer, ScoreClient};
use plaudit_core::{FrameShape, Frames, Obs, Score};
use plaudit_reward::{CameraView, FrameRewardModel, FrameStack, RewardModelError};

/// Frames of one request, at most: as many as go through a model at once.
const REQUEST_FRAMES: usize = 64;

/// Where the reward's main model is.
#[derive(Clone, Default)]
pub enum WorkerModels {
    /// In this process, or wherever the config says.
    #[default]
    Here,
    /// In a reward worker of the same run.
    Worker(Arc<ScoreClient>),
}

impl WorkerModels {
    /// Whether the model is in a worker that has not answered for so long.
    pub(crate) fn is_silent(&self, limit: Duration) -> bool {
        match self {
            Self::Here => false,
            Self::Worker(client) => client.waiting_for().is_some_and(|waited| waited > limit),
        }
    }
}

/// A model of single frames in a reward worker, which looks through an environment's cameras.
pub(crate) struct WorkerModel {
    client: Arc<ScoreClient>,
    cameras: Vec<Arc<str>>,
    /// How many steps back each of the model's views is.
    backs: Vec<usize>,
}

impl WorkerModel {
    /// `views` are what the model's `image_keys` are in the environment, in that order.
    pub(crate) fn new(client: Arc<ScoreClient>, views: Vec<CameraView>) -> Self {
        let (cameras, backs) = views.into_iter().map(|CameraView { camera, back }| (camera, back)).unzip();
        Self { client, cameras, backs }
    }

    /// The frames of one request: `[V, N, H, W, C]`.
    fn pixels(&self, frames: &[FrameStack<'_>], shape: FrameShape) -> Result<Vec<u8>, RewardModelError> {
        let mut pixels = Vec::with_capacity(frames.len() * self.cameras.len() * shape.bytes());
        for (camera, back) in self.cameras.iter().zip(&self.backs) {
            for frame in frames {
                match frame.back(*back).image(camera) {
                    Some((own, image)) if own == shape => pixels.extend_from_slice(image),
                    Some(_) => return Err(RewardModelError::Shapes { camera: camera.clone() }),
                    None => return Err(RewardModelError::Camera { camera: camera.clone() }),
                }
            }
        }
        Ok(pixels)
    }
}

impl FrameRewardModel for WorkerModel {
    fn cameras(&self) -> &[Arc<str>] {
        &self.cameras
    }

    fn history_len(&self) -> usize {
        self.backs.iter().copied().max().unwrap_or(0)
    }

    fn threshold(&self) -> Option<f32> {
        self.client.facts().threshold
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        let (Some(first), Some(camera)) = (frames.first(), self.cameras.first()) else {
            return Ok(vec![Score::IMPOSSIBLE; frames.len()]);
        };
        let Some((shape, _)) = first.now().image(camera) else {
            return Err(RewardModelError::Camera { camera: camera.clone() });
        };
        let batch = |frames: &[FrameStack<'_>]| Ok((frames.len(), self.pixels(frames, shape)?));
        let batches = frames.chunks(REQUEST_FRAMES).map(batch).collect::<Result<_, RewardModelError>>()?;
        let scored = self.client.scores(batches, self.cameras.len(), shape);
        let (scores, _) = scored.map_err(|error| RewardModelError::Backend(Box::new(error)))?;
        let score = |(frame, value): (usize, f32)| {
            Score::new(value).ok_or(RewardModelError::NotAScore { value, frame })
        };
        scores.into_iter().enumerate().map(score).collect()
    }
}

/// A model of single frames as a reward worker has it: it looks through views, whatever environment they are of.
pub struct ServedFrames {
    model: Box<dyn FrameRewardModel>,
    facts: ModelFacts,
}

impl ServedFrames {
    /// What the views of such a model are called.
    pub(crate) fn views(count: usize) -> Vec<CameraView> {
        (0..count).map(|view| CameraView { camera: format!("view {view}").into(), back: 0 }).collect()
    }

    /// A model that looks through [`Self::views`], which are these in its environment.
    pub(crate) fn new(model: Box<dyn FrameRewardModel>, image_keys: Vec<String>) -> Self {
        let facts = ModelFacts { image_keys, threshold: model.threshold(), card: None };
        Self { model, facts }
    }
}

impl FrameScorer for ServedFrames {
    fn facts(&self) -> ModelFacts {
        self.facts.clone()
    }

    fn scores(&self, pixels: &[u8], count: usize, shape: FrameShape) -> Result<(Vec<f32>, u64), String> {
        let views = self.facts.image_keys.len();
        let bytes = count * shape.bytes();
        if count == 0 || pixels.len() != views * bytes {
            return Err(format!("the model sees {views} views, and frames of another number came"));
        }
        let mut obs = Obs::from_state(count, Vec::new()).map_err(|error| error.to_string())?;
        for (view, pixels) in Self::views(views).into_iter().zip(pixels.chunks_exact(bytes)) {
            let frames = Frames::new(shape, pixels.to_vec());
            let with = frames.and_then(|frames| obs.with_camera(view.camera, frames));
            obs = with.map_err(|error| error.to_string())?;
        }
        let frames: Vec<FrameStack<'_>> = (0..count).map(|row| FrameStack::single(obs.row(row))).collect();
        let scores = self.model.scores(&frames).map_err(|error| error.to_string())?;
        Ok((scores.into_iter().map(Score::get).collect(), 0))
    }
}
