//! PickCube: grasp a red cube on the table and bring it to a goal in the air.
//!
//! Task, numbers and names are ManiSkill's: the state of 42 numbers in its order, where cube, goal and arm
//! start, the drives' gains and limits, the control modes, the rewards, success, and where the cameras are.
//! Control runs at 20 Hz over physics at 100 Hz, and an episode takes 50 steps.
//!
//! What differs, so that episodes are alike but not equal:
//!
//! * Physics is Rapier's, or MuJoCo's if [asked for](crate::Engine), not PhysX's. Links collide as capsules, the hand as a box, of the fingers only the
//!   rubber tips; the robot does not collide with itself. A link's inertia is that of its capsule.
//! * Joints are kept within their limits by limiting what the drives aim at.
//! * Tool control solves for the whole pose by damped least squares. ManiSkill's simulator on the GPU lets
//!   the tool turn as it likes in `pd_ee_delta_pos`.
//! * Images are drawn from tubes and boxes, not from Franka's meshes.
//! * Randomness comes from our own generator: the same seed starts other episodes there.
//!
//! On one machine an episode is bit-exact, whatever runs beside it. Another machine may round
//! sines differently.

mod expert;
mod reward;
mod scene;
mod settings;

use std::sync::Arc;

use glam::{DQuat, DVec3};
use plaudit_core::{EnvError, Rng, StatePart};

use crate::batch::{StepResult, Task, facts};
use crate::panda::kinematics::{JOINTS, REST, upright};
use crate::panda::physics::Physics;
use crate::panda::station::{Station, named_parts};
use crate::panda::tabletop::MovableBox;
use crate::panda::{CameraName, CameraSettings, ObsMode, Pose, Wrench};
use reward::Truth;
use scene::{GOAL_RADIUS, Scene};

pub use expert::PickCubeExpert;
pub use scene::{PickCubeImage, PickCubeMoment, render_pick_cube};
pub use settings::PickCubeSettings;

/// Half an edge of the cube.
const CUBE_HALF: f64 = 0.02;
const CUBE_MASS: f64 = 0.064;
/// A cube is grasped if both fingers push within this angle of where they open to.
const GRASP_DEGREES: f64 = 85.0;
/// Cube and goal lie within this of the middle, in x and y.
const SPREAD: f64 = 0.1;
/// How much higher than the cube a goal may be.
const GOAL_HEIGHT: f64 = 0.3;
/// The arm starts at rest, give or take.
const START_NOISE: f64 = 0.02;
/// Where the cube is before the first reset.
const START: Pose = Pose { position: DVec3::new(0.0, 0.0, CUBE_HALF), rotation: DQuat::IDENTITY };
/// A joint slower than this stands still.
const STILL: f64 = 0.2;

/// Numbers in the state vector.
pub(crate) fn state_width(mode: ObsMode) -> usize {
    match mode {
        ObsMode::State => 42,
        ObsMode::Rgb => 29,
    }
}

/// The state vector, part by part, as [`PickCube::observe`] writes it.
pub(crate) fn state_parts(mode: ObsMode) -> Vec<StatePart> {
    let task = [("is_grasped", 1), ("tcp_pose", 7), ("goal_pos", 3)];
    let full_state_only = [("obj_pose", 7), ("tcp_to_obj_pos", 3), ("obj_to_goal_pos", 3)];
    named_parts(task.into_iter().chain(full_state_only), state_width(mode))
}

/// What all rows of a batch have in common.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) settings: PickCubeSettings,
    pub(crate) cameras: Vec<CameraSettings>,
    physics: Physics,
}

impl Setup {
    /// Makes the engine ready that `settings` ask for.
    pub(crate) fn new(settings: PickCubeSettings, cameras: Vec<CameraSettings>) -> Result<Self, EnvError> {
        let physics = settings.engine.load(&cube_at(START))?;
        Ok(Self { settings, cameras, physics })
    }
}

/// One table with a robot and a cube.
pub(crate) struct PickCube {
    setup: Arc<Setup>,
    station: Station,
    goal: DVec3,
}

