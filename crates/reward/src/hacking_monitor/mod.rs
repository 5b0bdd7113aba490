//! The hacking monitor: while a policy learns, it compares what is rewarded with ground truth and with known successes.
//!
//! ```text
//! segment, column ─► Tally ─► episodes, sampled frames ─► Signals ─► RunEvidence ─► Alarm
//! ```
//!
//! A policy that is rewarded by a model finds what the model rewards, which need not be the task. One signal compares with
//! the truth, where somebody knows it: what the model calls solved, where it does so, and is not. The others need no ground truth: reward that
//! a few episodes collect, success that suddenly comes early, success that goes on and off, frames that are out of distribution: like none
//! of the successes the model knows, frames about which the model does not agree with itself or with a second model, frames that are
//! unlike those the run was first rewarded for, and success that the model sees less and less, since an honest policy learns to be
//! rewarded. Where only the ends of episodes are rewarded, the first three are always the same, and left out.
//! Each signal but the first is a count, and evidence that its rate has risen is gathered over all checks ([`RateMonitor`]), so that
//! honest runs raise alarms as rarely as stated, however often they are checked.
//!
//! [`HackingMonitor`] does all of it, and answers alarms: it makes the reward stricter ([`AdjustableReward`]), or asks for
//! the training to stop. Signals and limits are pure functions of segments and columns. A training loop calls the
//! monitor with every labelled segment, and asks for a check after every update:
//!
//! ```
//! use std::sync::Arc;
//! use plaudit_core::{RewardColumn, Seed, Segment};
//! use plaudit_reward::hacking_monitor::*;
//!
//! fn train(
//!     settings: MonitorSettings,
//!     reward: Arc<AdjustableReward>,
//!     mut step: impl FnMut() -> (Segment, RewardColumn),
//! ) -> Result<(), MonitorError> {
//!     let mut monitor =
//!         HackingMonitor::new(settings, reward, Reference::Environment, "hacking".into(), Seed::new(1));
//!     let mut on_labelled = monitor.on_labelled();
//!     for update in 1..=100 {
//!         let (segment, column) = step();
//!         on_labelled(&segment, &column);
//!         for alarm in monitor.check(update)?.iter().flat_map(|check| &check.alarms) {
//!             println!("{}: {} is above {}", alarm.signal.name(), alarm.value, alarm.limit);
//!         }
//!     }
//!     Ok(())
//! }
//! ```

mod adjust;
mod drift;
mod evidence;
mod first_episodes;
mod monitor;
mod rate_test;
mod rewarded_frames;
mod signals;
mod success_features;
mod tally;
mod whitening;

pub use adjust::{AdjustableReward, Adjustment};
pub use drift::FirstFrames;
pub use evidence::{LookCount, RateMonitor, RisenRate};
pub use first_episodes::{FirstEpisodes, UnusualEpisodes};
pub use monitor::{
    AlarmAction, AlarmResponse, HackingCheck, HackingMonitor, MonitorError, MonitorSettings, Reference,
};
pub use rewarded_frames::SavedFrames;
pub use signals::{Alarm, CheckInput, Limits, RunEvidence, Signal, Signals, SuccessComparison};
pub use success_features::{OodCheck, SuccessFeatures};
pub use tally::{EpisodeSummary, RewardedFrame, Tally};
