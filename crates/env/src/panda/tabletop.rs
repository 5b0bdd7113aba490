//! The physics of a Panda at a table with one object to move: Rapier, with the arm as a multibody.
//!
//! Everything is rebuilt at each reset, so that an episode cannot remember the one before it. The joint
//! drives are implicit springs in the multibody's mass matrix, which cost nothing in the constraint solver;
//! their force limit is kept by moving the spring's rest position.

use glam::{DQuat, DVec3};
use rapier3d::prelude::*;

use super::control::Command;
use super::kinematics::{JOINTS, Pose as Frame};
use super::robot::{self, Robot};
use super::wrench::{self, Wrench};

/// Seconds per physics step.
pub(super) const STEP_SECS: f32 = 0.01;
/// Physics steps per control step.
pub(super) const STEPS_PER_CONTROL: usize = 5;
/// Control steps per second.
pub(crate) const CONTROL_HZ: f64 = 20.0;
/// Arm and fingers together.
pub(crate) const DOFS: usize = JOINTS + 2;
/// The drives of arm and fingers: N m/rad (N/m), N m s/rad (N s/m), N m (N).
pub(super) const STIFFNESS: f32 = 1000.0;
pub(super) const DAMPING: f32 = 100.0;
pub(super) const MAX_FORCE: f32 = 100.0;
/// How far a finger opens.
pub(crate) const FINGER_OPEN: f64 = 0.04;
/// A finger counts as touching from this force on.
pub(super) const GRASP_NEWTON: f32 = 0.5;
/// What slides on what: the fingers' rubber has its own number, and two that meet are averaged.
pub(super) const FRICTION: f32 = 0.3;

const THINGS: InteractionGroups =
    InteractionGroups::new(Group::GROUP_1, Group::ALL, InteractionTestMode::And);

/// A box on the table that can be moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MovableBox {
    pub(crate) half: DVec3,
    pub(crate) mass: f64,
    pub(crate) pose: Frame,
}

/// A box that nothing moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wall {
    pub(crate) half: DVec3,
    pub(crate) pose: Frame,
}

/// The table.
pub(super) const TABLE: Wall = Wall {
    half: DVec3::new(0.6, 1.2, 0.46),
    pose: Frame { position: DVec3::new(-0.12, 0.0, -0.46), rotation: DQuat::IDENTITY },
};

/// Robot, table, one object to move, and walls.
pub(crate) struct Tabletop {
    world: PhysicsWorld,
    robot: Robot,
    object: RigidBodyHandle,
    object_shape: ColliderHandle,
    /// The mean over the last control step, where it is needed.
    wrench: Option<Wrench>,
}

/// The state of the simulation at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableState {
    /// Seven angles, then the two finger positions.
    pub(crate) qpos: [f64; DOFS],
    pub(crate) qvel: [f64; DOFS],
    pub(crate) object: Frame,
    pub(crate) is_grasped: bool,
}

impl Tabletop {
    /// The robot at `angles` with open fingers, `object` where it is.
    pub(crate) fn new(angles: &[f64; JOINTS], object: &MovableBox, walls: &[Wall]) -> Self {
        let mut world = PhysicsWorld { gravity: Vector::new(0.0, 0.0, -9.81), ..PhysicsWorld::default() };
        tune(&mut world.integration_parameters);
        add_wall(&mut world, &TABLE);
        walls.iter().for_each(|wall| add_wall(&mut world, wall));
        let body = RigidBodyBuilder::dynamic().pose(rapier_pose(object.pose)).can_sleep(false);
        let body = world.bodies.insert(body);
        let shape = cuboid(object.half).mass(object.mass as f32);
        let object_shape = world.colliders.insert_with_parent(shape, body, &mut world.bodies);
        let (world, robot) = robot::build(world, angles);
        Self { world, robot, object: body, object_shape, wrench: None }
    }

    /// One control step towards `command`. Physics that is no longer finite stands still, and its
    /// state is NaN.
    pub(crate) fn step(&mut self, command: &Command) {
        self.set_wrench_needed(self.wrench.is_some());
        for _ in 0..STEPS_PER_CONTROL {
            if !self.is_finite() {
                return;
            }
            self.drive(command);
            self.world.step();
            if let Some(wrench) = &mut self.wrench {
                *wrench += wrench::on_robot(&self.world, &self.robot) * (1.0 / STEPS_PER_CONTROL as f64);
            }
        }
    }

