//! Episodes of plaudit's own store.

use crate::inspect::error::Unusable;
use crate::inspect::picture::Picture;
use crate::inspect::recorded::{Recorded, Unit};
use crate::python::Array;
use crate::store::{EpisodeId, Store, StoredEpisode};

/// One episode.
pub(in crate::inspect) fn stored(store: &Store, id: EpisodeId) -> Result<Vec<Recorded>, Unusable> {
    let episode = store.episode(id)?;
    // Labelled images have no actions, and so no states or rewards that mean something.
    let lived = !episode.actions().is_empty();
    let all = |count: usize| (0..count).filter(move |_| lived);
    let mut recorded = Recorded {
        unit: (!lived).then_some(Unit::Images),
        states: all(episode.entries()).map(|at| episode.state(at).to_vec()).collect(),
        actions: all(episode.len()).map(|at| episode.action(at).to_vec()).collect(),
        rewards: all(episode.entries()).map(|at| episode.rewards()[at]).collect(),
        labels: (0..episode.entries()).map(|at| episode.success_at(at)).collect(),
        success: Some(episode.success()),
        ..Recorded::default()
    };
    for (camera, (name, shape)) in episode.cameras().enumerate() {
        let shape = [shape.height, shape.width, shape.channels];
        for picture in pictures(&episode, camera, shape) {
            recorded.see(name, picture);
        }
    }
    Ok(vec![recorded])
}

fn pictures(episode: &StoredEpisode, camera: usize, shape: [usize; 3]) -> impl Iterator<Item = Picture> {
    (0..episode.entries()).filter_map(move |at| {
        let array = Array::from_slice(&shape, episode.frame(camera, at)).ok()?;
        Picture::of(&array)
    })
}
