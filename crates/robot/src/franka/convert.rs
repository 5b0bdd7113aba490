//! Franka's numbers in SERL's: poses, Jacobians, stiffness, the width between fingers.

use franka::robot::target_control::LiveTuning;
use franka::{Frame, Model, RobotState};
use glam::{DMat3, DQuat, DVec3};

use crate::serl::server::{Refusal, Reported};
use crate::{Compliance, ComplianceError, GripperCommand, ToolPose, Twist};

/// How far a determinant may be from 1: states come as 32-bit numbers.
const ROTATION_TOLERANCE: f64 = 0.01;
/// Metres between open fingers, by which SERL's servers divide.
const OPEN_M: f64 = 0.08;
/// The one parameter of SERL's controller that this controller has, too.
const STIFFNESS: &str = "translational_stiffness";

/// The pose of a column-major transformation. `None` for one that is no pose.
fn pose(transform: &[f64; 16]) -> Option<ToolPose> {
    let [m00, m10, m20, _, m01, m11, m21, _, m02, m12, m22, _, x, y, z, _] = *transform;
    let turn = DMat3::from_cols_array(&[m00, m10, m20, m01, m11, m21, m02, m12, m22]);
    let is_turn = (turn.determinant() - 1.0).abs() < ROTATION_TOLERANCE; // false for NaN
    let position_m = DVec3::new(x, y, z);
    let rotation = DQuat::from_mat3(&turn).normalize();
    (is_turn && position_m.is_finite()).then(|| ToolPose::new(position_m, rotation))
}

/// Where the tool is, by the model that the loop follows targets with. The robot's own `O_T_EE` is the same unless model and
/// robot do not fit each other, and then a target that was read from one would be a jump for the other.
pub(super) fn tool_pose(model: &Model, state: &RobotState) -> Option<ToolPose> {
    pose(&model.pose(Frame::EndEffector, state))
}

/// How far the robot's own pose is from the model's.
pub(super) fn model_error_m(model: &Model, state: &RobotState) -> Option<f64> {
    Some(tool_pose(model, state)?.distance_m(pose(&state.O_T_EE)?))
}

/// The rows of a column-major 6x7 matrix.
fn rows(columns: &[f64; 42]) -> [[f64; 7]; 6] {
    std::array::from_fn(|row| std::array::from_fn(|joint| columns[6 * joint + row]))
}

/// How the tool moves while its joints do.
fn tool_velocity(jacobian: &[[f64; 7]; 6], joint_speeds: &[f64; 7]) -> [f64; 6] {
    jacobian.each_ref().map(|row| row.iter().zip(joint_speeds).map(|(part, speed)| part * speed).sum())
}

/// A state in the dialect's own numbers, as SERL's server has them: forces in the stiffness frame.
pub(super) fn reported(model: &Model, state: &RobotState, gripper_pos: f64) -> Result<Reported, Refusal> {
    let pose = tool_pose(model, state).ok_or_else(|| (503, "the robot reports no pose".to_string()))?;
    let jacobian = rows(&model.zero_jacobian(Frame::EndEffector, state));
    let [fx, fy, fz, tx, ty, tz] = state.K_F_ext_hat_K;
    Ok(Reported {
        pose,
        vel: tool_velocity(&jacobian, &state.dq),
        force: [fx, fy, fz],
        torque: [tx, ty, tz],
        q: state.q,
        dq: state.dq,
        jacobian,
        gripper_pos,
    })
}

/// How fast the tool moves.
pub(super) fn twist(model: &Model, state: &RobotState) -> Twist {
    let jacobian = rows(&model.zero_jacobian(Frame::EndEffector, state));
    let [x, y, z, about_x, about_y, about_z] = tool_velocity(&jacobian, &state.dq);
    Twist { linear_m_s: DVec3::new(x, y, z), angular_rad_s: DVec3::new(about_x, about_y, about_z) }
}

/// The stiffness that is asked for, in N/m, and the parameters that this controller does not have.
pub(super) fn stiffness(compliance: &Compliance) -> Result<(Option<f64>, Vec<&'static str>), Refusal> {
    let (mut asked, mut unused) = (None, Vec::new());
    for (name, value) in compliance.values() {
        if *name == STIFFNESS {
            asked = Some(*value);
        } else {
            unused.push(*name);
        }
    }
    if let Some(value) = asked {
        let bound = LiveTuning::BOUNDS.iter().find(|bound| bound.name == "cartesian_stiffness");
        let (least, most) = bound.map_or((0.0, 0.0), |bound| (bound.min, bound.max));
        if !(least..=most).contains(&value) {
            let refused = ComplianceError::Range { name: STIFFNESS, value, least, most };
            return Err((400, refused.to_string()));
        }
    }
    Ok((asked, unused))
}