impl PickCube {
    pub(crate) fn new(setup: Arc<Setup>) -> Self {
        let station = station(&setup, &REST, START);
        Self { setup, station, goal: DVec3::ZERO }
    }

    fn truth(&self) -> Truth {
        let (cube, speeds) = (self.station.object().position, self.station.arm_speeds());
        let cube_to_goal = cube.distance(self.goal);
        Truth {
            tool_to_cube: cube.distance(self.station.tool().position),
            cube_to_goal,
            arm_speed: speeds.iter().map(|speed| speed * speed).sum::<f64>().sqrt(),
            is_grasped: self.station.is_grasped(),
            is_obj_placed: cube_to_goal <= GOAL_RADIUS,
            is_robot_static: speeds.iter().all(|speed| speed.abs() <= STILL),
        }
    }
}

impl Task for PickCube {
    const ROWS_PER_THREAD: usize = 1;
    const FACTS: &[&str] = &["is_grasped", "is_obj_placed", "is_robot_static"];
    const INSTRUCTION: Option<&str> = Some("pick up the red cube and move it to the green goal");

    fn reset(&mut self, rng: &mut Rng) {
        let cube = DVec3::new(rng.uniform(-SPREAD, SPREAD), rng.uniform(-SPREAD, SPREAD), CUBE_HALF);
        let yaw = rng.uniform(0.0, std::f64::consts::TAU);
        self.goal = DVec3::new(
            rng.uniform(-SPREAD, SPREAD),
            rng.uniform(-SPREAD, SPREAD),
            CUBE_HALF + rng.uniform(0.0, GOAL_HEIGHT),
        );
        let angles = REST.map(|angle| angle + START_NOISE * rng.normal());
        self.station.restart(station(&self.setup, &angles, Pose::new(cube, upright(yaw))));
    }

    fn step(&mut self, action: &[f32], _last: bool) -> StepResult {
        let settings = &self.setup.settings;
        self.station.step(settings.control_mode, action);
        let truth = self.truth();
        let reward = truth.reward(settings.reward_mode);
        let flags = [truth.is_grasped, truth.is_obj_placed, truth.is_robot_static];
        StepResult {
            reward: self.station.step_reward(reward, settings.use_rel_reward),
            terminated: truth.success(),
            success: truth.success(),
            facts: facts(flags.map(f64::from)),
        }
    }

    fn set_wrench_needed(&mut self, needed: bool) {
        self.station.set_wrench_needed(needed);
    }

    fn wrench(&self) -> Option<Wrench> {
        self.station.wrench()
    }

    fn observe(&self, state: &mut [f32]) {
        let (tool, cube) = (self.station.tool(), self.station.object());
        let values = (self.station.joints())
            .chain([f64::from(self.station.is_grasped())])
            .chain(tool.numbers())
            .chain(self.goal.to_array())
            // What follows is only seen in full states: `state` ends before it otherwise.
            .chain(cube.numbers())
            .chain((cube.position - tool.position).to_array())
            .chain((self.goal - cube.position).to_array());
        for (out, value) in state.iter_mut().zip(values) {
            *out = value as f32;
        }
    }

    fn draw(&self, camera: usize, frame: &mut [u8]) {
        let CameraSettings { name, width, height } = self.setup.cameras[camera];
        let show_goal = self.setup.settings.show_goal || name == CameraName::RenderCamera;
        let scene = Scene {
            robot: self.station.visual(),
            cube: self.station.object(),
            goal: show_goal.then_some(self.goal),
        };
        scene.draw(name, (height, width), frame);
    }
}

/// The beginning of an episode with the cube at `cube`.
fn station(setup: &Setup, angles: &[f64; JOINTS], cube: Pose) -> Station {
    Station::at(setup.physics.table(angles, &cube_at(cube)), angles, GRASP_DEGREES)
}

/// The cube, lying at `pose`.
fn cube_at(pose: Pose) -> MovableBox {
    MovableBox { half: DVec3::splat(CUBE_HALF), mass: CUBE_MASS, pose }
}
