//! A simulated arm on its table, as its controller sees it: targets in, states and frames out.

use std::sync::Arc;

use glam::{DQuat, DVec3, EulerRot};
use plaudit_core::{Env, EnvError, EnvSpec, Facts, Frames, FramesNeeded, Obs, Seed, WRENCH_FACTS};

use super::SimulateError;
use super::jacobian::jacobian;
use super::spring::Spring;
use crate::serl::server::Reported;
use crate::{JOINTS, Time, ToolPose};

/// Metres and radians that an action of 1 asks for.
const DELTA: f64 = 0.1;
/// The most that is asked for in a step.
const MOST_M: f64 = 0.03;
const MOST_RAD: f64 = 0.09;
/// Drives cover about half of what they are asked for.
const GAIN: f64 = 1.6;
/// How much of what is missing at rest is asked for on top, and the most of that: a load pulls the arm down.
const INTEGRAL: f64 = 0.1;
const MOST_INTEGRAL_M: f64 = 0.02;
/// Newtons that the arm carries without giving way.
const CARRIES_N: f64 = 5.0;
/// How much of what is felt in a step is new: estimates of forces are filtered, or a touch would look like a blow.
const FELT: f64 = 0.5;
/// Fingers that are open, metres between them.
const OPEN_M: f64 = 0.08;

/// What a person does to the table before an episode: puts the peg between the fingers, for example. Gets the
/// environment after its reset, and returns the last observation.
pub type PrepareScene = Box<dyn FnMut(&mut dyn Env, Obs) -> Result<Obs, EnvError> + Send>;

/// What can be seen of the table at one time.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) reported: Reported,
    pub(super) cameras: Vec<(Arc<str>, Arc<Frames>)>,
    pub(super) success: bool,
    pub(super) facts: Facts,
    /// The environment's own state row.
    pub(super) state: Vec<f32>,
    pub(super) time: Time,
}

/// Where the numbers are that a controller needs.
#[derive(Debug, Clone, Copy)]
struct Parts {
    joints: usize,
    speeds: usize,
    tool: usize,
}

/// A simulated arm on its table.
pub(super) struct Table {
    env: Box<dyn Env>,
    parts: Parts,
    prepare: Option<PrepareScene>,
    base_in_world_m: DVec3,
    seed: Seed,
    obs: Obs,
    last_pose: ToolPose,
    vel: [f64; 6],
    missing_m: DVec3,
    /// What touches the arm does to it, filtered: force and torque along the base's axes.
    felt: [DVec3; 2],
    /// The force of the last step, as it was.
    touch_n: f64,
    /// How much of its way the arm asks for: less while it presses harder than it should.
    push: f64,
    success: bool,
    facts: Facts,
}

impl Table {
    pub(super) fn new(
        mut env: Box<dyn Env>,
        base_in_world_m: DVec3,
        seed: Seed,
        prepare: Option<PrepareScene>,
    ) -> Result<Self, SimulateError> {
        let parts = check(env.spec())?;
        env.set_frames_needed(FramesNeeded::Everything);
        env.set_wrench_needed(true);
        let obs = env.reset(seed.index(0))?;
        let last_pose = ToolPose::new(DVec3::ZERO, DQuat::IDENTITY);
        let mut table = Self {
            env,
            parts,
            prepare,
            base_in_world_m,
            seed,
            obs,
            last_pose,
            vel: [0.0; 6],
            missing_m: DVec3::ZERO,
            felt: [DVec3::ZERO; 2],
            touch_n: 0.0,
            push: 1.0,
            success: false,
            facts: Vec::new(),
        };
        table.reset(0)?;
        Ok(table)
    }

    pub(super) fn spec(&self) -> &EnvSpec {
        self.env.spec()
    }

    /// A new scene: this number decides what it is.
    pub(super) fn reset(&mut self, scene: u64) -> Result<(), SimulateError> {
        let mut obs = self.env.reset(self.seed.index(scene))?;
        if let Some(prepare) = &mut self.prepare {
            obs = prepare(&mut *self.env, obs)?;
        }
        self.obs = obs;
        (self.vel, self.missing_m, self.success) = ([0.0; 6], DVec3::ZERO, false);
        (self.felt, self.touch_n, self.push) = ([DVec3::ZERO; 2], 0.0, 1.0);
        self.facts.clear();
        self.last_pose = self.pose();
        Ok(())
    }

    /// One step towards `target`.
    pub(super) fn step(
        &mut self,
        target: ToolPose,
        gripper: f64,
        spring: &Spring,
    ) -> Result<(), SimulateError> {
        let action = self.action(target, gripper, spring);
        let step = self.env.step(&action)?;
        let pose = self.last_pose;
        self.obs = step.obs;
        (self.success, self.facts) = (step.success.first() == Some(&true), step.facts);
        self.last_pose = self.pose();
        self.feel();
        let (moved, turned) = self.last_pose.motion_from(pose);
        let rate = self.env.spec().control_hz;
        let values = [moved * rate, turned * rate].map(|vector| vector.to_array());
        self.vel = std::array::from_fn(|at| values[at / 3][at % 3]);
        Ok(())
    }

