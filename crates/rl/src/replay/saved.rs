//! A replay on disk: one `.pt` file, written as it is and read back the same.
//!
//! Observations of a rollout lie one after the other: those before each step, the one after the last step if it is kept, the last
//! ones of episodes, and the context.

use std::path::Path;
use std::sync::Arc;

use bytemuck::cast_slice;
use plaudit_core::{End, FrameShape, Frames, Obs};
use plaudit_pyfiles::{self as pyfiles, DType, PtWriter, PyValue, ReadError, StorageWriter, WriteError};
use thiserror::Error;

use super::Replay;
use super::rollout::{Starts, StoredObs, StoredRollout};

const FORMAT: i64 = 1;

/// Why a replay could not be written or read back.
#[derive(Debug, Error)]
pub enum SavedError {
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file that is no replay, or a damaged one.
    #[error(
        "it is no replay of plaudit: `{0}` is missing or not what it should be; resume from another checkpoint"
    )]
    Damaged(&'static str),
}

impl Replay {
    /// Writes everything that is kept.
    pub fn save(&self, path: &Path) -> Result<(), SavedError> {
        let mut writer = PtWriter::create(path)?;
        let mut floats = writer.storage(DType::F32)?;
        let numbers: Vec<_> =
            self.rollouts.iter().map(|stored| numbers(stored, &mut floats)).collect::<Result<_, _>>()?;
        let mut bytes = writer.storage(DType::U8)?;
        let frames: Vec<_> =
            self.rollouts.iter().map(|stored| frames(stored, &mut bytes)).collect::<Result<_, _>>()?;
        writer.finish(&PyValue::dict([
            ("format", PyValue::Int(FORMAT)),
            ("added", PyValue::Int(self.added as i64)),
            ("numbers", PyValue::list(numbers)),
            ("frames", PyValue::list(frames)),
        ]))?;
        Ok(())
    }

    /// Becomes what was saved; a file that cannot be read changes nothing.
    pub fn restore(&mut self, path: &Path) -> Result<(), SavedError> {
        let value = pyfiles::read(path)?;
        let saved = SavedDict(&value);
        if saved.int("format")? != FORMAT {
            return Err(SavedError::Damaged("format"));
        }
        let (numbers, frames) = (saved.items("numbers")?, saved.items("frames")?);
        if numbers.len() != frames.len() {
            return Err(SavedError::Damaged("frames"));
        }
        let pairs = numbers.iter().zip(frames);
        let rollouts = pairs
            .map(|(numbers, frames)| stored(SavedDict(numbers), SavedDict(frames)))
            .collect::<Result<_, _>>()?;
        self.added = saved.int("added")? as u64;
        self.rollouts = rollouts;
        self.frame_bytes = self.rollouts.iter().map(|stored| self.frames_for_reward(stored)).sum();
        Ok(())
    }
}

/// Every observation of a rollout, in the order of the file.
fn observations(stored: &StoredRollout) -> impl Iterator<Item = (&Obs, &[f32])> {
    let stored_obs = stored
        .stored_obs
        .iter()
        .chain(&stored.after)
        .chain(stored.last.iter().map(|(_, _, stored_obs)| stored_obs));
    let context = stored.context.iter().map(|obs| (&**obs, &[][..]));
    stored_obs.map(|stored_obs| (&*stored_obs.obs, &stored_obs.features[..])).chain(context)
}

