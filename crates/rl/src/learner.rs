//! The interface between the training loop and learning algorithms.
//!
//! ```text
//! rollout.play(learner.explorer(), T)  ->  PlayedSegment   a segment, with log-probabilities and values
//! reward.label(&segment)               ->  RewardColumn
//! learner.add_experience(experience)                       once per rollout
//! learner.improve()                    ->  Metrics         when the rollouts of a step are in
//! ```

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use plaudit_core::{Policy, PolicyError, Reward, RewardColumn, RewardError, Segment};
use plaudit_nn::gpu::GpuError;
use plaudit_nn::{Weights, WeightsError};
use thiserror::Error;

use crate::Decisions;
use crate::ExplorerParams;
use crate::cloning::{Cloning, CloningCallback};
use crate::naming::WeightsMismatch;
use crate::replay::SavedError;

/// A learning algorithm: a policy that improves by experience.
///
/// Taking experience in and learning from it are two calls, so that experience may come from several
/// rollouts, or from another thread while learning goes on.
pub trait Learner: Send {
    /// The policy for rollouts: it samples, with log-probabilities where the learner needs them.
    /// A copy of the weights as they are now, which later updates do not change.
    fn explorer(&self) -> Box<dyn Policy>;

    /// What the explorer is made of, for [`ExplorerNetworks`](crate::ExplorerNetworks) on another machine.
    fn explorer_params(&self) -> ExplorerParams;

    /// The deterministic policy for evaluation. A copy, like the explorer.
    fn greedy(&self) -> Box<dyn Policy>;

    /// Takes experience in, with its rewards.
    fn add_experience(&mut self, experience: Experience) -> Result<(), LearnError>;

    /// Learns from what was taken in. Empty while there is too little to learn from.
    fn improve(&mut self) -> Result<Metrics, LearnError>;

    /// Relabels stored experience after the reward changed. Returns how many steps were relabelled.
    fn relabel(&mut self, _reward: &dyn Reward) -> Result<usize, LearnError> {
        Ok(0)
    }

    /// Behaviour cloning: makes the policy imitate demonstrations, before it learns by reward.
    fn imitate(&mut self, cloning: &Cloning, callback: CloningCallback<'_>) -> Result<(), LearnError>;

    /// The policy's weights under the names that RLinf gives them.
    fn weights(&self) -> Weights;

    /// Starts from weights under those names; the optimiser begins anew. Weights of another shape change nothing.
    fn load(&mut self, weights: &Weights) -> Result<(), WeightsMismatch>;

    /// Writes all that a later [`restore`](Self::restore) needs into an empty folder.
    fn save(&self, folder: &Path) -> Result<(), LearnError>;

    /// Becomes what was saved, if it was saved by a learner of the same shape; otherwise changes nothing.
    fn restore(&mut self, folder: &Path) -> Result<(), LearnError>;
}

/// A finished segment, with what the policy decided and its rewards.
#[derive(Debug, Clone)]
pub struct Experience {
    /// What happened, `[T, B]`.
    pub segment: Segment,
    /// Log-probabilities and values of the policy, `[T, B]`.
    pub decisions: Decisions,
    /// The rewards, `[T, B]`.
    pub reward: RewardColumn,
}

/// Numbers under the names they are logged with (`train/actor/policy_loss`), in the order they should be shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(Vec<(Cow<'static, str>, f64)>);

impl Metrics {
    /// Adds a number.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: f64) {
        self.0.push((name.into(), value));
    }

    /// Adds all of another.
    pub fn extend(&mut self, more: Metrics) {
        self.0.extend(more.0);
    }

    /// A number by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a learner could not learn.
#[derive(Debug, Error)]
pub enum LearnError {
    /// A loss or a gradient that is no number.
    #[error("{what} is {value} after {updates} updates; a smaller learning rate or clip_grad may help")]
    Diverged {
        /// What it is: `the gradient of the policy`, …
        what: &'static str,
        /// What it was.
        value: f64,
        /// Steps of the optimiser since the start.
        updates: u64,
    },
    /// Experience that does not fit the learner.
    #[error("{what} of width {expected} expected, got {got}")]
    Width {
        /// What: `states`, `actions`, …
        what: &'static str,
        /// What the learner was made for.
        expected: usize,
        /// What came.
        got: usize,
    },
    /// Parameters of a policy above another frozen trunk.
    #[error("the frozen trunk of the policy is another than the learner's")]
    OtherTrunk,
    /// Observations that do not fit the learner.
    #[error(transparent)]
    Observation(#[from] PolicyError),
    /// A setting that cannot be.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A reward that failed while it relabelled.
    #[error(transparent)]
    Relabel(#[from] RewardError),
    /// A GPU that failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A file of a checkpoint that cannot be read.
    #[error(transparent)]
    Unreadable(#[from] WeightsError),
    /// A replay of a checkpoint that cannot be read.
    #[error("{}: {error}", path.display())]
    UnreadableReplay {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: SavedError,
    },
    /// A checkpoint that cannot be written, or is of another learner.
    #[error("{}: {problem}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// A setting of a learner that cannot be.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SettingError {
    /// One ratio for several advantages.
    #[error("one ratio per chunk cannot serve an advantage per action")]
    ChunkRatio,
    /// Soft actor-critic without numbers to choose.
    #[error("soft actor-critic needs continuous actions, and these are one of several choices; use PPO")]
    DiscreteActions,
    /// Critics of states before images.
    #[error("CrossQ's critics are for policies on states, and this one sees images")]
    CrossQOnImages,
    /// Images that are moved where none are kept.
    #[error("images are to be shifted at random (DrQ), and this policy keeps none of them")]
    ShiftWithoutImages,
    /// An encoder that the policy is to train where there is none.
    #[error("the policy's loss is to train the encoder of images, and this policy sees none")]
    EncoderLossWithoutImages,
    /// States that are scaled where nothing keeps the scale.
    #[error("scaled states are for critics that have a target network, and CrossQ's have none")]
    ScaledStatesWithoutTarget,
    /// An average of the policy belongs to a target of the critics, whose encoder it uses.
    #[error("a policy is averaged beside a target of its critics, and these have none")]
    AverageWithoutTarget,
    /// Fewer demonstrations than are needed.
    #[error("RLPD learns from demonstrations, and there are {found} where {needed} are needed")]
    TooFewDemos {
        /// How many there are.
        found: usize,
        /// How many there should be.
        needed: usize,
    },
    /// Demonstrations without a step.
    #[error("there is nothing to clone: no demonstration has a step")]
    NothingToClone,
    /// A count of nothing.
    #[error("{0} is 0; it must be at least 1")]
    Zero(CountSetting),
    /// A range the wrong way round.
    #[error("the range of the target is [{low}, {high}]; the smaller number comes first")]
    TargetRange {
        /// Its lower end.
        low: f32,
        /// Its upper end.
        high: f32,
    },
}

/// A setting that counts something, of which there must be one at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountSetting {
    /// Transitions per update.
    BatchSize,
    /// Critic updates per policy update.
    CriticActorRatio,
    /// Updates between steps of the target.
    TargetUpdateFreq,
    /// Actions in a chunk.
    ActionChunk,
    /// Critics.
    Critics,
    /// Critics sampled for each target.
    CriticSubsample,
}

impl fmt::Display for CountSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BatchSize => "the size of a batch",
            Self::CriticActorRatio => "the number of critic updates per policy update",
            Self::TargetUpdateFreq => "the number of updates between steps of the target",
            Self::ActionChunk => "the number of actions in a chunk",
            Self::Critics => "the number of critics",
            Self::CriticSubsample => "the number of critics sampled for each target",
        })
    }
}
