//! What a reward model of frames says of a recording: a score for each observation, and whether the state is as it must be.

use plaudit_core::{Frames, Obs, ObsError, Score};
use plaudit_data::recording::{FileProblem, Recording};
use thiserror::Error;

use crate::dataset::{DatasetError, ViewKey};
use crate::endpoint::ServerModel;
use crate::models::{CameraView, FrameRewardModel, FrameStack, RewardModelError};
use crate::open::OpenFrameModel;
use crate::shaping::{Guard, GuardError, StateConditions};

/// Frames that are scored at a time.
const CHUNK: usize = 32;

/// A reward model of frames, as recordings are shown to it.
pub struct RecordingScorer {
    model: Box<dyn FrameRewardModel>,
    views: Vec<ViewKey>,
    conditions: Option<(StateConditions, Vec<Guard>)>,
}

/// What a model says of a recording, frame by frame.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingScores {
    /// The scores; 0 where the state is not as it must be.
    pub scores: Vec<f32>,
    /// Whether the state is as it must be, where the model asks for that.
    pub guard: Option<Vec<bool>>,
}

/// Why a recording got no scores.
#[derive(Debug, Error)]
pub enum RecordingScorerError {
    /// A model that is asked about windows in words.
    #[error("a vision-language model does not score frame by frame")]
    Words,
    /// Views of a model that cannot be read.
    #[error(transparent)]
    Views(#[from] DatasetError),
    /// Conditions of a model that cannot be read.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// An image of the recording that cannot be read.
    #[error(transparent)]
    Image(#[from] FileProblem),
    /// A camera that was not recorded.
    #[error("the model looks at `{camera}`, and frame {at} shows {}", recorded.join(", "))]
    Camera {
        /// The camera.
        camera: String,
        /// The frame.
        at: usize,
        /// What was recorded.
        recorded: Vec<String>,
    },
    /// A state of another width than the model's conditions are about.
    #[error(
        "the model rewards only where {conditions} holds in states of {width} numbers, and that of frame {at} has {found}"
    )]
    State {
        /// The conditions, in words.
        conditions: String,
        /// How many numbers they expect.
        width: usize,
        /// The frame.
        at: usize,
        /// How many it has.
        found: usize,
    },
    /// Images that make no observation.
    #[error(transparent)]
    Observation(#[from] ObsError),
    /// A model that failed.
    #[error(transparent)]
    Model(#[from] RewardModelError),
    /// Whoever asked wants no more.
    #[error("stopped")]
    Stopped,
}

impl RecordingScorer {
    /// A model of this process.
    ///
    /// # Errors
    /// When its views or its conditions cannot be read.
    pub fn of_frames(opened: OpenFrameModel) -> Result<Self, RecordingScorerError> {
        let views = views(&opened.image_keys())?;
        let parsed = |conditions: &StateConditions| Ok((conditions.clone(), conditions.parse()?));
        let conditions = opened.known().conditions.map(parsed);
        let conditions = conditions.transpose().map_err(|error: GuardError| error)?;
        let model = Box::new(opened.reward_model(camera_views(&views)));
        Ok(Self { model, views, conditions })
    }

    /// A model on a server.
    ///
    /// # Errors
    /// When it is asked in words, or its views cannot be read.
    pub fn of_server(server: ServerModel) -> Result<Self, RecordingScorerError> {
        match server {
            ServerModel::Frames(model) => {
                let views = views(&model.image_keys)?;
                let model = Box::new(model.reward_model(camera_views(&views)));
                Ok(Self { model, views, conditions: None })
            }
            ServerModel::Chat(_) => Err(RecordingScorerError::Words),
        }
    }

    /// The score above which the model means success, if it says so.
    #[must_use]
    pub fn threshold(&self) -> Option<f32> {
        self.model.threshold()
    }

    /// What the state must be as well, in words.
    #[must_use]
    pub fn conditions(&self) -> Option<String> {
        self.conditions.as_ref().map(|(conditions, _)| conditions.text())
    }

    /// A score for each observation. `progress` hears how many are done, and says whether to go on.
    ///
    /// # Errors
    /// When the recording does not show what the model looks at, the model fails, or `progress` says no.
    pub fn scores(
        &self,
        recording: &Recording,
        progress: &dyn Fn(usize) -> bool,
    ) -> Result<RecordingScores, RecordingScorerError> {
        let (history, count) = (self.model.history_len(), recording.len());
        let mut scores: Vec<f32> = Vec::with_capacity(count);
        for first in (0..count).step_by(CHUNK) {
            if !progress(first) {
                return Err(RecordingScorerError::Stopped);
            }
            let (start, end) = (first.saturating_sub(history), count.min(first + CHUNK));
            let seen: Vec<Obs> =
                (start..end).map(|at| self.observation(recording, at)).collect::<Result<_, _>>()?;
            let stack = |at: usize| {
                let past = seen[..at].iter().rev().take(history).map(|obs| obs.row(0));
                FrameStack::with_history(seen[at].row(0), past.collect())
            };
            let stacks: Vec<FrameStack<'_>> = (first - start..end - start).map(stack).collect();
            scores.extend(self.model.scores(&stacks)?.into_iter().map(Score::get));
        }
        let guard = self.guard(recording)?;
        for (score, holds) in scores.iter_mut().zip(guard.iter().flatten()) {
            if !holds {
                *score = 0.0;
            }
        }
        Ok(RecordingScores { scores, guard })
    }

    /// What the model's cameras show.
    fn observation(&self, recording: &Recording, at: usize) -> Result<Obs, RecordingScorerError> {
        let mut obs = Obs::from_state(1, Vec::new())?;
        for camera in ViewKey::cameras(&self.views) {
            let Some(image) = recording.frame(at, &camera)? else {
                let recorded = recording.cameras();
                return Err(RecordingScorerError::Camera { camera, at, recorded });
            };
            let frames = Frames::new(image.shape(), image.pixels()?.into_owned())?;
            obs = obs.with_camera(camera.as_str(), frames)?;
        }
        Ok(obs)
    }

    /// Whether the state is as the model asks, frame by frame.
    fn guard(&self, recording: &Recording) -> Result<Option<Vec<bool>>, RecordingScorerError> {
        let Some((conditions, guards)) = &self.conditions else { return Ok(None) };
        let holds = |at: usize| {
            let state = recording.state(at).unwrap_or_default();
            let (width, found) = (conditions.state_width, state.len());
            if found != width {
                let conditions = conditions.text();
                return Err(RecordingScorerError::State { conditions, width, at, found });
            }
            Ok(guards.iter().all(|guard| guard.holds_in(&state)))
        };
        (0..recording.len()).map(holds).collect::<Result<_, _>>().map(Some)
    }
}

/// The views of a model; one that names none looks at the main camera.
fn views(keys: &[String]) -> Result<Vec<ViewKey>, DatasetError> {
    let main = ["main_images".to_string()];
    let keys = if keys.is_empty() { &main[..] } else { keys };
    keys.iter().map(|key| key.parse()).collect()
}

fn camera_views(views: &[ViewKey]) -> Vec<CameraView> {
    views.iter().map(|view| CameraView { camera: view.camera.as_str().into(), back: view.back }).collect()
}
