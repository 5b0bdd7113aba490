//! A script that solves PegInsertionSide from its full state, or fails at a chosen rate.

use glam::{DQuat, DVec3};
use plaudit_core::{Decision, Obs, Policy, PolicyError, Seed};

use super::workpiece::peg_mass;
use super::{start, state_width};
use crate::SettingsError;
use crate::panda::kinematics::JOINTS;
use crate::panda::steer::{self, GENTLE, QUICK, Steer, descend};
use crate::panda::{Arm, ControlMode, ObsMode, Pose};

/// Reaches, grasps, lines up and inserts by inverse kinematics.
///
/// It has no memory: what it does depends on the state alone, so it can take over in the middle of an
/// episode, and any number of batches can share it.
#[derive(Debug, Clone, PartialEq)]
pub struct PegInsertionExpert {
    mode: ControlMode,
    noise: f64,
}

/// The peg is between the fingers when the tool is this near to its axis.
const AT_AXIS: f64 = 0.012;
/// Fingers hold the peg when they are this near to its sides.
const TOUCHING: f64 = 0.0015;
/// Where the peg is held, behind its middle: far enough for the hand to stay out of the box.
const GRIP: f64 = -0.055;
/// The head waits this far in front of the box until the peg is lined up.
const WAIT: f64 = 0.02;
/// A peg this near to the hole's axis, at its head and its middle, is lined up.
const LINED_UP: f64 = 0.004;
/// A head this near to the axis is in the hole rather than stuck at its rim.
const IN_HOLE: f64 = 0.005;
/// How far ahead the head is sent in the hole: faster, and it jams.
const PUSH: f64 = 0.03;
/// Metres by which the arm sinks under each kilogram: drives follow the arm, and do not hold it up.
const SAG: f64 = 0.007;

impl PegInsertionExpert {
    /// For environments with this control mode; one in which the hand can turn.
    pub fn new(mode: ControlMode) -> Result<Self, SettingsError> {
        match mode {
            ControlMode::PdEeDeltaPos => Err(SettingsError::CannotTurn),
            _ => Ok(Self { mode, noise: 0.0 }),
        }
    }

    /// Adds normal noise of this standard deviation to every action (1 is as large as actions get). With
    /// `pd_joint_delta_pos` it still solves 0.95 of the episodes at 0.05, 0.62 at 0.1, 0.23 at 0.15, 0.07 at
    /// 0.2 and 0.015 at 0.3.
    #[must_use]
    pub fn with_noise(self, noise: f64) -> Self {
        Self { noise, ..self }
    }
}

impl Policy for PegInsertionExpert {
    fn act(&mut self, obs: &Obs, seed: Seed) -> Result<Decision, PolicyError> {
        let task = ("PegInsertionSide", state_width(ObsMode::State));
        steer::act(task, (self.mode, self.noise), obs, seed, |state| {
            let view = View::of(state);
            let (target, open) = view.aim();
            let gain = if view.holds() { GENTLE } else { QUICK };
            Steer { angles: view.angles, tool: view.tool, target, open, gain }
        })
    }
}

/// What the state says.
struct View {
    angles: [f64; JOINTS],
    /// How far the fingers are open, on average.
    finger: f64,
    tool: Pose,
    peg: Pose,
    half_length: f64,
    half_width: f64,
    hole: Pose,
}

impl View {
    fn of(state: &[f32]) -> Self {
        let at = |k: usize| f64::from(state[k]);
        Self {
            angles: std::array::from_fn(at),
            finger: (at(7) + at(8)) / 2.0,
            tool: Pose::from_numbers(&state[18..25]),
            peg: Pose::from_numbers(&state[25..32]),
            half_length: at(32),
            half_width: at(33),
            hole: Pose::from_numbers(&state[35..42]),
        }
    }

    /// Where the tool should go now, and whether the hand should be open.
    fn aim(&self) -> (Pose, bool) {
        if self.holds() { (self.insert(), false) } else { self.grasp() }
    }

    /// Whether the peg is between the closed fingers.
    fn holds(&self) -> bool {
        let tool = self.peg.inverse().at(self.tool.position);
        tool.x.abs() < self.half_length
            && tool.y.hypot(tool.z) < AT_AXIS
            && self.finger < self.half_width + TOUCHING
    }

    fn grasp(&self) -> (Pose, bool) {
        descend(self.tool, Pose::new(self.peg.at(DVec3::X * GRIP), self.across_peg()))
    }

    /// The hand pointing down with its fingers on both sides of the peg.
    fn across_peg(&self) -> DQuat {
        let ahead = self.peg.rotation * DVec3::X;
        let yaw = ahead.y.atan2(ahead.x) - std::f64::consts::FRAC_PI_2;
        DQuat::from_rotation_z(yaw) * Arm::at(&start()).tool.rotation
    }

    /// Where the tool brings the peg: in front of the hole until it is lined up, then into it.
    fn insert(&self) -> Pose {
        let from_hole = self.hole.inverse();
        let head = from_hole.at(self.peg.at(DVec3::X * self.half_length));
        let middle = from_hole.at(self.peg.position);
        let aside = head.y.hypot(head.z).max(middle.y.hypot(middle.z));
        let inside = head.x > -self.half_length && head.y.abs().max(head.z.abs()) < IN_HOLE;
        let x = if inside || aside < LINED_UP && head.x > -self.half_length - 2.0 * WAIT {
            (head.x + PUSH).min(0.0)
        } else {
            -self.half_length - WAIT - 0.5 * (aside - LINED_UP).clamp(0.0, 0.1)
        };
        let mass = peg_mass(DVec3::new(self.half_length, self.half_width, self.half_width));
        let wanted = self.hole * Pose::new(DVec3::X * (x - self.half_length), DQuat::IDENTITY);
        let lifted = Pose::new(wanted.position + DVec3::Z * (SAG * mass), wanted.rotation);
        lifted * self.peg.inverse() * self.tool
    }
}