    /// Filters what touched the arm in the last step. Nothing, if the environment does not tell.
    fn feel(&mut self) {
        let now = WRENCH_FACTS.map(|name| {
            let fact = self.facts.iter().find(|(known, _)| &**known == name);
            fact.and_then(|(_, values)| values.first()).map_or(0.0, |value| f64::from(*value))
        });
        self.touch_n = DVec3::from_slice(&now[..3]).length();
        for (felt, now) in self.felt.iter_mut().zip(now.chunks_exact(3)) {
            *felt = felt.lerp(DVec3::from_slice(now), FELT);
        }
    }

    /// Asks for less where the arm presses harder than `most_n`: the simulated drives are far stiffer than an
    /// impedance controller. Once nothing presses, it asks for more again, twice as much with every step.
    fn give_way(&mut self, most_n: f64) {
        let most_n = most_n.max(CARRIES_N);
        if self.touch_n > most_n {
            self.push *= most_n / self.touch_n;
        } else if self.touch_n < 0.5 * most_n {
            self.push = (2.0 * self.push).min(1.0);
        }
    }

    /// What the arm feels as SERL reports it, which is `K_F_ext_hat_K` of libfranka: along the tool's axes, and what the
    /// tool does to the world, not what the world does to it. A tool that points down and presses on a table has a
    /// positive z.
    fn reported_wrench(&self) -> [DVec3; 2] {
        let into_tool = self.pose().rotation.conjugate();
        self.felt.map(|felt| -(into_tool * felt))
    }

    /// ManiSkill's end-effector action for a step towards `target`.
    fn action(&mut self, target: ToolPose, gripper: f64, spring: &Spring) -> [f32; 7] {
        let mut action = [0.0; 7];
        action[6] = gripper as f32;
        let (way, turn) = target.motion_from(self.pose());
        self.give_way(spring.force_n(way));
        if way.length() < 0.01 && self.touch_n < CARRIES_N {
            self.missing_m = (self.missing_m + INTEGRAL * way).clamp_length_max(MOST_INTEGRAL_M);
        }
        let way = self.push * (GAIN * way + self.missing_m).clamp_length_max(MOST_M) / DELTA;
        let turn = DQuat::from_scaled_axis((GAIN * turn).clamp_length_max(MOST_RAD));
        // There, a rotation of 1 is minus 0.1 rad.
        let (x, y, z) = turn.to_euler(EulerRot::XYZ);
        let turn = DVec3::new(x, y, z) / -DELTA;
        for (to, from) in action.iter_mut().zip(way.to_array().into_iter().chain(turn.to_array())) {
            *to = from as f32;
        }
        action
    }

    /// The tool in the base frame.
    pub(super) fn pose(&self) -> ToolPose {
        let at = |k: usize| f64::from(self.obs.state[self.parts.tool + k]);
        let position = DVec3::new(at(0), at(1), at(2)) - self.base_in_world_m;
        // The environment writes the real part first.
        ToolPose::new(position, DQuat::from_xyzw(at(4), at(5), at(6), at(3)).normalize())
    }

    pub(super) fn snapshot(&self, time: Time, felt_n: [f64; 3]) -> Snapshot {
        let number = |at: usize| f64::from(self.obs.state[at]);
        let joints: [f64; JOINTS] = std::array::from_fn(|joint| number(self.parts.joints + joint));
        let fingers = number(self.parts.joints + JOINTS) + number(self.parts.joints + JOINTS + 1);
        let [force, torque] = self.reported_wrench();
        let reported = Reported {
            pose: self.pose(),
            vel: self.vel,
            force: (force + DVec3::from_array(felt_n)).to_array(),
            torque: torque.to_array(),
            q: joints,
            dq: std::array::from_fn(|joint| number(self.parts.speeds + joint)),
            jacobian: jacobian(&joints),
            gripper_pos: (fingers / OPEN_M).clamp(0.0, 1.0),
        };
        let cameras = self.obs.cameras.iter().map(|(name, frames)| (name.clone(), Arc::new(frames.clone())));
        Snapshot {
            reported,
            cameras: cameras.collect(),
            success: self.success,
            facts: self.facts.clone(),
            state: self.obs.state.clone(),
            time,
        }
    }
}

/// Finds what a controller needs, and refuses environments without it.
fn check(spec: &EnvSpec) -> Result<Parts, SimulateError> {
    let wrong = |why: String| SimulateError::NotAnArm { id: spec.id.to_string(), why };
    if spec.num_envs != 1 {
        return Err(wrong(format!("it has {} rows; a robot is one", spec.num_envs)));
    }
    if spec.actions.width() != 7 {
        let width = spec.actions.width();
        return Err(wrong(format!("its actions have {width} numbers; pd_ee_delta_pose has 7")));
    }
    let part = |name: &str, least: usize| {
        let found = spec.state_parts.iter().find(|part| &*part.name == name);
        let long_enough = found.filter(|part| part.range.len() >= least);
        long_enough.map(|part| part.range.start).ok_or_else(|| wrong(format!("its state has no `{name}`")))
    };
    Ok(Parts { joints: part("qpos", JOINTS + 2)?, speeds: part("qvel", JOINTS)?, tool: part("tcp_pose", 7)? })
}
