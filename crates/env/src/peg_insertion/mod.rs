//! PegInsertionSide: grasp a peg on the table and push its orange head into the hole of a box.
//!
//! Task, numbers and names are ManiSkill's. Peg and box are sampled anew for every episode: the peg is 17 to
//! 25 cm long and 3 to 5 cm thick, the hole 3 mm wider on each side. Control runs at 20 Hz over physics at
//! 100 Hz, and an episode takes 100 steps.
//!
//! The state, number by number:
//!
//! | numbers | what |
//! |---|---|
//! | 0..9 | `qpos`: seven joint angles, then how far each finger is open |
//! | 9..18 | `qvel`: their speeds |
//! | 18..25 | `tcp_pose`: position of the tool, then its quaternion, real part first |
//! | 25..32 | `peg_pose`: the middle of the peg; x points to its head |
//! | 32..35 | `peg_half_size`: half the length, half the width, twice |
//! | 35..42 | `box_hole_pose`: the middle of the hole; x points into it |
//! | 42 | `box_hole_radius`: half the width of the hole |
//!
//! With `rgb` it ends after `tcp_pose`. What differs from ManiSkill is said with PickCube, and three things
//! more: every episode has its own peg and box, as if ManiSkill reconfigured at each reset
//! (there a batch of several keeps its sizes); a peg is never put where the box stands; and the peg's friction
//! with the fingers is the mean of both, 1.15.

#[cfg(test)]
mod contact;
mod expert;
mod reward;
mod scene;
mod settings;
mod workpiece;

use std::sync::Arc;

use glam::DVec3;
use plaudit_core::{Rng, StatePart};

use crate::batch::{StepResult, Task, facts};
use crate::panda::kinematics::{JOINTS, REST};
use crate::panda::station::{Station, named_parts};
use crate::panda::{CameraSettings, ObsMode, Wrench};
use crate::render::Model;
use reward::Truth;
use scene::Scene;
use workpiece::Workpiece;

pub use expert::PegInsertionExpert;
pub use scene::PegInsertionPieces;
pub use settings::PegInsertionSettings;

/// Where on the peg the tool should hold it, from its middle along its axis.
const GRIP: DVec3 = DVec3::new(-0.06, 0.0, 0.0);
/// The peg is grasped if both fingers push within this angle of where they open to.
const GRASP_DEGREES: f64 = 20.0;
/// The arm starts at rest, give or take.
const START_NOISE: f64 = 0.02;

/// Numbers in the state vector.
pub(crate) fn state_width(mode: ObsMode) -> usize {
    match mode {
        ObsMode::State => 43,
        ObsMode::Rgb => 25,
    }
}

/// The state vector, part by part, as [`PegInsertion::observe`] writes it.
pub(crate) fn state_parts(mode: ObsMode) -> Vec<StatePart> {
    let task = [
        ("tcp_pose", 7),
        ("peg_pose", 7),
        ("peg_half_size", 3),
        ("box_hole_pose", 7),
        ("box_hole_radius", 1),
    ];
    named_parts(task.into_iter(), state_width(mode))
}

/// Where the arm starts: at rest, with the fingers turned to a peg that points away to the left.
fn start() -> [f64; JOINTS] {
    let mut angles = REST;
    angles[JOINTS - 1] = -std::f64::consts::FRAC_PI_4;
    angles
}

/// What all rows of a batch have in common.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) settings: PegInsertionSettings,
    pub(crate) cameras: Vec<CameraSettings>,
}

/// One table with a robot, a peg and a box.
pub(crate) struct PegInsertion {
    setup: Arc<Setup>,
    station: Station,
    piece: Workpiece,
    model: Model,
}

impl PegInsertion {
    pub(crate) fn new(setup: Arc<Setup>) -> Self {
        let piece = Workpiece::medium();
        Self { setup, station: station(&start(), &piece), piece, model: scene::model(&piece) }
    }

    fn truth(&self) -> Truth {
        let peg = self.station.object();
        let from_hole = self.piece.hole().inverse();
        Truth {
            tool_to_grip: peg.at(GRIP).distance(self.station.tool().position),
            is_grasped: self.station.is_grasped(),
            head: from_hole.at(peg.at(DVec3::X * self.piece.half_length)),
            middle: from_hole.at(peg.position),
            hole_radius: self.piece.hole_radius(),
        }
    }
}

impl Task for PegInsertion {
    const ROWS_PER_THREAD: usize = 1;
    const FACTS: &[&str] = &[
        "is_grasped",
        "is_lined_up",
        "peg_head_pos_at_hole_x",
        "peg_head_pos_at_hole_y",
        "peg_head_pos_at_hole_z",
    ];
    const INSTRUCTION: Option<&str> = Some("pick up the peg and insert its orange end into the hole");

    fn reset(&mut self, rng: &mut Rng) {
        self.piece = Workpiece::sample(rng);
        let angles = start().map(|angle| angle + START_NOISE * rng.normal());
        self.station.restart(station(&angles, &self.piece));
        self.model = scene::model(&self.piece);
    }

    fn step(&mut self, action: &[f32], _last: bool) -> StepResult {
        let settings = &self.setup.settings;
        self.station.step(settings.control_mode, action);
        let truth = self.truth();
        let reward = truth.reward(settings.reward_mode);
        let [x, y, z] = truth.head.to_array();
        StepResult {
            reward: self.station.step_reward(reward, settings.use_rel_reward),
            terminated: truth.success(),
            success: truth.success(),
            facts: facts([f64::from(truth.is_grasped), f64::from(truth.is_lined_up()), x, y, z]),
        }
    }

    fn set_wrench_needed(&mut self, needed: bool) {
        self.station.set_wrench_needed(needed);
    }

    fn wrench(&self) -> Option<Wrench> {
        self.station.wrench()
    }

    fn observe(&self, state: &mut [f32]) {
        let values = (self.station.joints())
            .chain(self.station.tool().numbers())
            // What follows is only seen in full states: `state` ends before it otherwise.
            .chain(self.station.object().numbers())
            .chain(self.piece.peg_half().to_array())
            .chain(self.piece.hole().numbers())
            .chain([self.piece.hole_radius()]);
        for (out, value) in state.iter_mut().zip(values) {
            *out = value as f32;
        }
    }

    fn draw(&self, camera: usize, frame: &mut [u8]) {
        let CameraSettings { name, width, height } = self.setup.cameras[camera];
        let scene = Scene {
            robot: self.station.visual(),
            things: &self.model,
            peg: self.station.object(),
            case: self.piece.case,
        };
        scene.draw(name, (height, width), frame);
    }
}

/// The beginning of an episode with these sizes and places.
fn station(angles: &[f64; JOINTS], piece: &Workpiece) -> Station {
    Station::new(angles, &piece.object(), &piece.walls(), GRASP_DEGREES)
}
