//! What each pixel of recorded pictures shows: the scene is drawn again from the recorded state.

use plaudit_env::{CameraName, Shown, draw_pick_cube};
use plaudit_reward::audit::Region;
use plaudit_reward::dataset::Frames;

/// How a view was drawn when it was recorded.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    camera: CameraName,
    show_goal: bool,
}

/// Which camera each view is, where drawing the recorded states again gives the recorded pictures.
#[derive(Debug)]
pub(super) struct Redrawn {
    views: Vec<Drawn>,
}

/// Frames that must come out the same.
const TRIED: usize = 5;
/// A state is kept in 32 bits, so that a pixel on an edge may differ; and a recording may show something that is not in
/// the scene, such as a sticker. So many pixels must be within so many levels.
const MOST: f64 = 0.9;
const SAME: u8 = 6;

impl Redrawn {
    /// `None` unless every view of some frames comes out as it was recorded.
    pub(super) fn of(frames: &Frames) -> Option<Self> {
        let tried: Vec<usize> = (0..TRIED).map(|at| at * frames.len() / TRIED).collect();
        let of_view = |view: usize| {
            let cameras = [CameraName::BaseCamera, CameraName::ThirdViewCamera, CameraName::HandCamera];
            let ways = cameras
                .into_iter()
                .flat_map(|camera| [true, false].map(|show_goal| Drawn { camera, show_goal }));
            let mut ways = ways.collect::<Vec<_>>().into_iter();
            ways.find(|way| tried.iter().all(|number| comes_out(frames, *number, view, *way)))
        };
        let views: Option<Vec<Drawn>> = (0..frames.views().len()).map(of_view).collect();
        Some(Self { views: views? })
    }

    /// What each pixel of a view shows.
    pub(super) fn regions(&self, frames: &Frames, number: usize, view: usize) -> Option<Vec<Region>> {
        let Drawn { camera, show_goal } = self.views[view];
        let shape = frames.shapes()[view];
        let drawn =
            draw_pick_cube(frames.state(number, view)?, camera, (shape.height, shape.width), show_goal)?;
        let region = |shown| match shown {
            Shown::Background => Region::Background,
            Shown::Shadow => Region::Shadow,
            Shown::Arm => Region::Arm,
            Shown::Gripper => Region::Gripper,
            Shown::Thing => Region::Thing,
            Shown::Goal => Region::Goal,
        };
        Some(drawn.shown.into_iter().map(region).collect())
    }
}

fn comes_out(frames: &Frames, number: usize, view: usize, way: Drawn) -> bool {
    let shape = frames.shapes()[view];
    let drawn = frames
        .state(number, view)
        .filter(|_| shape.channels == 3)
        .and_then(|state| draw_pick_cube(state, way.camera, (shape.height, shape.width), way.show_goal));
    let Some(drawn) = drawn else { return false };
    let recorded = frames.image(number, view).pixels();
    let same = drawn.pixels.iter().zip(&*recorded).filter(|(a, b)| a.abs_diff(**b) <= SAME).count();
    same as f64 > MOST * drawn.pixels.len() as f64
}
