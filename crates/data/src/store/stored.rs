//! An episode in a store: its columns are slices of the mapped file.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use plaudit_core::{End, FrameShape};

use super::columns::{ColumnFile, Kind};
use super::encode::{CAMERA, FORMAT, UNKNOWN, end_of};
use super::error::{Damage, StoreError};
use super::id::EpisodeId;
use super::labels::StoredLabels;
use super::manifest::BatchPosition;
use crate::episode::{CameraTrack, Episode, Timestep};

/// One episode of N actions, mapped. Cloning shares the map, and it stays readable when the store is gone.
///
/// Indices outside of the episode panic, as those of a slice do.
#[derive(Clone, Debug)]
pub struct StoredEpisode {
    id: EpisodeId,
    file: ColumnFile,
    batch_position: BatchPosition,
    entries: usize,
    success: bool,
    state: Table,
    action: Table,
    reward: Range<usize>,
    end: Range<usize>,
    solved: Range<usize>,
    facts: Range<usize>,
    facts_known: Range<usize>,
    fact_names: Vec<Arc<str>>,
    cameras: Vec<Camera>,
    labels: Vec<StoredLabels>,
}

#[derive(Clone, Debug)]
struct Table {
    range: Range<usize>,
    width: usize,
}

#[derive(Clone, Debug)]
struct Camera {
    name: Arc<str>,
    shape: FrameShape,
    start: usize,
}

impl StoredEpisode {
    /// Opens an episode's file and checks that its columns are those of an episode.
    pub(super) fn open(
        path: &Path,
        id: EpisodeId,
        batch_position: BatchPosition,
    ) -> Result<Self, StoreError> {
        let file = ColumnFile::open(path, FORMAT)?;
        Self::of(file, id, batch_position).map_err(|damage| damage.in_file(path))
    }

    fn of(file: ColumnFile, id: EpisodeId, batch_position: BatchPosition) -> Result<Self, Damage> {
        let entries = file.need("state", Kind::F32, 2)?.shape[0];
        if entries == 0 {
            return Err(Damage::column("state", "has no rows"));
        }
        let fact_names = fact_names(&file)?;
        let bytes = |name, shape: &[usize]| exact(&file, name, Kind::U8, shape);
        let (end, solved) = (bytes("end", &[entries])?, bytes("success", &[entries])?);
        if let Some(code) = file.bytes(&end).iter().chain(file.bytes(&solved)).find(|code| **code > 2) {
            return Err(Damage::column(
                "end or success",
                format!("holds {code}, and only 0 to 2 mean something"),
            ));
        }
        let success = match file.metadata.get("success").map(String::as_str) {
            Some("true") => true,
            Some("false") => false,
            _ => return Err(Damage::header("it does not say whether the episode was a success")),
        };
        let facts_shape = [fact_names.len(), entries];
        Ok(Self {
            state: table(&file, "state", entries)?,
            action: table(&file, "action", entries - 1)?,
            reward: exact(&file, "reward", Kind::F32, &[entries])?,
            facts: exact(&file, "facts", Kind::F32, &facts_shape)?,
            facts_known: bytes("facts_known", &facts_shape)?,
            cameras: cameras(&file, entries)?,
            labels: Vec::new(),
            id,
            batch_position,
            entries,
            success,
            end,
            solved,
            fact_names,
            file,
        })
    }

    pub(super) fn with_labels(mut self, labels: Vec<StoredLabels>) -> Self {
        self.labels = labels;
        self
    }

    pub(super) fn file(&self) -> &ColumnFile {
        &self.file
    }

    /// Its name.
    pub fn id(&self) -> EpisodeId {
        self.id
    }

