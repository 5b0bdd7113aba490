//! Whatever chooses actions: a network, a script, a random policy, a person.

use thiserror::Error;

use crate::{Obs, Seed};

/// Chooses actions for a whole batch.
pub trait Policy: Send {
    /// One action row per observation row. `seed` belongs to this step alone, so that the choice depends
    /// on nothing but the observation and the seed; rows must sample from `seed.index(row)`.
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError>;
}

/// The actions a policy chose, with their log-probabilities and values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Actions, `[B, C, action_width]`: C of them for each row, done one after the other. Mostly C is 1.
    pub actions: Vec<f32>,
    /// Log-probability of each action value, `[B, C, action_width]`; empty where there is none.
    pub log_probs: Vec<f32>,
    /// The policy's value of each observation, `[B, C]`; empty where there is none.
    pub values: Vec<f32>,
}

/// Why a policy could not choose.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// Observations it was not made for.
    #[error("the policy expects {expected}, the environment gives {got}")]
    Observation {
        /// What it was made for.
        expected: String,
        /// What came.
        got: String,
    },
    /// Whatever runs the policy failed.
    #[error("the policy failed: {0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}