fn numbers(stored: &StoredRollout, to: &mut StorageWriter<'_>) -> Result<PyValue, WriteError> {
    let mut column = |values: &[f32]| to.push(&[values.len()], cast_slice(values));
    let mut states = Vec::new();
    for (obs, features) in observations(stored) {
        let tasks = PyValue::list(obs.tasks.iter().map(|task| PyValue::from(&**task)));
        states.push(PyValue::list([
            PyValue::Int(obs.batch() as i64),
            column(&obs.state)?,
            column(features)?,
            tasks,
        ]));
    }
    let starts = match &stored.starts {
        Starts::All(_) => PyValue::None,
        Starts::Some(places) => ints(places.iter().map(|place| i64::from(*place))),
    };
    let last = stored.last.iter().flat_map(|(t, row, _)| [*t as i64, *row as i64]);
    Ok(PyValue::dict([
        ("first", PyValue::Int(stored.first as i64)),
        ("steps", PyValue::Int(stored.steps() as i64)),
        ("is_followed", PyValue::Bool(stored.after.is_none())),
        ("version", PyValue::Int(stored.version as i64)),
        ("can_relabel", PyValue::Bool(stored.can_relabel)),
        ("starts", starts),
        ("elapsed", ints(stored.elapsed.iter().map(|steps| *steps as i64))),
        ("last", ints(last)),
        ("context", PyValue::Int(stored.context.len() as i64)),
        (
            "actions",
            PyValue::list(stored.actions.iter().map(|row| column(row)).collect::<Result<Vec<_>, _>>()?),
        ),
        ("env_reward", column(&stored.env_reward)?),
        ("reward", column(&stored.reward)?),
        ("states", PyValue::list(states)),
    ]))
}

fn frames(stored: &StoredRollout, to: &mut StorageWriter<'_>) -> Result<PyValue, WriteError> {
    let mut cameras = Vec::new();
    for (obs, _) in observations(stored) {
        let mut of_one = Vec::new();
        for (name, frames) in &obs.cameras {
            let FrameShape { height, width, channels } = frames.shape;
            let shape = [frames.count(), height, width, channels];
            of_one.push(PyValue::list([PyValue::from(&**name), to.push(&shape, &frames.pixels)?]));
        }
        cameras.push(PyValue::list(of_one));
    }
    let ends: Vec<u8> = stored.end.iter().map(|end| *end as u8).collect();
    let success: Vec<u8> = stored.success.iter().map(|success| u8::from(*success)).collect();
    Ok(PyValue::dict([
        ("end", to.push(&[ends.len()], &ends)?),
        ("success", to.push(&[success.len()], &success)?),
        ("cameras", PyValue::list(cameras)),
    ]))
}

fn ints(values: impl Iterator<Item = i64>) -> PyValue {
    PyValue::list(values.map(PyValue::Int))
}

fn stored(numbers: SavedDict<'_>, frames: SavedDict<'_>) -> Result<StoredRollout, SavedError> {
    let steps = numbers.size("steps")?;
    let elapsed: Vec<usize> = numbers.sizes("elapsed")?;
    let mut all = all_observations(numbers, frames)?.into_iter();
    let mut take = |count: usize| -> Result<Vec<StoredObs>, SavedError> {
        let taken: Vec<StoredObs> = all.by_ref().take(count).collect();
        if taken.len() == count { Ok(taken) } else { Err(SavedError::Damaged("states")) }
    };
    let stored_obs = take(steps)?;
    let after = if numbers.boolean("is_followed")? { None } else { take(1)?.pop() };
    let places = numbers.sizes("last")?;
    let last = take(places.len() / 2)?.into_iter().zip(places.chunks_exact(2));
    let last = last.map(|(stored_obs, place)| (place[0], place[1], stored_obs)).collect();
    let context = take(numbers.size("context")?)?.into_iter().map(|stored_obs| stored_obs.obs).collect();
    let end = frames.bytes("end")?.iter().map(|code| match code {
        0 => Ok(End::No),
        1 => Ok(End::Terminated),
        2 => Ok(End::Truncated),
        _ => Err(SavedError::Damaged("end")),
    });
    let end: Vec<End> = end.collect::<Result<_, _>>()?;
    let starts = match numbers.get("starts")? {
        PyValue::None => Starts::All(end.len()),
        _ => Starts::Some(numbers.sizes("starts")?.into_iter().map(|place| place as u32).collect()),
    };
    let actions = numbers.items("actions")?.iter().map(|row| floats(row, "actions"));
    Ok(StoredRollout {
        first: numbers.int("first")? as u64,
        starts,
        stored_obs,
        after,
        last,
        actions: actions.collect::<Result<_, _>>()?,
        env_reward: floats(numbers.get("env_reward")?, "env_reward")?,
        success: frames.bytes("success")?.iter().map(|code| *code != 0).collect(),
        end,
        reward: floats(numbers.get("reward")?, "reward")?,
        version: numbers.int("version")? as u64,
        can_relabel: numbers.boolean("can_relabel")?,
        context,
        elapsed,
    })
}

