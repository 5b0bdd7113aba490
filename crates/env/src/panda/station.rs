//! A table at which an episode goes on: the physics, what was last read from it, and what was last paid.

use plaudit_core::StatePart;

use super::kinematics::{Arm, JOINTS};
use super::look::Look;
use super::physics::Table;
use super::tabletop::{DOFS, Reading, Thing, Wall};
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
    reading: Reading,
    arm: Arm,
    /// What the step before paid, for relative rewards.
    paid: f64,
}

impl Station {
    /// The beginning of an episode. A grasp is two fingers that push within `grasp_degrees` of where they
    /// open to.
    pub(crate) fn new(angles: &[f64; JOINTS], thing: &Thing, walls: &[Wall], grasp_degrees: f64) -> Self {
        Self::at(Table::rapier(angles, thing, walls), angles, grasp_degrees)
    }

    /// The same at a table that is set, with the arm at `angles`.
    pub(crate) fn at(table: Table, angles: &[f64; JOINTS], grasp_degrees: f64) -> Self {
        let reading = table.read(grasp_degrees);
        Self { table, grasp_degrees, reading, arm: Arm::at(angles), paid: 0.0 }
    }

    /// One control step.
    pub(crate) fn step(&mut self, mode: ControlMode, action: &[f32]) {
        self.table.step(&mode.command(action, &self.angles()));
        self.reading = self.table.read(self.grasp_degrees);
        self.arm = Arm::at(&self.angles());
    }

    /// What a step pays that is worth `reward`: that, or its difference to the step before.
    pub(crate) fn pay(&mut self, reward: f64, relative: bool) -> f64 {
        let paid = std::mem::replace(&mut self.paid, reward);
        if relative { reward - paid } else { reward }
    }

    /// Positions of the nine joints, then their speeds.
    pub(crate) fn joints(&self) -> impl Iterator<Item = f64> {
        self.reading.qpos.into_iter().chain(self.reading.qvel)
    }

    /// Speeds of the arm's joints, without the fingers.
    pub(crate) fn arm_speeds(&self) -> &[f64] {
        &self.reading.qvel[..JOINTS]
    }

    pub(crate) fn tool(&self) -> Pose {
        self.arm.tool
    }

    /// Where the thing is that can be moved.
    pub(crate) fn thing(&self) -> Pose {
        self.reading.thing
    }

    pub(crate) fn is_grasped(&self) -> bool {
        self.reading.is_grasped
    }

    /// What the robot looks like now.
    pub(crate) fn look(&self) -> Look {
        Look { arm: self.arm, fingers: [self.reading.qpos[JOINTS], self.reading.qpos[JOINTS + 1]] }
    }

    fn angles(&self) -> [f64; JOINTS] {
        std::array::from_fn(|joint| self.reading.qpos[joint])
    }
}