/// What the fingers do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FingerMotion {
    /// To so many metres between them.
    Move { width_m: f64 },
    /// Closed around whatever is between them.
    Grasp,
}

/// What fingers do that can be `max_width_m` apart. A width that they cannot reach fails, so that the hand's own word counts.
pub(super) fn finger_motion(command: GripperCommand, max_width_m: f64) -> FingerMotion {
    let widest = if max_width_m > 0.0 { max_width_m.min(OPEN_M) } else { OPEN_M };
    match command {
        GripperCommand::Open => FingerMotion::Move { width_m: widest },
        GripperCommand::Close => FingerMotion::Grasp,
        GripperCommand::To(open) => FingerMotion::Move { width_m: widest * open.clamp(0.0, 1.0) },
    }
}

/// How far fingers are open: 1 is open.
pub(super) fn open_share(width_m: f64) -> f64 {
    (width_m / OPEN_M).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: columns are where the tool's axes point. Down: x stays, y and z turn round.
    #[test]
    fn a_column_major_transformation_is_a_pose() {
        let down = [1., 0., 0., 0., 0., -1., 0., 0., 0., 0., -1., 0., 0.5, -0.1, 0.3, 1.];
        let pose = pose(&down).unwrap();
        assert_eq!(pose.position_m, DVec3::new(0.5, -0.1, 0.3));
        assert!((pose.rotation * DVec3::Z).distance(DVec3::NEG_Z) < 1e-12);
        let expected = [0.5, -0.1, 0.3, std::f64::consts::PI, 0.0, 0.0];
        let (translation, rotation) = ToolPose::from_xyz_euler(expected).unwrap().motion_from(pose);
        assert!(translation.length() < 1e-12 && rotation.length() < 1e-12);
    }

    /// A quarter about z sends x to y: a row-major reading would send it to -y.
    #[test]
    fn columns_are_not_rows() {
        let quarter = [0., 1., 0., 0., -1., 0., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1.];
        let pose = pose(&quarter).unwrap();
        assert!((pose.rotation * DVec3::X).distance(DVec3::Y) < 1e-12);
    }

    #[test]
    fn numbers_that_are_no_pose_are_none() {
        let mut wrong = [1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1.];
        wrong[0] = f64::NAN;
        assert_eq!(pose(&wrong), None);
        assert_eq!(pose(&[0.0; 16]), None);
        let mirrored = [1., 0., 0., 0., 0., 1., 0., 0., 0., 0., -1., 0., 0., 0., 0., 1.];
        assert_eq!(pose(&mirrored), None);
    }

    #[test]
    fn jacobians_are_read_column_by_column() {
        let mut columns = [0.0; 42];
        columns[6 + 2] = 0.5; // the second joint lifts the tool
        let jacobian = rows(&columns);
        assert_eq!(jacobian[2][1], 0.5);
        let velocity = tool_velocity(&jacobian, &[9.0, 2.0, 9.0, 9.0, 9.0, 9.0, 9.0]);
        assert_eq!(velocity, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn stiffness_counts_within_the_controllers_range_and_the_rest_is_named() {
        let all = Compliance::new([("translational_stiffness", 2000.0), ("rotational_Ki", 1.0)]).unwrap();
        assert_eq!(stiffness(&all), Ok((Some(2000.0), vec!["rotational_Ki"])));
        assert_eq!(stiffness(&Compliance::default()), Ok((None, Vec::new())));
        for wrong in [0.0, 49.0, 3001.0, 6000.0] {
            let asked = Compliance::new([("translational_stiffness", wrong)]).unwrap();
            let words = format!("`translational_stiffness` is {wrong}, but the controller takes 50 to 3000");
            assert_eq!(stiffness(&asked), Err((400, words)));
        }
    }

    #[test]
    fn fingers_open_as_far_as_they_can() {
        let width = |command, widest| match finger_motion(command, widest) {
            FingerMotion::Move { width_m } => width_m,
            FingerMotion::Grasp => -1.0,
        };
        assert_eq!(width(GripperCommand::Open, 0.0), 0.08, "a hand that was never homed");
        assert_eq!(width(GripperCommand::Open, 0.0792), 0.0792);
        assert_eq!(width(GripperCommand::Open, 0.2), 0.08, "wider than SERL's 1 is not asked for");
        assert_eq!(width(GripperCommand::To(0.5), 0.08), 0.04);
        assert_eq!(width(GripperCommand::To(7.0), 0.08), 0.08);
        assert_eq!(width(GripperCommand::Close, 0.08), -1.0);
        assert_eq!((open_share(0.04), open_share(0.0), open_share(0.09)), (0.5, 0.0, 1.0));
    }
}
