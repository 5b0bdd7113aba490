//! Tuning a vision-language model to judge windows: which way do things go, how far are they, are they done, which is better?
//!
//! A [`JudgeTraining`] is a model that learns ([`VlmTrainer`](plaudit_nn::qwen3_vl::VlmTrainer)), windows it learns from and windows
//! it is measured on. [`run`](crate::train::TrainLoop::run) goes from where its progress stands to the end, as the training of a
//! classifier does ([`crate::train`]): the same schedule, batches, early stop and checkpoints, and bit-exact resuming after a
//! pause.
//!
//! It is measured without the answer in the prompt: of the first tokens of the answers that may be given, the likeliest is what
//! the model says.

mod evaluate;
mod example;
mod training;

use crate::trend::Trend;

pub use evaluate::{
    EncodeWindow, JudgeMetrics, ObjectiveMetrics, TrendMonitor, evaluate_windows, window_logits,
};
pub use example::{DEFAULT_FPS, InputFormat, TargetTokens};
pub use training::{JudgeSettings, JudgeTraining, SaveModel, TrainableJudge};

/// What can be said about a window, in the order of every triple of numbers about it.
#[must_use]
pub fn answers() -> [&'static str; 3] {
    Trend::LABELS.map(Trend::word)
}
