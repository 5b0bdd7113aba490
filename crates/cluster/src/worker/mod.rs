//! The workers of a run, each a function over its end of the links. Whether that end is of a thread, of a process or of
//! another machine's process is nothing they know.
//!
//! ```text
//!             Play(segment n, version v)            Score(frames)
//!   actor  ───────────────────────────────►  env  ─────────────────►  reward
//!   learns ◄───────────────────────────────  acts ◄─────────────────  scores
//!             Played(segment n, rewards)            Scored
//!                                              │ ▲
//!                                Weights, Act  ▼ │ Decided
//!                                            rollout
//! ```
//!
//! A rollout worker is there where actions are chosen on another machine than environments are stepped on; mostly both are one
//! process ([`LocalPolicy`]).
//!
//! **Nothing is lost, and nothing counts twice.** All that must survive is the actor's, in its checkpoints. An environment's
//! worker that was killed is told where its rows were ([`plaudit_rl::RolloutState`]), replays their unfinished episodes and
//! plays the segment again that it was at: with the same number, and, since every random number is named by what it is for,
//! with the same steps. The actor counts each segment once (its [`Ledger`]). Reward workers keep nothing at all,
//! and rollout workers nothing that they would not be sent again.

mod actor;
mod async_actor;
mod encoding;
mod env_worker;
mod ledger;
pub mod messages;
mod remote_policy;
mod reward_worker;
mod rollout_worker;
mod score_client;

pub use actor::{
    ActorSettings, CountedRollout, EnvPeer, LedgerCallback, RemoteEnvironments, RolloutCallback, finish_envs,
    wait_for_envs,
};
pub use async_actor::AsyncEnvironments;
pub use env_worker::{Ended, EnvWorker, LocalPolicy, PolicySource};
pub use ledger::{Ledger, LedgerError, LedgerLine, verify};
pub use remote_policy::{RemotePolicy, RemotePolicySettings};
pub use reward_worker::{FrameScorer, QuestionAnswerer, RewardWorker, ServedModel};
pub use rollout_worker::{NetworksOf, RolloutWorker};
pub use score_client::ScoreClient;

use thiserror::Error;

use crate::link::{LinkError, WireError};

/// Why a worker stopped.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A message that cannot be read.
    #[error("`{peer}` sent {error}")]
    Message {
        /// Who sent it.
        peer: String,
        /// What is wrong with it.
        error: WireError,
    },
    /// A worker that did not come (back).
    #[error("`{peer}` was not there for {secs:.0} s")]
    Gone {
        /// Who.
        peer: String,
        /// How long it was waited for.
        secs: f64,
    },
    /// Environments that do not fit together.
    #[error("`{peer}` {problem}")]
    Misfit {
        /// Whose they are.
        peer: String,
        /// What does not fit.
        problem: String,
    },
    /// An environment's worker could not play.
    #[error("`{peer}` could not play segment {segment}: {problem}")]
    Failed {
        /// Who.
        peer: String,
        /// Which segment.
        segment: u64,
        /// Why.
        problem: String,
    },
    /// The reward of an environment's worker failed.
    #[error("the reward at `{peer}` failed: {problem}")]
    RewardFailed {
        /// Where.
        peer: String,
        /// Why.
        problem: String,
    },
    /// Segments that are not of one rollout.
    #[error("segment {segment}: {error}")]
    Join {
        /// Which.
        segment: u64,
        /// What does not fit.
        error: plaudit_rl::JoinError,
    },
    /// Whoever records what was counted failed.
    #[error("cannot record which segments were counted: {0}")]
    Ledger(String),
    /// Whoever records episodes failed.
    #[error("cannot record episodes: {0}")]
    Recording(String),
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
}
