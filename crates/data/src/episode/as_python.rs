//! Episodes as the Python objects that RLinf's collectors write, generation by generation.

use std::ops::Range;
use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::{Array, DType, ObjectArray, PyDict, PyValue, ShapeError};
use thiserror::Error;

use super::{CameraTrack, Episode, Timestep};

/// An episode that Python's arrays cannot hold: the key that it would stand under, and what does not fit there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnwritableEpisode {
    /// Values that do not fill their shape.
    #[error("`{key}` cannot be written: {problem}")]
    Array {
        /// The key: `observations[3].states`.
        key: String,
        /// What does not fit.
        problem: ShapeError,
    },
}

impl UnwritableEpisode {
    /// The same, seen from what holds the value.
    pub(crate) fn within(mut self, outer: impl std::fmt::Display) -> Self {
        let Self::Array { key, .. } = &mut self;
        *key = format!("{outer}.{key}");
        self
    }
}

/// Where RLinf keeps all cameras but the main one.
pub(crate) const EXTRA_VIEWS: &str = "extra_view_images";

type Value = Result<PyValue, UnwritableEpisode>;

/// One pickle per episode: lists of N + 1 observations, rewards, flags and infos, and N actions. Tensors where
/// RLinf has tensors.
///
/// # Errors
/// When a value does not fit the array that it belongs into.
pub fn as_pickle(episode: &Episode, rank: u64) -> Value {
    let seen =
        |at: usize| observation(episode, at).map_err(|error| error.within(format!("observations[{at}]")));
    let done = |(at, action): (usize, &Vec<f32>)| numpy(action, || format!("actions[{at}]"));
    Ok(dict([
        ("rank", int(rank)),
        ("env_idx", int(episode.row as u64)),
        ("episode_id", int(episode.number)),
        ("step", int(episode.batch_step)),
        ("success", PyValue::Bool(episode.success)),
        ("observations", try_list((0..=episode.len()).map(seen))?),
        ("actions", try_list(episode.actions.iter().enumerate().map(done))?),
        (
            "rewards",
            after_reset(episode, PyValue::Float(0.0), |timestep| tensor(Array::from_number(timestep.reward))),
        ),
        (
            "terminated",
            after_reset(episode, PyValue::Bool(false), |timestep| flag(timestep.end == End::Terminated)),
        ),
        (
            "truncated",
            after_reset(episode, PyValue::Bool(false), |timestep| flag(timestep.end == End::Truncated)),
        ),
        ("infos", infos(episode)),
    ]))
}

/// The name RLinf gives that file.
pub fn pickle_name(episode: &Episode, rank: u64) -> String {
    let outcome = if episode.success { "success" } else { "fail" };
    let Episode { row, number, batch_step, .. } = episode;
    format!("rank_{rank}_env_{row}_episode_{number}_step_{batch_step}_{outcome}.pkl")
}

/// One pickle of frames per episode, without the reset's, as an earlier collector wrote them.
///
/// # Errors
/// When a value does not fit the array that it belongs into.
pub fn as_frames(episode: &Episode, counter: u64, unix_secs: f64) -> Value {
    let frame = |at: usize| {
        let place = at - 1;
        let timestep = &episode.timesteps[at];
        let terminated = timestep.end == End::Terminated;
        let truncated = timestep.end == End::Truncated;
        let seen = observation(episode, at).map_err(|error| error.within(format!("frames[{place}].obs")))?;
        Ok(dict([
            ("obs", seen),
            ("action", numpy(&episode.actions[place], || format!("frames[{place}].action"))?),
            ("reward", PyValue::Float(f64::from(timestep.reward))),
            ("terminated", PyValue::Bool(terminated)),
            ("truncated", PyValue::Bool(truncated)),
            ("done", PyValue::Bool(timestep.end.is_end())),
            ("grasp", PyValue::Bool(fact(timestep, "is_grasped"))),
            ("success", PyValue::Bool(timestep.success == Some(true))),
        ]))
    };
    let grasped = episode.timesteps.iter().any(|timestep| fact(timestep, "is_grasped"));
    let metadata = dict([
        ("episode_id", int(counter)),
        ("timestamp", PyValue::Float(unix_secs)),
        ("max_frames", int(episode.len() as u64)),
    ]);
    Ok(dict([
        ("frames", try_list((1..=episode.len()).map(frame))?),
        ("num_frames", int(episode.len() as u64)),
        ("grasp", PyValue::Bool(grasped)),
        ("success", PyValue::Bool(episode.success)),
        ("done", PyValue::Bool(true)),
        ("label", int(u64::from(episode.success))),
        ("metadata", metadata),
    ]))
}

