//! Where the tool may be: a box, a window of angles, and boxes in it that it must stay out of.

use std::fmt;

use glam::{DQuat, DVec3, EulerRot};
use thiserror::Error;

use crate::ToolPose;
use crate::pose::fixed_axis_angles;

/// Wider windows of pitch than this reach a pole, where angles mean nothing.
const WIDEST_PITCH: f64 = 1.5;
/// Wider windows of roll and yaw than this are no limits.
const WIDEST_TURN: f64 = std::f64::consts::PI;
/// A segment that is cut in front of a keep-out box ends this far from it.
const MARGIN_M: f64 = 1e-3;

/// A box along the axes of the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisBox {
    /// Its lowest corner, metres.
    pub min_m: DVec3,
    /// Its highest corner, metres.
    pub max_m: DVec3,
}

impl AxisBox {
    fn is_proper(&self) -> bool {
        let is_finite = self.min_m.is_finite() && self.max_m.is_finite();
        is_finite && self.min_m.cmplt(self.max_m).all()
    }

    /// How much of the way from `from` to `to` lies before the box, if the way enters it: 0 from the inside.
    fn entry(&self, from: DVec3, to: DVec3) -> Option<f64> {
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for axis in 0..3 {
            let (start, way) = (from[axis], to[axis] - from[axis]);
            let (low, high) = (self.min_m[axis] - start, self.max_m[axis] - start);
            if way.abs() < 1e-12 {
                if low > 0.0 || high < 0.0 {
                    return None;
                }
                continue;
            }
            let (near, far) = if way > 0.0 { (low / way, high / way) } else { (high / way, low / way) };
            enters = enters.max(near);
            leaves = leaves.min(far);
        }
        (enters <= leaves).then_some(enters)
    }
}

/// Where the tool may be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Workspace {
    bounds: AxisBox,
    centre: DQuat,
    turn_rad: [f64; 3],
    keep_out: Vec<AxisBox>,
}

/// A side of the workspace that a pose was cut at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Face {
    /// 0..3: x, y, z; 3..6: the angles about them.
    pub axis: usize,
    /// The upper side, or the lower.
    pub is_upper: bool,
}

impl fmt::Display for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ["x", "y", "z", "roll", "pitch", "yaw"].get(self.axis).copied().unwrap_or("?");
        write!(f, "{}{name}", if self.is_upper { '+' } else { '-' })
    }
}

/// A pose in the workspace's own numbers: x, y, z, then angles about the base's axes from the centre.
pub(super) type Coordinates = [f64; 6];

impl Workspace {
    /// A box, and how far the tool may turn from `centre` about the base's axes x, y, z.
    pub fn new(bounds: AxisBox, centre: DQuat, turn_rad: [f64; 3]) -> Result<Self, WorkspaceError> {
        if !bounds.is_proper() {
            return Err(WorkspaceError::Box { min_m: bounds.min_m, max_m: bounds.max_m });
        }
        let widest = [WIDEST_TURN, WIDEST_PITCH, WIDEST_TURN];
        for (axis, (turn, widest)) in turn_rad.into_iter().zip(widest).enumerate() {
            if !(0.0..=widest).contains(&turn) {
                return Err(WorkspaceError::Turn { axis: ["roll", "pitch", "yaw"][axis], turn, widest });
            }
        }
        if !centre.is_finite() || centre.length() < 0.5 {
            return Err(WorkspaceError::Centre);
        }
        Ok(Self { bounds, centre: centre.normalize(), turn_rad, keep_out: Vec::new() })
    }

    /// The same with a box that no way may lead through.
    pub fn with_keep_out(mut self, keep_out: AxisBox) -> Result<Self, WorkspaceError> {
        if !keep_out.is_proper() {
            return Err(WorkspaceError::Box { min_m: keep_out.min_m, max_m: keep_out.max_m });
        }
        self.keep_out.push(keep_out);
        Ok(self)
    }

    /// The box.
    pub fn bounds(&self) -> AxisBox {
        self.bounds
    }

    /// Whether a pose is inside, give or take some metres and radians.
    pub fn contains(&self, pose: ToolPose, tolerance_m: f64, tolerance_rad: f64) -> bool {
        let (inside, _) = self.clamp(self.coordinates(pose));
        let inside = self.pose(inside);
        // Not the distance: a tolerance of zero must hold for what is inside.
        let off = (inside.position_m - pose.position_m).abs();
        off.max_element() <= tolerance_m + 1e-12 && inside.angle_rad(pose) <= tolerance_rad + 1e-7
    }

    /// Whether a straight way touches a keep-out box.
    pub fn crosses_keep_out(&self, from: ToolPose, to: ToolPose) -> bool {
        self.keep_out.iter().any(|keep_out| keep_out.entry(from.position_m, to.position_m).is_some())
    }

    /// The nearest pose inside, and the faces it was cut at.
    pub fn nearest(&self, pose: ToolPose) -> (ToolPose, Vec<Face>) {
        let (inside, faces) = self.clamp(self.coordinates(pose));
        (self.pose(inside), faces)
    }

