//! Training an image classifier.
//!
//! A [`Training`] is a network, the frames it learns from and those it is measured on, and [`Settings`]. [`Training::run`]
//! goes from where its [`Progress`] stands to the end: steps of the optimiser, a validation every so often, checkpoints
//! ([`Checkpoints`]), and the best model by the monitored number. What happens is emitted as events; whoever runs it is a
//! [`Host`], who hears them, remembers the progress, and may ask to stop.
//!
//! The loop itself (`lessons.rs`) knows no pictures: vision-language judges ([`crate::sft`]) learn in it too.
//!
//! A step is decided by the settings, the frames and its number alone, so a training that was stopped and goes on from its
//! checkpoint gives the same bits as one that was not.

mod batches;
mod checkpoint;
mod early_stop;
mod error;
mod evaluate;
mod length;
mod lessons;
mod pace;
mod schedule;
mod settings;
mod training;

pub use batches::steps_per_epoch;
pub use checkpoint::{Checkpoints, Resumed};
pub(crate) use early_stop::Better;
pub use early_stop::{Best, EarlyStop, Monitor, Progress};
pub use error::TrainError;
pub use evaluate::{Evaluation, evaluate};
pub use length::Length;
pub use lessons::{Host, Outcome, Why};
pub(crate) use lessons::{Lessons, Measured, Micro, Pupil};
pub use pace::Pace;
pub use schedule::{Schedule, Shape};
pub use settings::{ClassWeight, Settings};
pub use training::Training;