/// One `.npy` dictionary per episode: images by camera as f32 in 0..1, `[T, C, H, W]`, and a label per frame.
///
/// # Errors
/// When a value does not fit the array that it belongs into.
pub fn as_npy(episode: &Episode, cameras: &[String]) -> Value {
    let wanted =
        |track: &&CameraTrack| cameras.is_empty() || cameras.iter().any(|name| **name == *track.name);
    let images = episode
        .cameras
        .iter()
        .filter(wanted)
        .map(|track| Ok((&*track.name, channels_first(track, episode.len())?)))
        .collect::<Result<Vec<_>, _>>()?;
    let labels: Vec<f32> = episode.timesteps[1..]
        .iter()
        .map(|timestep| f32::from(u8::from(timestep.success == Some(true))))
        .collect();
    let content = dict([("images", dict(images)), ("labels", numpy(&labels, || "labels".into())?)]);
    Ok(PyValue::ObjectArray(Arc::new(ObjectArray::around(content))))
}

/// The images after the reset's, as numbers in 0..1 with channels first.
fn channels_first(track: &CameraTrack, frames: usize) -> Value {
    let (height, width, channels) = (track.shape.height, track.shape.width, track.shape.channels);
    let mut values = Vec::with_capacity(frames * track.shape.bytes());
    for at in 1..=frames {
        let image = track.image(at);
        for channel in 0..channels {
            values.extend(image[channel..].iter().step_by(channels).map(|&byte| f32::from(byte) / 255.0));
        }
    }
    array(Array::from_slice(&[frames, channels, height, width], &values), || format!("images.{}", track.name))
}

/// `main_images`, `extra_view_images` and `states`, as RLinf's simple wrapper arranges them.
fn observation(episode: &Episode, at: usize) -> Value {
    let mut entries = Vec::new();
    if let Some((main, extra)) = episode.cameras.split_first() {
        let shape = [main.shape.height, main.shape.width, main.shape.channels];
        let images = Array::new(DType::U8, &shape, main.shared(at..at + 1));
        entries.push(("main_images", tensor_under("main_images", images)?));
        entries.push((EXTRA_VIEWS, extra_views(extra, at..at + 1, &[])?.unwrap_or(PyValue::None)));
    }
    let states = &episode.states[at];
    entries.push(("states", tensor_under("states", Array::from_slice(&[states.len()], states))?));
    if let Some(task) = &episode.task {
        entries.push(("task_descriptions", PyValue::Str(task.clone())));
    }
    Ok(dict(entries))
}

/// The cameras that RLinf's layout has no room for: behind the main one, all are of one size in one tensor.
pub fn cameras_without_room(cameras: &[(Arc<str>, FrameShape)]) -> Vec<Arc<str>> {
    let extra = cameras.get(1..).unwrap_or_default();
    let other = extra.iter().filter(|(_, shape)| *shape != extra[0].1);
    other.map(|(name, _)| name.clone()).collect()
}

/// Every camera but the first that there is room for, in one tensor: the leading axes, which count the entries, then views,
/// height, width and channels. A single camera is a view of the episode's own bytes; several are stacked. Nothing
/// without such a camera.
pub(crate) fn extra_views(
    tracks: &[CameraTrack],
    entries: Range<usize>,
    leading: &[usize],
) -> Result<Option<PyValue>, UnwritableEpisode> {
    let Some(first) = tracks.first() else { return Ok(None) };
    let FrameShape { height, width, channels } = first.shape;
    let same: Vec<_> = tracks.iter().filter(|track| track.shape == first.shape).collect();
    let shape = [leading, &[same.len(), height, width, channels]].concat();
    let images = match same[..] {
        [only] => Array::new(DType::U8, &shape, only.shared(entries)),
        _ => {
            let mut pixels = Vec::with_capacity(entries.len() * same.len() * first.shape.bytes());
            for at in entries {
                same.iter().for_each(|track| pixels.extend_from_slice(track.image(at)));
            }
            Array::new(DType::U8, &shape, pixels)
        }
    };
    tensor_under(EXTRA_VIEWS, images).map(Some)
}

