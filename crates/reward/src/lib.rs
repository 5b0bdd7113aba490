//! Learned rewards: the product.
//!
//! A **reward model** here is something that looks at what a robot's cameras saw and says how far the task is. There are two
//! kinds. A [`FrameRewardModel`] gives each frame a score between 0 and 1: an image classifier that learned to tell success
//! from failure ([`Classifier`]), or a vision-language model that is asked yes or no. A [`ClipRewardModel`] judges windows of
//! frames: a vision-language model that says whether things get better or worse ([`trend`]), in this process or behind HTTP
//! ([`endpoint`]).
//!
//! **Scores become a reward column** by rules that are pure functions of a segment: a [`FrameReward`] rewards at every
//! step, at the ends of episodes, or by the change of the score ([`RewardTiming`]); a [`Rule`] says when the task counts as solved
//! (a threshold or hysteresis, for so many steps, and with the state as it should be); a [`WindowReward`] does the same for
//! windows; a [`WeightedSum`] adds terms, each with its own curve in the log.
//!
//! ```
//! use std::sync::Arc;
//! use plaudit_core::{End, Obs, Reward, Score, Segment, StepRow};
//! use plaudit_reward::*;
//!
//! /// Scores what the first number of the state says.
//! struct Height;
//!
//! impl FrameRewardModel for Height {
//!     fn cameras(&self) -> &[Arc<str>] { &[] }
//!     fn scores(&self, frames: &[FrameStack<'_>]) -> Result<Vec<Score>, RewardModelError> {
//!         Ok(frames.iter().map(|frame| Score::new(frame.now().state[0]).unwrap_or(Score::IMPOSSIBLE)).collect())
//!     }
//!     fn threshold(&self) -> Option<f32> { Some(0.5) }
//! }
//!
//! let reward = FrameReward {
//!     term: TermSettings::named("height"),
//!     model: Arc::new(ReloadableModel::fixed(Box::new(Height))),
//!     timing: RewardTiming::PerStep,
//!     rule: Rule::default(),
//!     kind: RewardKind::Binary { success: 1.0, fail: -0.1 },
//! };
//! let mut segment = Segment::starting_at(Obs::from_state(1, vec![0.0])?);
//! for height in [0.25, 0.75] {
//!     let step = StepRow { actions: vec![0.0], env_reward: vec![0.0], end: vec![End::No], success: vec![false] };
//!     segment.push(step, Obs::from_state(1, vec![height])?, vec![])?;
//! }
//! let column = reward.label(&segment)?;
//! assert_eq!(column.total, [-0.1, 1.0]);
//! assert_eq!(column.success, Some(vec![false, true]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A classifier is **trained** on labelled frames ([`dataset`], [`mod@train`]), a vision-language model on labelled windows
//! ([`sft`]); both are measured ([`metrics`]) and say about themselves what they were trained on ([`card`]). Before a model is
//! used, it is **audited** on other episodes ([`audit`]): a threshold with a guaranteed rate of false alarms, a
//! temperature that makes scores honest, and a verdict. While a policy learns by it, the [`hacking_monitor`] compares what is
//! rewarded with what is known. Frames of which a model is unsure are worth a person's label ([`active_labels`]).
//!
//! This crate prints nothing, and knows neither configs nor learners: it meets them at [`plaudit_core::Reward`].

pub mod active_labels;
pub mod audit;
pub mod augment;
pub mod card;
pub mod custom;
pub mod dataset;
pub mod endpoint;
pub mod hacking_monitor;
pub mod images;
pub mod metrics;
mod models;
pub mod online;
pub mod onnx;
pub mod open;
mod recording_scorer;
pub mod sft;
mod shaping;
pub mod train;
pub mod trend;

pub use models::{
    CameraError, CameraView, Classifier, ClipReward, ClipRewardModel, ClipRewards, FrameDump,
    FrameRewardModel, FrameStack, LoadedModel, ReloadableModel, RewardModelError, RewardModelFile,
    RewardModelSource, StateOnlyModel, VersionedModel, camera_for,
};
pub use recording_scorer::{RecordingScorer, RecordingScorerError, RecordingScores};
pub use shaping::{
    AtTermination, Clip, ClipBuffer, ClipFrame, FrameIndex, FrameReward, Guard, GuardError, History,
    HistoryBuffer, Latch, LiveRule, MeanScoreModel, RewardKind, RewardTiming, Rule, StateConditions,
    SuccessThreshold, TermSettings, VoteCounting, VoteReward, WeightedSum, WindowReward,
};
