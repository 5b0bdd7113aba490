//! What a reward model says of a recording: a score for each observation, and whether the state is as it must be.
//!
//! A model of frames is asked about each of them; a vision-language judge about the episode so far, at a few points.

mod frames;
mod judge;

use plaudit_core::ObsError;
use plaudit_data::recording::{FileProblem, Recording};
use thiserror::Error;

use self::frames::FrameScorer;
use self::judge::JudgeScorer;
use crate::dataset::DatasetError;
use crate::endpoint::ServerModel;
use crate::models::RewardModelError;
use crate::open::{OpenFrameModel, OpenVlm};
use crate::shaping::GuardError;

/// A reward model, as recordings are shown to it.
pub struct RecordingScorer {
    model: Scorer,
}

enum Scorer {
    Frames(FrameScorer),
    Judge(Box<JudgeScorer>),
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
    /// A model on a server that is asked in words.
    #[error("a vision-language model on a server does not say how it was tuned")]
    Chat,
    /// A judge that is asked about a task which nobody names.
    #[error("the judge is asked about the task, and the recording does not say which that is")]
    Task,
    /// A recording with fewer cameras than a judge was tuned with.
    #[error("the judge looks through {wanted} cameras, and the recording has {}", recorded.join(", "))]
    Cameras {
        /// How many it was tuned with.
        wanted: usize,
        /// What was recorded.
        recorded: Vec<String>,
    },
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
    /// A model of frames in this process.
    ///
    /// # Errors
    /// When its views or its conditions cannot be read.
    pub fn of_frames(opened: OpenFrameModel) -> Result<Self, RecordingScorerError> {
        FrameScorer::of_frames(opened).map(|model| Self { model: Scorer::Frames(model) })
    }

    /// A vision-language judge in this process.
    #[must_use]
    pub fn of_judge(judge: OpenVlm) -> Self {
        Self { model: Scorer::Judge(Box::new(JudgeScorer::of(judge))) }
    }

    /// A model on a server.
    ///
    /// # Errors
    /// When it is asked in words, or its views cannot be read.
    pub fn of_server(server: ServerModel) -> Result<Self, RecordingScorerError> {
        match server {
            ServerModel::Frames(model) => {
                FrameScorer::of_server(*model).map(|model| Self { model: Scorer::Frames(model) })
            }
            ServerModel::Chat(_) => Err(RecordingScorerError::Chat),
        }
    }

    /// The score above which the model means success, if it says so.
    #[must_use]
    pub fn threshold(&self) -> Option<f32> {
        match &self.model {
            Scorer::Frames(model) => model.threshold(),
            Scorer::Judge(_) => None,
        }
    }

    /// What the state must be as well, in words.
    #[must_use]
    pub fn conditions(&self) -> Option<String> {
        match &self.model {
            Scorer::Frames(model) => model.conditions(),
            Scorer::Judge(_) => None,
        }
    }

    /// How its scores come about, where they are not of single frames.
    #[must_use]
    pub fn asked(&self) -> Option<String> {
        match &self.model {
            Scorer::Frames(_) => None,
            Scorer::Judge(judge) => Some(judge.asked()),
        }
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
        match &self.model {
            Scorer::Frames(model) => model.scores(recording, progress),
            Scorer::Judge(judge) => {
                let scores = judge.scores(recording, progress)?;
                Ok(RecordingScores { scores, guard: None })
            }
        }
    }
}
