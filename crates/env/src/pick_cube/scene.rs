//! What PickCube looks like: cube, goal, and where the cameras are.

use std::sync::LazyLock;

use glam::{DQuat, DVec3, Vec3};

use super::CUBE_HALF;
use crate::panda::visual::{PixelLabel, RobotVisual, affine, detail, finite_pose};
use crate::panda::{CameraName, CameraSettings, ObsMode, Pose};
use crate::render::{Camera, Detail, Model, ScenePart, Shape, Skin, Solids};

/// How near the cube must come to the goal, and the radius of the ball that shows it.
pub(crate) const GOAL_RADIUS: f64 = 0.025;

/// A pixel of the table that differs from the empty table by more levels than this lies in a shadow.
const SHADE: u8 = 3;

/// Frames that parts move with.
const CUBE: usize = 0;
const GOAL: usize = 1;

const RED: Skin = Skin::Plain(Vec3::new(0.92, 0.06, 0.05));
const GREEN: Skin = Skin::Marker(Vec3::new(0.05, 0.85, 0.12));

static COARSE: LazyLock<Model> = LazyLock::new(|| Model::new(&parts(), Detail::COARSE));
static FINE: LazyLock<Model> = LazyLock::new(|| Model::new(&parts(), Detail::FINE));

/// Where everything is that can be seen.
pub(crate) struct Scene {
    pub(crate) robot: RobotVisual,
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

    /// As [`draw`](Self::draw), and says what each pixel shows.
    fn draw_labelled(&self, camera: CameraName, size: (usize, usize), frame: &mut [u8]) -> Vec<PixelLabel> {
        let goal = self.goal.map(|goal| affine(Pose::new(goal, DQuat::IDENTITY)));
        let model: &Model = if detail(size.0) == Detail::COARSE { &COARSE } else { &FINE };
        let things = Solids { model, places: &[Some(affine(self.cube)), goal] };
        let label_of = |object: usize| if object == GOAL { PixelLabel::Goal } else { PixelLabel::Object };
        let camera = self.camera(camera);
        let mut shown = self.robot.draw_labelled((things, label_of), &camera, size, frame);
        let mut table = vec![0; frame.len()];
        RobotVisual::draw_table(&camera, size, &mut table);
        let darker =
            |(now, empty): (&[u8], &[u8])| now.iter().zip(empty).any(|(a, b)| a.abs_diff(*b) > SHADE);
        for (shown, is_darker) in
            shown.iter_mut().zip(frame.chunks_exact(3).zip(table.chunks_exact(3)).map(darker))
        {
            if *shown == PixelLabel::Background && is_darker {
                *shown = PixelLabel::Shadow;
            }
        }
        shown
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

/// An image of PickCube with a label for each pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PickCubeImage {
    /// Rows of RGB pixels.
    pub pixels: Vec<u8>,
    /// The label of each pixel.
    pub labels: Vec<PixelLabel>,
}

/// Renders PickCube from the 42 numbers of its state, in `(height, width)` pixels; `None` for any other state.
#[must_use]
pub fn render_pick_cube(
    state: &[f32],
    camera: CameraName,
    size: (usize, usize),
    show_goal: bool,
) -> Option<PickCubeImage> {
    let parts = super::state_parts(ObsMode::State);
    let part =
        |name: &str| parts.iter().find(|part| &*part.name == name).map(|part| &state[part.range.clone()]);
    if state.len() != super::state_width(ObsMode::State) || state.iter().any(|number| !number.is_finite()) {
        return None;
    }
    let (qpos, goal, cube) = (part("qpos")?, part("goal_pos")?, part("obj_pose")?);
    let goal = DVec3::from_array(std::array::from_fn(|k| f64::from(goal[k])));
    let cube = Pose::from_numbers(cube);
    let scene = Scene { robot: RobotVisual::at(qpos)?, cube, goal: show_goal.then_some(goal) };
    let mut pixels = vec![0; size.0 * size.1 * 3];
    let labels = scene.draw_labelled(camera, size, &mut pixels);
    Some(PickCubeImage { pixels, labels })
}

/// A moment of PickCube, by the joints of the robot and where things are, as ManiSkill's simulator says of itself.
#[derive(Debug, Clone, Copy)]
pub struct PickCubeMoment<'a> {
    /// Seven angles of the arm, and how far each finger is open.
    pub joints: &'a [f32],
    /// Position of the cube, then its quaternion, real part first. What follows is not used.
    pub cube: &'a [f32],
    /// The same of the goal, if it is to be shown.
    pub goal: Option<&'a [f32]>,
}

impl PickCubeMoment<'_> {
    /// What `camera` sees, as rows of RGB pixels; `None` where numbers are missing or not finite.
    #[must_use]
    pub fn draw(&self, camera: CameraSettings) -> Option<Vec<u8>> {
        let goal = match self.goal {
            None => None,
            Some(goal) => Some(finite_pose(goal)?.position),
        };
        let scene = Scene { robot: RobotVisual::at(self.joints)?, cube: finite_pose(self.cube)?, goal };
        let mut pixels = vec![0; camera.width * camera.height * 3];
        scene.draw(camera.name, (camera.height, camera.width), &mut pixels);
        Some(pixels)
    }
}

fn parts() -> [ScenePart; 2] {
    let half = Vec3::splat(CUBE_HALF as f32);
    let ball = Shape::Capsule { from: Vec3::ZERO, to: Vec3::ZERO, radius: GOAL_RADIUS as f32 };
    [
        ScenePart { frame: CUBE, shape: Shape::Box { centre: Vec3::ZERO, half, tilt: 0.0 }, skin: RED },
        ScenePart { frame: GOAL, shape: ball, skin: GREEN },
    ]
}
