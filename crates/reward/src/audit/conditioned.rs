//! What is left of a model's answers where its conditions on the state do not hold.

use crate::dataset::Frames;
use crate::shaping::{Guard, GuardError, StateConditions};

/// The logit of a frame that is not rewarded whatever the model says: a score of 0 for all that counts.
pub(super) const NEVER: f64 = -50.0;

/// Why a model's conditions cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionsError {
    /// No states were recorded.
    #[error(
        "the model rewards only where {conditions} holds, and frame {at} of `{episode}` was recorded without its state"
    )]
    NoState {
        /// What must hold.
        conditions: String,
        /// The episode.
        episode: String,
        /// Which of its entries.
        at: usize,
    },
    /// States of another layout.
    #[error(
        "the model rewards only where {conditions} holds in states of {expected} numbers, and those of `{episode}` have {found}"
    )]
    Width {
        /// What must hold.
        conditions: String,
        /// Numbers of a state that the model knows.
        expected: usize,
        /// The episode.
        episode: String,
        /// Numbers of its states.
        found: usize,
    },
    /// No condition at all.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

/// Whether the conditions hold, frame by frame.
///
/// # Errors
/// When a frame has no state, or one of another layout.
pub fn conditions_hold(frames: &Frames, conditions: &StateConditions) -> Result<Vec<bool>, ConditionsError> {
    let guards = conditions.parse()?;
    (0..frames.len()).map(|at| holds(frames, at, conditions, &guards)).collect()
}

fn holds(
    frames: &Frames,
    at: usize,
    conditions: &StateConditions,
    guards: &[Guard],
) -> Result<bool, ConditionsError> {
    let origin = || frames.origin(at);
    let Some(state) = frames.state_now(at) else {
        let (episode, at) = (origin().episode.into(), origin().at);
        return Err(ConditionsError::NoState { conditions: conditions.text(), episode, at });
    };
    if state.len() != conditions.state_width {
        return Err(ConditionsError::Width {
            conditions: conditions.text(),
            expected: conditions.state_width,
            episode: origin().episode.into(),
            found: state.len(),
        });
    }
    Ok(guards.iter().all(|guard| guard.holds_in(state)))
}

/// The logits as a reward with these conditions sees them.
///
/// # Errors
/// As [`conditions_hold`].
pub fn conditioned(
    frames: &Frames,
    conditions: Option<&StateConditions>,
    mut logits: Vec<f64>,
) -> Result<Vec<f64>, ConditionsError> {
    let Some(conditions) = conditions else { return Ok(logits) };
    for (logit, holds) in logits.iter_mut().zip(conditions_hold(frames, conditions)?) {
        if !holds {
            *logit = NEVER;
        }
    }
    Ok(logits)
}
