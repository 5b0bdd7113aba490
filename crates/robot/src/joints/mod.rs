//! Arms that follow joint positions, such as those of LeRobot: the trait, its guard, and an environment.
//!
//! They have no Cartesian controller of their own, and their units are their own, too: degrees, radians, or shares of a
//! calibrated range. So the guard works joint by joint: limits, the largest step in a control period, and how far a joint
//! may stay behind.

mod env;
mod guard;
mod limits;
mod task;

use std::sync::Arc;

use plaudit_core::{FrameShape, Frames};
use thiserror::Error;

use crate::Time;

pub use env::JointEnv;
pub use guard::{JointGuard, JointMotion, JointSent};
pub use limits::{JointLimits, JointRange};
pub use task::{JointAction, JointParts, JointTask, TakeOver};

/// An arm that keeps the joint positions it was last sent.
///
/// Every call returns within a time the implementation bounds, or says that it did not work. Only
/// [`JointGuard`] calls [`target`](Self::target).
pub trait JointArm: Send {
    /// What the arm is like.
    fn spec(&self) -> &JointArmSpec;

    /// What the arm, its cameras and its leader show now.
    fn observe(&mut self) -> Result<JointState, JointArmError>;

    /// Sends a position for each joint, in the arm's units, and returns what was really sent to the motors.
    fn target(&mut self, positions: &[f64]) -> Result<Vec<f64>, JointArmError>;

    /// Connects anew to an arm that is gone. Motors may lose their torque for a moment: only after a person agreed.
    fn reconnect(&mut self) -> Result<(), JointArmError>;
}

/// What an arm is like.
#[derive(Debug, Clone, PartialEq)]
pub struct JointArmSpec {
    /// The numbers that it reports, in its own order.
    pub state: Vec<Arc<str>>,
    /// The joints that take targets; each is among [`state`](Self::state).
    pub joints: Vec<Arc<str>>,
    /// Its cameras, the main view first.
    pub cameras: Vec<(Arc<str>, FrameShape)>,
    /// Whether a leader moves beside it.
    pub has_leader: bool,
    /// Whether the person at the leader tells events.
    pub has_events: bool,
}

/// What an arm shows.
#[derive(Debug, Clone, PartialEq)]
pub struct JointState {
    /// The numbers of [`JointArmSpec::state`].
    pub numbers: Vec<f64>,
    /// The measured position of each joint.
    pub positions: Vec<f64>,
    /// One image for each camera.
    pub frames: Vec<Arc<Frames>>,
    /// Where the leader is.
    pub leader: Option<Vec<f64>>,
    /// What the person at the leader wants.
    pub events: LeaderEvents,
    /// When it was asked for: the state is at least as new as this.
    pub time: Time,
}

/// What the person at a leader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaderEvents {
    /// To act.
    pub is_intervention: bool,
    /// The episode succeeded.
    pub success: bool,
    /// The episode is over, whether it succeeded or not.
    pub is_over: bool,
    /// The episode is worth nothing.
    pub is_invalid: bool,
}

/// Why an arm did not answer or obey.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum JointArmError {
    /// Not in time; the answer may still come.
    #[error("{0}")]
    Late(String),
    /// It said no. It may say yes the next time.
    #[error("{0}")]
    Failed(String),
    /// Nobody is there any more: somebody has to look, and it has to be connected anew.
    #[error("{0}")]
    Gone(String),
}
