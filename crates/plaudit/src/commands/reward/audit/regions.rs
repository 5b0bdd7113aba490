//! What each pixel of recorded images shows: the scene is rendered again from the recorded state.

use plaudit_env::{CameraName, PixelLabel, render_pick_cube};
use plaudit_reward::audit::Region;
use plaudit_reward::dataset::Frames;

/// How a view was rendered when it was recorded.
#[derive(Debug, Clone, Copy)]
struct ViewRendering {
    camera: CameraName,
    show_goal: bool,
}

/// Which camera each view is, where rendering the recorded states again gives the recorded images.
#[derive(Debug)]
pub(super) struct Rerendered {
    views: Vec<ViewRendering>,
}

/// Frames that must come out the same.
const TRIED: usize = 5;
/// A state is kept in 32 bits, so that a pixel on an edge may differ; and a recording may show something that is not in
/// the scene, such as a sticker. So many pixels must be within so many levels.
const MOST: f64 = 0.9;
const SAME: u8 = 6;

impl Rerendered {
    /// `None` unless every view of some frames comes out as it was recorded.
    pub(super) fn of(frames: &Frames) -> Option<Self> {
        let tried: Vec<usize> = (0..TRIED).map(|at| at * frames.len() / TRIED).collect();
        let of_view = |view: usize| {
            let cameras = [CameraName::BaseCamera, CameraName::ThirdViewCamera, CameraName::HandCamera];
            let ways = cameras
                .into_iter()
                .flat_map(|camera| [true, false].map(|show_goal| ViewRendering { camera, show_goal }));
            let mut ways = ways.collect::<Vec<_>>().into_iter();
            ways.find(|way| tried.iter().all(|number| matches_recording(frames, *number, view, *way)))
        };
        let views: Option<Vec<ViewRendering>> = (0..frames.views().len()).map(of_view).collect();
        Some(Self { views: views? })
    }

    /// What each pixel of a view shows.
    pub(super) fn regions(&self, frames: &Frames, number: usize, view: usize) -> Option<Vec<Region>> {
        let ViewRendering { camera, show_goal } = self.views[view];
        let shape = frames.shapes()[view];
        let rendered =
            render_pick_cube(frames.state(number, view)?, camera, (shape.height, shape.width), show_goal)?;
        let region = |shown| match shown {
            PixelLabel::Background => Region::Background,
            PixelLabel::Shadow => Region::Shadow,
            PixelLabel::Arm => Region::Arm,
            PixelLabel::Gripper => Region::Gripper,
            PixelLabel::Object => Region::Object,
            PixelLabel::Goal => Region::Goal,
        };
        Some(rendered.labels.into_iter().map(region).collect())
    }
}

fn matches_recording(frames: &Frames, number: usize, view: usize, way: ViewRendering) -> bool {
    let shape = frames.shapes()[view];
    let rendered = frames
        .state(number, view)
        .filter(|_| shape.channels == 3)
        .and_then(|state| render_pick_cube(state, way.camera, (shape.height, shape.width), way.show_goal));
    let Some(rendered) = rendered else { return false };
    let Ok(recorded) = frames.pixels(number, view) else { return false };
    let same = rendered.pixels.iter().zip(&*recorded).filter(|(a, b)| a.abs_diff(**b) <= SAME).count();
    same as f64 > MOST * rendered.pixels.len() as f64
}
