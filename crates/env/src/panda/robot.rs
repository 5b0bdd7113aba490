//! The Panda's links as bodies and joints of a physics world.

use glam::DVec3;
use rapier3d::prelude::*;

use super::kinematics::{Arm, JOINTS, Pose as Frame, hand_on_flange, joint_origin};
use super::tabletop::{DAMPING, DOFS, FINGER_OPEN, rapier_pose};

/// Rotor inertia seen at each joint; it also keeps the light fingers calm.
pub(super) const ARMATURE: f32 = 0.1;

/// What the robot may touch: the things on the table and the table, never itself.
const ROBOT: InteractionGroups =
    InteractionGroups::new(Group::GROUP_2, Group::GROUP_1, InteractionTestMode::And);

/// Collision capsules of links 1 to 7 in their own frames (end, end, radius), and the links' masses.
pub(super) const CAPSULES: [([f32; 3], [f32; 3], f32, f32); JOINTS] = [
    ([0.0, 0.0, -0.17], [0.0, 0.0, 0.0], 0.06, 4.97),
    ([0.0, -0.13, 0.0], [0.0, 0.0, 0.0], 0.06, 0.647),
    ([0.0, 0.0, -0.12], [0.06, 0.0, 0.0], 0.058, 3.2286),
    ([-0.07, 0.08, 0.0], [0.0, 0.0, 0.0], 0.058, 3.5879),
    ([0.0, 0.05, -0.2], [0.0, 0.02, -0.03], 0.052, 1.2259),
    ([0.0, 0.0, 0.0], [0.07, 0.0, 0.0], 0.05, 1.6666),
    ([0.0, 0.0, 0.03], [0.0, 0.0, 0.07], 0.045, 0.7355),
];

/// A box of the hand, in the frame of what it is a part of.
pub(super) struct Block {
    pub(super) half: DVec3,
    pub(super) centre: DVec3,
    pub(super) mass: f64,
    pub(super) friction: f64,
}

/// The hand itself. The arm's capsules have its friction, too: Rapier's own.
pub(super) const PALM: Block = Block {
    half: DVec3::new(0.02, 0.1, 0.03),
    centre: DVec3::new(0.0, 0.0, 0.03),
    mass: 0.73,
    friction: 0.5,
};

/// The rubber at the end of a finger that opens towards y.
pub(super) const TIP: Block = Block {
    half: DVec3::new(0.00875, 0.0076, 0.00925),
    centre: DVec3::new(0.0, 0.0076, 0.04525),
    mass: 0.015,
    friction: 2.0,
};

/// Where the fingers slide, in the hand's frame.
pub(super) const RAIL: DVec3 = DVec3::new(0.0, 0.0, 0.0584);

impl Block {
    fn collider(&self) -> ColliderBuilder {
        let half = self.half.as_vec3();
        ColliderBuilder::cuboid(half.x, half.y, half.z).mass(self.mass as f32).friction(self.friction as f32)
    }
}

/// A robot in a world.
pub(super) struct Robot {
    /// The first joint, by which the multibody is found.
    pub(super) joint: MultibodyJointHandle,
    /// The rubber tips.
    pub(super) fingers: [ColliderHandle; 2],
    /// The hand between arm and fingers.
    pub(super) palm: ColliderHandle,
    /// Everything that can touch something.
    pub(super) shapes: Vec<ColliderHandle>,
}

/// Adds the robot at `angles` with open fingers to `world`.
pub(super) fn build(world: PhysicsWorld, angles: &[f64; JOINTS]) -> (PhysicsWorld, Robot) {
    let mut builder = RobotBuilder::new(world, angles);
    builder.add_arm();
    let palm = builder.add_hand();
    let fingers = [builder.add_finger(1.0), builder.add_finger(-1.0)];
    let shapes = std::mem::take(&mut builder.shapes);
    let (world, joint) = builder.finish();
    (world, Robot { joint, fingers, palm, shapes })
}

/// Puts the links together.
struct RobotBuilder {
    world: PhysicsWorld,
    arm: Arm,
    start: [f32; DOFS],
    last: RigidBodyHandle,
    first: MultibodyJointHandle,
    shapes: Vec<ColliderHandle>,
}

impl RobotBuilder {
    fn new(mut world: PhysicsWorld, angles: &[f64; JOINTS]) -> Self {
        let arm = Arm::at(angles);
        let last = world.bodies.insert(RigidBodyBuilder::fixed().pose(rapier_pose(arm.links[0])));
        let start = std::array::from_fn(|dof| if dof < JOINTS { angles[dof] } else { FINGER_OPEN } as f32);
        Self { world, arm, start, last, first: MultibodyJointHandle::invalid(), shapes: Vec::new() }
    }

    fn body(&mut self, frame: Frame) -> RigidBodyHandle {
        let builder =
            RigidBodyBuilder::dynamic().pose(rapier_pose(frame)).gravity_scale(0.0).can_sleep(false);
        self.world.bodies.insert(builder)
    }

    fn shape(&mut self, body: RigidBodyHandle, shape: ColliderBuilder) -> ColliderHandle {
        let shape = shape.collision_groups(ROBOT);
        let shape = self.world.colliders.insert_with_parent(shape, body, &mut self.world.bodies);
        self.shapes.push(shape);
        shape
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
    fn add_hand(&mut self) -> ColliderHandle {
        let place = rapier_pose(hand_on_flange().shifted(PALM.centre));
        self.shape(self.last, PALM.collider().position(place))
    }

    /// A finger that opens towards `side` times the hand's y axis. Returns its rubber tip.
    fn add_finger(&mut self, side: f32) -> ColliderHandle {
        let open = f64::from(side) * FINGER_OPEN;
        let body = self.body(self.arm.hand.shifted(RAIL + DVec3::Y * open));
        let centre = TIP.centre.as_vec3() * Vector::new(1.0, side, 1.0);
        let tip = self.shape(body, TIP.collider().translation(centre));
        let rail = hand_on_flange().shifted(RAIL);
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
