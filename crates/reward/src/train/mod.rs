//! Training an image classifier.
//!
//! A [`Training`] is a network, the frames it learns from and those it is measured on, and [`Settings`]. [`run`](TrainLoop::run)
//! goes from where its [`Progress`] stands to the end: steps of the optimiser, a validation every so often, checkpoints
//! ([`Checkpoints`]), and the best model by the monitored number. What happens is emitted as events; whoever runs it implements
//! [`TrainCallbacks`]: they receive the events, store the progress, and may ask to stop.
//!
//! The loop itself (`train_loop.rs`) is independent of the model: vision-language judges ([`crate::sft`]) learn in it too.
//!
//! A step is decided by the settings, the frames and its number alone, so a training that was stopped and goes on from its
//! checkpoint is bit-exact with one that was not.
//!
//! Several ranks can share the micro batches of each step ([`TrainLoop::join_ranks`]): the same numbers come out, on any number of
//! ranks. All of them measure, agree when to stop, and fail together; rank 0 alone writes.

mod batches;
mod checkpoint;
mod checkpoint_writer;
mod early_stop;
mod error;
mod evaluate;
mod evaluate_progress;
mod length;
mod loader;
mod loop_settings;
mod rank_shares;
mod settings;
mod train_loop;
mod training;

pub use batches::steps_per_epoch;
pub use checkpoint::{Checkpoints, ResumePoint};
pub use checkpoint_writer::WriteModel;
pub use early_stop::{Best, Better, EarlyStop, Monitor, Progress};
pub use error::TrainError;
pub use evaluate::{Evaluation, evaluate};
pub use evaluate_progress::{ProgressEvaluation, episode_scores, evaluate_progress};
pub use length::Length;
pub use loop_settings::LoopSettings;
pub(crate) use rank_shares::RankShares;
pub use settings::{ClassWeight, Settings};
pub use train_loop::{
    MicroBatch, StopReason, TrainCallbacks, TrainLoop, TrainOutcome, Trainable, ValidationResult,
};
pub(crate) use training::progress_loss;
pub use training::{TrainableClassifier, Training};
