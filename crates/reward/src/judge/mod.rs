//! Who judges: from what was seen to a score or a verdict, and nothing about pay.
//!
//! A [`FrameJudge`] gives each moment a [`Score`]; a [`ClipJudge`] gives each window of moments a [`Verdict`]. An image
//! classifier is the first, a vision-language model the second. Which moments they are shown, and what becomes of
//! their answers, is the business of `pay`.

mod cameras;
mod classifier;
mod file;
mod gallery;
mod seat;

use std::path::PathBuf;
use std::sync::Arc;

use plaudit_core::{ObsRow, RewardError, Score};
use thiserror::Error;

pub use cameras::{CameraError, camera_for};
pub use classifier::{Classifier, Sight};
pub use file::JudgeFile;
pub use gallery::Gallery;
pub use seat::{JudgeSource, Newer, Seat, Seated};

use crate::pay::Clip;
use crate::pictures::PictureError;
use crate::watch::Look;

/// Scores single moments. The score of a moment does not depend on what is scored beside it.
pub trait FrameJudge: Send + Sync {
    /// The cameras it looks at, as the environment names them. None: it needs no pictures.
    fn cameras(&self) -> &[Arc<str>];

    /// One score per moment, in order.
    fn scores(&self, moments: &[Moment<'_>]) -> Result<Vec<Score>, JudgeError>;

    /// How many steps it looks back from each moment.
    fn reach(&self) -> usize {
        0
    }

    /// The score above which it means success, if it was told one.
    fn threshold(&self) -> Option<f32> {
        None
    }

    /// How moments that it rewards compare with successes that it knows; `None` from a judge that does not know any.
    fn look(&self, _moments: &[Moment<'_>]) -> Result<Option<Vec<Look>>, JudgeError> {
        Ok(None)
    }
}

/// What a judge is shown of one moment: what was seen then, and as much of the past as it looks back.
#[derive(Clone, Debug)]
pub struct Moment<'a> {
    now: ObsRow<'a>,
    /// The newest first.
    past: Vec<ObsRow<'a>>,
}

impl<'a> Moment<'a> {
    /// A moment of which only itself is known.
    pub fn alone(now: ObsRow<'a>) -> Self {
        Self { now, past: Vec::new() }
    }

    /// A moment and what came before it in its episode, the newest first.
    pub fn with_past(now: ObsRow<'a>, past: Vec<ObsRow<'a>>) -> Self {
        Self { now, past }
    }

    /// What was seen.
    pub fn now(&self) -> ObsRow<'a> {
        self.now
    }

    /// What was seen so many steps earlier; before an episode's first moment, it is the first.
    pub fn back(&self, steps: usize) -> ObsRow<'a> {
        match steps.min(self.past.len()) {
            0 => self.now,
            steps => self.past[steps - 1],
        }
    }
}

/// Judges windows of moments. The verdict on a window does not depend on what is judged beside it.
pub trait ClipJudge: Send + Sync {
    /// One verdict per clip, in order, all of the same version.
    fn judge(&self, clips: &[Clip<'_>]) -> Result<Judged, JudgeError>;

    /// Whether its verdicts say that the task is solved.
    fn sees_success(&self) -> bool;

    /// The words that its verdicts may use, each a curve in the log.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// How many steps it looks back from each frame of a clip.
    fn reach(&self) -> usize {
        0
    }

    /// Grows when the judge changes its mind.
    fn version(&self) -> u64 {
        0
    }

    /// As [`plaudit_core::Reward::refresh`].
    fn refresh(&self) -> Result<bool, JudgeError> {
        Ok(false)
    }
}

/// What a [`ClipJudge`] said.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// One per clip.
    pub verdicts: Vec<Verdict>,
    /// The version of the judge that spoke.
    pub version: u64,
}

/// What one clip is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// What it pays.
    pub pay: f32,
    /// Whether it shows the task solved; false from a judge that does not say.
    pub success: bool,
    /// How sure the judge is, if it says so.
    pub score: Option<Score>,
    /// Its answer in a word, one of [`ClipJudge::words`].
    pub word: Option<&'static str>,
}

/// Sees nothing and always says yes: whoever asks it lets guards on the state decide alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct StateAlone;

impl FrameJudge for StateAlone {
    fn cameras(&self) -> &[Arc<str>] {
        &[]
    }

    fn scores(&self, moments: &[Moment<'_>]) -> Result<Vec<Score>, JudgeError> {
        Ok(vec![Score::CERTAIN; moments.len()])
    }

    fn threshold(&self) -> Option<f32> {
        Some(0.5)
    }
}

/// Why a judge could not judge.
#[derive(Debug, Error)]
pub enum JudgeError {
    /// A camera that was not drawn.
    #[error("the judge looks at camera `{camera}`, which was not drawn")]
    Camera {
        /// Its name.
        camera: Arc<str>,
    },
    /// A camera whose pictures change their size.
    #[error("camera `{camera}` gives pictures of different sizes")]
    Shapes {
        /// Its name.
        camera: Arc<str>,
    },
    /// Pictures of which no colours can be made.
    #[error(
        "camera `{camera}` gives pictures of {channels} channels, and a vision-language model sees colours"
    )]
    Channels {
        /// Its name.
        camera: Arc<str>,
        /// How many there are.
        channels: usize,
    },
    /// A task that nobody put into words.
    #[error(
        "the environment does not say what the task is; set \
         reward.model.input_builder_params.default_task_description"
    )]
    Task,
    /// A checkpoint that is not there.
    #[error("cannot read {}: {reason}; is reward.model.model_path right?", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A score that is no probability.
    #[error(
        "the judge gives moment {moment} the score {value}, which is no probability; its weights are broken"
    )]
    NotAScore {
        /// What it said.
        value: f32,
        /// Which moment of those it was shown.
        moment: usize,
    },
    /// Too many or too few answers.
    #[error("the judge gave {answers} answers about {asked} moments")]
    Answers {
        /// What it was asked.
        asked: usize,
        /// What it said.
        answers: usize,
    },
    /// A past that it looks back to and that is not there.
    #[error(transparent)]
    Past(RewardError),
    /// A judged picture could not be kept.
    #[error(transparent)]
    Keep(#[from] PictureError),
    /// Whatever judges failed.
    #[error(transparent)]
    Backend(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl From<JudgeError> for RewardError {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::Camera { camera } => Self::Camera { camera },
            JudgeError::Past(error) => error,
            JudgeError::Backend(cause) => Self::Backend(cause),
            other => Self::Backend(Box::new(other)),
        }
    }
}
