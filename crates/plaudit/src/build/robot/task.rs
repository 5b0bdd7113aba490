//! Where the tool must go, where it starts and where it may be, as a config writes it.

use std::f64::consts::FRAC_PI_6;

use glam::DVec3;
use plaudit_robot::{AxisBox, ToolPose, Workspace};

use crate::config::block::Fill;
use crate::config::blocks::env::EnvSettings;
use crate::config::blocks::robot::{Pose, RobotSettings};

/// Episodes start so far above the target where no start is set.
const ABOVE_M: f64 = 0.1;
/// How far the tool may roll and pitch, and how far it may yaw where nothing is set, radians.
const TILT_RAD: f64 = 0.1;
const YAW_RAD: f64 = FRAC_PI_6;
/// A full action where nothing is set: metres, radians, gripper.
const ACTION: [f64; 3] = [0.02, 0.1, 1.0];
/// A box has an inside even where its range is zero.
const ROOM_M: f64 = 1e-3;
/// The task whose box is known: half widths in x and y, then how far below and above the target, metres.
const PEG: (&str, [f64; 4]) = ("PegInsertionEnv-v1", [0.05, 0.05, 0.0, 0.1]);

/// What is wrong with a key of `override_cfg`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotProblem {
    /// The key, below `override_cfg`.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl RobotProblem {
    pub(super) fn new(key: &'static str, message: impl ToString, hint: impl Into<String>) -> Self {
        Self { key, message: message.to_string(), hint: hint.into() }
    }
}

/// Where the tool must go.
pub fn target(robot: &RobotSettings) -> Result<ToolPose, RobotProblem> {
    filled("target_ee_pose", &robot.target_ee_pose, "where the tool is when the task is solved")
}

/// Where episodes start: above the target, unless written.
pub fn reset_pose(robot: &RobotSettings, target: ToolPose) -> Result<ToolPose, RobotProblem> {
    let above = target.moved(DVec3::Z * ABOVE_M, DVec3::ZERO);
    let written = |pose| filled("reset_ee_pose", pose, "where the tool starts");
    robot.reset_ee_pose.as_ref().map_or(Ok(above), written)
}

/// Metres and radians of a full action.
pub fn full_action(robot: &RobotSettings) -> (f64, f64) {
    let [metres, radians, _] = robot.action_scale.unwrap_or(ACTION);
    (metres, radians)
}

/// The pose that was filled in.
fn filled(key: &'static str, pose: &Fill<Pose>, what: &str) -> Result<ToolPose, RobotProblem> {
    let read = "read it at the robot: `plaudit robot pose URL`";
    match pose {
        Fill::Given(numbers) => ToolPose::from_xyz_euler(*numbers).ok_or_else(|| {
            RobotProblem::new(
                key,
                "it has something that is no number",
                format!("six finite numbers; {read}"),
            )
        }),
        Fill::Blank(blank) => {
            let hint = format!("x, y, z in metres, then roll, pitch, yaw in radians: {what}; {read}");
            Err(RobotProblem::new(key, format!("it is still {blank}"), hint))
        }
    }
}

/// The box that is written, or that of the task around its target.
pub fn workspace(env: &EnvSettings, target: ToolPose) -> Result<Workspace, RobotProblem> {
    let robot = &env.override_cfg;
    let (bounds, turn_rad) = match (robot.ee_pose_limit_min, robot.ee_pose_limit_max) {
        (Some(min), Some(max)) => limits_as_written(min, max),
        (None, None) => box_around_target(env, target)?,
        (Some(_), None) => return Err(half_a_box("ee_pose_limit_min", "ee_pose_limit_max")),
        (None, Some(_)) => return Err(half_a_box("ee_pose_limit_max", "ee_pose_limit_min")),
    };
    workspace_of(bounds, target, turn_rad)
}

/// A box around a target, and how far the tool may turn away from it.
pub(super) fn workspace_of(
    bounds: AxisBox,
    target: ToolPose,
    turn_rad: [f64; 3],
) -> Result<Workspace, RobotProblem> {
    Workspace::new(bounds, target.rotation, turn_rad)
        .map_err(|error| RobotProblem::new("ee_pose_limit_min", error, "give the box an inside"))
}

fn half_a_box(key: &'static str, other: &str) -> RobotProblem {
    RobotProblem::new(key, "the box has one of its two corners alone", format!("write {other}, too"))
}

/// RLinf writes both corners as poses. Angles count from the target there, too; the wider side counts.
fn limits_as_written(min: Pose, max: Pose) -> (AxisBox, [f64; 3]) {
    let corner = |pose: Pose| DVec3::new(pose[0], pose[1], pose[2]);
    let bounds = AxisBox { min_m: corner(min), max_m: corner(max) };
    (bounds, std::array::from_fn(|axis| (max[axis + 3] - min[axis + 3]).abs() / 2.0))
}

fn box_around_target(env: &EnvSettings, target: ToolPose) -> Result<(AxisBox, [f64; 3]), RobotProblem> {
    let (robot, id) = (&env.override_cfg, env.init_params.id.as_deref());
    let usual = |side: usize| (id == Some(PEG.0)).then_some(PEG.1[side]);
    let x = robot.clip_x_range.or(robot.clip_xy_range).or(usual(0));
    let y = robot.clip_y_range.or(robot.clip_xy_range).or(usual(1));
    let (low, high) = (robot.clip_z_range_low.or(usual(2)), robot.clip_z_range_high.or(usual(3)));
    let (Some(x), Some(y), Some(low), Some(high)) = (x, y, low, high) else {
        let message = format!("{} has no box of its own, and none is written", id.unwrap_or("the task"));
        let hint = "write ee_pose_limit_min and ee_pose_limit_max, or clip_xy_range, clip_z_range_low and \
                    clip_z_range_high: the tool never leaves it";
        return Err(RobotProblem::new("ee_pose_limit_min", message, hint));
    };
    let centre = target.position_m;
    let bounds = AxisBox {
        min_m: centre - DVec3::new(x, y, low + ROOM_M),
        max_m: centre + DVec3::new(x, y, high + ROOM_M),
    };
    Ok((bounds, [TILT_RAD, TILT_RAD, robot.clip_rz_range.unwrap_or(YAW_RAD)]))
}
