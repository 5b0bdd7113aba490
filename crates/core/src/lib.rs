//! The vocabulary of plaudit, and nothing else.
//!
//! plaudit rests on one idea: **a reward is a function from a finished [`Segment`] of steps to one
//! [`RewardColumn`]**. Everything else meets at three traits:
//!
//! ```text
//! rollout(env: Env, policy: Policy)  ->  Segment        [T, B]
//! reward.label(&segment)             ->  RewardColumn   [T, B]
//! learner.update(segment, column)    ->  metrics
//! ```
//!
//! This crate holds those types and traits ([`Env`], [`Policy`], [`Reward`]), the typed [`Event`]s a run
//! emits, and a counter-based random generator ([`Rng`]) whose numbers do not depend on threads or on the
//! order of work. It holds no tensors, does no I/O, knows no async, and depends on no other plaudit crate.
//!
//! ```
//! use plaudit_core::{End, EnvReward, Obs, Reward, Segment, StepRow};
//!
//! // One environment, one step that ended in success.
//! let seen = Obs::from_state(1, vec![0.0, 1.0]).unwrap();
//! let last = Obs::from_state(1, vec![0.5, 1.0]).unwrap();
//! let mut segment = Segment::starting_at(seen);
//! segment.push(
//!     StepRow { actions: vec![0.1], env_reward: vec![1.0], end: vec![End::Terminated], success: vec![true] },
//!     Obs::from_state(1, vec![0.0, 1.0]).unwrap(), // what the policy sees next, after the automatic reset
//!     vec![(0, last)],                             // what really happened at the end
//! ).unwrap();
//!
//! assert_eq!(segment.outcome(0, 0).state, [0.5, 1.0]);
//! assert_eq!(EnvReward.label(&segment).unwrap().total, [1.0]);
//! ```

mod env;
mod event;
mod gradient_sync;
mod json_number;
mod obs;
mod policy;
mod reward;
mod rng;
mod schedule;
mod segment;

pub use env::{
    ActionHistory, ActionSpace, BROKEN_LIMITS_FACT, Env, EnvError, EnvSpec, Facts, FramesNeeded,
    INVALID_FACT, Intervention, PERIOD_FACT, PRE_RECORD_FACT, SEGMENT_FACT, StatePart, Step, WRENCH_FACTS,
};
pub use event::{DiscardEvents, Emit, EndReason, Event, Level};
pub use gradient_sync::{GradientSync, OneRank, SumOnto, SyncError, even_slices};
pub use json_number::JsonNumber;
pub use obs::{FrameShape, Frames, Obs, ObsError, ObsRow};
pub use policy::{Decision, Policy, PolicyError};
pub use reward::{EnvReward, Reward, RewardColumn, RewardError, Score, Term};
pub use rng::{Rng, Seed};
pub use schedule::{LrDecay, Schedule};
pub use segment::{End, Segment, SegmentError, StepRow};
