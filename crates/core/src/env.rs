//! Environments, always vectorised: a single one is a batch of one.

use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use crate::{End, FrameShape, Obs, Seed};

/// A batch of environments that are stepped together.
///
/// Rows reset themselves: after a row ends, `step` already shows the first observation of its next episode,
/// and the last real observation of the old one comes in [`Step::last`]. An episode is fully determined by
/// the seed given to `reset`, the row, and the number of episodes that row has finished.
pub trait Env: Send {
    /// What does not change while the environments live.
    fn spec(&self) -> &EnvSpec;

    /// Starts every row anew.
    fn reset(&mut self, seed: Seed) -> Result<Obs, EnvError>;

    /// One control step. `actions` is `[B, action_width]`; a refused call changes nothing.
    fn step(&mut self, actions: &[f32]) -> Result<Step, EnvError>;

    /// Says which frames are needed, so that no others are rendered.
    fn set_frames_needed(&mut self, frames: FramesNeeded);

    /// Says whether the facts [`WRENCH_FACTS`] are needed. Environments without an arm, or that cannot tell what it touches,
    /// have none all the same.
    fn set_wrench_needed(&mut self, _needed: bool) {}

    /// Restores where the rows were in an earlier run that was reset with `seed`, by replaying their unfinished
    /// episodes. `None` from environments that cannot; they must then be reset.
    fn fast_forward(&mut self, _seed: Seed, _past: &[ActionHistory]) -> Result<Option<Obs>, EnvError> {
        Ok(None)
    }

    /// Whether an episode may turn out to be worthless when it ends ([`INVALID_FACT`]), as a robot's does whose camera
    /// froze. Rollouts are then whole episodes, so that nothing is learned from one before it is known to be sound.
    fn may_break(&self) -> bool {
        false
    }

    /// What another thread calls when no further step is needed: a step that waits for a robot returns then, and the robot
    /// holds. Nothing where steps never wait.
    fn stopper(&self) -> Option<Arc<dyn Fn() + Send + Sync>> {
        None
    }
}

/// What a row had done in its unfinished episode: enough to replay it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActionHistory {
    /// Episodes it had finished since the reset.
    pub episode: u64,
    /// Its actions in the unfinished one, `[steps, action_width]`.
    pub actions: Vec<f32>,
}

/// What a batch of environments is like.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpec {
    /// The id users write, such as `PickCube-v1`.
    pub id: Arc<str>,
    /// Rows in the batch.
    pub num_envs: usize,
    /// Numbers per state row.
    pub state_width: usize,
    /// Parts of the state row that have a name; empty where the environment names none.
    pub state_parts: Vec<StatePart>,
    /// What an action is.
    pub actions: ActionSpace,
    /// Cameras and the size each renders at.
    pub cameras: Vec<(Arc<str>, FrameShape)>,
    /// Steps after which an episode is truncated.
    pub max_episode_steps: Option<usize>,
    /// Control steps per second of simulated time, for videos and pacing.
    pub control_hz: f64,
}

/// Some numbers of a state row under one name, such as `tcp_pose`. Parts may overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePart {
    /// What it is called.
    pub name: Arc<str>,
    /// Where in the row it stands.
    pub range: Range<usize>,
}

/// What an action is.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionSpace {
    /// One of `n` choices, written as the number `0..n` in an action row of width 1.
    Discrete {
        /// How many choices.
        n: usize,
    },
    /// Real numbers between bounds, one per dimension.
    Continuous {
        /// Smallest values.
        low: Vec<f32>,
        /// Largest values.
        high: Vec<f32>,
    },
}

impl ActionSpace {
    /// Numbers per action row.
    pub fn width(&self) -> usize {
        match self {
            Self::Discrete { .. } => 1,
            Self::Continuous { low, .. } => low.len(),
        }
    }

    /// Checks a whole batch before anything moves: right length, finite, and a real choice.
    pub fn check(&self, num_envs: usize, actions: &[f32]) -> Result<(), EnvError> {
        let (width, expected) = (self.width(), num_envs * self.width());
        if actions.len() != expected {
            return Err(EnvError::ActionLength { num_envs, width, expected, got: actions.len() });
        }
        for (at, &value) in actions.iter().enumerate() {
            let (row, dim) = (at / width, at % width);
            let possible = match self {
                Self::Discrete { n } => value.fract() == 0.0 && value >= 0.0 && value < *n as f32,
                Self::Continuous { .. } => value.is_finite(),
            };
            if !possible {
                return Err(EnvError::ActionValue { row, dim, value });
            }
        }
        Ok(())
    }
}

/// Which frames are needed, from fewest to most: the `max` of two serves both callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum FramesNeeded {
    /// None: observations carry no cameras.
    #[default]
    Nothing,
    /// Only the last real observation of each episode.
    Ends,
    /// Every observation.
    Everything,
}

