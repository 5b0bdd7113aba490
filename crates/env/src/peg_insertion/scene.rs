//! What PegInsertionSide looks like: peg, box, and where the cameras are.

use glam::{DVec3, Vec3};

use super::workpiece::Workpiece;
use crate::panda::visual::{RobotVisual, affine};
use crate::panda::{CameraName, Pose};
use crate::render::{Camera, Detail, Model, ScenePart, Shape, Skin, Solids};

/// Frames that parts move with.
const PEG: usize = 0;
const CASE: usize = 1;

const ORANGE: Skin = Skin::Plain(Vec3::new(0.925, 0.36, 0.22));
const WHITE: Skin = Skin::Plain(Vec3::new(0.93, 0.965, 0.975));
const YELLOW: Skin = Skin::Plain(Vec3::new(1.0, 0.82, 0.53));

/// Peg and box of one episode, as triangles.
pub(crate) fn model(piece: &Workpiece) -> Model {
    let block = |frame, centre: DVec3, half: DVec3, skin| ScenePart {
        frame,
        shape: Shape::Box { centre: centre.as_vec3(), half: half.as_vec3(), tilt: 0.0 },
        skin,
    };
    let half = piece.peg_half() * DVec3::new(0.5, 1.0, 1.0);
    let end = DVec3::X * half.x;
    let mut parts = vec![block(PEG, end, half, ORANGE), block(PEG, -end, half, WHITE)];
    parts.extend(piece.sides().map(|(middle, half)| block(CASE, middle, half, YELLOW)));
    // Boxes have no round sides to cut more finely.
    Model::new(&parts, Detail::COARSE)
}

/// Where everything is that can be seen.
pub(crate) struct Scene<'a> {
    pub(crate) robot: RobotVisual,
    pub(crate) things: &'a Model,
    pub(crate) peg: Pose,
    pub(crate) case: Pose,
}

impl Scene<'_> {
    /// Draws what `camera` sees, in `(height, width)` RGB pixels.
    pub(crate) fn draw(&self, camera: CameraName, size: (usize, usize), frame: &mut [u8]) {
        let places = [self.peg, self.case].map(|pose| Some(affine(pose)));
        let things = Solids { model: self.things, places: &places };
        self.robot.draw(things, &self.camera(camera), size, frame);
    }

    fn camera(&self, name: CameraName) -> Camera {
        match name {
            CameraName::BaseCamera => Camera::look_at(
                Vec3::new(0.0, -0.3, 0.2),
                Vec3::new(0.0, 0.0, 0.1),
                std::f32::consts::FRAC_PI_2,
            ),
            // Our own: ManiSkill's cameras have the hand between them and the hole when it matters.
            CameraName::ThirdViewCamera => {
                Camera::look_at(Vec3::new(0.52, -0.16, 0.36), Vec3::new(0.0, 0.08, 0.06), 1.0)
            }
            CameraName::RenderCamera => {
                Camera::look_at(Vec3::new(0.5, -0.5, 0.8), Vec3::new(0.05, -0.1, 0.4), 1.0)
            }
            CameraName::HandCamera => self.robot.hand_camera(),
        }
    }
}
