//! The physics of a Panda at a table with one cube: Rapier, with the arm as a multibody.
//!
//! Everything is rebuilt at each reset, so that an episode cannot remember the one before it. The joint
//! drives are implicit springs in the multibody's mass matrix, which cost nothing in the constraint solver;
//! their force limit is kept by moving the spring's rest position.

use glam::{DQuat, DVec3};
use rapier3d::prelude::*;

use super::control::Command;
use super::kinematics::{Arm, JOINTS, Pose as Frame, hand_on_flange, joint_origin};

/// Seconds per physics step.
const STEP_SECS: f32 = 0.01;
/// Physics steps per control step: control runs at 20 Hz.
const STEPS_PER_CONTROL: usize = 5;
/// Arm and fingers together.
pub(crate) const DOFS: usize = JOINTS + 2;
/// Half an edge of the cube.
pub(crate) const CUBE_HALF: f64 = 0.02;
const CUBE_MASS: f32 = 0.064;
/// The drives of arm and fingers: N m/rad (N/m), N m s/rad (N s/m), N m (N).
const STIFFNESS: f32 = 1000.0;
const DAMPING: f32 = 100.0;
const MAX_FORCE: f32 = 100.0;
/// Rotor inertia seen at each joint; it also keeps the light fingers calm.
const ARMATURE: f32 = 0.1;
/// How far a finger opens.
pub(crate) const FINGER_OPEN: f64 = 0.04;
/// A finger counts as touching from this force on, and within this angle of its opening direction.
const GRASP_NEWTON: f32 = 0.5;
const GRASP_ANGLE_DEGREES: f32 = 85.0;

/// Collision capsules of links 1 to 7 in their own frames (end, end, radius), and the links' masses.
const CAPSULES: [([f32; 3], [f32; 3], f32, f32); JOINTS] = [
    ([0.0, 0.0, -0.17], [0.0, 0.0, 0.0], 0.06, 4.97),
    ([0.0, -0.13, 0.0], [0.0, 0.0, 0.0], 0.06, 0.647),
    ([0.0, 0.0, -0.12], [0.06, 0.0, 0.0], 0.058, 3.2286),
    ([-0.07, 0.08, 0.0], [0.0, 0.0, 0.0], 0.058, 3.5879),
    ([0.0, 0.05, -0.2], [0.0, 0.02, -0.03], 0.052, 1.2259),
    ([0.0, 0.0, 0.0], [0.07, 0.0, 0.0], 0.05, 1.6666),
    ([0.0, 0.0, 0.03], [0.0, 0.0, 0.07], 0.045, 0.7355),
];

/// What the robot may touch: table and cube, never itself.
const ROBOT: InteractionGroups =
    InteractionGroups::new(Group::GROUP_2, Group::GROUP_1, InteractionTestMode::And);
const THINGS: InteractionGroups =
    InteractionGroups::new(Group::GROUP_1, Group::ALL, InteractionTestMode::And);

/// Robot, table and cube.
pub(crate) struct Tabletop {
    world: PhysicsWorld,
    /// The first joint, by which the multibody is found.
    robot: MultibodyJointHandle,
    fingers: [ColliderHandle; 2],
    cube: RigidBodyHandle,
    cube_shape: ColliderHandle,
}

/// What the physics says at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Seven angles, then the two finger positions.
    pub(crate) qpos: [f64; DOFS],
    pub(crate) qvel: [f64; DOFS],
    pub(crate) cube: Frame,
    pub(crate) is_grasped: bool,
}

impl Tabletop {
    /// The robot at `angles` with open fingers, the cube lying at `cube`.
    pub(crate) fn new(angles: &[f64; JOINTS], cube: Frame) -> Self {
        let mut world = PhysicsWorld { gravity: Vector::new(0.0, 0.0, -9.81), ..PhysicsWorld::default() };
        tune(&mut world.integration_parameters);
        let table =
            world.bodies.insert(RigidBodyBuilder::fixed().translation(Vector::new(-0.12, 0.0, -0.46)));
        let top = ColliderBuilder::cuboid(0.6, 1.2, 0.46).friction(0.3).collision_groups(THINGS);
        world.colliders.insert_with_parent(top, table, &mut world.bodies);
        let body = RigidBodyBuilder::dynamic().pose(rapier_pose(cube)).can_sleep(false);
        let cube = world.bodies.insert(body);
        let half = CUBE_HALF as f32;
        let shape =
            ColliderBuilder::cuboid(half, half, half).mass(CUBE_MASS).friction(0.3).collision_groups(THINGS);
        let cube_shape = world.colliders.insert_with_parent(shape, cube, &mut world.bodies);
        let mut builder = RobotBuilder::new(world, angles);
        builder.add_arm();
        builder.add_hand();
        let fingers = [builder.add_finger(1.0), builder.add_finger(-1.0)];
        let (world, robot) = builder.finish();
        Self { world, robot, fingers, cube, cube_shape }
    }

