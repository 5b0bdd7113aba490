//! A robot arm, as little of it as learning needs.

use thiserror::Error;

use crate::{Compliance, Time, ToolPose, Twist, Wrench};

/// Joints of an arm.
pub const JOINTS: usize = 7;

/// An arm that follows target poses by itself, such as one under a Cartesian impedance controller.
///
/// Every call returns within a time the implementation bounds, or says that it did not work; the exception is
/// [`joint_reset`](Self::joint_reset), which takes as long as the arm moves. Only [`Guard`](crate::Guard) calls
/// [`target`](Self::target): whatever else wants to move an arm goes through it.
pub trait Arm: Send {
    /// Where the arm is now.
    fn state(&mut self) -> Result<ArmState, ArmError>;

    /// Sends a pose to go to, and returns at once.
    fn target(&mut self, pose: &ToolPose) -> Result<(), ArmError>;

    /// Moves the gripper, and returns at once.
    fn gripper(&mut self, command: GripperCommand) -> Result<(), ArmError>;

    /// How the arm gives way.
    fn compliance(&mut self, compliance: &Compliance) -> Result<(), ArmError>;

    /// Clears a reflex, in which the arm has stopped itself. The arm stays where it is.
    fn recover(&mut self) -> Result<(), ArmError>;

    /// Moves all joints to where the controller starts them. Takes seconds, outside of anybody's limits.
    fn joint_reset(&mut self) -> Result<(), ArmError>;
}

/// What an arm reports about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmState {
    /// The pose of the tool.
    pub pose: ToolPose,
    /// The velocity of the tool.
    pub velocity: Twist,
    /// What presses on the tool, as the arm estimates it.
    pub wrench: Wrench,
    /// Joint angles.
    pub joints_rad: [f64; JOINTS],
    /// Joint speeds.
    pub joint_speeds_rad_s: [f64; JOINTS],
    /// How far the gripper is open: 0 closed, 1 open. `None` without a gripper.
    pub gripper_open: Option<f64>,
    /// When it was asked for: the state is at least as new as this.
    pub time: Time,
}

/// What a gripper is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GripperCommand {
    /// Open.
    Open,
    /// Close.
    Close,
    /// Open so far: 0 closed, 1 open.
    To(f64),
}

/// Why an arm did not answer or obey.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ArmError {
    /// Nobody answers, or not in time.
    #[error("the robot server at {address} does not answer {route}: {why}")]
    Unreachable {
        /// Where.
        address: String,
        /// What was asked.
        route: &'static str,
        /// What the system says.
        why: String,
    },
    /// The server has no state yet, or not any more.
    #[error("the robot server is not ready ({route}: status {status}{})", crate::serl::said(.message))]
    NotReady {
        /// What was asked.
        route: &'static str,
        /// HTTP's number.
        status: u16,
        /// What it said.
        message: String,
    },
    /// The arm has stopped itself and waits for its error to be cleared.
    #[error("the arm has stopped itself ({route}{})", crate::serl::said(.message))]
    Reflex {
        /// What was asked.
        route: &'static str,
        /// What it said.
        message: String,
    },
    /// The server refused.
    #[error("the robot server refused {route} with status {status}{}", crate::serl::said(.message))]
    Refused {
        /// What was asked.
        route: &'static str,
        /// HTTP's number.
        status: u16,
        /// What it said.
        message: String,
    },
    /// An answer that cannot be understood.
    #[error("the robot server's answer to {route} cannot be understood: {why}")]
    Reply {
        /// What was asked.
        route: &'static str,
        /// What is wrong with it.
        why: String,
    },
}
