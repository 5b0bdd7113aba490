//! What a Panda at a table looks like, and how it is drawn together with the objects of a task.

use std::cell::RefCell;
use std::sync::LazyLock;

use glam::{Affine3A, DQuat, DVec3, Quat, Vec3};

use super::kinematics::JOINTS;
use super::{Arm, Pose};
use crate::render::{Camera, Canvas, Detail, Model, Placement, ScenePart, Shape, Skin, Solids};

/// Frames that parts move with: table, base and links 0 to 7, hand, fingers.
const TABLE: usize = 0;
const LINK: usize = 1;
const HAND: usize = 9;
const FINGER: usize = 10;
const FRAMES: usize = 12;

const WHITE: Skin = Skin::Plain(Vec3::new(0.90, 0.90, 0.91));
const GREY: Skin = Skin::Plain(Vec3::new(0.62, 0.63, 0.65));
const DARK: Skin = Skin::Plain(Vec3::new(0.20, 0.20, 0.22));

static COARSE: LazyLock<Model> = LazyLock::new(|| Model::new(&parts(), Detail::COARSE));
static FINE: LazyLock<Model> = LazyLock::new(|| Model::new(&parts(), Detail::FINE));
/// Rows from which on an image is drawn finely.
const FINE_FROM: usize = 224;

thread_local! {
    /// One set of buffers per thread: they are far larger than an environment.
    static CANVAS: RefCell<Canvas> = RefCell::default();
}

/// How finely an image of so many rows is drawn.
pub(crate) fn detail(height: usize) -> Detail {
    if height < FINE_FROM { Detail::COARSE } else { Detail::FINE }
}

/// What a pixel shows: its segmentation label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelLabel {
    /// Table, floor or wall.
    Background,
    /// The same, under the shadow of something.
    Shadow,
    /// The robot without its hand.
    Arm,
    /// Hand and fingers.
    Gripper,
    /// The object to be moved.
    Object,
    /// What marks the goal.
    Goal,
}

/// A robot to draw.
pub(crate) struct RobotVisual {
    pub(crate) arm: Arm,
    pub(crate) fingers: [f64; 2],
}

impl RobotVisual {
    /// A robot by its joints: seven angles, and how far each finger is open. `None` where some are missing or not finite.
    pub(crate) fn at(joints: &[f32]) -> Option<Self> {
        let joints = joints.get(..JOINTS + 2)?;
        let at = |k: usize| f64::from(joints[k]);
        let is_finite = joints.iter().all(|joint| joint.is_finite());
        is_finite
            .then(|| Self { arm: Arm::at(&std::array::from_fn(at)), fingers: [at(JOINTS), at(JOINTS + 1)] })
    }

    /// Draws robot, table and `things` as `camera` sees them, in `(height, width)` RGB pixels.
    pub(crate) fn draw(&self, things: Solids<'_>, camera: &Camera, size: (usize, usize), frame: &mut [u8]) {
        let places = self.places();
        let robot: &Model = if detail(size.0) == Detail::COARSE { &COARSE } else { &FINE };
        let solids = [Solids { model: robot, places: &places }, things];
        CANVAS.with_borrow_mut(|canvas| canvas.draw(&solids, camera, size, frame));
    }

