//! Reward models: from observations to scores or labels. How those become rewards is the business of `shaping`.
//!
//! A [`FrameRewardModel`] gives each frame a [`Score`]; a [`ClipRewardModel`] gives each window of frames a [`ClipReward`]. An image
//! classifier is the first, a vision-language model the second. Which frames they are shown, and what becomes of
//! their answers, is the business of `shaping`.

mod cameras;
mod classifier;
mod file;
mod frame_dump;
mod reloadable;

use std::path::PathBuf;
use std::sync::Arc;

use plaudit_core::{ObsRow, RewardError, Score};
use thiserror::Error;

pub use cameras::{CameraError, camera_for};
pub use classifier::{CameraView, Classifier};
pub use file::RewardModelFile;
pub use frame_dump::FrameDump;
pub use reloadable::{LoadedModel, ReloadableModel, RewardModelSource, VersionedModel};

use crate::hacking_monitor::OodCheck;
use crate::images::ImageWriteError;
use crate::shaping::Clip;

/// Scores single frames. The score of a frame does not depend on the rest of the batch.
pub trait FrameRewardModel: Send + Sync {
    /// The cameras it needs, as the environment names them. None: it needs no images.
    fn cameras(&self) -> &[Arc<str>];

    /// One score per frame, in order.
    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError>;

    /// How many past frames it stacks with each frame; 0 for a single-frame model.
    fn history_len(&self) -> usize {
        0
    }

    /// The score above which it means success, if it has one.
    fn threshold(&self) -> Option<f32> {
        None
    }

    /// Whether frames that it rewards are out of distribution, compared with the successes of its audit; `None` from a model that was not audited.
    fn check_ood(&self, _frames: &[FrameStack<'_>]) -> Result<Option<Vec<OodCheck>>, RewardModelError> {
        Ok(None)
    }
}

/// The input of a reward model at one step: the observation, and the past observations that it stacks.
#[derive(Clone, Debug)]
pub struct FrameStack<'a> {
    now: ObsRow<'a>,
    /// The newest first.
    history: Vec<ObsRow<'a>>,
}

impl<'a> FrameStack<'a> {
    /// A single observation, without history.
    pub fn single(now: ObsRow<'a>) -> Self {
        Self { now, history: Vec::new() }
    }

    /// An observation and those before it in its episode, the newest first.
    pub fn with_history(now: ObsRow<'a>, history: Vec<ObsRow<'a>>) -> Self {
        Self { now, history }
    }

    /// What was seen.
    pub fn now(&self) -> ObsRow<'a> {
        self.now
    }

    /// What was seen so many steps earlier; before an episode's first observation, it is the first.
    pub fn back(&self, steps: usize) -> ObsRow<'a> {
        match steps.min(self.history.len()) {
            0 => self.now,
            steps => self.history[steps - 1],
        }
    }
}

/// Scores windows of frames. The reward of a window does not depend on the rest of the batch.
pub trait ClipRewardModel: Send + Sync {
    /// One reward per clip, in order, all of the same version.
    fn score(&self, clips: &[Clip<'_>]) -> Result<ClipRewards, RewardModelError>;

    /// Whether it says that the task is solved.
    fn sees_success(&self) -> bool;

    /// The words that it may answer with, each a curve in the log.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many past frames it stacks with each frame of a clip.
    fn history_len(&self) -> usize {
        0
    }

    /// Grows when the model changes.
    fn version(&self) -> u64 {
        0
    }

    /// As [`plaudit_core::Reward::refresh`].
    fn refresh(&self) -> Result<bool, RewardModelError> {
        Ok(false)
    }
}

/// What a [`ClipRewardModel`] said.
#[derive(Debug, Clone, PartialEq)]
pub struct ClipRewards {
    /// One per clip.
    pub rewards: Vec<ClipReward>,
    /// The version of the model that answered.
    pub version: u64,
}

/// What one clip is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipReward {
    /// Its reward.
    pub reward: f32,
    /// Whether it shows the task solved; false from a model that does not say.
    pub success: bool,
    /// How sure the model is, if it says so.
    pub score: Option<Score>,
    /// Its answer in a word, one of [`ClipRewardModel::words`].
    pub word: Option<&'static str>,
}

/// Always says success, without an image: guards on the state decide alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct StateOnlyModel;

impl FrameRewardModel for StateOnlyModel {
    fn cameras(&self) -> &[Arc<str>] {
        &[]
    }

    fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
        Ok(vec![Score::CERTAIN; frames.len()])
    }

    fn threshold(&self) -> Option<f32> {
        Some(0.5)
    }
}

/// Why a reward model could not score.
#[derive(Debug, Error)]
pub enum RewardModelError {
    /// A camera that was not rendered.
    #[error("the reward model needs camera `{camera}`, which was not rendered")]
    Camera {
        /// Its name.
        camera: Arc<str>,
    },
    /// A camera whose images change their size.
    #[error("camera `{camera}` gives images of different sizes")]
    Shapes {
        /// Its name.
        camera: Arc<str>,
    },
    /// Images that cannot be converted to RGB.
    #[error(
        "camera `{camera}` gives images of {channels} channels, and a vision-language model sees colours"
    )]
    Channels {
        /// Its name.
        camera: Arc<str>,
        /// How many there are.
        channels: usize,
    },
    /// A task that nobody put into words.
    #[error("the environment does not say what the task is")]
    Task,
    /// A checkpoint that is not there.
    #[error("cannot read {}: {reason}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A score that is no probability.
    #[error(
        "the reward model gives frame {frame} the score {value}, which is not a probability; its weights are broken"
    )]
    NotAScore {
        /// What it said.
        value: f32,
        /// Which frame of the batch.
        frame: usize,
    },
    /// Too many or too few answers.
    #[error("the reward model gave {answers} answers for {asked} frames")]
    Answers {
        /// What it was asked.
        asked: usize,
        /// What it said.
        answers: usize,
    },
    /// Answers that are none of those asked for.
    #[error(
        "{nonsense} of the last {answers} answers were none of those asked for, such as {}",
        quoted(samples)
    )]
    Nonsense {
        /// How many.
        nonsense: usize,
        /// Of how many.
        answers: usize,
        /// Some of them.
        samples: Vec<String>,
    },
    /// Past frames that are missing.
    #[error(transparent)]
    History(RewardError),
    /// A scored image could not be saved.
    #[error(transparent)]
    SaveFrame(#[from] ImageWriteError),
    /// The backend failed.
    #[error(transparent)]
    Backend(#[from] Box<dyn std::error::Error + Send + Sync>),
}

fn quoted(samples: &[String]) -> String {
    samples.iter().map(|sample| format!("`{sample}`")).collect::<Vec<_>>().join(", ")
}

impl From<RewardModelError> for RewardError {
    fn from(error: RewardModelError) -> Self {
        match error {
            RewardModelError::Camera { camera } => Self::Camera { camera },
            RewardModelError::History(error) => error,
            RewardModelError::Backend(cause) => Self::Backend(cause),
            other => Self::Backend(Box::new(other)),
        }
    }
}
