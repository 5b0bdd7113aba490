//! A Franka Panda arm on a table: its kinematics, controllers, physics and looks, and what every task with it
//! lets one choose.

pub(crate) mod cameras;
pub(crate) mod control;
pub(crate) mod kinematics;
#[cfg(feature = "mujoco")]
mod mjcf;
mod modes;
#[cfg(feature = "mujoco")]
mod mujoco;
pub(crate) mod physics;
mod robot;
pub(crate) mod station;
pub(crate) mod steer;
pub(crate) mod tabletop;
pub(crate) mod visual;
mod wrench;

pub use cameras::{CameraName, CameraSettings};
pub use control::ControlMode;
pub(crate) use kinematics::{Arm, Pose};
pub use modes::{ObsMode, RewardMode};
pub use physics::Engine;
pub(crate) use tabletop::CONTROL_HZ;
pub use visual::PixelLabel;
pub(crate) use wrench::Wrench;