    /// As [`draw`](Self::draw), and says what each pixel shows; `label_of` names the frames of `things`.
    pub(crate) fn draw_labelled(
        &self,
        (things, label_of): (Solids<'_>, fn(usize) -> PixelLabel),
        camera: &Camera,
        size: (usize, usize),
        frame: &mut [u8],
    ) -> Vec<PixelLabel> {
        self.draw(things, camera, size, frame);
        let named = |shown: Option<(usize, usize)>| match shown {
            None | Some((0, TABLE)) => PixelLabel::Background,
            Some((0, HAND..)) => PixelLabel::Gripper,
            Some((0, _)) => PixelLabel::Arm,
            Some((_, object)) => label_of(object),
        };
        CANVAS.with_borrow(|canvas| canvas.shown().map(named).collect())
    }

    /// What `camera` would see if there were only the table.
    pub(crate) fn draw_table(camera: &Camera, size: (usize, usize), frame: &mut [u8]) {
        let robot: &Model = if detail(size.0) == Detail::COARSE { &COARSE } else { &FINE };
        let mut places = [None; FRAMES];
        places[TABLE] = Some(Affine3A::IDENTITY);
        let solids = [Solids { model: robot, places: &places }];
        CANVAS.with_borrow_mut(|canvas| canvas.draw(&solids, camera, size, frame));
    }

    /// The camera on the hand, looking along the fingers.
    pub(crate) fn hand_camera(&self) -> Camera {
        let hand = affine(self.arm.hand);
        let eye = hand.transform_point3(Vec3::new(0.0465, -0.02, 0.036));
        let (forward, up) = (hand.transform_vector3(Vec3::Z), hand.transform_vector3(Vec3::X));
        Camera::with_axes(eye, forward, up, std::f32::consts::FRAC_PI_2)
    }

    fn places(&self) -> [Placement; FRAMES] {
        let mut places = [Some(Affine3A::IDENTITY); FRAMES];
        for (link, pose) in self.arm.links.iter().enumerate() {
            places[LINK + link] = Some(affine(*pose));
        }
        places[HAND] = Some(affine(self.arm.hand));
        for (finger, side) in [1.0, -1.0].into_iter().enumerate() {
            let rail = DVec3::new(0.0, side * self.fingers[finger], 0.0584);
            let turned = Pose::new(
                rail,
                if side > 0.0 { DQuat::IDENTITY } else { DQuat::from_rotation_z(std::f64::consts::PI) },
            );
            places[FINGER + finger] = Some(affine(self.arm.hand * turned));
        }
        places
    }
}

/// A pose by its first seven numbers, if they are there and finite.
pub(crate) fn finite_pose(numbers: &[f32]) -> Option<Pose> {
    let numbers = numbers.get(..7).filter(|numbers| numbers.iter().all(|number| number.is_finite()))?;
    Some(Pose::from_numbers(numbers))
}

/// A pose as the renderer has it.
pub(crate) fn affine(pose: Pose) -> Affine3A {
    let rotation: Quat = pose.rotation.as_quat();
    Affine3A::from_rotation_translation(rotation, pose.position.as_vec3())
}

/// The solids. The arm is drawn from the dimensions of Franka's links, simplified to tubes.
fn parts() -> Vec<ScenePart> {
    let board =
        Shape::Box { centre: Vec3::new(-0.12, 0.0, -0.46), half: Vec3::new(0.6, 1.2, 0.46), tilt: 0.0 };
    let mut parts = vec![ScenePart { frame: TABLE, shape: board, skin: Skin::Wood }];
    parts.extend(arm_parts());
    parts.extend(hand_parts());
    parts
}

fn arm_parts() -> Vec<ScenePart> {
    let tube = |link: usize, from: [f32; 3], to: [f32; 3], radius: f32, skin: Skin| ScenePart {
        frame: LINK + link,
        shape: Shape::Capsule { from: from.into(), to: to.into(), radius },
        skin,
    };
    let disc = |link: usize, from: [f32; 3], to: [f32; 3], radius: f32, skin: Skin| ScenePart {
        frame: LINK + link,
        shape: Shape::Cylinder { from: from.into(), to: to.into(), radius },
        skin,
    };
    vec![
        // Foot and column.
        disc(0, [-0.04, 0.0, 0.0], [-0.04, 0.0, 0.03], 0.11, GREY),
        tube(0, [-0.07, 0.0, 0.05], [-0.02, 0.0, 0.06], 0.065, WHITE),
        disc(0, [0.0, 0.0, 0.05], [0.0, 0.0, 0.14], 0.07, WHITE),
        tube(1, [0.0, 0.0, -0.18], [0.0, 0.0, -0.06], 0.062, WHITE),
        // Shoulder.
        disc(1, [0.0, -0.075, 0.0], [0.0, 0.075, 0.0], 0.064, GREY),
        tube(2, [0.0, -0.02, 0.0], [0.0, -0.14, 0.0], 0.06, WHITE),
        tube(3, [0.0, 0.0, -0.16], [0.0, 0.0, -0.10], 0.06, WHITE),
        tube(3, [0.0, 0.0, -0.10], [0.075, 0.0, 0.0], 0.052, WHITE),
        // Elbow.
        disc(3, [0.0825, -0.07, 0.0], [0.0825, 0.07, 0.0], 0.056, GREY),
        tube(4, [-0.01, 0.01, 0.0], [-0.0825, 0.10, 0.0], 0.052, WHITE),
        tube(5, [0.0, 0.0, -0.26], [0.0, 0.0, -0.20], 0.056, WHITE),
        // Forearm.
        tube(5, [0.0, 0.045, -0.20], [0.0, 0.07, -0.06], 0.036, WHITE),
        tube(5, [0.0, 0.0, -0.20], [0.0, 0.05, -0.04], 0.046, WHITE),
        // Wrist.
        disc(5, [0.0, -0.06, 0.0], [0.0, 0.075, 0.0], 0.048, GREY),
        tube(6, [0.02, 0.0, 0.0], [0.088, 0.0, 0.0], 0.048, WHITE),
        tube(7, [0.0, 0.0, -0.01], [0.0, 0.0, 0.05], 0.050, WHITE),
        disc(7, [0.0, 0.0, 0.05], [0.0, 0.0, 0.107], 0.046, DARK),
    ]
}

fn hand_parts() -> Vec<ScenePart> {
    let block = |frame: usize, centre: [f32; 3], half: [f32; 3], tilt: f32, skin: Skin| ScenePart {
        frame,
        shape: Shape::Box { centre: centre.into(), half: half.into(), tilt },
        skin,
    };
    let mut parts = vec![
        block(HAND, [0.0, 0.0, 0.028], [0.027, 0.098, 0.026], 0.0, WHITE),
        block(HAND, [0.0, 0.0, 0.058], [0.022, 0.090, 0.005], 0.0, DARK),
    ];
    for finger in [FINGER, FINGER + 1] {
        parts.push(block(finger, [0.0, 0.0185, 0.011], [0.011, 0.0075, 0.010], 0.0, GREY));
        parts.push(block(
            finger,
            [0.0, 0.0159, 0.02835],
            [0.00875, 0.0035, 0.01175],
            std::f32::consts::FRAC_PI_6,
            GREY,
        ));
        parts.push(block(finger, [0.0, 0.00758, 0.04525], [0.00875, 0.0076, 0.00925], 0.0, DARK));
    }
    parts
}
