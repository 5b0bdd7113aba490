//! How scores become rewards: pure functions from a segment, by way of a reward model, to a reward column.
//!
//! ```text
//! segment ──────► episodes ─┬─ frames:  every step, ends only, or a potential ─┐
//!                           └─ history: windows of past frames, or their votes ┴─► terms ─► column
//! ```
//!
//! A score becomes a success by a [`Rule`] (threshold or hysteresis, guards on the state, hold) and a reward by [`RewardKind`].

mod conditions;
mod episodes;
mod frames;
mod guard;
mod history;
mod live;
mod scores;
mod temporal;
mod terms;
mod votes;
mod windows;

pub use conditions::StateConditions;
pub use episodes::FrameIndex;
pub use frames::{FrameReward, RewardTiming};
pub use guard::{Guard, GuardError};
pub use history::{Clip, ClipBuffer, ClipFrame, History, HistoryBuffer};
pub use live::LiveRule;
pub use temporal::{Latch, RewardKind, Rule, SuccessThreshold};
pub use terms::{TermSettings, WeightedSum};
pub use votes::{AtTermination, VoteCounting, VoteReward};
pub use windows::{MeanScoreModel, WindowReward};