    /// Says whether [`wrench`](Self::wrench) will be asked for.
    pub(crate) fn set_wrench_needed(&mut self, needed: bool) {
        self.wrench = needed.then(Wrench::default);
    }

    /// What touched the robot during the last control step did to it, if that is needed.
    pub(crate) fn wrench(&self) -> Option<Wrench> {
        self.wrench
    }

    fn is_finite(&self) -> bool {
        let object = &self.world.bodies[self.object];
        let robot = self.world.multibody_joints.get(self.robot.joint);
        object.position().is_finite()
            && object.linvel().is_finite()
            && robot.is_some_and(|(robot, _)| robot.generalized_velocity().iter().all(|v| v.is_finite()))
    }

    /// Sets the drives' springs such that no drive pushes harder than it can.
    fn drive(&mut self, command: &Command) {
        let Some((robot, _)) = self.world.multibody_joints.get_mut(self.robot.joint) else { return };
        for dof in 0..DOFS {
            let target = if dof < JOINTS { command.arm[dof] } else { command.finger } as f32;
            let speed = robot.generalized_velocity()[dof];
            let Some(link) = robot.link_mut(link_of(dof)) else { continue };
            let axis = axis_of(dof);
            let at = link.joint.coords()[axis];
            let damping = DAMPING * speed;
            let push = (STIFFNESS * (target - at) - damping).clamp(-MAX_FORCE, MAX_FORCE);
            link.joint.set_spring(axis, STIFFNESS, at + (push + damping) / STIFFNESS);
        }
    }

    /// The state now. A grasp is two fingers that push within `grasp_degrees` of where they open to.
    pub(crate) fn read(&self, grasp_degrees: f64) -> TableState {
        let mut state = TableState {
            qpos: [0.0; DOFS],
            qvel: [0.0; DOFS],
            object: self.object_pose(),
            is_grasped: self.is_grasped(grasp_degrees),
        };
        if let Some((robot, _)) = self.world.multibody_joints.get(self.robot.joint) {
            let speeds = robot.generalized_velocity();
            for dof in 0..DOFS {
                let at = robot.link(link_of(dof)).map_or(0.0, |link| link.joint.coords()[axis_of(dof)]);
                (state.qpos[dof], state.qvel[dof]) = (at.into(), speeds[dof].into());
            }
        }
        if !self.is_finite() {
            state.qpos = [f64::NAN; DOFS];
        }
        state
    }

    fn object_pose(&self) -> Frame {
        let pose = self.world.bodies[self.object].position();
        let (p, q) = (pose.translation, pose.rotation);
        Frame::new(
            DVec3::new(p.x.into(), p.y.into(), p.z.into()),
            DQuat::from_xyzw(q.x.into(), q.y.into(), q.z.into(), q.w.into()),
        )
    }

    /// Whether both fingers press on the object from the inside.
    fn is_grasped(&self, within_degrees: f64) -> bool {
        let least = within_degrees.to_radians().cos() as f32;
        [1.0, -1.0].into_iter().zip(self.robot.fingers).all(|(side, finger)| {
            let Some(pair) = self.world.narrow_phase.contact_pair(finger, self.object_shape) else {
                return false;
            };
            // Normals point from the first collider to the second; the object pushes the finger away.
            let towards_finger = if pair.collider1 == finger { -1.0 } else { 1.0 };
            let push = pair.total_impulse() * (towards_finger / STEP_SECS);
            let opening = self.world.colliders[finger].rotation() * Vector::new(0.0, side, 0.0);
            let along = push.dot(opening);
            push.length() >= GRASP_NEWTON && along >= push.length() * least
        })
    }
}

/// Contacts as stiff as a 10 ms step allows: the default lets the fingers sink 6 mm into a light cube.
///
/// The four iterations are sweeps over the constraints of one step. Rapier's usual four small steps of one
/// sweep each cost three times as much, since each assembles the arm's mass matrix anew, and hold no better:
/// over 20 grasps of 10 s the cube creeps 0.19 mm with them and 0.04 mm with these.
fn tune(parameters: &mut IntegrationParameters) {
    parameters.dt = STEP_SECS;
    parameters.num_solver_iterations = 1;
    parameters.num_internal_pgs_iterations = 4;
    parameters.contact_softness = SpringCoefficients::new(120.0, 2.0);
    parameters.length_unit = 0.1;
    parameters.friction_model = FrictionModel::Coulomb;
}

