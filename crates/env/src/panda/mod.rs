//! A Franka Panda arm on a table: its kinematics, controllers, physics and looks, and what every task with it
//! lets one choose.

pub(crate) mod cameras;
pub(crate) mod control;
pub(crate) mod kinematics;
pub(crate) mod look;
mod modes;
mod robot;
pub(crate) mod station;
pub(crate) mod steer;
pub(crate) mod tabletop;

pub use cameras::{CameraName, CameraSettings};
pub use control::ControlMode;
pub(crate) use kinematics::{Arm, Pose};
pub use modes::{ObsMode, RewardMode};
pub(crate) use tabletop::CONTROL_HZ;
