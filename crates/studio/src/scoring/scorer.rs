//! A reward model, as recordings are shown to it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plaudit_core::{Frames, Obs, Score};
use plaudit_data::recording::Recording;
use plaudit_reward::audit::AuditRule;
use plaudit_reward::dataset::ViewKey;
use plaudit_reward::endpoint::ServerModel;
use plaudit_reward::open::{ModelLocation, OpenFrameModel, OpenOptions, RewardModel};
use plaudit_reward::{
    CameraView, FrameRewardModel, FrameStack, Guard, Latch, LiveRule, Rule, StateConditions, SuccessThreshold,
};

/// Frames that are scored at a time.
const CHUNK: usize = 32;

/// What a model says of itself, as far as curves show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelFacts {
    /// Scores above it mean success.
    pub(crate) threshold: f64,
    /// Whether the model says so itself; otherwise it is one half.
    pub(crate) has_threshold: bool,
    /// What the state must be as well, in words.
    pub(crate) guard: Option<String>,
    /// The rule that its audit promised something about.
    pub(crate) rule: AuditRule,
    /// What was promised, in words.
    pub(crate) promise: Option<String>,
}

/// What a model says of an episode.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EpisodeScores {
    pub(crate) scores: Vec<f32>,
    /// Whether the state is as it must be, where the model asks for that.
    pub(crate) guard: Option<Vec<bool>>,
    /// Whether the rule of its audit rewards each frame: threshold, guard, and so many frames in a row.
    pub(crate) rewarded: Vec<bool>,
}

/// An open model.
pub(super) struct RecordingScorer {
    model: Box<dyn FrameRewardModel>,
    views: Vec<ViewKey>,
    conditions: Option<(StateConditions, Vec<Guard>)>,
    pub(super) facts: ModelFacts,
}

