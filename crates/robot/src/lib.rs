//! Robot arms: what moves them, what watches them, and a simulated one that cannot be told apart.
//!
//! Everything meets at four traits. An [`Arm`] follows target poses by itself and reports its state; a [`Camera`]
//! takes frames by itself, the newest of which wins; a [`Pilot`] is a person, or a script in a person's place, who
//! may take over from the policy; a [`Clock`] runs, or is turned by hand in tests.
//!
//! Arms that follow joint positions instead, such as LeRobot's, are a [`JointArm`] with a guard and an environment of their
//! own, [`JointGuard`] and [`JointEnv`].
//!
//! Units and frames are in the names: metres, radians and newtons, in the base frame of the robot. Quaternions are
//! ordered x, y, z, w.
//!
//! ```
//! use plaudit_robot::{Clock, ToolPose, VirtualClock};
//! use std::time::Duration;
//!
//! let above = ToolPose::from_xyz_euler([0.5, 0.0, 0.2, std::f64::consts::PI, 0.0, 0.0]).unwrap();
//! let target = ToolPose::from_xyz_euler([0.5, 0.0, 0.1, std::f64::consts::PI, 0.0, 0.0]).unwrap();
//! let (translation_m, rotation_rad) = target.motion_from(above);
//! assert!((translation_m.z + 0.1).abs() < 1e-12 && rotation_rad.length() < 1e-12);
//!
//! let clock = VirtualClock::new();
//! clock.sleep_until(clock.now() + Duration::from_secs(3600)); // takes no time
//! assert_eq!(clock.now().elapsed().as_secs(), 3600);
//! ```

mod arm;
mod arm_loop;
mod camera;
mod clock;
mod compliance;
pub mod doctor;
mod env;
#[cfg(all(feature = "franka", target_os = "linux"))]
mod franka;
mod guard;
mod joints;
mod pilot;
mod pose;
mod serl;
mod simulate;
mod stop;

pub use arm::{Arm, ArmError, ArmState, GripperCommand, JOINTS};
pub use camera::{
    AtEnd, Camera, CameraAddress, CameraAddressError, CameraCounts, CameraError, CameraFrame, Crop,
    CropRegion, CropRegionError, FrameFit, LiveCamera, MjpegCamera, ReplayCamera, V4l2Camera, V4l2Settings,
    first_frame,
};
pub use clock::{Clock, RealClock, Time, VirtualClock};
pub use compliance::{COMPLIANCE, Compliance, ComplianceError};
pub use env::{
    AskPerson, EpisodeBreaker, EpisodeKeys, NoTableReset, RobotEnv, RobotParts, RobotTask, SimulatedServer,
    TableReset,
};
#[cfg(all(feature = "franka", target_os = "linux"))]
pub use franka::{FrankaServeError, FrankaServer, FrankaSettings};
pub use guard::{
    AxisBox, Face, Guard, HoldCause, LimitError, Limits, Mode, Motion, Person, Sent, SharedGuard, Watchdog,
    Watched, Workspace, WorkspaceError, hold_unguarded,
};
pub use joints::{
    JointAction, JointArm, JointArmError, JointArmSpec, JointEnv, JointGuard, JointLimits, JointMotion,
    JointParts, JointRange, JointSent, JointState, JointTask, LeaderEvents, TakeOver,
};
pub use pilot::{
    Buttons, CombinedPilot, Deflection, DevicePilot, FunctionPilot, Key, KeyJog, KeyLatch, NoPilot, Pilot,
    PilotError, PilotInput, TerminalPilot, UDEV_RULES, UDEV_RULES_PATH, restore_terminal,
};
pub use pose::{ToolPose, Twist, Wrench};
pub use serl::{AddressError, SERL_PORT, SerlArm};
pub use simulate::{
    Faults, PrepareScene, SceneClient, SimulateError, SimulateSettings, SimulatedRobot, Truth,
};
pub use stop::StopToken;
