//! What PegInsertionSide looks like: peg, box, and where the cameras are.

use glam::{DVec3, Vec3};

use super::workpiece::Workpiece;
use crate::panda::visual::{RobotVisual, affine, finite_pose};
use crate::panda::{CameraName, CameraSettings, Pose};
use crate::render::{Camera, Detail, Model, ScenePart, Shape, Skin, Solids};

/// Frames that parts move with.
const PEG: usize = 0;
const CASE: usize = 1;

/// Widths of a hole that differ by less are the same.
const SAME: f64 = 1e-4;

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

/// Peg and box of an episode that another simulator recorded.
#[derive(Debug)]
pub struct PegInsertionPieces {
    model: Model,
    case: Pose,
}

impl PegInsertionPieces {
    /// By half the edges of the peg, the pose of the hole, half its width (which ManiSkill calls its radius) and the pose of the
    /// box: positions, then quaternions with their real part first. `None` where these are no peg and no box.
    #[must_use]
    pub fn new(peg_half_size: &[f32], hole: &[f32], hole_radius: f32, case: &[f32]) -> Option<Self> {
        let [half_length, half_width, _] = peg_half_size else { return None };
        let (half_length, half_width) = (f64::from(*half_length), f64::from(*half_width));
        let (hole, case) = (finite_pose(hole)?, finite_pose(case)?);
        let at = case.inverse().at(hole.position);
        let piece = Workpiece { half_length, half_width, hole_at: [at.y, at.z], peg: case, case };
        let fits = (f64::from(hole_radius) - piece.hole_radius()).abs() < SAME
            && (0.0..1.0).contains(&half_length)
            && half_width > 0.0
            && at.y.abs().max(at.z.abs()) + piece.hole_radius() < half_length;
        fits.then(|| Self { model: model(&piece), case })
    }

    /// What `camera` sees with the robot's joints (seven angles, two fingers) and the peg like this, as rows of RGB pixels;
    /// `None` where numbers are missing or not finite.
    #[must_use]
    pub fn draw(&self, joints: &[f32], peg: &[f32], camera: CameraSettings) -> Option<Vec<u8>> {
        let (robot, peg) = (RobotVisual::at(joints)?, finite_pose(peg)?);
        let mut pixels = vec![0; camera.width * camera.height * 3];
        let scene = Scene { robot, things: &self.model, peg, case: self.case };
        scene.draw(camera.name, (camera.height, camera.width), &mut pixels);
        Some(pixels)
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plaudit_core::Seed;

    use super::super::{PegInsertion, PegInsertionSettings, Setup, state_width};
    use super::*;
    use crate::batch::Task;
    use crate::panda::ObsMode;

    /// What was recorded of an episode draws what the environment draws.
    #[test]
    fn an_image_is_drawn_again_from_what_was_recorded() {
        let camera = CameraSettings { name: CameraName::BaseCamera, width: 64, height: 64 };
        let setup = Setup { settings: PegInsertionSettings::default(), cameras: vec![camera] };
        let mut table = PegInsertion::new(Arc::new(setup));
        for seed in 0..3 {
            table.reset(&mut Seed::new(seed).rng());
            let mut state = vec![0.0; state_width(ObsMode::State)];
            table.observe(&mut state);
            let case = table.piece.case.numbers().map(|number| number as f32);
            let pieces = PegInsertionPieces::new(&state[32..35], &state[35..42], state[42], &case).unwrap();
            let drawn = pieces.draw(&state[..9], &state[25..32], camera).unwrap();
            let mut expected = vec![0; drawn.len()];
            table.draw(0, &mut expected);
            let apart = drawn.iter().zip(&expected).filter(|(a, b)| a.abs_diff(**b) > 2).count();
            assert!(apart < 60, "{apart} bytes differ: more than edges");
            assert!(drawn.iter().any(|byte| *byte != drawn[0]));

            assert!(PegInsertionPieces::new(&state[32..34], &state[35..42], state[42], &case).is_none());
            assert!(PegInsertionPieces::new(&state[32..35], &state[35..42], 1.0, &case).is_none());
            assert!(pieces.draw(&[f32::NAN; 9], &state[25..32], camera).is_none());
            assert!(pieces.draw(&state[..8], &state[25..32], camera).is_none());
        }
    }
}