    /// One control step towards `command`.
    pub(crate) fn step(&mut self, command: &Command) {
        for _ in 0..STEPS_PER_CONTROL {
            self.drive(command);
            self.world.step();
        }
    }

    /// Sets the drives' springs such that no drive pushes harder than it can.
    fn drive(&mut self, command: &Command) {
        let Some((robot, _)) = self.world.multibody_joints.get_mut(self.robot) else { return };
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

    /// What is the case now.
    pub(crate) fn read(&self) -> Reading {
        let mut reading = Reading {
            qpos: [0.0; DOFS],
            qvel: [0.0; DOFS],
            cube: self.cube_pose(),
            is_grasped: self.is_grasped(),
        };
        if let Some((robot, _)) = self.world.multibody_joints.get(self.robot) {
            let speeds = robot.generalized_velocity();
            for dof in 0..DOFS {
                let at = robot.link(link_of(dof)).map_or(0.0, |link| link.joint.coords()[axis_of(dof)]);
                (reading.qpos[dof], reading.qvel[dof]) = (at.into(), speeds[dof].into());
            }
        }
        reading
    }

    fn cube_pose(&self) -> Frame {
        let pose = self.world.bodies[self.cube].position();
        let (p, q) = (pose.translation, pose.rotation);
        Frame::new(
            DVec3::new(p.x.into(), p.y.into(), p.z.into()),
            DQuat::from_xyzw(q.x.into(), q.y.into(), q.z.into(), q.w.into()),
        )
    }

    /// Whether both fingers press on the cube from the inside.
    fn is_grasped(&self) -> bool {
        [1.0, -1.0].into_iter().zip(self.fingers).all(|(side, finger)| {
            let Some(pair) = self.world.narrow_phase.contact_pair(finger, self.cube_shape) else {
                return false;
            };
            // Normals point from the first collider to the second; the cube pushes the finger away.
            let towards_finger = if pair.collider1 == finger { -1.0 } else { 1.0 };
            let push = pair.total_impulse() * (towards_finger / STEP_SECS);
            let opening = self.world.colliders[finger].rotation() * Vector::new(0.0, side, 0.0);
            let along = push.dot(opening);
            push.length() >= GRASP_NEWTON && along >= push.length() * GRASP_ANGLE_DEGREES.to_radians().cos()
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

fn rapier_pose(frame: Frame) -> Pose {
    let q = frame.rotation.as_quat();
    Pose::from_parts(frame.position.as_vec3(), q)
}

/// Puts the links together.
struct RobotBuilder {
    world: PhysicsWorld,
    arm: Arm,
    start: [f32; DOFS],
    last: RigidBodyHandle,
    first: MultibodyJointHandle,
}

impl RobotBuilder {
    fn new(mut world: PhysicsWorld, angles: &[f64; JOINTS]) -> Self {
        let arm = Arm::at(angles);
        let last = world.bodies.insert(RigidBodyBuilder::fixed().pose(rapier_pose(arm.links[0])));
        let start = std::array::from_fn(|dof| if dof < JOINTS { angles[dof] } else { FINGER_OPEN } as f32);
        Self { world, arm, start, last, first: MultibodyJointHandle::invalid() }
    }

    fn body(&mut self, frame: Frame) -> RigidBodyHandle {
        let builder =
            RigidBodyBuilder::dynamic().pose(rapier_pose(frame)).gravity_scale(0.0).can_sleep(false);
        self.world.bodies.insert(builder)
    }

    fn shape(&mut self, body: RigidBodyHandle, shape: ColliderBuilder) -> ColliderHandle {
        let shape = shape.collision_groups(ROBOT);
        self.world.colliders.insert_with_parent(shape, body, &mut self.world.bodies)
    }

    fn joint(&mut self, body: RigidBodyHandle, joint: GenericJoint) {
        // It only refuses loops, and this is a tree.
        let handle = self.world.multibody_joints.insert(self.last, body, joint, true);
        if self.first == MultibodyJointHandle::invalid() {
            self.first = handle.unwrap_or_default();
        }
    }

    fn add_arm(&mut self) {
        // Rapier turns about x, Franka about z.
        let x_to_z = Rotation::from_rotation_y(-std::f32::consts::FRAC_PI_2);
        let turned = Pose::from_parts(Vector::ZERO, x_to_z);
        for (joint, (from, to, radius, mass)) in CAPSULES.into_iter().enumerate() {
            let body = self.body(self.arm.links[joint + 1]);
            let capsule = ColliderBuilder::capsule_from_endpoints(from.into(), to.into(), radius).mass(mass);
            self.shape(body, capsule);
            let data = GenericJointBuilder::new(JointAxesMask::LOCKED_REVOLUTE_AXES)
                .local_frame1(rapier_pose(joint_origin(joint)) * turned)
                .local_frame2(turned)
                .contacts_enabled(false);
            self.joint(body, data.build());
            self.last = body;
        }
    }

    /// The hand is a part of link 7.
    fn add_hand(&mut self) {
        let place = rapier_pose(hand_on_flange().shifted(DVec3::new(0.0, 0.0, 0.03)));
        let palm = ColliderBuilder::cuboid(0.02, 0.1, 0.03).position(place).mass(0.73);
        self.shape(self.last, palm);
    }

    /// A finger that opens towards `side` times the hand's y axis. Returns its rubber tip.
    fn add_finger(&mut self, side: f32) -> ColliderHandle {
        let open = f64::from(side) * FINGER_OPEN;
        let body = self.body(self.arm.hand.shifted(DVec3::new(0.0, open, 0.0584)));
        let tip = ColliderBuilder::cuboid(0.00875, 0.0076, 0.00925)
            .translation(Vector::new(0.0, side * 0.0076, 0.04525))
            .mass(0.015)
            .friction(2.0);
        let tip = self.shape(body, tip);
        let rail = hand_on_flange().shifted(DVec3::new(0.0, 0.0, 0.0584));
        // x of the joint is the opening direction.
        let opening = Rotation::from_rotation_z(side * std::f32::consts::FRAC_PI_2);
        let opening = Pose::from_parts(Vector::ZERO, opening);
        let data = GenericJointBuilder::new(JointAxesMask::LOCKED_PRISMATIC_AXES)
            .local_frame1(rapier_pose(rail) * opening)
            .local_frame2(opening)
            .limits(JointAxis::LinX, [0.0, FINGER_OPEN as f32])
            .contacts_enabled(false);
        self.joint(body, data.build());
        tip
    }

    /// Sets the joints to where they start, and their drives.
    fn finish(mut self) -> (PhysicsWorld, MultibodyJointHandle) {
        if let Some((robot, _)) = self.world.multibody_joints.get_mut(self.first) {
            // Until the first forward kinematics the base counts as free: its six numbers come first.
            let free = robot.ndofs() - DOFS;
            let mut start = vec![0.0; free];
            start.extend(self.start);
            robot.apply_displacements(&start);
            robot.armature_mut().rows_mut(free, DOFS).fill(ARMATURE);
            robot.damping_mut().rows_mut(free, DOFS).fill(DAMPING);
            robot.forward_kinematics(&self.world.bodies, true);
            robot.update_rigid_bodies(&mut self.world.bodies, true);
        }
        (self.world, self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinematics::{REST, reach};
    use super::*;

    fn cube_at(x: f64, y: f64, yaw: f64) -> Frame {
        Frame::new(DVec3::new(x, y, CUBE_HALF), DQuat::from_rotation_z(yaw))
    }

    #[test]
    fn it_starts_where_it_was_put_and_stays_there() {
        let mut angles = REST;
        angles[2] = 0.1;
        let mut table = Tabletop::new(&angles, cube_at(0.05, -0.05, 0.3));
        let before = table.read();
        assert!(before.qpos.iter().zip(angles).all(|(at, put)| (at - put).abs() < 1e-6), "{before:?}");
        for _ in 0..20 {
            table.step(&Command { arm: angles, finger: FINGER_OPEN });
        }
        let after = table.read();
        for dof in 0..DOFS {
            assert!((after.qpos[dof] - before.qpos[dof]).abs() < 1e-3, "{dof}: {after:?}");
            assert!(after.qvel[dof].abs() < 1e-3);
        }
        assert!((after.cube.position - before.cube.position).length() < 1e-3, "{:?}", after.cube);
        assert!(!after.is_grasped);
    }

    #[test]
    fn a_grasped_cube_is_held_for_ten_seconds() {
        let down = Arm::at(&REST).tool.rotation;
        for (x, y, yaw) in [(0.02, 0.03, 0.2), (-0.1, 0.1, -0.6), (0.1, -0.1, 0.5)] {
            let mut table = Tabletop::new(&REST, cube_at(x, y, yaw));
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
                let reading = table.read();
                if t == 69 {
                    held_at = Some(reading.cube.position);
                }
                assert_eq!(reading.is_grasped, t > 36 || reading.is_grasped && t > 30, "step {t}");
            }
            let drift = (table.read().cube.position - held_at.unwrap()).length();
            assert!(drift < 2e-3, "drifted {drift} m");
            assert!(table.read().cube.position.z > 0.23);
        }
    }
}