/// What one step did, for every row.
#[derive(Debug, Clone)]
pub struct Step {
    /// What the policy sees next (for an ended row: the first observation of its next episode).
    pub obs: Obs,
    /// The environment's own reward, `[B]`.
    pub reward: Vec<f32>,
    /// Whether and how each row's episode ended, `[B]`.
    pub end: Vec<End>,
    /// Whether the task is solved at this step (the environment's ground truth), `[B]`.
    pub success: Vec<bool>,
    /// For each ended row, the last real observation of its old episode (a batch of one).
    pub last: Vec<(usize, Obs)>,
    /// Other ground-truth values by name, such as `is_grasped`: Gymnasium's `info`.
    pub facts: Facts,
    /// Where something else was done than the policy asked for.
    pub interventions: Vec<Intervention>,
}

/// The fact of a step that ends an episode which must not be kept: a camera, a reward or the robot itself was lost.
pub const INVALID_FACT: &str = "invalid";

/// The facts of an arm's step that are [asked for](Env::set_wrench_needed): the mean force of what touches the arm on it
/// (newtons), and its torque about the tool centre point (newton metres), both along the world's axes.
pub const WRENCH_FACTS: [&str; 6] =
    ["tcp_force_x", "tcp_force_y", "tcp_force_z", "tcp_torque_x", "tcp_torque_y", "tcp_torque_z"];

/// The fact of a step in real time: seconds from the end of the step before, on the robot's clock. 0 where there is none.
pub const PERIOD_FACT: &str = "period";

/// The fact of a simulated robot: commands since the start that broke a limit which should have been kept.
pub const BROKEN_LIMITS_FACT: &str = "broken_limits";

/// The fact of a step that nothing recorded may hold: a person has not begun to record, or has dropped what there was. The
/// recording begins with what the last such step shows.
pub const PRE_RECORD_FACT: &str = "pre_record";

/// The fact of a step whose recording has segments: how many came before.
pub const SEGMENT_FACT: &str = "segment_id";

impl Step {
    /// Whether a row ended an episode that must not be kept.
    pub fn ends_invalid(&self, row: usize) -> bool {
        self.end.get(row).is_some_and(|end| end.is_end()) && self.is(INVALID_FACT, row)
    }

    /// Whether a row is before its recording.
    pub fn is_pre_record(&self, row: usize) -> bool {
        self.is(PRE_RECORD_FACT, row)
    }

    fn is(&self, fact: &str, row: usize) -> bool {
        let is_so = |(name, values): &(Arc<str>, Vec<f32>)| {
            &**name == fact && values.get(row).is_some_and(|value| *value > 0.0)
        };
        self.facts.iter().any(is_so)
    }
}

/// What was done in a row instead of what the policy asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervention {
    /// The row.
    pub row: usize,
    /// The action that was taken, as wide as the policy's.
    pub action: Vec<f32>,
    /// Whether a person took over, which makes it a demonstration. Otherwise a robot's limits cut the policy's action.
    pub by_person: bool,
}

/// Named ground-truth values of a step, one number per row: Gymnasium's `info`.
pub type Facts = Vec<(Arc<str>, Vec<f32>)>;

/// Why an environment refused or broke.
#[derive(Debug, Error)]
pub enum EnvError {
    /// A batch of actions of the wrong length.
    #[error("{num_envs} environments with {width} action values each need {expected} values, got {got}")]
    ActionLength {
        /// Rows.
        num_envs: usize,
        /// Values per row.
        width: usize,
        /// Their product.
        expected: usize,
        /// Values given.
        got: usize,
    },
    /// An action value that means nothing.
    #[error("action value {value} in dimension {dim} of environment {row} is no possible action")]
    ActionValue {
        /// Environment.
        row: usize,
        /// Dimension of its action.
        dim: usize,
        /// What was given.
        value: f32,
    },
    /// `step` before `reset`.
    #[error("the environments were stepped before they were reset")]
    NotReset,
    /// A setting that cannot be.
    #[error("{0}")]
    Setting(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Whatever runs the environment failed.
    #[error("the environment failed: {0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_checked_before_anything_moves() {
        let reach = ActionSpace::Continuous { low: vec![-1.0; 2], high: vec![1.0; 2] };
        assert!(
            reach.check(2, &[0.0, 3.0, -1.0, 0.5]).is_ok(),
            "out of bounds is clipped by the env, not refused"
        );
        let error = reach.check(2, &[0.0; 3]).unwrap_err();
        assert_eq!(error.to_string(), "2 environments with 2 action values each need 4 values, got 3");
        let error = reach.check(2, &[0.0, 0.0, f32::NAN, 0.0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "action value NaN in dimension 0 of environment 1 is no possible action"
        );

        let push = ActionSpace::Discrete { n: 2 };
        assert!(push.check(3, &[0.0, 1.0, 1.0]).is_ok());
        for wrong in [2.0, -1.0, 0.5, f32::NAN] {
            assert!(push.check(1, &[wrong]).is_err(), "{wrong}");
        }
    }
}
