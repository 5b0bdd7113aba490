//! A pinhole camera.

use glam::{Mat3, Vec3};

/// Where a camera is, where it looks, and how wide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Camera {
    pub(crate) eye: Vec3,
    /// Right, up and forward, of length 1.
    pub(crate) right: Vec3,
    pub(crate) up: Vec3,
    pub(crate) forward: Vec3,
    /// The tangent of half the vertical field of view.
    pub(crate) half_height: f32,
}

impl Camera {
    /// At `eye`, looking at `target`, upright, with a vertical field of view of `fov` radians.
    pub(crate) fn look_at(eye: Vec3, target: Vec3, fov: f32) -> Self {
        let forward = (target - eye).normalize();
        let right = forward.cross(Vec3::Z).normalize();
        Self { eye, right, up: right.cross(forward), forward, half_height: (fov / 2.0).tan() }
    }

    /// At `eye` with explicit axes.
    pub(crate) fn with_axes(eye: Vec3, forward: Vec3, up: Vec3, fov: f32) -> Self {
        Self { eye, right: forward.cross(up), up, forward, half_height: (fov / 2.0).tan() }
    }

    /// From the world to right, up and depth.
    pub(crate) fn view(&self) -> Mat3 {
        Mat3::from_cols(self.right, self.up, self.forward).transpose()
    }
}
