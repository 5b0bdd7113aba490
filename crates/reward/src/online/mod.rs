//! Reward models that learn while a policy learns by them.
//!
//! A policy finds what a model rewards by mistake. Here its own frames teach the model (VICE: Fu et al., 2018): every so many updates
//! a copy of the model in use learns from the successes and failures it was trained on, and from frames that the policy was rewarded
//! by. Nobody says which of those are successes. As negatives they would teach a model that success, once the policy has it, is
//! failure; as *unlabelled* examples of a non-negative risk ([`NonNegativePu`](plaudit_nn::classifier::NonNegativePu)) they do not.
//!
//! ```text
//! PolicyFrames    what the policy was rewarded by, the newest
//!    Hardening    a round: steps of the optimiser, then a check on held-out frames: no swap if the ranking got worse
//! OnlineTraining  when rounds begin, in step or beside the rollouts; accepted models replace the one that rewards
//! ```
//!
//! Everything is decided by the settings, the frames and the number of the round, and [`OnlineTraining::save`] has all of it: a run
//! that was stopped goes on as one that was not, unless rounds run beside the rollouts.

mod hardening;
mod online_training;
mod policy_frames;
mod saved;

pub use hardening::{Hardening, HardeningData, RoundOutcome, RoundResult};
pub use online_training::{BuildModel, ModelInUse, OnlineSource, OnlineTraining};
pub use policy_frames::{PolicyFrames, WhichFrames};

use plaudit_core::Seed;
use thiserror::Error;

use crate::augment::Augment;
use crate::models::RewardModelError;
use crate::train::TrainError;
use plaudit_nn::WeightsError;
use plaudit_nn::classifier::ClassifierError;

/// How a model learns while a policy does.
#[derive(Clone, Debug)]
pub struct OnlineSettings {
    /// Updates of the policy between rounds.
    pub every: u64,
    /// Steps of the optimiser in a round.
    pub steps: u64,
    /// Frames of each kind in a step: successes, failures, and the policy's.
    pub batch: usize,
    /// The learning rate.
    pub lr: f64,
    /// What the policy's frames are taken for.
    pub policy_frames: PolicyLabel,
    /// The share of successes that they are taken to have.
    pub prior: f64,
    /// How much the labelled frames count; the policy's count the rest to 1.
    pub labelled_weight: f64,
    /// The policy's newest frames that are kept.
    pub frames: usize,
    /// No round begins with fewer.
    pub min_frames: usize,
    /// A model is refused whose AUC on held-out frames is further below that of the first one.
    pub auc_margin: f64,
    /// What happens to images on their way.
    pub augment: Augment,
    /// Of the order of frames, and of augmentation.
    pub seed: Seed,
}

/// What the policy's frames are taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyLabel {
    /// Some are successes, and nobody says which.
    #[default]
    Unlabelled,
    /// All are failures.
    Negative,
}

/// Why a model could not learn online.
#[derive(Debug, Error)]
pub enum OnlineError {
    /// There is nothing to learn from.
    #[error("the {part} frames have no {missing}: a model that learns online needs both labels")]
    OneClass {
        /// Which frames.
        part: &'static str,
        /// What is missing.
        missing: &'static str,
    },
    /// Frames of the policy that do not fit those the model learned from.
    #[error("`{view}` of the policy's frames: {problem}")]
    Frame {
        /// The view.
        view: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The network failed.
    #[error(transparent)]
    Network(#[from] ClassifierError),
    /// It could not be measured.
    #[error(transparent)]
    Measure(#[from] TrainError),
    /// The model that learned cannot be used.
    #[error(transparent)]
    Model(#[from] RewardModelError),
    /// Its state cannot be read or written.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// Its state is of another run.
    #[error("{file}: {problem}")]
    State {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A round beside the rollouts ended without an answer.
    #[error("the thread on which the reward model learns has stopped")]
    Thread,
}
