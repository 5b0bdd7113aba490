//! A reward model of frames, as recordings are shown to it.

use plaudit_core::{Frames, Obs, Score};
use plaudit_data::recording::Recording;

use super::{RecordingScorerError, RecordingScores};
use crate::dataset::{DatasetError, ViewKey};
use crate::endpoint::FrameEndpoint;
use crate::models::{CameraView, FrameRewardModel, FrameStack};
use crate::open::OpenFrameModel;
use crate::shaping::{Guard, GuardError, StateConditions};

/// Frames that are scored at a time.
const CHUNK: usize = 32;

pub(super) struct FrameScorer {
    model: Box<dyn FrameRewardModel>,
    views: Vec<ViewKey>,
    conditions: Option<(StateConditions, Vec<Guard>)>,
}

impl FrameScorer {
    pub(super) fn of_frames(opened: OpenFrameModel) -> Result<Self, RecordingScorerError> {
        let views = views(&opened.image_keys())?;
        let parsed = |conditions: &StateConditions| Ok((conditions.clone(), conditions.parse()?));
        let conditions = opened.known().conditions.map(parsed);
        let conditions = conditions.transpose().map_err(|error: GuardError| error)?;
        let model = Box::new(opened.reward_model(camera_views(&views)));
        Ok(Self { model, views, conditions })
    }

    pub(super) fn of_server(server: FrameEndpoint) -> Result<Self, RecordingScorerError> {
        let views = views(&server.image_keys)?;
        let model = Box::new(server.reward_model(camera_views(&views)));
        Ok(Self { model, views, conditions: None })
    }

    pub(super) fn threshold(&self) -> Option<f32> {
        self.model.threshold()
    }

    pub(super) fn conditions(&self) -> Option<String> {
        self.conditions.as_ref().map(|(conditions, _)| conditions.text())
    }

    /// A score for each observation. `progress` hears how many are done, and says whether to go on.
    pub(super) fn scores(
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