    /// How many actions were taken, N.
    pub fn len(&self) -> usize {
        self.entries - 1
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries it has, N + 1: the reset and one per action.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Whether the task was solved at any step.
    pub fn success(&self) -> bool {
        self.success
    }

    /// The task in words.
    pub fn task(&self) -> Option<&str> {
        self.file.metadata.get("task").map(String::as_str)
    }

    /// Names and shapes of the cameras, the main view first.
    pub fn cameras(&self) -> impl ExactSizeIterator<Item = (&str, FrameShape)> {
        self.cameras.iter().map(|camera| (&*camera.name, camera.shape))
    }

    /// The number of the camera of that name.
    pub fn camera(&self, name: &str) -> Option<usize> {
        self.cameras.iter().position(|camera| &*camera.name == name)
    }

    /// What a camera saw at entry `at`: `[height, width, channels]`, in place.
    pub fn frame(&self, camera: usize, at: usize) -> &[u8] {
        assert!(at < self.entries, "entry {at} of {}", self.entries);
        let Camera { shape, start, .. } = &self.cameras[camera];
        let from = start + at * shape.bytes();
        self.file.bytes(&(from..from + shape.bytes()))
    }

    /// All states, `[N + 1, state_width]`.
    pub fn states(&self) -> &[f32] {
        self.file.floats(&self.state.range)
    }

    /// The state at entry `at`.
    pub fn state(&self, at: usize) -> &[f32] {
        &self.states()[at * self.state.width..(at + 1) * self.state.width]
    }

    /// All actions, `[N, action_width]`.
    pub fn actions(&self) -> &[f32] {
        self.file.floats(&self.action.range)
    }

    /// The action that led from entry `at` to the next.
    pub fn action(&self, at: usize) -> &[f32] {
        &self.actions()[at * self.action.width..(at + 1) * self.action.width]
    }

    /// The environment's reward, `[N + 1]`.
    pub fn rewards(&self) -> &[f32] {
        self.file.floats(&self.reward)
    }

    /// Whether and how the episode ended at entry `at`.
    pub fn end(&self, at: usize) -> End {
        end_of(self.file.bytes(&self.end)[at]).unwrap_or_default()
    }

    /// Whether the task was solved at entry `at`, where that is known.
    pub fn success_at(&self, at: usize) -> Option<bool> {
        let code = self.file.bytes(&self.solved)[at];
        (code != UNKNOWN).then_some(code == 1)
    }

    /// Names of the other values of the environment's info.
    pub fn facts(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fact_names.iter().map(|name| &**name)
    }

    /// One of them at every entry, `[N + 1]`; not a number where it is not known.
    pub fn fact(&self, name: &str) -> Option<&[f32]> {
        let at = self.fact_names.iter().position(|fact| &**fact == name)?;
        self.file.floats(&self.facts).chunks_exact(self.entries).nth(at)
    }

    /// Labels that were added under a name, `[N + 1]`; not a number where there is none.
    pub fn labels(&self, name: &str) -> Option<&[f32]> {
        self.labels.iter().find(|labels| labels.name() == name).map(StoredLabels::values)
    }

    /// Environment, number there, and steps of the batch.
    pub(crate) fn position(&self) -> (usize, u64, u64) {
        let BatchPosition { row, number, batch_step } = self.batch_position;
        (row, number, batch_step)
    }

    /// The episode in memory, as it was added.
    pub fn to_episode(&self) -> Episode {
        let rows = |all: &[f32], width: usize, count: usize| {
            (0..count).map(|at| all[at * width..(at + 1) * width].to_vec()).collect()
        };
        let track = |camera: &Camera| CameraTrack {
            name: camera.name.clone(),
            shape: camera.shape,
            pixels: self
                .file
                .bytes(&(camera.start..camera.start + self.entries * camera.shape.bytes()))
                .to_vec()
                .into(),
        };
        let BatchPosition { row, number, batch_step } = self.batch_position;
        Episode {
            row,
            number,
            batch_step,
            success: self.success,
            task: self.task().map(Arc::from),
            cameras: self.cameras.iter().map(track).collect(),
            states: rows(self.states(), self.state.width, self.entries),
            actions: rows(self.actions(), self.action.width, self.len()),
            timesteps: (0..self.entries).map(|at| self.timestep(at)).collect(),
        }
    }

    pub(crate) fn timestep(&self, at: usize) -> Timestep {
        let (values, known) = (self.file.floats(&self.facts), self.file.bytes(&self.facts_known));
        let fact = |(number, name): (usize, &Arc<str>)| {
            let index = number * self.entries + at;
            (known[index] != 0).then(|| (name.clone(), values[index]))
        };
        Timestep {
            reward: self.rewards()[at],
            end: self.end(at),
            success: self.success_at(at),
            facts: self.fact_names.iter().enumerate().filter_map(fact).collect(),
        }
    }
}

fn fact_names(file: &ColumnFile) -> Result<Vec<Arc<str>>, Damage> {
    let text = file.metadata.get("facts").map_or("[]", String::as_str);
    serde_json::from_str::<Vec<String>>(text)
        .map(|names| names.into_iter().map(Arc::from).collect())
        .map_err(|error| Damage::header(format!("its names of facts: {error}")))
}

fn table(file: &ColumnFile, name: &str, rows: usize) -> Result<Table, Damage> {
    let column = file.need(name, Kind::F32, 2)?;
    if column.shape[0] != rows {
        return Err(Damage::column(name, format!("has {} rows, not {rows}", column.shape[0])));
    }
    Ok(Table { range: column.range.clone(), width: column.shape[1] })
}

fn exact(file: &ColumnFile, name: &str, kind: Kind, shape: &[usize]) -> Result<Range<usize>, Damage> {
    let column = file.need(name, kind, shape.len())?;
    if column.shape != shape {
        return Err(Damage::column(name, format!("has shape {:?}, not {shape:?}", column.shape)));
    }
    Ok(column.range.clone())
}

fn cameras(file: &ColumnFile, entries: usize) -> Result<Vec<Camera>, Damage> {
    let tracks =
        file.columns.iter().filter_map(|column| column.name.strip_prefix(CAMERA).map(|name| (name, column)));
    tracks
        .map(|(name, column)| match (column.kind, &column.shape[..]) {
            (Kind::U8, &[rows, height, width, channels]) if rows == entries => {
                let shape = FrameShape { height, width, channels };
                Ok(Camera { name: name.into(), shape, start: column.range.start })
            }
            _ => {
                let why = format!("is {:?} {:?}, not images of {entries} entries", column.kind, column.shape);
                Err(Damage::column(&column.name, why))
            }
        })
        .collect()
}