fn all_observations(numbers: SavedDict<'_>, frames: SavedDict<'_>) -> Result<Vec<StoredObs>, SavedError> {
    let pairs = numbers.items("states")?.iter().zip(frames.items("cameras")?);
    pairs.map(|(states, cameras)| observation(states, cameras)).collect()
}

fn observation(states: &PyValue, cameras: &PyValue) -> Result<StoredObs, SavedError> {
    let damaged = || SavedError::Damaged("states");
    let [batch, state, features, tasks] = states.as_items().ok_or_else(damaged)? else {
        return Err(damaged());
    };
    let batch = batch.to_i64().and_then(|batch| usize::try_from(batch).ok()).ok_or_else(damaged)?;
    let mut obs = Obs::from_state(batch, floats(state, "states")?).map_err(|_| damaged())?;
    for camera in cameras.as_items().ok_or(SavedError::Damaged("cameras"))? {
        let (name, frames) = camera_frames(camera).ok_or(SavedError::Damaged("cameras"))?;
        obs = obs.with_camera(name, frames).map_err(|_| SavedError::Damaged("cameras"))?;
    }
    let tasks = tasks.as_items().ok_or_else(damaged)?.iter();
    obs.tasks =
        tasks.map(|task| task.as_str().map(Arc::from).ok_or_else(damaged)).collect::<Result<_, _>>()?;
    Ok(StoredObs { obs: Arc::new(obs), features: floats(features, "states")? })
}

fn camera_frames(camera: &PyValue) -> Option<(Arc<str>, Frames)> {
    let [name, pixels] = camera.as_items()? else { return None };
    let array = pixels.as_array()?;
    let &[_, height, width, channels] = array.shape() else { return None };
    let frames = Frames::new(FrameShape { height, width, channels }, array.bytes().to_vec()).ok()?;
    Some((name.as_str()?.into(), frames))
}

fn floats(value: &PyValue, what: &'static str) -> Result<Vec<f32>, SavedError> {
    value.as_array().and_then(|array| array.to_f32()).ok_or(SavedError::Damaged(what))
}

/// A dict of the file.
#[derive(Clone, Copy)]
struct SavedDict<'a>(&'a PyValue);

impl<'a> SavedDict<'a> {
    fn get(self, key: &'static str) -> Result<&'a PyValue, SavedError> {
        self.0.get(key).ok_or(SavedError::Damaged(key))
    }

    fn int(self, key: &'static str) -> Result<i64, SavedError> {
        self.get(key)?.to_i64().ok_or(SavedError::Damaged(key))
    }

    fn size(self, key: &'static str) -> Result<usize, SavedError> {
        usize::try_from(self.int(key)?).map_err(|_| SavedError::Damaged(key))
    }

    fn boolean(self, key: &'static str) -> Result<bool, SavedError> {
        self.get(key)?.to_bool().ok_or(SavedError::Damaged(key))
    }

    fn items(self, key: &'static str) -> Result<&'a [PyValue], SavedError> {
        self.get(key)?.as_items().ok_or(SavedError::Damaged(key))
    }

    fn sizes(self, key: &'static str) -> Result<Vec<usize>, SavedError> {
        let number = |value: &PyValue| usize::try_from(value.to_i64()?).ok();
        self.items(key)?.iter().map(|value| number(value).ok_or(SavedError::Damaged(key))).collect()
    }

    fn bytes(self, key: &'static str) -> Result<&'a [u8], SavedError> {
        self.get(key)?.as_array().map(|array| array.bytes()).ok_or(SavedError::Damaged(key))
    }
}
