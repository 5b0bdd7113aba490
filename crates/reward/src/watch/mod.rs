//! Watching for hacking while a policy learns: what the reward pays for, against the truth and against itself.
//!
//! ```text
//! segment, column ─► Tally ─► episodes, sampled frames ─► Signals ─► Limits ─► Alarm
//! ```
//!
//! A policy that is paid by a model finds what the model pays for, which need not be the task. One signal compares with
//! the truth, where somebody knows it: episodes the model calls solved that are not. The others need no truth: pay that
//! a few episodes collect, success that suddenly comes early, success that goes on and off, frames that look like none
//! of the successes the model knows, and frames about which the model does not agree with itself.
//!
//! Everything here is a pure function of segments and columns; what is done about an alarm is the business of whoever
//! runs the training, by way of [`Adjustable`].

mod adjust;
mod known;
mod signals;
mod tally;

pub use adjust::{Adjustable, Adjustment};
pub use known::{KnownSuccesses, Look};
pub use signals::{Alarm, Compared, Limits, Signal, Signals};
pub use tally::{EpisodeSeen, Rewarded, Tally};
