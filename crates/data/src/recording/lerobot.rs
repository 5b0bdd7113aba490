//! LeRobot datasets, v2.1 and v3: every shard that a collector left behind, an episode at a time.

use std::sync::Arc;

use plaudit_pyfiles::{Array, Buffer, DType};

use super::formats::Format;
use super::item::{Item, Items};
use super::observation::Columns;
use super::{AfterLast, FileProblem, Recording};
use crate::episode::{CameraTrack, Timestep};
use crate::lerobot::{Dataset, FilmedEpisode, shards};

pub(super) const FORMAT: Format = Format {
    name: "lerobot",
    describe: "a LeRobot dataset",
    shares_files: true,
    is_at: |probe| Ok(shards(probe.path).is_ok_and(|shards| !shards.is_empty())),
    items: |path| {
        let mut found = Items::default();
        for shard in shards(path)? {
            match Dataset::open(&shard) {
                Ok(dataset) => {
                    let dataset = Arc::new(dataset);
                    found.items.extend((0..dataset.len()).map(|episode| {
                        let dataset = dataset.clone();
                        let name = shard.join(format!("episode {episode}"));
                        Item::new(name, move |_| Ok(vec![read(&dataset, episode)?]))
                    }));
                }
                Err(error) => found.broken.push((shard, error.into())),
            }
        }
        Ok(found)
    },
    ..Format::EPISODES
};

/// One episode. What follows an action stands beside what was before it; the layout has no observation after the last
/// action, so the last one stands for it.
fn read(dataset: &Dataset, number: usize) -> Result<Recording, FileProblem> {
    let FilmedEpisode { episode, videos } = dataset.read_filmed(number)?;
    let has = |names: &[&str]| names.iter().any(|name| dataset.info().feature(name).is_some());
    let after = || episode.timesteps[1..].iter();
    let steps = episode.actions.len();
    let rewards = || after().map(|timestep| f64::from(timestep.reward)).collect();
    let labels: Vec<Option<bool>> = after().map(|timestep| timestep.success).collect();
    let is_labelled = labels.iter().any(Option::is_some);
    let mut recording = Recording {
        rewards: if has(&["next.reward", "reward", "rewards"]) { rewards() } else { Vec::new() },
        ends: after().map(|timestep| timestep.end).collect(),
        facts: after().map(|timestep: &Timestep| timestep.facts.clone()).collect(),
        labels,
        success: is_labelled.then_some(episode.success),
        task: episode.task,
        position: [episode.row as u64, episode.number, episode.batch_step].map(Some),
        after_last: AfterLast::Repeated,
        actions: episode.actions,
        ..Recording::default()
    };
    let cameras: Vec<_> = episode.cameras.into_iter().map(images).collect();
    let videos: Vec<_> = videos.into_iter().map(|(name, video)| (name.to_string(), video)).collect();
    // The main view, wherever it is.
    let main = videos.iter().position(|(name, _)| name == "image").map(|at| at + cameras.len());
    let columns = Columns { cameras, videos, states: episode.states, main, ..Columns::default() };
    recording.observations = columns.rows(steps);
    Ok(recording)
}

/// The images of a camera, as views of what was decoded.
fn images(track: CameraTrack) -> (String, Vec<Array>) {
    let shape = [track.shape.height, track.shape.width, track.shape.channels];
    let bytes = Buffer::from(track.pixels);
    let each = track.shape.bytes().max(1);
    let image = |at: usize| {
        let view = bytes.slice(at * each..(at + 1) * each)?;
        Array::new(DType::U8, &shape, view).ok()
    };
    (track.name.to_string(), (0..bytes.len() / each).map_while(image).collect())
}
