//! Episodes as the Python objects that RLinf's collectors write, generation by generation.

use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::{Array, DType, ObjectArray, PyDict, PyValue};

use super::{CameraTrack, Episode, Timestep};

/// One pickle per episode: lists of N + 1 observations, rewards, flags and infos, and N actions. Tensors where
/// RLinf has tensors.
pub fn as_pickle(episode: &Episode, rank: u64) -> PyValue {
    dict([
        ("rank", int(rank)),
        ("env_idx", int(episode.row as u64)),
        ("episode_id", int(episode.number)),
        ("step", int(episode.batch_step)),
        ("success", PyValue::Bool(episode.success)),
        ("observations", list((0..=episode.len()).map(|at| observation(episode, at)))),
        ("actions", list(episode.actions.iter().map(|action| numpy(action)))),
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
    ])
}

/// The name RLinf gives that file.
pub fn pickle_name(episode: &Episode, rank: u64) -> String {
    let outcome = if episode.success { "success" } else { "fail" };
    let Episode { row, number, batch_step, .. } = episode;
    format!("rank_{rank}_env_{row}_episode_{number}_step_{batch_step}_{outcome}.pkl")
}

/// One pickle of frames per episode, without the reset's, as an earlier collector wrote them.
pub fn as_frames(episode: &Episode, counter: u64, unix_secs: f64) -> PyValue {
    let frame = |at: usize| {
        let timestep = &episode.timesteps[at];
        let terminated = timestep.end == End::Terminated;
        let truncated = timestep.end == End::Truncated;
        dict([
            ("obs", observation(episode, at)),
            ("action", numpy(&episode.actions[at - 1])),
            ("reward", PyValue::Float(f64::from(timestep.reward))),
            ("terminated", PyValue::Bool(terminated)),
            ("truncated", PyValue::Bool(truncated)),
            ("done", PyValue::Bool(timestep.end.is_end())),
            ("grasp", PyValue::Bool(fact(timestep, "is_grasped"))),
            ("success", PyValue::Bool(timestep.success == Some(true))),
        ])
    };
    let grasped = episode.timesteps.iter().any(|timestep| fact(timestep, "is_grasped"));
    let metadata = dict([
        ("episode_id", int(counter)),
        ("timestamp", PyValue::Float(unix_secs)),
        ("max_frames", int(episode.len() as u64)),
    ]);
    dict([
        ("frames", list((1..=episode.len()).map(frame))),
        ("num_frames", int(episode.len() as u64)),
        ("grasp", PyValue::Bool(grasped)),
        ("success", PyValue::Bool(episode.success)),
        ("done", PyValue::Bool(true)),
        ("label", int(u64::from(episode.success))),
        ("metadata", metadata),
    ])
}

/// One `.npy` dictionary per episode: images by camera as f32 in 0..1, `[T, C, H, W]`, and a label per frame.
pub fn as_npy(episode: &Episode, cameras: &[String]) -> PyValue {
    let wanted =
        |track: &&CameraTrack| cameras.is_empty() || cameras.iter().any(|name| **name == *track.name);
    let images = episode
        .cameras
        .iter()
        .filter(wanted)
        .map(|track| (&*track.name, channels_first(track, episode.len())));
    let labels: Vec<f32> = episode.timesteps[1..]
        .iter()
        .map(|timestep| f32::from(u8::from(timestep.success == Some(true))))
        .collect();
    let content = dict([("images", dict(images)), ("labels", numpy(&labels))]);
    PyValue::ObjectArray(Arc::new(ObjectArray::around(content)))
}

/// The images after the reset's, as numbers in 0..1 with channels first.
fn channels_first(track: &CameraTrack, frames: usize) -> PyValue {
    let (height, width, channels) = (track.shape.height, track.shape.width, track.shape.channels);
    let mut values = Vec::with_capacity(frames * track.shape.bytes());
    for at in 1..=frames {
        let image = track.image(at);
        for channel in 0..channels {
            values.extend(image[channel..].iter().step_by(channels).map(|&byte| f32::from(byte) / 255.0));
        }
    }
    array(Array::from_slice(&[frames, channels, height, width], &values))
}

/// `main_images`, `extra_view_images` and `states`, as RLinf's simple wrapper arranges them.
fn observation(episode: &Episode, at: usize) -> PyValue {
    let mut entries = Vec::new();
    if let Some((main, extra)) = episode.cameras.split_first() {
        entries.push(("main_images", image(main, at)));
        let views = extra_views(extra, at, 1).and_then(|views| views.row(0));
        entries.push(("extra_view_images", views.map_or(PyValue::None, tensor)));
    }
    entries.push(("states", floats(&episode.states[at])));
    if let Some(task) = &episode.task {
        entries.push(("task_descriptions", PyValue::Str(task.clone())));
    }
    dict(entries)
}

/// One image, as a view of the episode's own bytes.
fn image(track: &CameraTrack, at: usize) -> PyValue {
    let shape = [track.shape.height, track.shape.width, track.shape.channels];
    track.shared(at, 1).map_or(PyValue::None, |bytes| made(Array::new(DType::U8, &shape, bytes)))
}

/// The cameras that RLinf's layout has no room for: behind the main one, all are of one size in one tensor.
pub fn cameras_without_room(cameras: &[(Arc<str>, FrameShape)]) -> Vec<Arc<str>> {
    let extra = cameras.get(1..).unwrap_or_default();
    let other = extra.iter().filter(|(_, shape)| *shape != extra[0].1);
    other.map(|(name, _)| name.clone()).collect()
}

/// Every camera but the first that there is room for, in one tensor of entries, views, height, width and channels. A single
/// camera is a view of the episode's own bytes; several are stacked.
pub(crate) fn extra_views(tracks: &[CameraTrack], first: usize, entries: usize) -> Option<Array> {
    let shape = tracks.first()?.shape;
    let same: Vec<_> = tracks.iter().filter(|track| track.shape == shape).collect();
    let sides = [entries, same.len(), shape.height, shape.width, shape.channels];
    match same[..] {
        [only] => Array::new(DType::U8, &sides, only.shared(first, entries)?).ok(),
        _ => {
            let mut pixels = Vec::with_capacity(entries * same.len() * shape.bytes());
            for at in first..first + entries {
                same.iter().for_each(|track| pixels.extend_from_slice(track.image(at)));
            }
            Array::new(DType::U8, &sides, pixels).ok()
        }
    }
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

fn floats(values: &[f32]) -> PyValue {
    made(Array::from_slice(&[values.len()], values))
}

fn numpy(values: &[f32]) -> PyValue {
    array(Array::from_slice(&[values.len()], values))
}

/// Shapes are computed from the data beside them, so they always fit; `None` would say otherwise in the file.
fn made<E>(array: Result<Array, E>) -> PyValue {
    array.map_or(PyValue::None, tensor)
}

fn array<E>(array: Result<Array, E>) -> PyValue {
    array.map_or(PyValue::None, |array| PyValue::Array(Arc::new(array)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            states: vec![vec![0.0]; 3],
            actions: vec![vec![0.0]; 2],
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
        let values = [as_pickle(&episode.clone(), 0), as_frames(&episode, 0, 0.0)];
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
        let stacked = extra_views(&tracks, 1, 1).unwrap();
        assert_eq!(stacked.shape(), [1, 2, 4, 4, 3]);
        assert_eq!(stacked.bytes(), [tracks[0].image(1), tracks[2].image(1)].concat());
    }
}