/// The multibody's link that a joint moves: the base is link 0, the rest follow in order.
fn link_of(dof: usize) -> usize {
    dof + 1
}

/// The number of a joint's free axis among Rapier's six: x, turned or pushed along.
fn axis_of(dof: usize) -> usize {
    if dof < JOINTS { 3 } else { 0 }
}

/// Table top and walls.
fn add_wall(world: &mut PhysicsWorld, wall: &Wall) {
    let body = world.bodies.insert(RigidBodyBuilder::fixed().pose(rapier_pose(wall.pose)));
    world.colliders.insert_with_parent(cuboid(wall.half), body, &mut world.bodies);
}

fn cuboid(half: DVec3) -> ColliderBuilder {
    let half = half.as_vec3();
    ColliderBuilder::cuboid(half.x, half.y, half.z).friction(FRICTION).collision_groups(THINGS)
}

pub(super) fn rapier_pose(frame: Frame) -> Pose {
    let q = frame.rotation.as_quat();
    Pose::from_parts(frame.position.as_vec3(), q)
}

#[cfg(test)]
mod tests {
    use super::super::kinematics::{Arm, REST, reach};
    use super::*;

    fn cube_at(x: f64, y: f64, yaw: f64) -> MovableBox {
        let pose = Frame::new(DVec3::new(x, y, 0.02), DQuat::from_rotation_z(yaw));
        MovableBox { half: DVec3::splat(0.02), mass: 0.064, pose }
    }

    #[test]
    fn it_starts_where_it_was_put_and_stays_there() {
        let mut angles = REST;
        angles[2] = 0.1;
        let mut table = Tabletop::new(&angles, &cube_at(0.05, -0.05, 0.3), &[]);
        let before = table.read(85.0);
        assert!(before.qpos.iter().zip(angles).all(|(at, put)| (at - put).abs() < 1e-6), "{before:?}");
        for _ in 0..20 {
            table.step(&Command { arm: angles, finger: FINGER_OPEN });
        }
        let after = table.read(85.0);
        for dof in 0..DOFS {
            assert!((after.qpos[dof] - before.qpos[dof]).abs() < 1e-3, "{dof}: {after:?}");
            assert!(after.qvel[dof].abs() < 1e-3);
        }
        assert!((after.object.position - before.object.position).length() < 1e-3, "{:?}", after.object);
        assert!(!after.is_grasped);
    }

    #[test]
    fn physics_that_blows_up_shows_it_and_does_not_panic() {
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut table = Tabletop::new(&REST, &cube_at(0.0, 0.0, 0.0), &[]);
            let cube = table.object;
            table.world.bodies[cube].set_linvel(Vector::splat(wrong), true);
            for _ in 0..5 {
                table.step(&Command { arm: REST, finger: FINGER_OPEN });
            }
            assert!(table.read(85.0).qpos.iter().all(|at| at.is_nan()), "{wrong}");
        }
    }

    #[test]
    fn a_grasped_cube_is_held_for_ten_seconds() {
        let down = Arm::at(&REST).tool.rotation;
        for (x, y, yaw) in [(0.02, 0.03, 0.2), (-0.1, 0.1, -0.6), (0.1, -0.1, 0.5)] {
            let mut table = Tabletop::new(&REST, &cube_at(x, y, yaw), &[]);
            let mut angles = REST;
            let mut held_at = None;
            for t in 0..270 {
                let (height, finger) = match t {
                    0..15 => (0.15, 0.04),
                    15..30 => (0.02, 0.04),
                    30..40 => (0.02, -0.01),
                    _ => (0.02 + 0.23 * ((t - 40) as f64 / 20.0).min(1.0), -0.01),
                };
                let target = Frame::new(DVec3::new(x, y, height), DQuat::from_rotation_z(yaw) * down);
                angles = reach(&angles, target, 5);
                table.step(&Command { arm: angles, finger });
                let state = table.read(85.0);
                if t == 69 {
                    held_at = Some(state.object.position);
                }
                assert_eq!(state.is_grasped, t > 36 || state.is_grasped && t > 30, "step {t}");
            }
            let drift = (table.read(85.0).object.position - held_at.unwrap()).length();
            assert!(drift < 2e-3, "drifted {drift} m");
            assert!(table.read(85.0).object.position.z > 0.23);
        }
    }
}
