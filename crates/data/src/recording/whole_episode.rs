//! Recordings of formats that are read into whole episodes: LeRobot datasets and RLinf's replay buffers.

use plaudit_pyfiles::{Array, Buffer, DType, PyValue};

use super::observation::{Columns, Observation};
use super::{FileProblem, Recording};
use crate::episode::{CameraTrack, Episode, Timestep};
use crate::lerobot::Dataset;
use crate::replay_buffer::episodes_of;

/// One episode of a LeRobot dataset.
pub(super) fn lerobot(dataset: &Dataset, number: usize) -> Result<Recording, FileProblem> {
    let mut recording = recording(dataset.read(number)?);
    let has = |names: &[&str]| names.iter().any(|name| dataset.info().feature(name).is_some());
    if !has(&["next.reward", "reward", "rewards"]) {
        recording.rewards.clear();
    }
    if recording.labels.iter().all(Option::is_none) {
        recording.success = None;
        recording.unlabelled = Some(FileProblem::NoLabels);
    }
    Ok(recording)
}

/// Every episode of a trajectory of a replay buffer.
pub(super) fn replay_buffer(value: &PyValue) -> Result<Vec<Recording>, FileProblem> {
    let name = |(at, episode)| Recording { name: format!("episode {at}"), ..recording(episode) };
    Ok(episodes_of(value)?.into_iter().enumerate().map(name).collect())
}

/// What follows an action stands beside what was before it. No pixel is copied.
fn recording(episode: Episode) -> Recording {
    let after = || episode.timesteps[1..].iter();
    let steps = episode.actions.len();
    let mut recording = Recording {
        rewards: after().map(|timestep| timestep.reward).collect(),
        ends: after().map(|timestep| timestep.end).collect(),
        facts: after().map(|timestep: &Timestep| timestep.facts.clone()).collect(),
        labels: after().map(|timestep| timestep.success).collect(),
        success: Some(episode.success),
        task: episode.task,
        position: (episode.row, episode.number, episode.batch_step),
        actions: episode.actions,
        ..Recording::default()
    };
    let cameras = episode.cameras.into_iter().map(images).collect();
    let columns = Columns { cameras, states: episode.states, ..Columns::default() };
    let mut observations: Vec<Observation> = columns.rows(steps + 1);
    recording.after_last = observations.pop();
    recording.observations = observations;
    recording
}

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