/// Per entry: the environment's info, and the episode so far. The reset's is empty.
fn infos(episode: &Episode) -> PyValue {
    let (mut once, mut sum) = (false, 0.0f32);
    let mut entries = vec![dict::<&str>([])];
    for (length, timestep) in episode.timesteps.iter().enumerate().skip(1) {
        once |= timestep.success == Some(true);
        sum += timestep.reward;
        entries.push(info(timestep, length, once, sum));
    }
    list(entries)
}

fn info(timestep: &Timestep, length: usize, success_once: bool, sum: f32) -> PyValue {
    let so_far = dict([
        ("success_once", flag(success_once)),
        ("return", tensor(Array::from_number(sum))),
        ("episode_len", tensor(Array::from_number(length as i64))),
        ("reward", tensor(Array::from_number(sum / length as f32))),
    ]);
    let mut entries: Vec<(&str, PyValue)> = vec![
        ("elapsed_steps", tensor(Array::from_number(length as i64))),
        ("success", flag(timestep.success == Some(true))),
    ];
    for (name, value) in timestep.facts.iter().filter(|(name, _)| &**name != "success") {
        // The environments' facts are numbers; those that ask a question are answered by yes or no.
        let is_question = name.starts_with("is_") || name.starts_with("fail");
        let value = if is_question { flag(*value != 0.0) } else { tensor(Array::from_number(*value)) };
        entries.push((name, value));
    }
    entries.push(("episode", so_far));
    dict(entries)
}

fn fact(timestep: &Timestep, name: &str) -> bool {
    timestep.facts.iter().any(|(fact, value)| &**fact == name && *value != 0.0)
}

fn after_reset(episode: &Episode, first: PyValue, value: impl Fn(&Timestep) -> PyValue) -> PyValue {
    list(std::iter::once(first).chain(episode.timesteps[1..].iter().map(value)))
}

fn dict<'a, K: Into<Arc<str>> + 'a>(entries: impl IntoIterator<Item = (K, PyValue)>) -> PyValue {
    let entries = entries.into_iter().map(|(key, value)| (PyValue::Str(key.into()), value)).collect();
    PyValue::Dict(Arc::new(PyDict::new(entries)))
}

fn list(items: impl IntoIterator<Item = PyValue>) -> PyValue {
    PyValue::List(items.into_iter().collect())
}

fn int(value: u64) -> PyValue {
    PyValue::Int(value as i64)
}

fn flag(value: bool) -> PyValue {
    tensor(Array::from_bool(value))
}

fn tensor(array: Array) -> PyValue {
    PyValue::Tensor(Arc::new(array))
}

fn try_list(items: impl Iterator<Item = Value>) -> Value {
    Ok(PyValue::List(items.collect::<Result<_, _>>()?))
}

fn numpy(values: &[f32], key: impl FnOnce() -> String) -> Value {
    array(Array::from_slice(&[values.len()], values), key)
}

fn array(array: Result<Array, ShapeError>, key: impl FnOnce() -> String) -> Value {
    let array = array.map_err(|problem| UnwritableEpisode::Array { key: key(), problem })?;
    Ok(PyValue::Array(Arc::new(array)))
}

