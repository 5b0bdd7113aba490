//! What touches the robot does to it: the contact solver's impulses as one force and one torque.
//!
//! A thing between the fingers counts with its weight and its inertia alone. That the fingers squeeze it does not show:
//! what one of them feels is the opposite of what the other feels.

use std::ops::{AddAssign, Mul};

use glam::DVec3;
use rapier3d::prelude::*;

use super::kinematics::TOOL;
use super::robot::{PALM, Robot};
use super::tabletop::STEP_SECS;

/// Newtons, and newton metres about the tool centre point, both along the world's axes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Wrench {
    pub(crate) force: DVec3,
    pub(crate) torque: DVec3,
}

impl Wrench {
    /// The force, then the torque.
    pub(crate) fn numbers(self) -> [f64; 6] {
        let (force, torque) = (self.force, self.torque);
        [force.x, force.y, force.z, torque.x, torque.y, torque.z]
    }
}

impl AddAssign for Wrench {
    fn add_assign(&mut self, other: Self) {
        self.force += other.force;
        self.torque += other.torque;
    }
}

impl Mul<f64> for Wrench {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { force: self.force * factor, torque: self.torque * factor }
    }
}

/// What everything that touches `robot` did to it in the last physics step.
pub(super) fn on_robot(world: &PhysicsWorld, robot: &Robot) -> Wrench {
    let palm = world.colliders[robot.palm].position();
    let tool = palm.transform_point((TOOL - PALM.centre).as_vec3());
    let (mut impulse, mut turn) = (Vector::ZERO, Vector::ZERO);
    for shape in &robot.shapes {
        for pair in world.narrow_phase.contact_pairs_with(*shape) {
            let side = if pair.collider1 == *shape { 1.0 } else { -1.0 };
            let first = world.colliders[pair.collider1].position();
            for manifold in pair.solver_manifolds() {
                for point in manifold.points.iter().filter(|point| point.data.impulse > 0.0) {
                    // The normal points from the first collider, which it pushes back, to the second.
                    let push = -point.data.impulse * manifold.data.normal;
                    let push = side * (push + point.data.warmstart_tangent_world);
                    impulse += push;
                    turn += (first.transform_point(point.local_p1) - tool).cross(push);
                }
            }
        }
    }
    let double = |vector: Vector| DVec3::new(vector.x.into(), vector.y.into(), vector.z.into());
    Wrench { force: double(impulse), torque: double(turn) } * (1.0 / f64::from(STEP_SECS))
}

#[cfg(test)]
mod tests {
    use glam::DQuat;

    use super::super::control::Command;
    use super::super::kinematics::{Arm, JOINTS, Pose as Frame, REST, reach};
    use super::super::tabletop::{MovableBox, Tabletop};
    use super::*;

    const CUBE_KG: f64 = 0.064;

    fn table(cube: DVec3) -> Tabletop {
        let pose = Frame::new(cube, DQuat::IDENTITY);
        let mut table =
            Tabletop::new(&REST, &MovableBox { half: DVec3::splat(0.02), mass: CUBE_KG, pose }, &[]);
        table.set_wrench_needed(true);
        table
    }

    /// Brings the tool to `place` and lets it settle there; gives what is felt on the way, step by step.
    fn go(
        table: &mut Tabletop,
        angles: &mut [f64; JOINTS],
        (from, to): (DVec3, DVec3),
        finger: f64,
    ) -> Vec<Wrench> {
        let down = Arm::at(&REST).tool.rotation;
        let felt = (0..60).map(|t| {
            let place = from.lerp(to, (f64::from(t) / 30.0).min(1.0));
            *angles = reach(angles, Frame::new(place, down), 5);
            table.step(&Command { arm: *angles, finger });
            table.wrench().unwrap()
        });
        felt.collect()
    }

    #[test]
    fn an_arm_in_the_air_feels_nothing() {
        let mut table = table(DVec3::new(0.1, 0.1, 0.02));
        let way = (DVec3::new(0.0, 0.0, 0.17), DVec3::new(-0.1, -0.15, 0.3));
        let felt = go(&mut table, &mut REST.clone(), way, 0.04);
        assert!(felt.iter().all(|felt| *felt == Wrench::default()), "{felt:?}");
    }

    #[test]
    fn a_table_pushes_back_and_more_so_the_harder_the_tool_presses() {
        // The finger tips end 9.5 mm below the tool centre point.
        let press = |height: f64| {
            let mut table = table(DVec3::new(0.1, 0.1, 0.02));
            let way = (DVec3::new(0.0, 0.0, 0.1), DVec3::new(0.0, 0.0, height));
            *go(&mut table, &mut REST.clone(), way, 0.04).last().unwrap()
        };
        let mut last = 0.0;
        for height in [0.007, 0.004, -0.002] {
            let felt = press(height);
            assert!(felt.force.z > last + 5.0 && felt.force.z < 150.0, "{height}: {felt:?}");
            // Rubber on a table: friction is part of it, and less than what presses.
            assert!(felt.force.truncate().length() < 1.2 * felt.force.z, "{height}: {felt:?}");
            // It is felt at the finger tips, which are around the tool centre point.
            assert!(felt.torque.length() < 0.06 * felt.force.length(), "{height}: {felt:?}");
            last = felt.force.z;
        }
        assert_eq!(press(0.02), Wrench::default(), "above the table");
    }

    /// Friction carries the cube, so friction is part of it; the squeeze is many times as much, and is not.
    #[test]
    fn a_held_cube_is_felt_by_its_weight_and_not_by_its_squeeze() {
        let place = DVec3::new(0.02, 0.03, 0.02);
        let (mut table, mut angles) = (table(place), REST);
        let above = place + DVec3::Z * 0.1;
        go(&mut table, &mut angles, (above, place), 0.04);
        go(&mut table, &mut angles, (place, place), -0.01);
        let lifted = go(&mut table, &mut angles, (place, above), -0.01);
        assert!(table.read(85.0).is_grasped);
        let most = lifted.iter().map(|felt| felt.force.length()).fold(0.0, f64::max);
        assert!(most < 3.0, "{most} N while it is lifted");
        let weight = DVec3::NEG_Z * CUBE_KG * 9.81;
        for felt in &lifted[50..] {
            assert!((felt.force - weight).length() < 0.05, "{felt:?}");
        }
    }

    #[test]
    fn what_is_felt_changes_nothing() {
        let states = |needed: bool| {
            let (mut table, mut angles) = (table(DVec3::new(0.02, 0.03, 0.02)), REST);
            table.set_wrench_needed(needed);
            let down = Arm::at(&REST).tool.rotation;
            let step = |t: i32| {
                let height = 0.15 - 0.004 * f64::from(t.min(40));
                angles = reach(&angles, Frame::new(DVec3::new(0.02, 0.03, height), down), 5);
                table.step(&Command { arm: angles, finger: if t < 35 { 0.04 } else { -0.01 } });
                let state = table.read(85.0);
                (state.qpos, state.qvel, state.object.numbers())
            };
            (0..60).map(step).collect::<Vec<_>>()
        };
        assert_eq!(states(true), states(false));
    }
}
