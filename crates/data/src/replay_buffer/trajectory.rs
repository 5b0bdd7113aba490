//! One trajectory as the episodes in it, and one episode as a trajectory.

use std::sync::Arc;

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::{Array, DType, PyValue};
use thiserror::Error;

use crate::episode::as_python::{EXTRA_VIEWS, UnwritableEpisode, shape_of_extra_views, tensor_under};
use crate::episode::{CameraTrack, Episode, Timestep};

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

/// The episodes in a trajectory, row by row. They are cut where an episode ends, and wherever an observation does not
/// follow from the one before it. The format keeps no success; a termination with a positive reward counts as one.
///
/// # Errors
/// When a field is missing or does not fit the others.
pub fn episodes_of(trajectory: &PyValue) -> Result<Vec<Episode>, Problem> {
    let fields = Fields::of(trajectory)?;
    let mut episodes = Vec::new();
    for row in 0..fields.rows {
        let mut first = 0;
        for t in 0..fields.steps {
            let end = fields.end(t, row);
            if end.is_end() || t + 1 == fields.steps || !fields.follows(t, row) {
                episodes.push(fields.episode(row, first..t + 1, episodes.len() as u64));
                first = t + 1;
            }
        }
    }
    Ok(episodes)
}

/// A trajectory's fields, with their leading axes checked.
struct Fields {
    steps: usize,
    rows: usize,
    actions: Table,
    rewards: Table,
    terminations: Table,
    truncations: Table,
    states: [Option<Table>; 2],
    cameras: Vec<Camera>,
}

/// Numbers `[T, B, width]`.
struct Table {
    values: Vec<f32>,
    width: usize,
}

/// One camera before and after each step: `[T, B, views, H, W, C]`, of which this is view `view`.
struct Camera {
    name: Arc<str>,
    shape: FrameShape,
    views: usize,
    view: usize,
    images: [Array; 2],
}

impl Fields {
    fn of(trajectory: &PyValue) -> Result<Self, Problem> {
        let rewards = array(trajectory, "rewards")?;
        let &[steps, rows, ..] = rewards.shape() else {
            return Err(shape("rewards", "steps by environments", rewards));
        };
        let table = |key: &str, array: &Array| table(key, array, steps, rows);
        let ends = |key: &str| -> Result<Table, Problem> {
            match trajectory.get(key) {
                None | Some(PyValue::None) => Ok(Table { values: vec![0.0; steps * rows], width: 1 }),
                Some(_) => table(key, &without_bootstrap(key, array(trajectory, key)?, steps)?),
            }
        };
        let [before, after] = ["curr_obs", "next_obs"].map(|key| trajectory.get(key));
        let (before, after) =
            (before.ok_or_else(|| missing("curr_obs"))?, after.ok_or_else(|| missing("next_obs"))?);
        let state =
            |obs: &PyValue| obs.get("states").and_then(PyValue::as_array).map(|array| table("states", array));
        Ok(Self {
            steps,
            rows,
            actions: table("actions", array(trajectory, "actions")?)?,
            rewards: table("rewards", rewards)?,
            terminations: ends("terminations")?,
            truncations: ends("truncations")?,
            states: [state(before).transpose()?, state(after).transpose()?],
            cameras: cameras(before, after, steps, rows)?,
        })
    }

    fn end(&self, t: usize, row: usize) -> End {
        let any = |table: &Table| table.at(self.rows, t, row).iter().any(|flag| *flag != 0.0);
        match (any(&self.terminations), any(&self.truncations)) {
            (true, _) => End::Terminated,
            (false, true) => End::Truncated,
            (false, false) => End::No,
        }
    }

    fn reward(&self, t: usize, row: usize) -> f32 {
        self.rewards.at(self.rows, t, row).iter().sum()
    }

    fn state(&self, side: usize, t: usize, row: usize) -> Vec<f32> {
        self.states[side].as_ref().map_or(Vec::new(), |states| states.at(self.rows, t, row).to_vec())
    }

    /// Whether step `t + 1` began with what step `t` led to.
    fn follows(&self, t: usize, row: usize) -> bool {
        let same_image =
            |camera: &Camera| camera.image(1, self.rows, t, row) == camera.image(0, self.rows, t + 1, row);
        self.state(1, t, row) == self.state(0, t + 1, row) && self.cameras.iter().all(same_image)
    }

    fn episode(&self, row: usize, steps: std::ops::Range<usize>, number: u64) -> Episode {
        let last = steps.end - 1;
        let tracks = self.cameras.iter().map(|camera| {
            let mut pixels = Vec::with_capacity((steps.len() + 1) * camera.shape.bytes());
            steps.clone().for_each(|t| pixels.extend_from_slice(camera.image(0, self.rows, t, row)));
            pixels.extend_from_slice(camera.image(1, self.rows, last, row));
            CameraTrack { name: camera.name.clone(), shape: camera.shape, pixels }
        });
        let mut timesteps = vec![Timestep { reward: 0.0, end: End::No, success: None, facts: Vec::new() }];
        for t in steps.clone() {
            let (reward, end) = (self.reward(t, row), self.end(t, row));
            let success = Some(end == End::Terminated && reward > 0.0);
            timesteps.push(Timestep { reward, end, success, facts: Vec::new() });
        }
        let mut states: Vec<Vec<f32>> = steps.clone().map(|t| self.state(0, t, row)).collect();
        states.push(self.state(1, last, row));
        Episode {
            row,
            number,
            batch_step: steps.end as u64,
            success: timesteps.iter().any(|timestep| timestep.success == Some(true)),
            task: None,
            cameras: tracks.collect(),
            states,
            actions: steps.map(|t| self.actions.at(self.rows, t, row).to_vec()).collect(),
            timesteps,
        }
    }
}

