//! Where the tool is, how it moves and what presses on it: metres, radians and newtons in the robot's base frame.

use glam::{DQuat, DVec3, EulerRot};

/// A quaternion whose length is further than this from 1 is garbage, not rounding.
const UNIT_TOLERANCE: f64 = 0.05;

/// The pose of the tool in the base frame (base from tool). Quaternions are ordered x, y, z, w wherever they are
/// written as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolPose {
    /// Position in metres.
    pub position_m: DVec3,
    /// Orientation, of unit length.
    pub rotation: DQuat,
}

impl ToolPose {
    /// A pose from its parts.
    pub fn new(position_m: DVec3, rotation: DQuat) -> Self {
        Self { position_m, rotation }
    }

    /// From x, y, z and a quaternion x, y, z, w. `None` for numbers that are no pose: NaN, or a quaternion that is far
    /// from unit length.
    pub fn from_xyz_quat([x, y, z, qx, qy, qz, qw]: [f64; 7]) -> Option<Self> {
        let (position_m, rotation) = (DVec3::new(x, y, z), DQuat::from_xyzw(qx, qy, qz, qw));
        let is_unit = (rotation.length() - 1.0).abs() <= UNIT_TOLERANCE; // false for NaN
        (position_m.is_finite() && is_unit).then(|| Self { position_m, rotation: rotation.normalize() })
    }

    /// x, y, z and the quaternion x, y, z, w.
    pub fn to_xyz_quat(self) -> [f64; 7] {
        let ([x, y, z], [qx, qy, qz, qw]) = (self.position_m.to_array(), self.rotation.to_array());
        [x, y, z, qx, qy, qz, qw]
    }

    /// From x, y, z and angles about the base's fixed axes x, y, z, in this order (SciPy's `xyz`). `None` for NaN.
    pub fn from_xyz_euler([x, y, z, roll, pitch, yaw]: [f64; 6]) -> Option<Self> {
        let is_pose = [x, y, z, roll, pitch, yaw].iter().all(|number| number.is_finite());
        let rotation = DQuat::from_euler(EulerRot::ZYX, yaw, pitch, roll);
        is_pose.then(|| Self { position_m: DVec3::new(x, y, z), rotation })
    }

    /// x, y, z and angles about the base's fixed axes x, y, z.
    pub fn to_xyz_euler(self) -> [f64; 6] {
        let ([x, y, z], [roll, pitch, yaw]) = (self.position_m.to_array(), fixed_axis_angles(self.rotation));
        [x, y, z, roll, pitch, yaw]
    }

    /// Metres between two poses.
    pub fn distance_m(self, other: Self) -> f64 {
        self.position_m.distance(other.position_m)
    }

    /// The angle by which two poses differ, in `0..=π`. A quaternion and its negative are the same rotation.
    pub fn angle_rad(self, other: Self) -> f64 {
        rotation_angle_rad(self.rotation * other.rotation.conjugate())
    }

    /// This pose shifted along the base's axes and turned about them by a rotation vector.
    #[must_use]
    pub fn moved(self, translation_m: DVec3, rotation_rad: DVec3) -> Self {
        let rotation = DQuat::from_scaled_axis(rotation_rad) * self.rotation;
        Self { position_m: self.position_m + translation_m, rotation: rotation.normalize() }
    }

    /// What leads from `from` to this pose: translation and rotation vector, such that
    /// `from.moved(translation, rotation)` is this pose.
    pub fn motion_from(self, from: Self) -> (DVec3, DVec3) {
        let turn = self.rotation * from.rotation.conjugate();
        (self.position_m - from.position_m, rotation_vector(turn))
    }
}

/// Angles about the fixed axes x, y, z.
pub(crate) fn fixed_axis_angles(rotation: DQuat) -> [f64; 3] {
    let (yaw, pitch, roll) = rotation.to_euler(EulerRot::ZYX);
    [roll, pitch, yaw]
}

/// The angle of a rotation; exact for small ones, which an arc cosine is not.
fn rotation_angle_rad(rotation: DQuat) -> f64 {
    2.0 * rotation.xyz().length().atan2(rotation.w.abs())
}

/// The rotation vector of the shorter way.
fn rotation_vector(rotation: DQuat) -> DVec3 {
    let shorter = if rotation.w < 0.0 { -rotation } else { rotation };
    shorter.xyz().normalize_or_zero() * rotation_angle_rad(shorter)
}

/// How fast the tool moves, in the base frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Twist {
    /// Metres per second.
    pub linear_m_s: DVec3,
    /// Radians per second.
    pub angular_rad_s: DVec3,
}

/// What presses on the tool.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Wrench {
    /// Newtons.
    pub force_n: DVec3,
    /// Newton metres.
    pub torque_nm: DVec3,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By hand: a tool that points down has turned half about x; a quarter about z after that.
    #[test]
    fn euler_angles_are_about_fixed_axes_in_the_order_x_y_z() {
        let half = std::f64::consts::PI;
        let pose = ToolPose::from_xyz_euler([0.5, 0.0, 0.1, half, 0.0, half / 2.0]).unwrap();
        let down = pose.rotation * DVec3::Z;
        assert!(down.distance(DVec3::NEG_Z) < 1e-12, "{down}");
        let ahead = pose.rotation * DVec3::X;
        assert!(ahead.distance(DVec3::Y) < 1e-12, "{ahead}");
    }

    #[test]
    fn numbers_that_are_no_pose_are_refused() {
        assert!(
            ToolPose::from_xyz_quat([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.01]).is_some(),
            "rounding is repaired"
        );
        for wrong in
            [[0.0; 7], [0.0, f64::NAN, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, f64::NAN]]
        {
            assert_eq!(ToolPose::from_xyz_quat(wrong), None, "{wrong:?}");
        }
        assert_eq!(ToolPose::from_xyz_euler([0.0, 0.0, 0.0, f64::INFINITY, 0.0, 0.0]), None);
    }

    proptest! {
        #[test]
        fn motions_lead_where_they_say(
            from in proptest::array::uniform6(-1.5f64..1.5), to in proptest::array::uniform6(-1.5f64..1.5), flip: bool,
        ) {
            let (from, to) = (ToolPose::from_xyz_euler(from).unwrap(), ToolPose::from_xyz_euler(to).unwrap());
            let to = if flip { ToolPose::new(to.position_m, -to.rotation) } else { to };
            let (translation, rotation) = to.motion_from(from);
            let there = from.moved(translation, rotation);
            prop_assert!(there.distance_m(to) < 1e-12 && there.angle_rad(to) < 1e-9);
            prop_assert!((rotation.length() - to.angle_rad(from)).abs() < 1e-9, "the shorter way");
            let back = ToolPose::from_xyz_quat(to.to_xyz_quat()).unwrap();
            prop_assert!(back.angle_rad(to) < 1e-9);
            let back = ToolPose::from_xyz_euler(to.to_xyz_euler()).unwrap();
            prop_assert!(back.angle_rad(to) < 1e-7);
        }
    }
}
