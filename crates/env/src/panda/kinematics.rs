//! Where the Panda's links are, and which joint angles bring its tool somewhere.
//!
//! Frames are named after Franka's description: link `i` moves with joint `i`, the hand sits on link 7, and
//! the tool centre point (TCP) is between the fingertips. Lengths are metres, angles radians, and the world's
//! origin is on the table top in front of the robot.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
use std::ops::Mul;

use glam::{DQuat, DVec3};

/// Joints of the arm, without the fingers.
pub(crate) const JOINTS: usize = 7;

/// Where the robot stands.
pub(crate) const BASE: DVec3 = DVec3::new(-0.615, 0.0, 0.0);

/// The arm at rest, over the table with the hand pointing down.
pub(crate) const REST: [f64; JOINTS] = [0.0, PI / 8.0, 0.0, -PI * 5.0 / 8.0, 0.0, PI * 3.0 / 4.0, FRAC_PI_4];

/// How far each joint turns.
pub(crate) const LIMITS: [(f64, f64); JOINTS] = [
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
];

/// Each joint's frame in the link before it: an offset, and a turn about x.
const ORIGINS: [(DVec3, f64); JOINTS] = [
    (DVec3::new(0.0, 0.0, 0.333), 0.0),
    (DVec3::ZERO, -FRAC_PI_2),
    (DVec3::new(0.0, -0.316, 0.0), FRAC_PI_2),
    (DVec3::new(0.0825, 0.0, 0.0), FRAC_PI_2),
    (DVec3::new(-0.0825, 0.384, 0.0), -FRAC_PI_2),
    (DVec3::ZERO, FRAC_PI_2),
    (DVec3::new(0.088, 0.0, 0.0), FRAC_PI_2),
];

/// From the hand to the tool centre point.
pub(super) const TOOL: DVec3 = DVec3::new(0.0, 0.0, 0.1034);

/// A position and an orientation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pose {
    pub(crate) position: DVec3,
    pub(crate) rotation: DQuat,
}

impl Pose {
    pub(crate) fn new(position: DVec3, rotation: DQuat) -> Self {
        Self { position, rotation }
    }

    /// This pose moved by `offset` in its own frame.
    pub(crate) fn shifted(self, offset: DVec3) -> Self {
        Self::new(self.at(offset), self.rotation)
    }

    /// The point `local` of this frame, in the frame this pose is in.
    pub(crate) fn at(self, local: DVec3) -> DVec3 {
        self.position + self.rotation * local
    }

    /// The frame this pose is in, as seen from it: `pose.inverse() * pose` is nowhere and unturned.
    pub(crate) fn inverse(self) -> Self {
        let back = self.rotation.conjugate();
        Self::new(-(back * self.position), back)
    }

    /// A position, then a quaternion with its real part first.
    pub(crate) fn numbers(self) -> [f64; 7] {
        let (p, q) = (self.position, self.rotation);
        [p.x, p.y, p.z, q.w, q.x, q.y, q.z]
    }

    /// The pose that these [numbers](Self::numbers) describe.
    pub(crate) fn from_numbers(numbers: &[f32]) -> Self {
        let at = |k: usize| f64::from(numbers[k]);
        let rotation = DQuat::from_xyzw(at(4), at(5), at(6), at(3)).normalize();
        Self::new(DVec3::new(at(0), at(1), at(2)), rotation)
    }
}

impl Mul for Pose {
    type Output = Self;

    fn mul(self, inner: Self) -> Self {
        Self::new(self.at(inner.position), self.rotation * inner.rotation)
    }
}

/// A turn about the vertical, in the sign ManiSkill gives it: the larger number is positive.
pub(crate) fn upright(yaw: f64) -> DQuat {
    let turn = DQuat::from_rotation_z(yaw);
    if turn.w.abs() > turn.z.abs() && turn.w < 0.0 || turn.z.abs() >= turn.w.abs() && turn.z < 0.0 {
        return -turn;
    }
    turn
}

/// Joint `joint`'s frame in the link before it, when the joint is at zero.
pub(crate) fn joint_origin(joint: usize) -> Pose {
    let (offset, turn) = ORIGINS[joint];
    Pose::new(offset, DQuat::from_rotation_x(turn))
}

/// The hand's frame in link 7.
pub(crate) fn hand_on_flange() -> Pose {
    Pose::new(DVec3::new(0.0, 0.0, 0.107), DQuat::from_rotation_z(-FRAC_PI_4))
}

/// Where everything is, for one set of joint angles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arm {
    /// The base and the seven links.
    pub(crate) links: [Pose; JOINTS + 1],
    pub(crate) hand: Pose,
    pub(crate) tool: Pose,
}

