//! RLinf's replay buffers: tensors `[T, B, …]` in a file per trajectory, cut into the episodes of each environment.
//!
//! The format has rewards and ends, and never says what succeeded: success is unknown unless a rule says which reward means
//! it.

use std::ops::Range;
use std::path::PathBuf;

use plaudit_core::{End, FrameShape};
use plaudit_pyfiles::{Array, DType, PyValue};

use super::formats::Format;
use super::item::Item;
use super::observation::Columns;
use super::{AfterLast, FileProblem, Recording, Rules, keys};
use crate::replay_buffer::{Problem, files, is_at, is_trajectory};

pub(super) const FORMAT: Format = Format {
    name: "replay-buffer",
    describe: "a replay buffer",
    is_at: |probe| Ok(probe.is_file(&["pt", "pkl"]) && is_trajectory(probe.path) || is_at(probe.path)),
    items: |path| {
        let files: Vec<PathBuf> = if path.is_file() { vec![path.into()] } else { files(path)? };
        Ok(files.into_iter().map(|file| Item::file(file, read)).collect::<Vec<_>>().into())
    },
    ..Format::EPISODES
};

/// The episodes in a trajectory, row by row. They are cut where an episode ends, and wherever an observation does not follow
/// from the one before it.
fn read(trajectory: &PyValue, rules: &Rules) -> Result<Vec<Recording>, FileProblem> {
    let fields = Fields::of(trajectory)?;
    let mut episodes = Vec::new();
    for row in 0..fields.rows {
        let mut first = 0;
        for t in 0..fields.steps {
            let end = fields.end(t, row);
            if end.is_end() || t + 1 == fields.steps || !fields.follows(t, row) {
                let mut episode = fields.episode(row, first..t + 1, rules);
                episode.name = format!("episode {}", episodes.len());
                episode.position[1] = Some(episodes.len() as u64);
                episodes.push(episode);
                first = t + 1;
            }
        }
    }
    Ok(episodes)
}

/// Steps of all environments in a trajectory whose fields fit together.
pub(crate) fn samples_of(trajectory: &PyValue) -> Result<usize, Problem> {
    Fields::of(trajectory).map(|fields| fields.steps * fields.rows)
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
    name: String,
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
        keys::end(any(&self.terminations), any(&self.truncations))
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

    /// One episode; its images are views of the file.
    fn episode(&self, row: usize, steps: Range<usize>, rules: &Rules) -> Recording {
        let last = steps.end - 1;
        let camera = |camera: &Camera| {
            let before = steps.clone().map(|t| camera.view(0, self.rows, t, row));
            let images = before.chain([camera.view(1, self.rows, last, row)]);
            (camera.name.clone(), images.map_while(|image| image).collect())
        };
        let success = |t: usize| {
            let (reward, end) = (self.reward(t, row), self.end(t, row));
            rules.terminal_reward_is_success.then_some(end == End::Terminated && reward > 0.0)
        };
        let labels: Vec<Option<bool>> = steps.clone().map(success).collect();
        let mut states: Vec<Vec<f32>> = steps.clone().map(|t| self.state(0, t, row)).collect();
        states.push(self.state(1, last, row));
        let cameras = self.cameras.iter().map(camera).collect();
        let mut observations = Columns { cameras, states, ..Columns::default() }.rows(steps.len() + 1);
        let after_last = observations.pop().map_or(AfterLast::Unknown, AfterLast::Seen);
        Recording {
            observations,
            after_last,
            rewards: steps.clone().map(|t| f64::from(self.reward(t, row))).collect(),
            ends: steps.clone().map(|t| self.end(t, row)).collect(),
            actions: steps.clone().map(|t| self.actions.at(self.rows, t, row).to_vec()).collect(),
            success: labels.iter().flatten().copied().reduce(|a, b| a | b),
            labels,
            position: [Some(row as u64), None, Some(steps.end as u64)],
            ..Recording::default()
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
    fn range(&self, rows: usize, t: usize, row: usize) -> Range<usize> {
        let bytes = self.shape.bytes();
        let at = ((t * rows + row) * self.views + self.view) * bytes;
        at..at + bytes
    }

    fn image(&self, side: usize, rows: usize, t: usize, row: usize) -> &[u8] {
        &self.images[side].bytes()[self.range(rows, t, row)]
    }

    /// The same as a view of the file.
    fn view(&self, side: usize, rows: usize, t: usize, row: usize) -> Option<Array> {
        let FrameShape { height, width, channels } = self.shape;
        let bytes = self.images[side].buffer().slice(self.range(rows, t, row))?;
        Array::new(DType::U8, &[height, width, channels], bytes).ok()
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
            let name = if views == 1 { key.into() } else { format!("{key}[{view}]") };
            found.push(Camera { name, shape: frame, views, view, images: [first.clone(), second.clone()] });
        }
    }
    Ok(found)
}
