//! A Franka Panda arm on a table: its kinematics, its controllers, and its physics.

pub(crate) mod control;
pub(crate) mod kinematics;
pub(crate) mod tabletop;

pub use control::ControlMode;
pub(crate) use kinematics::{Arm, Pose};