impl Arm {
    /// Forward kinematics.
    pub(crate) fn at(angles: &[f64; JOINTS]) -> Self {
        let mut links = [Pose::new(BASE, DQuat::IDENTITY); JOINTS + 1];
        for joint in 0..JOINTS {
            let turned = Pose::new(DVec3::ZERO, DQuat::from_rotation_z(angles[joint]));
            links[joint + 1] = links[joint] * joint_origin(joint) * turned;
        }
        let hand = links[JOINTS] * hand_on_flange();
        Self { links, hand, tool: hand.shifted(TOOL) }
    }

    /// How the tool moves (first row: velocity, second row: rotation) when each joint turns.
    fn jacobian(&self) -> [(DVec3, DVec3); JOINTS] {
        std::array::from_fn(|joint| {
            let link = &self.links[joint + 1];
            let axis = link.rotation * DVec3::Z;
            (axis.cross(self.tool.position - link.position), axis)
        })
    }
}

/// Angles near `start` that bring the tool to `target`: damped least squares, some steps of it.
///
/// Out of reach it goes as near as it can. `steps` of 1 is the usual differential controller; a few more
/// make large moves exact.
pub(crate) fn reach(start: &[f64; JOINTS], target: Pose, steps: usize) -> [f64; JOINTS] {
    const DAMPING: f64 = 1e-4;
    const LARGEST_TURN: f64 = 0.2;
    let mut angles = *start;
    for _ in 0..steps {
        let arm = Arm::at(&angles);
        let columns = arm
            .jacobian()
            .map(|(move_by, turn_by)| [move_by.x, move_by.y, move_by.z, turn_by.x, turn_by.y, turn_by.z]);
        let mut normal = [[0.0; 6]; 6];
        for (row, line) in normal.iter_mut().enumerate() {
            for (column, cell) in line.iter_mut().enumerate() {
                *cell = columns.iter().map(|c| c[row] * c[column]).sum();
            }
            line[row] += DAMPING;
        }
        let weights = solve(normal, tool_error(arm.tool, target));
        for joint in 0..JOINTS {
            let turn: f64 = columns[joint].iter().zip(weights).map(|(c, w)| c * w).sum();
            let (low, high) = LIMITS[joint];
            angles[joint] = (angles[joint] + turn.clamp(-LARGEST_TURN, LARGEST_TURN)).clamp(low, high);
        }
    }
    angles
}

/// What is missing from `tool` to `target`: a way and a rotation vector.
fn tool_error(tool: Pose, target: Pose) -> [f64; 6] {
    let way = target.position - tool.position;
    let turn = (target.rotation * tool.rotation.conjugate()).to_scaled_axis();
    let turn = if turn.length() > PI { turn - turn.normalize() * (2.0 * PI) } else { turn };
    [way.x, way.y, way.z, turn.x, turn.y, turn.z]
}

/// Solves a symmetric positive definite system by Cholesky's method.
fn solve(mut a: [[f64; 6]; 6], mut b: [f64; 6]) -> [f64; 6] {
    for i in 0..6 {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| a[i][k] * a[j][k]).sum();
            a[i][j] = if i == j { (a[i][i] - sum).sqrt() } else { (a[i][j] - sum) / a[j][j] };
        }
    }
    for i in 0..6 {
        let sum: f64 = (0..i).map(|k| a[i][k] * b[k]).sum();
        b[i] = (b[i] - sum) / a[i][i];
    }
    for i in (0..6).rev() {
        let sum: f64 = (i + 1..6).map(|k| a[k][i] * b[k]).sum();
        b[i] = (b[i] - sum) / a[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_at_rest_is_where_the_simulator_of_reference_has_it() {
        let tool = Arm::at(&REST).tool;
        // From the link lengths: hand straight down, 17 cm over the table, right in front of the base.
        assert!((tool.rotation * DVec3::Z + DVec3::Z).length() < 1e-9, "{tool:?}");
        assert!(tool.position.y.abs() < 1e-9);
        assert!((tool.position.x - 0.0).abs() < 0.02, "{tool:?}");
        assert!((tool.position.z - 0.17).abs() < 0.02, "{tool:?}");
    }

    #[test]
    fn reaching_ends_where_it_should() {
        let down = Arm::at(&REST).tool.rotation;
        for (x, y, z, yaw) in [(0.1, 0.1, 0.02, 0.4), (-0.1, 0.05, 0.3, -0.7), (0.05, -0.1, 0.15, 0.0)] {
            let target = Pose::new(DVec3::new(x, y, z), DQuat::from_rotation_z(yaw) * down);
            let tool = Arm::at(&reach(&REST, target, 20)).tool;
            assert!((tool.position - target.position).length() < 1e-4, "{tool:?}");
            assert!(tool.rotation.angle_between(target.rotation) < 1e-3, "{tool:?}");
        }
    }

    #[test]
    fn out_of_reach_stays_finite_and_within_limits() {
        let far = Pose::new(DVec3::new(9.0, 9.0, 9.0), DQuat::IDENTITY);
        let angles = reach(&REST, far, 50);
        assert!(angles.iter().zip(LIMITS).all(|(a, (low, high))| low <= *a && *a <= high));
    }
}
