//! One episode as a trajectory.

use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::{Array, DType, PyValue};
use thiserror::Error;

use crate::episode::Episode;
use crate::episode::as_python::extra_views;

/// What is wrong with a trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A field that must be there.
    #[error("`{key}` is missing; is it a trajectory of RLinf's replay buffer?")]
    Missing {
        /// The field.
        key: String,
    },
    /// A field of another kind or shape.
    #[error("`{key}` is {found} where {expected} is expected")]
    Shape {
        /// The field.
        key: String,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
}

/// The weights id that RLinf gives to trajectories without weight versions: a name-based UUID of a zero.
pub(super) const NO_VERSIONS: &str = "e58eb380-d5b9-5265-a382-0fc33930cf3e";

/// An episode as a trajectory of one environment, every step marked as done by a demonstrator.
pub(super) fn as_trajectory(episode: &Episode) -> PyValue {
    let steps = episode.len();
    let width = episode.actions.first().map_or(0, Vec::len);
    let actions = floats(&[steps, 1, width], &episode.actions.concat());
    let after = &episode.timesteps[1..];
    let rewards: Vec<f32> = after.iter().map(|timestep| timestep.reward).collect();
    let flags = |is: &dyn Fn(End) -> bool| {
        let bytes: Vec<u8> = after.iter().map(|timestep| u8::from(is(timestep.end))).collect();
        tensor(Array::new(DType::Bool, &[steps, 1, 1], bytes))
    };
    PyValue::dict([
        ("max_episode_length", PyValue::Int(steps as i64)),
        ("model_weights_id", PyValue::from(NO_VERSIONS)),
        ("actions", actions.clone()),
        ("intervene_flags", tensor(Array::new(DType::Bool, &[steps, 1, width], vec![1; steps * width]))),
        ("rewards", floats(&[steps, 1, 1], &rewards)),
        ("terminations", flags(&|end| end == End::Terminated)),
        ("truncations", flags(&|end| end == End::Truncated)),
        ("dones", flags(&End::is_end)),
        ("forward_inputs", PyValue::dict([("action", actions)])),
        ("curr_obs", observations(episode, 0)),
        ("next_obs", observations(episode, 1)),
    ])
}

/// What was seen before (`from` 0) or after (`from` 1) each step.
fn observations(episode: &Episode, from: usize) -> PyValue {
    let steps = episode.len();
    let width = episode.states.first().map_or(0, Vec::len);
    let mut entries =
        vec![("states", floats(&[steps, 1, width], &episode.states[from..from + steps].concat()))];
    if let Some((main, others)) = episode.cameras.split_first() {
        let FrameShape { height, width, channels } = main.shape;
        let shape = [steps, 1, height, width, channels];
        let images = main.shared(from, steps).and_then(|bytes| Array::new(DType::U8, &shape, bytes).ok());
        entries.extend(images.map(|images| ("main_images", PyValue::Tensor(Arc::new(images)))));
        let views = extra_views(others, from, steps).and_then(|views| {
            let sides = views.shape().to_vec();
            views.reshaped(&[&[steps, 1], &sides[1..]].concat()).ok()
        });
        entries.extend(views.map(|views| ("extra_view_images", PyValue::Tensor(Arc::new(views)))));
    }
    PyValue::dict(entries)
}

fn floats(shape: &[usize], values: &[f32]) -> PyValue {
    tensor(Array::from_slice(shape, values))
}

/// Shapes are computed from the data beside them, so they always fit; `None` would say otherwise in the file.
fn tensor<E>(array: Result<Array, E>) -> PyValue {
    array.map_or(PyValue::None, |array| PyValue::Tensor(Arc::new(array)))
}
