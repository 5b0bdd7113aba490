//! One episode as a trajectory.

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::{Array, DType, PyValue};
use thiserror::Error;

use crate::episode::Episode;
use crate::episode::as_python::{EXTRA_VIEWS, UnwritableEpisode, extra_views, tensor_under};

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
pub(super) fn as_trajectory(episode: &Episode) -> Result<PyValue, UnwritableEpisode> {
    let steps = episode.len();
    let width = episode.actions.first().map_or(0, Vec::len);
    let actions = floats("actions", &[steps, 1, width], &episode.actions.concat())?;
    let after = &episode.timesteps[1..];
    let rewards: Vec<f32> = after.iter().map(|timestep| timestep.reward).collect();
    let bools =
        |key, shape: &[usize], bytes: Vec<u8>| tensor_under(key, Array::new(DType::Bool, shape, bytes));
    let flags = |key, is: &dyn Fn(End) -> bool| {
        bools(key, &[steps, 1, 1], after.iter().map(|timestep| u8::from(is(timestep.end))).collect())
    };
    let observations = |key, from| observations(episode, from).map_err(|error| error.within(key));
    Ok(PyValue::dict([
        ("max_episode_length", PyValue::Int(steps as i64)),
        ("model_weights_id", PyValue::from(NO_VERSIONS)),
        ("actions", actions.clone()),
        ("intervene_flags", bools("intervene_flags", &[steps, 1, width], vec![1; steps * width])?),
        ("rewards", floats("rewards", &[steps, 1, 1], &rewards)?),
        ("terminations", flags("terminations", &|end| end == End::Terminated)?),
        ("truncations", flags("truncations", &|end| end == End::Truncated)?),
        ("dones", flags("dones", &End::is_end)?),
        ("forward_inputs", PyValue::dict([("action", actions)])),
        ("curr_obs", observations("curr_obs", 0)?),
        ("next_obs", observations("next_obs", 1)?),
    ]))
}

/// What was seen before (`from` 0) or after (`from` 1) each step.
fn observations(episode: &Episode, from: usize) -> Result<PyValue, UnwritableEpisode> {
    let steps = episode.len();
    let width = episode.states.first().map_or(0, Vec::len);
    let states = episode.states[from..from + steps].concat();
    let mut entries = vec![("states", floats("states", &[steps, 1, width], &states)?)];
    if let Some((main, others)) = episode.cameras.split_first() {
        let FrameShape { height, width, channels } = main.shape;
        let images =
            Array::new(DType::U8, &[steps, 1, height, width, channels], main.shared(from..from + steps));
        entries.push(("main_images", tensor_under("main_images", images)?));
        let views = extra_views(others, from..from + steps, &[steps, 1])?;
        entries.extend(views.map(|views| (EXTRA_VIEWS, views)));
    }
    Ok(PyValue::dict(entries))
}

fn floats(key: &str, shape: &[usize], values: &[f32]) -> Result<PyValue, UnwritableEpisode> {
    tensor_under(key, Array::from_slice(shape, values))
}
