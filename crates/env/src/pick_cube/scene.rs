//! What PickCube looks like: cube, goal, and where the cameras are.

use std::sync::LazyLock;

use glam::{DQuat, DVec3, Vec3};

use super::CUBE_HALF;
use crate::panda::look::{Look, affine, detail};
use crate::panda::{CameraName, Pose};
use crate::render::{Camera, Detail, Model, Part, Shape, Skin, Solids};

/// How near the cube must come to the goal, and the radius of the ball that shows it.
pub(crate) const GOAL_RADIUS: f64 = 0.025;

/// Frames that parts move with.
const CUBE: usize = 0;
const GOAL: usize = 1;

const RED: Skin = Skin::Plain(Vec3::new(0.92, 0.06, 0.05));
const GREEN: Skin = Skin::Marker(Vec3::new(0.05, 0.85, 0.12));

static COARSE: LazyLock<Model> = LazyLock::new(|| Model::new(&parts(), Detail::COARSE));
static FINE: LazyLock<Model> = LazyLock::new(|| Model::new(&parts(), Detail::FINE));

/// Where everything is that can be seen.
pub(crate) struct Scene {
    pub(crate) robot: Look,
    pub(crate) cube: Pose,
    /// Where the goal is, if it is to be shown.
    pub(crate) goal: Option<DVec3>,
}

impl Scene {
    /// Draws what `camera` sees, in `(height, width)` RGB pixels.
    pub(crate) fn draw(&self, camera: CameraName, size: (usize, usize), frame: &mut [u8]) {
        let goal = self.goal.map(|goal| affine(Pose::new(goal, DQuat::IDENTITY)));
        let model: &Model = if detail(size.0) == Detail::COARSE { &COARSE } else { &FINE };
        let things = Solids { model, places: &[Some(affine(self.cube)), goal] };
        self.robot.draw(things, &self.camera(camera), size, frame);
    }

    fn camera(&self, name: CameraName) -> Camera {
        match name {
            CameraName::BaseCamera => Camera::look_at(
                Vec3::new(0.3, 0.0, 0.6),
                Vec3::new(-0.1, 0.0, 0.1),
                std::f32::consts::FRAC_PI_2,
            ),
            CameraName::ThirdViewCamera | CameraName::RenderCamera => {
                Camera::look_at(Vec3::new(0.6, 0.7, 0.6), Vec3::new(0.0, 0.0, 0.35), 1.0)
            }
            CameraName::HandCamera => self.robot.hand_camera(),
        }
    }
}

fn parts() -> [Part; 2] {
    let half = Vec3::splat(CUBE_HALF as f32);
    let ball = Shape::Capsule { from: Vec3::ZERO, to: Vec3::ZERO, radius: GOAL_RADIUS as f32 };
    [
        Part { frame: CUBE, shape: Shape::Box { centre: Vec3::ZERO, half, tilt: 0.0 }, skin: RED },
        Part { frame: GOAL, shape: ball, skin: GREEN },
    ]
}
