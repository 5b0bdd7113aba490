//! A script that solves PickCube from its full state, or fails at a chosen rate.

use glam::{DQuat, DVec3};
use plaudit_core::{Decision, Obs, Policy, PolicyError, Seed};

use super::state_width;
use crate::panda::kinematics::{JOINTS, REST};
use crate::panda::steer::{self, QUICK, Steer, descend};
use crate::panda::{Arm, ControlMode, ObsMode, Pose};

/// Reaches, grasps, lifts and places by inverse kinematics.
///
/// It has no memory: what it does depends on the state alone, so it can take over in the middle of an
/// episode, and any number of batches can share it.
#[derive(Debug, Clone, PartialEq)]
pub struct PickCubeExpert {
    mode: ControlMode,
    noise: f64,
    misses: f64,
}

impl PickCubeExpert {
    /// For environments with this control mode.
    pub fn new(mode: ControlMode) -> Self {
        Self { mode, noise: 0.0, misses: 0.0 }
    }

    /// Adds normal noise of this standard deviation to every action (1 is as large as actions get). With
    /// `pd_joint_delta_pos` it still solves 0.82 of the episodes at 0.2, about half at 0.25, 0.14 at 0.3 and
    /// none at 0.5.
    #[must_use]
    pub fn with_noise(self, noise: f64) -> Self {
        Self { noise, ..self }
    }

    /// Misses on purpose in this share of the episodes, and stands still there, as a policy does that is rewarded for it: with the
    /// cube beside the goal, or in line with it and nearer to the camera, with an empty hand at the goal, or above the cube. Which,
    /// the goal decides, so that an episode has one way to miss.
    #[must_use]
    pub fn with_misses(self, misses: f64) -> Self {
        Self { misses, ..self }
    }
}

impl Policy for PickCubeExpert {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let task = ("PickCube", state_width(ObsMode::State));
        let can_turn = self.mode != ControlMode::PdEeDeltaPos;
        steer::act(task, (self.mode, self.noise), obs, seed, |state| {
            let view = View::of(state);
            let grip = if can_turn { view.grip() } else { view.tool.rotation };
            let (target, open) = view.aim(grip, Miss::of(view.goal, self.misses));
            Steer { angles: view.angles, tool: view.tool, target, open, gain: QUICK }
        })
    }
}

/// A way to fail that ends at rest.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Miss {
    EmptyHand { open: bool },
    AboveCube { height: f64 },
    CubeElsewhere { place: DVec3 },
}

impl Miss {
    /// The way of an episode with this goal, if it is one of those that miss.
    fn of(goal: DVec3, share: f64) -> Option<Self> {
        if share == 0.0 {
            return None;
        }
        let seed =
            goal.to_array().iter().fold(Seed::new(0).purpose("miss"), |seed, x| seed.index(x.to_bits()));
        let mut rng = seed.rng();
        if rng.unit() >= share {
            return None;
        }
        Some(match rng.below(4) {
            0 => Self::EmptyHand { open: rng.unit() < 0.5 },
            1 => Self::AboveCube { height: 0.02 + 0.1 * rng.unit() },
            2 => {
                let nearer = 0.12 + 0.18 * rng.unit();
                Self::CubeElsewhere { place: goal.lerp(BASE_CAMERA, nearer) }
            }
            _ => {
                let direction = DVec3::new(rng.normal(), rng.normal(), rng.normal()).normalize_or(DVec3::X);
                let beside = goal + direction * (0.045 + 0.12 * rng.unit());
                Self::CubeElsewhere { place: beside.with_z(beside.z.max(CUBE_AT_REST)) }
            }
        })
    }
}

/// Where the camera over the table is.
const BASE_CAMERA: DVec3 = DVec3::new(0.3, 0.0, 0.6);
/// The height of the middle of a cube on the table.
const CUBE_AT_REST: f64 = 0.02;

/// What the state says.
struct View {
    angles: [f64; JOINTS],
    is_grasped: bool,
    tool: Pose,
    goal: DVec3,
    cube: Pose,
}

impl View {
    fn of(state: &[f32]) -> Self {
        let at = |k: usize| f64::from(state[k]);
        Self {
            angles: std::array::from_fn(at),
            is_grasped: at(18) > 0.5,
            tool: Pose::from_numbers(&state[19..26]),
            goal: DVec3::new(at(26), at(27), at(28)),
            cube: Pose::from_numbers(&state[29..36]),
        }
    }

    /// Where the tool should go now to hold the cube in `grip`, and whether the hand should be open.
    fn aim(&self, grip: DQuat, miss: Option<Miss>) -> (Pose, bool) {
        let cube = self.cube.position;
        let goal = match miss {
            Some(Miss::EmptyHand { open }) => return (Pose::new(self.goal, grip), open),
            Some(Miss::AboveCube { height }) => return (Pose::new(cube + DVec3::Z * height, grip), true),
            Some(Miss::CubeElsewhere { place }) => place,
            None => self.goal,
        };
        if self.is_grasped {
            return (Pose::new(goal - (cube - self.tool.position), self.tool.rotation), false);
        }
        descend(self.tool, Pose::new(cube, grip))
    }

    /// The hand pointing down, with its fingers on two faces of the cube: those it need turn least for.
    fn grip(&self) -> DQuat {
        let side = self.cube.rotation * DVec3::X;
        let quarter = std::f64::consts::FRAC_PI_2;
        let yaw = side.y.atan2(side.x);
        let yaw = yaw - quarter * (yaw / quarter).round();
        DQuat::from_rotation_z(yaw) * Arm::at(&REST).tool.rotation
    }
}
