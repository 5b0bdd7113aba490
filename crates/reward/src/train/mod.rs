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

mod batches;
mod checkpoint;
mod early_stop;
mod error;
mod evaluate;
mod length;
mod loop_settings;
mod settings;
mod train_loop;
mod training;

pub use batches::steps_per_epoch;
pub use checkpoint::{Checkpoints, ResumePoint};
pub(crate) use early_stop::Better;
pub use early_stop::{Best, EarlyStop, Monitor, Progress};
pub use error::TrainError;
pub use evaluate::{Evaluation, evaluate};
pub use length::Length;
pub use loop_settings::LoopSettings;
pub use settings::{ClassWeight, Settings};
pub(crate) use train_loop::{MicroBatch, Trainable, ValidationResult};
pub use train_loop::{StopReason, TrainCallbacks, TrainLoop, TrainOutcome};
pub use training::Training;