impl Table {
    fn at(&self, rows: usize, t: usize, row: usize) -> &[f32] {
        let at = (t * rows + row) * self.width;
        &self.values[at..at + self.width]
    }
}

impl Camera {
    fn image(&self, side: usize, rows: usize, t: usize, row: usize) -> &[u8] {
        let bytes = self.shape.bytes();
        let at = ((t * rows + row) * self.views + self.view) * bytes;
        &self.images[side].bytes()[at..at + bytes]
    }
}

fn array<'a>(of: &'a PyValue, key: &str) -> Result<&'a Array, Problem> {
    of.get(key).and_then(PyValue::as_array).ok_or_else(|| missing(key))
}

fn missing(key: &str) -> Problem {
    Problem::Missing { key: key.into() }
}

fn shape(key: &str, expected: impl Into<String>, found: &Array) -> Problem {
    let found = format!("{} {:?}", found.dtype(), found.shape());
    Problem::Shape { key: key.into(), expected: expected.into(), found }
}

fn table(key: &str, array: &Array, steps: usize, rows: usize) -> Result<Table, Problem> {
    let wrong = || shape(key, format!("numbers [{steps}, {rows}, …]"), array);
    if array.shape().len() < 2 || array.shape()[..2] != [steps, rows] {
        return Err(wrong());
    }
    let values = array.to_f32().ok_or_else(wrong)?;
    Ok(Table { width: values.len() / (steps * rows).max(1), values })
}

/// Ends have one row more per rollout, the first, from before anything was done.
fn without_bootstrap(key: &str, array: &Array, steps: usize) -> Result<Array, Problem> {
    let found = array.shape().first().copied().unwrap_or(0);
    let rollouts = found.saturating_sub(steps);
    if rollouts == 0 {
        return Ok(array.clone());
    }
    if !steps.is_multiple_of(rollouts) {
        return Err(shape(key, format!("{steps} steps, or one more for each of some equal rollouts"), array));
    }
    let each = steps / rollouts + 1;
    let kept = (0..found).filter(|at| at % each != 0).filter_map(|at| array.row(at));
    let bytes: Vec<u8> = kept.flat_map(|row| row.bytes().to_vec()).collect();
    let mut sides = array.shape().to_vec();
    sides[0] = steps;
    Array::new(array.dtype(), &sides, bytes).map_err(|_| shape(key, format!("{steps} steps"), array))
}

/// The cameras that both sides of the steps show, the main view first.
fn cameras(before: &PyValue, after: &PyValue, steps: usize, rows: usize) -> Result<Vec<Camera>, Problem> {
    let mut found = Vec::new();
    for key in ["main_images", "wrist_images", "extra_view_images"] {
        let [Some(first), Some(second)] = [before, after].map(|obs| obs.get(key).and_then(PyValue::as_array))
        else {
            continue;
        };
        let wrong = |array: &Array| shape(key, format!("bytes [{steps}, {rows}, height, width, 3]"), array);
        let (views, frame) = match *first.shape() {
            [t, b, height, width, channels] if (t, b) == (steps, rows) => {
                (1, FrameShape { height, width, channels })
            }
            [t, b, views, height, width, channels] if (t, b) == (steps, rows) => {
                (views, FrameShape { height, width, channels })
            }
            _ => return Err(wrong(first)),
        };
        if first.dtype() != DType::U8 || second.dtype() != DType::U8 || first.shape() != second.shape() {
            return Err(wrong(second));
        }
        for view in 0..views {
            let name = if views == 1 { key.into() } else { format!("{key}[{view}]").into() };
            found.push(Camera { name, shape: frame, views, view, images: [first.clone(), second.clone()] });
        }
    }
    Ok(found)
}

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
    let images =
        |key, shape: &[usize], pixels: Vec<u8>| tensor_under(key, Array::new(DType::U8, shape, pixels));
    if let Some((main, others)) = episode.cameras.split_first() {
        let FrameShape { height, width, channels } = main.shape;
        let bytes = main.shape.bytes();
        let pixels = main.pixels[from * bytes..(from + steps) * bytes].to_vec();
        entries.push(("main_images", images("main_images", &[steps, 1, height, width, channels], pixels)?));
        if let Some(FrameShape { height, width, channels }) = shape_of_extra_views(others)? {
            let shape = [steps, 1, others.len(), height, width, channels];
            let at_step = |at: usize| others.iter().flat_map(move |track| track.image(at));
            let pixels = (from..from + steps).flat_map(at_step).copied().collect();
            entries.push((EXTRA_VIEWS, images(EXTRA_VIEWS, &shape, pixels)?));
        }
    }
    Ok(PyValue::dict(entries))
}

fn floats(key: &str, shape: &[usize], values: &[f32]) -> Result<PyValue, UnwritableEpisode> {
    tensor_under(key, Array::from_slice(shape, values))
}
