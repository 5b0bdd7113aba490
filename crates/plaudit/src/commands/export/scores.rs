//! What a reward model says of each frame of an episode that is exported.

use std::path::Path;

use plaudit_core::{Frames, Obs};
use plaudit_data::recording::Recording;
use plaudit_reward::dataset::ViewKey;
use plaudit_reward::endpoint::ServerModel;
use plaudit_reward::open::{ModelLocation, OpenOptions, RewardModel};
use plaudit_reward::{CameraView, Classifier, FrameRewardModel, FrameStack, Guard, StateConditions};

use crate::cli::Verbosity;
use crate::commands::reward::{PreparationArgs, as_failure, unopened, views};
use crate::device::DeviceChoice;
use crate::failure::Failure;

/// Frames that are scored at a time.
const CHUNK: usize = 64;

/// A reward model of frames, as recordings are shown to it.
pub(super) struct RecordingScorer {
    model: Box<dyn FrameRewardModel>,
    views: Vec<ViewKey>,
    conditions: Option<(StateConditions, Vec<Guard>)>,
}

impl RecordingScorer {
    /// The model at a path or an address.
    pub(super) fn open(at: &Path, device: DeviceChoice, verbosity: Verbosity) -> Result<Self, Failure> {
        let location = ModelLocation::find(at, None).map_err(|error| unopened(error.into()))?;
        match location {
            location @ (ModelLocation::Classifier(_) | ModelLocation::Custom(_)) => {
                Self::of_frames(at, location, device, verbosity)
            }
            ModelLocation::VisionLanguage(_) => Err(judge(at)),
            location @ ModelLocation::Server(_) => {
                match RewardModel::open(&location, OpenOptions::default()).map_err(unopened)? {
                    RewardModel::Server(ServerModel::Frames(model)) => {
                        let views = views(&model.image_keys).map_err(|error| as_failure(&error))?;
                        let model = Box::new(model.reward_model(camera_views(&views)));
                        Ok(Self { model, views, conditions: None })
                    }
                    _ => Err(judge(at)),
                }
            }
        }
    }

    fn of_frames(
        at: &Path,
        location: ModelLocation,
        device: DeviceChoice,
        verbosity: Verbosity,
    ) -> Result<Self, Failure> {
        let opened = PreparationArgs::default().open_frames(at, location, device, verbosity)?;
        let views = views(&opened.image_keys());
        let views = views.map_err(|error| as_failure(&error))?;
        let parsed = |conditions: &StateConditions| Ok((conditions.clone(), conditions.parse()?));
        let conditions = opened.known().conditions.map(parsed).transpose();
        let conditions =
            conditions.map_err(|error: plaudit_reward::GuardError| Failure::usage(error, None))?;
        let model = opened.reward_model(camera_views(&views));
        Ok(Self { model: Box::new(model), views, conditions })
    }

    /// A score for each observation.
    pub(super) fn scores(&self, recording: &Recording) -> Result<Vec<f32>, String> {
        let (history, count) = (self.model.history_len(), recording.len());
        let mut scores = Vec::with_capacity(count);
        for first in (0..count).step_by(CHUNK) {
            let (start, end) = (first.saturating_sub(history), count.min(first + CHUNK));
            let seen: Vec<Obs> =
                (start..end).map(|at| self.observation(recording, at)).collect::<Result<_, _>>()?;
            let stack = |at: usize| {
                let past = seen[..at].iter().rev().take(history).map(|obs| obs.row(0));
                FrameStack::with_history(seen[at].row(0), past.collect())
            };
            let stacks: Vec<FrameStack<'_>> = (first - start..end - start).map(stack).collect();
            let found = self.model.scores(&stacks).map_err(|error| error.to_string())?;
            scores.extend(found.into_iter().map(plaudit_core::Score::get));
        }
        self.without_unmet(recording, scores)
    }

    /// What the model's cameras show.
    fn observation(&self, recording: &Recording, at: usize) -> Result<Obs, String> {
        let mut obs = Obs::from_state(1, Vec::new()).map_err(|error| error.to_string())?;
        for ViewKey { camera, .. } in &self.views {
            if obs.cameras.iter().any(|(name, _)| **name == **camera) {
                continue;
            }
            let image = recording.frame(at, camera).map_err(|problem| problem.to_string())?;
            let image = image.ok_or_else(|| {
                let cameras = recording.cameras().join(", ");
                format!("the model looks at `{camera}`, and frame {at} shows {cameras}")
            })?;
            let pixels = image.pixels().map_err(|problem| problem.to_string())?.into_owned();
            let frames = Frames::new(image.shape(), pixels).map_err(|error| error.to_string())?;
            obs = obs.with_camera(camera.as_str(), frames).map_err(|error| error.to_string())?;
        }
        Ok(obs)
    }

    /// The scores with 0 where the model's conditions on the state do not hold.
    fn without_unmet(&self, recording: &Recording, mut scores: Vec<f32>) -> Result<Vec<f32>, String> {
        let Some((conditions, guards)) = &self.conditions else { return Ok(scores) };
        for (at, score) in scores.iter_mut().enumerate() {
            let state = recording.state(at).unwrap_or_default();
            if state.len() != conditions.state_width {
                return Err(format!(
                    "the model rewards only where {} holds in states of {} numbers, and that of frame {at} has {}",
                    conditions.text(),
                    conditions.state_width,
                    state.len()
                ));
            }
            if !guards.iter().all(|guard| guard.holds_in(&state)) {
                *score = 0.0;
            }
        }
        Ok(scores)
    }
}

fn camera_views(views: &[ViewKey]) -> Vec<CameraView> {
    views.iter().map(|view| CameraView { camera: view.camera.as_str().into(), back: view.back }).collect()
}

/// A model that is asked about windows in words.
fn judge(at: &Path) -> Failure {
    let message = format!("{} is a vision-language model, which does not score frame by frame", at.display());
    let help = "give an image classifier or a model of progress; `plaudit reward eval --readout` writes what a \
                vision-language model says of episodes";
    Failure::usage(message, help.to_string())
}
