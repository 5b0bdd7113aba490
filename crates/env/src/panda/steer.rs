//! How a script moves the tool: from where it should be to an action of any control mode.

use glam::DVec3;
use plaudit_core::Rng;

use super::kinematics::{JOINTS, reach};
use super::{ControlMode, Pose};

/// Drives cover about half of what they are asked for in a step: ask for more.
const GAIN: f64 = 2.0;
/// Metres or radians that an action of 1 asks for.
const DELTA: f64 = 0.1;

/// Where the arm is and should be.
pub(crate) struct Steer {
    pub(crate) angles: [f64; JOINTS],
    pub(crate) tool: Pose,
    pub(crate) target: Pose,
    pub(crate) open: bool,
}

impl Steer {
    /// Appends the action that goes there, with normal noise of the deviation `noise` on every number.
    pub(crate) fn act(&self, mode: ControlMode, noise: f64, rng: &mut Rng, actions: &mut Vec<f32>) {
        let start = actions.len();
        match mode {
            ControlMode::PdJointDeltaPos => {
                let way = reach(&self.angles, self.target, 10);
                let turn: [f64; JOINTS] =
                    std::array::from_fn(|joint| GAIN * (way[joint] - self.angles[joint]));
                let largest = turn.iter().fold(DELTA, |most: f64, turn| most.max(turn.abs()));
                actions.extend(turn.map(|turn| (turn / largest) as f32));
            }
            ControlMode::PdJointPos => {
                actions.extend(reach(&self.angles, self.target, 10).map(|angle| angle as f32))
            }
            ControlMode::PdEeDeltaPos => actions.extend(self.way()),
            ControlMode::PdEeDeltaPose => {
                actions.extend(self.way());
                let turn = (self.target.rotation * self.tool.rotation.conjugate()).to_scaled_axis();
                actions.extend(unit(-GAIN * turn));
            }
        }
        actions.push(if self.open { 1.0 } else { -1.0 });
        if noise > 0.0 {
            let scale = if mode == ControlMode::PdJointPos { DELTA * noise } else { noise };
            actions[start..].iter_mut().for_each(|action| *action += (scale * rng.normal()) as f32);
        }
    }

    fn way(&self) -> [f32; 3] {
        unit(GAIN * (self.target.position - self.tool.position))
    }
}

/// Metres or radians as an action.
fn unit(way: DVec3) -> [f32; 3] {
    (way / DELTA).clamp(DVec3::NEG_ONE, DVec3::ONE).as_vec3().to_array()
}