/// A tensor, or an error that names the key it would stand under.
pub(crate) fn tensor_under(key: &str, array: Result<Array, ShapeError>) -> Value {
    array.map(tensor).map_err(|problem| UnwritableEpisode::Array { key: key.into(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay_buffer::Writer;

    fn track(name: &str, shape: FrameShape, entries: usize) -> CameraTrack {
        let pixels: Vec<u8> = (0..entries * shape.bytes()).map(|at| (at % 251) as u8).collect();
        CameraTrack { name: name.into(), shape, pixels: pixels.into() }
    }

    fn episode(cameras: Vec<CameraTrack>) -> Episode {
        let timestep = Timestep { reward: 0.0, end: End::No, success: None, facts: Vec::new() };
        Episode {
            row: 0,
            number: 0,
            batch_step: 2,
            success: false,
            task: None,
            cameras,
            states: vec![vec![0.5; 4]; 3],
            actions: vec![vec![0.5; 2]; 2],
            timesteps: vec![timestep; 3],
        }
    }

    /// Every array of images in a value.
    fn images(value: &PyValue) -> Vec<Array> {
        match value {
            PyValue::Dict(dict) => dict.iter().flat_map(|(_, value)| images(value)).collect(),
            PyValue::List(items) => items.iter().flat_map(images).collect(),
            value => {
                value.as_array().filter(|array| array.dtype() == DType::U8).cloned().into_iter().collect()
            }
        }
    }

    #[test]
    fn what_is_written_of_an_episode_copies_no_image() {
        let shape = FrameShape::rgb(4, 5);
        let episode = episode(vec![track("main", shape, 3), track("side", shape, 3)]);
        // A copy of the episode for another format shares its images too.
        let values = [as_pickle(&episode.clone(), 0).unwrap(), as_frames(&episode, 0, 0.0).unwrap()];
        for value in values {
            let found = images(&value);
            assert!(found.len() >= 4);
            for image in found {
                let is_in =
                    |track: &CameraTrack| track.pixels.as_ptr_range().contains(&image.bytes().as_ptr());
                assert!(episode.cameras.iter().any(is_in), "an image was copied");
            }
        }
    }

    #[test]
    fn further_cameras_are_of_one_size() {
        let named = |sides: &[usize]| -> Vec<(Arc<str>, FrameShape)> {
            let camera =
                |(at, side): (usize, &usize)| (format!("camera_{at}").into(), FrameShape::rgb(*side, *side));
            sides.iter().enumerate().map(camera).collect()
        };
        assert!(cameras_without_room(&named(&[])).is_empty());
        assert!(cameras_without_room(&named(&[8, 4, 4])).is_empty());
        assert_eq!(cameras_without_room(&named(&[8, 4, 8, 4, 2])), ["camera_2".into(), "camera_4".into()]);
        let tracks = [4, 8, 4].map(|side| track("side", FrameShape::rgb(side, side), 2));
        let stacked = extra_views(&tracks, 1..2, &[1]).unwrap().unwrap();
        let stacked = stacked.as_array().unwrap();
        assert_eq!(stacked.shape(), [1, 2, 4, 4, 3]);
        assert_eq!(stacked.bytes(), [tracks[0].image(1), tracks[2].image(1)].concat());
    }

    /// And no file is left.
    #[test]
    fn values_that_do_not_fill_their_array_are_refused_by_key() {
        let folder = tempfile::tempdir().unwrap();
        let mut replay = Writer::open(folder.path()).unwrap();
        let ragged = Episode { actions: vec![vec![0.5; 2], vec![0.5; 3]], ..episode(Vec::new()) };
        let error = replay.append(&ragged).unwrap_err().to_string();
        assert_eq!(
            error,
            "`actions` cannot be written: an array of float32 with shape [2, 1, 2] needs 16, not 20 bytes"
        );
        let ragged = Episode { states: vec![vec![0.5], vec![0.5; 2], vec![0.5]], ..episode(Vec::new()) };
        let error = replay.append(&ragged).unwrap_err().to_string();
        assert!(error.starts_with("`curr_obs.states` cannot be written: "), "{error}");
        assert!(as_pickle(&ragged, 0).is_ok(), "a pickle has an array for each state");
        let shape = FrameShape::rgb(4, 4);
        let mut short = episode(vec![track("main", shape, 3), track("side", shape, 3)]);
        short.cameras[1].pixels = vec![7; 10].into();
        let error = as_pickle(&short, 0).unwrap_err().to_string();
        assert!(error.starts_with("`observations[0].extra_view_images` cannot be written: "), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no half of a trajectory");
    }
}