    /// How much of the way from `from` to `to` is free of keep-out boxes: 1 for all of it.
    pub(super) fn free_part(&self, from: DVec3, to: DVec3) -> f64 {
        let entries = self.keep_out.iter().filter_map(|keep_out| keep_out.entry(from, to));
        let Some(entry) = entries.reduce(f64::min) else { return 1.0 };
        (entry - MARGIN_M / from.distance(to).max(1e-12)).max(0.0)
    }

    pub(super) fn coordinates(&self, pose: ToolPose) -> Coordinates {
        let [roll, pitch, yaw] = fixed_axis_angles(pose.rotation * self.centre.conjugate());
        let [x, y, z] = pose.position_m.to_array();
        [x, y, z, roll, pitch, yaw]
    }

    pub(super) fn pose(&self, [x, y, z, roll, pitch, yaw]: Coordinates) -> ToolPose {
        let turn = DQuat::from_euler(EulerRot::ZYX, yaw, pitch, roll);
        ToolPose::new(DVec3::new(x, y, z), (turn * self.centre).normalize())
    }

    pub(super) fn clamp(&self, mut coordinates: Coordinates) -> (Coordinates, Vec<Face>) {
        let mut faces = Vec::new();
        for (axis, value) in coordinates.iter_mut().enumerate() {
            let (low, high) = match axis {
                0..3 => (self.bounds.min_m[axis], self.bounds.max_m[axis]),
                _ => (-self.turn_rad[axis - 3], self.turn_rad[axis - 3]),
            };
            if *value < low || *value > high {
                faces.push(Face { axis, is_upper: *value > high });
                *value = value.clamp(low, high);
            }
        }
        (coordinates, faces)
    }
}

/// Limits that are none.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WorkspaceError {
    /// A box without an inside.
    #[error("the box from {min_m} to {max_m} has no inside")]
    Box {
        /// Its lowest corner.
        min_m: DVec3,
        /// Its highest corner.
        max_m: DVec3,
    },
    /// A window of angles that cannot be.
    #[error("a {axis} of up to {turn} rad is not within 0 and {widest}")]
    Turn {
        /// Which angle.
        axis: &'static str,
        /// What was asked for.
        turn: f64,
        /// The widest there is.
        widest: f64,
    },
    /// An orientation that is none.
    #[error("the orientation that angles count from is no unit quaternion")]
    Centre,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> AxisBox {
        AxisBox { min_m: DVec3::new(0.3, -0.2, 0.05), max_m: DVec3::new(0.6, 0.2, 0.4) }
    }

    #[test]
    fn the_nearest_pose_names_the_faces() {
        let centre = DQuat::from_rotation_x(std::f64::consts::PI);
        let space = Workspace::new(bounds(), centre, [0.1, 0.1, 0.5]).unwrap();
        let outside = ToolPose::new(DVec3::new(0.7, 0.0, 0.0), DQuat::from_rotation_z(0.9) * centre);
        let (inside, faces) = space.nearest(outside);
        let names: Vec<_> = faces.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["+x", "-z", "+yaw"]);
        assert_eq!(inside.position_m, DVec3::new(0.6, 0.0, 0.05));
        assert!(
            inside.angle_rad(ToolPose::new(inside.position_m, DQuat::from_rotation_z(0.5) * centre)) < 1e-9
        );
        assert!(space.contains(inside, 0.0, 0.0) && !space.contains(outside, 0.05, 0.3));
        let flipped = ToolPose::new(inside.position_m, -inside.rotation);
        assert!(space.contains(flipped, 0.0, 0.0), "the same rotation");
    }

    #[test]
    fn ways_end_before_keep_out_boxes() {
        let middle = AxisBox { min_m: DVec3::new(0.4, -0.05, 0.1), max_m: DVec3::new(0.5, 0.05, 0.2) };
        let space =
            Workspace::new(bounds(), DQuat::IDENTITY, [0.1; 3]).unwrap().with_keep_out(middle).unwrap();
        let free = space.free_part(DVec3::new(0.3, 0.0, 0.15), DVec3::new(0.6, 0.0, 0.15));
        assert!((free * 0.3 - (0.1 - MARGIN_M)).abs() < 1e-9, "{free}");
        assert_eq!(space.free_part(DVec3::new(0.3, 0.0, 0.3), DVec3::new(0.6, 0.0, 0.3)), 1.0, "above it");
        assert_eq!(
            space.free_part(DVec3::new(0.45, 0.0, 0.15), DVec3::new(0.6, 0.0, 0.15)),
            0.0,
            "from inside"
        );
    }

    #[test]
    fn limits_that_are_none_are_refused() {
        let turn = [0.1; 3];
        let flat = AxisBox { max_m: DVec3::new(0.6, 0.2, 0.05), ..bounds() };
        let nan = AxisBox { min_m: DVec3::NAN, ..bounds() };
        assert!(Workspace::new(flat, DQuat::IDENTITY, turn).is_err());
        assert!(Workspace::new(nan, DQuat::IDENTITY, turn).is_err());
        let error = Workspace::new(bounds(), DQuat::IDENTITY, [0.1, 1.6, 0.1]).unwrap_err();
        assert_eq!(error.to_string(), "a pitch of up to 1.6 rad is not within 0 and 1.5");
        assert!(Workspace::new(bounds(), DQuat::from_xyzw(0.0, 0.0, 0.0, 0.0), turn).is_err());
    }
}
