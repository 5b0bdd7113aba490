//! Whole episodes, as LeRobot datasets and replay buffers give them.

use crate::episode::{CameraTrack, Episode};
use crate::inspect::picture::Picture;
use crate::inspect::recorded::Recorded;
use crate::python::Array;

/// What was recorded in an episode, and whether its rewards were. What follows an action stands beside what was before
/// it; the observation after the last action is left out, since these formats do not always have it.
pub(super) fn recorded(episode: Episode, paid: bool) -> Recorded {
    let after = &episode.moments[1..];
    let labels: Vec<Option<bool>> = after.iter().map(|moment| moment.success).collect();
    let known = labels.iter().any(Option::is_some);
    let steps = episode.actions.len();
    let mut recorded = Recorded {
        rewards: after.iter().filter(|_| paid).map(|moment| moment.reward).collect(),
        success: known.then_some(episode.success),
        labels,
        states: episode.states.into_iter().take(steps).collect(),
        actions: episode.actions,
        ..Recorded::default()
    };
    for track in &episode.cameras {
        for picture in (0..steps).filter_map(|at| picture(track, at)) {
            recorded.see(&track.name, picture);
        }
    }
    recorded
}

fn picture(track: &CameraTrack, at: usize) -> Option<Picture> {
    let shape = [track.shape.height, track.shape.width, track.shape.channels];
    Picture::of(&Array::from_slice(&shape, track.image(at)).ok()?)
}
