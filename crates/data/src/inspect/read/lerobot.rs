//! Episodes of a LeRobot dataset.

use crate::episode::CameraTrack;
use crate::inspect::error::Unusable;
use crate::inspect::picture::Picture;
use crate::inspect::recorded::Recorded;
use crate::lerobot::Dataset;
use crate::python::Array;

/// One episode. The layout has no observation after the last action, and what follows an action stands beside what
/// was before it: so does it here.
pub(in crate::inspect) fn lerobot(dataset: &Dataset, number: usize) -> Result<Vec<Recorded>, Unusable> {
    let episode = dataset.read(number)?;
    let paid = ["next.reward", "reward", "rewards"].iter().any(|name| dataset.info().feature(name).is_some());
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
    Ok(vec![recorded])
}

fn picture(track: &CameraTrack, at: usize) -> Option<Picture> {
    let shape = [track.shape.height, track.shape.width, track.shape.channels];
    Picture::of(&Array::from_slice(&shape, track.image(at)).ok()?)
}
