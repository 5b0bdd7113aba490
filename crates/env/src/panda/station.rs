//! A table at which an episode goes on: the physics, its last state, and the last reward.

use plaudit_core::StatePart;

use super::kinematics::{Arm, JOINTS};
use super::physics::Table;
use super::tabletop::{DOFS, MovableBox, TableState, Wall};
use super::visual::RobotVisual;
use super::wrench::Wrench;
use super::{ControlMode, Pose};

/// Names for a state of `width` numbers that begins with [`Station::joints`] and goes on with these parts, each
/// with how many numbers it takes.
pub(crate) fn named_parts(
    others: impl Iterator<Item = (&'static str, usize)>,
    width: usize,
) -> Vec<StatePart> {
    let part = |name: &str, range| StatePart { name: name.into(), range };
    let mut parts = vec![part("qpos", 0..DOFS), part("gripper", JOINTS..DOFS), part("qvel", DOFS..2 * DOFS)];
    let mut from = 2 * DOFS;
    for (name, numbers) in others {
        let range = from..from + numbers;
        from = range.end;
        if range.end <= width {
            parts.push(part(name, range));
        }
    }
    parts
}

/// One robot at work.
pub(crate) struct Station {
    table: Table,
    grasp_degrees: f64,
    state: TableState,
    arm: Arm,
    /// The reward of the previous step, for relative rewards.
    last_reward: f64,
}

impl Station {
    /// The beginning of an episode. A grasp is two fingers that push within `grasp_degrees` of where they
    /// open to.
    pub(crate) fn new(
        angles: &[f64; JOINTS],
        object: &MovableBox,
        walls: &[Wall],
        grasp_degrees: f64,
    ) -> Self {
        Self::at(Table::rapier(angles, object, walls), angles, grasp_degrees)
    }

    /// The same at a table that is set, with the arm at `angles`.
    pub(crate) fn at(table: Table, angles: &[f64; JOINTS], grasp_degrees: f64) -> Self {
        let state = table.read(grasp_degrees);
        Self { table, grasp_degrees, state, arm: Arm::at(angles), last_reward: 0.0 }
    }

    /// One control step.
    pub(crate) fn step(&mut self, mode: ControlMode, action: &[f32]) {
        self.table.step(&mode.command(action, &self.angles()));
        self.state = self.table.read(self.grasp_degrees);
        self.arm = Arm::at(&self.angles());
    }

    /// Begins another episode, as it is in `next`.
    pub(crate) fn restart(&mut self, next: Self) {
        let needed = self.wrench().is_some();
        *self = next;
        self.set_wrench_needed(needed);
    }

    /// Says whether [`wrench`](Self::wrench) will be asked for.
    pub(crate) fn set_wrench_needed(&mut self, needed: bool) {
        self.table.set_wrench_needed(needed);
    }

    /// What touched the robot during the last step did to it, if that is needed and the engine tells.
    pub(crate) fn wrench(&self) -> Option<Wrench> {
        self.table.wrench()
    }

    /// The reward of a step: `reward`, or its difference to the previous step.
    pub(crate) fn step_reward(&mut self, reward: f64, relative: bool) -> f64 {
        let last_reward = std::mem::replace(&mut self.last_reward, reward);
        if relative { reward - last_reward } else { reward }
    }

    /// Positions of the nine joints, then their speeds.
    pub(crate) fn joints(&self) -> impl Iterator<Item = f64> {
        self.state.qpos.into_iter().chain(self.state.qvel)
    }

    /// Speeds of the arm's joints, without the fingers.
    pub(crate) fn arm_speeds(&self) -> &[f64] {
        &self.state.qvel[..JOINTS]
    }

    pub(crate) fn tool(&self) -> Pose {
        self.arm.tool
    }

    /// The pose of the movable object.
    pub(crate) fn object(&self) -> Pose {
        self.state.object
    }

    pub(crate) fn is_grasped(&self) -> bool {
        self.state.is_grasped
    }

    /// What the robot looks like now.
    pub(crate) fn visual(&self) -> RobotVisual {
        RobotVisual { arm: self.arm, fingers: [self.state.qpos[JOINTS], self.state.qpos[JOINTS + 1]] }
    }

    fn angles(&self) -> [f64; JOINTS] {
        std::array::from_fn(|joint| self.state.qpos[joint])
    }
}
