//! What a policy is paid: pure functions from a segment, by way of a judge, to a column.
//!
//! ```text
//! segment ─runs─► episodes ─┬─ frames:  every step, ends only, or a potential ─┐
//!                           └─ history: windows of past frames, or their votes ┴─► terms ─► column
//! ```
//!
//! A score becomes a success by a [`Rule`] (threshold or hysteresis, guards on the state, hold) and money by [`Pay`].

mod frames;
mod guard;
mod history;
mod runs;
mod scores;
mod temporal;
mod terms;
mod votes;
mod windows;

pub use frames::{FrameReward, When};
pub use guard::{Guard, GuardError};
pub use history::{Clip, ClipBuffer, Frame, History, HistoryBuffer};
pub use runs::Place;
pub use temporal::{Latch, Pay, Rule};
pub use terms::{Entry, Sum};
pub use votes::{AtTermination, VoteReward};
pub use windows::{ScoredClips, WindowReward};