impl RecordingScorer {
    pub(super) fn open(at: &Path, options: &OpenOptions) -> Result<Self, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let location = ModelLocation::find(at, None).map_err(|error| words(&error))?;
        match &location {
            ModelLocation::Custom(custom) => {
                let opened =
                    OpenFrameModel::open_custom(custom.clone(), options).map_err(|error| words(&error))?;
                Self::of_frames(opened)
            }
            ModelLocation::Classifier(_) | ModelLocation::VisionLanguage(_) | ModelLocation::Server(_) => {
                match RewardModel::open(&location, options.clone()).map_err(|error| words(&error))? {
                    RewardModel::Classifier(model) => Self::of_frames(OpenFrameModel::Classifier(model)),
                    RewardModel::Custom(model) => Self::of_frames(OpenFrameModel::Custom(model)),
                    RewardModel::Server(ServerModel::Frames(model)) => {
                        let views = views(&model.image_keys)?;
                        let model = model.reward_model(camera_views(&views));
                        let facts = ModelFacts::of(model.threshold().map(f64::from), None, None);
                        Ok(Self { model: Box::new(model), views, conditions: None, facts })
                    }
                    RewardModel::VisionLanguage(_) | RewardModel::Server(ServerModel::Chat(_)) => {
                        Err("a vision-language model does not score frame by frame".into())
                    }
                }
            }
        }
    }

    fn of_frames(opened: OpenFrameModel) -> Result<Self, String> {
        let views = views(&opened.image_keys())?;
        let known = opened.known();
        let conditions = match known.conditions {
            Some(conditions) => {
                let guards = conditions.parse().map_err(|error| error.to_string())?;
                Some((conditions.clone(), guards))
            }
            None => None,
        };
        let guarantee = match &opened {
            OpenFrameModel::Classifier(model) => model.card.guarantee,
            OpenFrameModel::Custom(model) => model.card.guarantee,
        };
        let promise = guarantee.as_ref().map(|promised| {
            let percent = |share: f64| {
                format!("{:.4}", 100.0 * share).trim_end_matches('0').trim_end_matches('.').to_string()
            };
            format!(
                "false alarms in at most {} % of episodes, with confidence {}",
                percent(promised.max_rate),
                promised.confidence
            )
        });
        let rule = guarantee.and_then(|promised| promised.rule);
        let guard = conditions.as_ref().map(|(conditions, _)| conditions.text());
        let facts = ModelFacts { guard, ..ModelFacts::of(known.threshold, rule, promise) };
        let model = Box::new(opened.reward_model(camera_views(&views)));
        Ok(Self { model, views, conditions, facts })
    }

    /// A score for each observation. `progress` hears how many are done; nothing where it should stop.
    pub(super) fn scores(
        &self,
        recording: &Recording,
        stop: &AtomicBool,
        progress: &dyn Fn(usize),
    ) -> Result<EpisodeScores, String> {
        let (history, count) = (self.model.history_len(), recording.len());
        let mut scores: Vec<f32> = Vec::with_capacity(count);
        for first in (0..count).step_by(CHUNK) {
            if stop.load(Ordering::Relaxed) {
                return Err("stopped".into());
            }
            let (start, end) = (first.saturating_sub(history), count.min(first + CHUNK));
            let seen: Vec<Obs> =
                (start..end).map(|at| self.observation(recording, at)).collect::<Result<_, _>>()?;
            let stack = |at: usize| {
                let past = seen[..at].iter().rev().take(history).map(|obs| obs.row(0));
                FrameStack::with_history(seen[at].row(0), past.collect())
            };
            let stacks: Vec<FrameStack<'_>> = (first - start..end - start).map(stack).collect();
            let found = self.model.scores(&stacks).map_err(|error| error.to_string())?;
            scores.extend(found.into_iter().map(Score::get));
            progress(scores.len());
        }
        let guard = self.guard(recording)?;
        for (score, holds) in scores.iter_mut().zip(guard.iter().flatten()) {
            if !holds {
                *score = 0.0;
            }
        }
        let rewarded = self.facts.rewarded(&scores)?;
        Ok(EpisodeScores { scores, guard, rewarded })
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

    /// Whether the state is as the model asks, frame by frame.
    fn guard(&self, recording: &Recording) -> Result<Option<Vec<bool>>, String> {
        let Some((conditions, guards)) = &self.conditions else { return Ok(None) };
        let holds = |at: usize| {
            let state = recording.state(at).unwrap_or_default();
            if state.len() != conditions.state_width {
                return Err(format!(
                    "the model rewards only where {} holds in states of {} numbers, and that of frame {at} has {}",
                    conditions.text(),
                    conditions.state_width,
                    state.len()
                ));
            }
            Ok(guards.iter().all(|guard| guard.holds_in(&state)))
        };
        (0..recording.len()).map(holds).collect::<Result<_, _>>().map(Some)
    }
}

impl ModelFacts {
    fn of(threshold: Option<f64>, rule: Option<AuditRule>, promise: Option<String>) -> Self {
        let rule = rule.unwrap_or(AuditRule::DEFAULT);
        Self {
            threshold: threshold.unwrap_or(0.5),
            has_threshold: threshold.is_some(),
            guard: None,
            rule,
            promise,
        }
    }

    /// Whether the rule rewards each frame.
    pub(crate) fn rewarded(&self, scores: &[f32]) -> Result<Vec<bool>, String> {
        let latch = match self.rule.leave {
            None => Latch::Threshold(SuccessThreshold::At(self.threshold)),
            Some(leave) => Latch::Hysteresis {
                enter: self.threshold as f32,
                leave: leave as f32,
                longest_episode: scores.len(),
            },
        };
        let mut rule = LiveRule::new(Rule { latch, guards: Vec::new(), hold: self.rule.hold }, None);
        let obs = Obs::from_state(1, Vec::new()).map_err(|error| error.to_string())?;
        let take = |score: &f32| rule.take(Score::new(*score).unwrap_or(Score::IMPOSSIBLE), &obs.row(0));
        Ok(scores.iter().map(take).collect())
    }
}

fn views(keys: &[String]) -> Result<Vec<ViewKey>, String> {
    let main = ["main_images".to_string()];
    let keys = if keys.is_empty() { &main[..] } else { keys };
    keys.iter()
        .map(|key| key.parse().map_err(|error: plaudit_reward::dataset::DatasetError| error.to_string()))
        .collect()
}

fn camera_views(views: &[ViewKey]) -> Vec<CameraView> {
    views.iter().map(|view| CameraView { camera: view.camera.as_str().into(), back: view.back }).collect()
}
