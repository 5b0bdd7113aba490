//! From an action to the targets of the joint drives.

use glam::{DQuat, DVec3};
use plaudit_core::ActionSpace;
use serde::{Deserialize, Serialize};

use super::kinematics::{Arm, JOINTS, LIMITS, Pose, reach};

/// How an action is understood, under ManiSkill's names.
///
/// The last number of an action is always the gripper: -1 closes, 1 opens. Actions beyond the bounds are
/// clipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlMode {
    /// Seven changes of joint angle, 1 meaning 0.1 rad, from where the joints are.
    #[default]
    PdJointDeltaPos,
    /// Seven joint angles in radians.
    PdJointPos,
    /// Three changes of the tool's position along the world's axes, 1 meaning 10 cm.
    PdEeDeltaPos,
    /// Three changes of position as above, then three Euler angles (XYZ) about the world's axes, of which
    /// 1 means **minus** 0.1 rad: ManiSkill scales rotations by their lower bound, and so do we.
    PdEeDeltaPose,
}

/// Radians or metres that an action of 1 asks for.
const DELTA: f64 = 0.1;
/// Finger positions that an action of -1 and 1 ask for. Below zero, so that thin things are held too.
const GRIPPER: (f64, f64) = (-0.01, 0.04);
/// Steps of inverse kinematics per control step: from where the arm is, few are enough.
const REACH_STEPS: usize = 4;

/// What the joint drives should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Command {
    pub(crate) arm: [f64; JOINTS],
    pub(crate) finger: f64,
}

impl ControlMode {
    /// What an action is in this mode.
    pub fn actions(self) -> ActionSpace {
        let (mut low, mut high) = match self {
            Self::PdJointDeltaPos => (vec![-1.0; 7], vec![1.0; 7]),
            Self::PdJointPos => LIMITS.iter().map(|(low, high)| (*low as f32, *high as f32)).unzip(),
            Self::PdEeDeltaPos => (vec![-1.0; 3], vec![1.0; 3]),
            Self::PdEeDeltaPose => (vec![-1.0; 6], vec![1.0; 6]),
        };
        low.push(-1.0);
        high.push(1.0);
        ActionSpace::Continuous { low, high }
    }

    /// What `action` asks of an arm that is at `angles` now.
    pub(crate) fn command(self, action: &[f32], angles: &[f64; JOINTS]) -> Command {
        let unit = |at: usize| f64::from(action[at].clamp(-1.0, 1.0));
        let vector = |from: usize| DVec3::new(unit(from), unit(from + 1), unit(from + 2));
        let arm = match self {
            Self::PdJointDeltaPos => std::array::from_fn(|joint| angles[joint] + DELTA * unit(joint)),
            Self::PdJointPos => std::array::from_fn(|joint| f64::from(action[joint])),
            Self::PdEeDeltaPos => {
                let tool = Arm::at(angles).tool;
                reach(angles, Pose::new(tool.position + DELTA * vector(0), tool.rotation), REACH_STEPS)
            }
            Self::PdEeDeltaPose => {
                let tool = Arm::at(angles).tool;
                let turn = DVec3::new(action[3].into(), action[4].into(), action[5].into());
                let turn = -DELTA * turn.clamp_length_max(1.0);
                let turn = DQuat::from_rotation_x(turn.x)
                    * DQuat::from_rotation_y(turn.y)
                    * DQuat::from_rotation_z(turn.z);
                let target = Pose::new(tool.position + DELTA * vector(0), turn * tool.rotation);
                reach(angles, target, REACH_STEPS)
            }
        };
        let open = (unit(action.len() - 1) + 1.0) / 2.0;
        Command {
            arm: std::array::from_fn(|joint| arm[joint].clamp(LIMITS[joint].0, LIMITS[joint].1)),
            finger: GRIPPER.0 + (GRIPPER.1 - GRIPPER.0) * open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinematics::REST;
    use super::*;

    fn tool_after(mode: ControlMode, action: &[f32]) -> Pose {
        Arm::at(&mode.command(action, &REST).arm).tool
    }

    #[test]
    fn deltas_are_from_where_the_arm_is() {
        let command =
            ControlMode::PdJointDeltaPos.command(&[1.0, 5.0, 0.0, 0.0, 0.0, 0.0, -0.5, -1.0], &REST);
        assert!((command.arm[0] - 0.1).abs() < 1e-12);
        assert!((command.arm[1] - REST[1] - 0.1).abs() < 1e-12, "clipped");
        assert!((command.arm[6] - REST[6] + 0.05).abs() < 1e-12);
        assert_eq!(command.finger, -0.01);
    }

    #[test]
    fn the_tool_goes_where_it_is_sent() {
        let before = Arm::at(&REST).tool;
        let moved = tool_after(ControlMode::PdEeDeltaPos, &[0.5, -0.3, 0.2, 1.0]);
        assert!((moved.position - before.position - DVec3::new(0.05, -0.03, 0.02)).length() < 1e-4);
        assert!(moved.rotation.angle_between(before.rotation) < 1e-3);

        let turned = tool_after(ControlMode::PdEeDeltaPose, &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        assert!((turned.position - before.position).length() < 1e-4);
        let expected = DQuat::from_rotation_z(-0.1) * before.rotation;
        assert!(turned.rotation.angle_between(expected) < 1e-3);
    }

    #[test]
    fn action_widths_are_maniskills() {
        let widths = [
            ControlMode::PdJointDeltaPos,
            ControlMode::PdJointPos,
            ControlMode::PdEeDeltaPos,
            ControlMode::PdEeDeltaPose,
        ]
        .map(|mode| mode.actions().width());
        assert_eq!(widths, [8, 8, 4, 7]);
    }
}
