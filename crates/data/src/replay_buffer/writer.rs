//! Episodes written as trajectories of one environment each.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use plaudit_pyfiles::atomic_file::AtomicFile;
use plaudit_pyfiles::{self as pyfiles, Storages, write_pt};

use super::trajectory::{NO_VERSIONS, as_trajectory};
use super::{ReplayBufferError, folder};
use crate::episode::{Episode, EpisodeSink, SinkError};
use crate::recording::samples_of;

pub(super) const INDEX: &str = "trajectory_index.json";
const METADATA: &str = "metadata.json";
/// RLinf's own default; it seeds the sampling of whoever loads the buffer.
const SEED: u64 = 1234;

/// Writes episodes into a replay buffer. Each file is complete or absent, and the indices name none that is absent:
/// whenever the process is killed, RLinf and [`Recordings`](crate::recording::Recordings) find a whole buffer.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    /// What the index says of each trajectory, by id.
    entries: Vec<(u64, Value)>,
    samples: u64,
    /// The number of the next trajectory.
    next_id: u64,
}

impl Writer {
    /// Opens a folder, which is made if it is not there. Numbering continues after the trajectories in it.
    ///
    /// # Errors
    /// When the folder cannot be made, or a trajectory that is there cannot be read.
    pub fn open(folder: &Path) -> Result<Self, ReplayBufferError> {
        let refused = |source| ReplayBufferError::Io { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(refused)?;
        let mut writer = Self { folder: folder.to_owned(), entries: Vec::new(), samples: 0, next_id: 0 };
        for (id, path) in folder::numbered(folder).map_err(refused)? {
            let samples = samples_of(&pyfiles::read(&path)?)
                .map_err(|problem| ReplayBufferError::Trajectory { path: path.clone(), problem })?;
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            let weights = name.splitn(3, '_').nth(2).unwrap_or(NO_VERSIONS).to_owned();
            writer.enter(id, samples, &weights);
            writer.next_id = id + 1;
        }
        // A kill may have come between the last trajectory and the indices.
        if !writer.entries.is_empty() {
            writer.write_indices()?;
        }
        Ok(writer)
    }

    /// The number of the next trajectory.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Resumes a collection that was stopped and whose first trajectory has this number. It is given the same
    /// episodes again; those that are there stay.
    pub fn resume_from(&mut self, first_id: u64) {
        self.next_id = first_id;
    }

    /// How many trajectories are there.
    pub fn trajectories(&self) -> usize {
        self.entries.len()
    }

    /// Adds an episode.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn append(&mut self, episode: &Episode) -> Result<(), ReplayBufferError> {
        let id = self.next_id;
        self.next_id += 1;
        if self.entries.iter().any(|(known, _)| *known == id) {
            return Ok(());
        }
        let path = self.folder.join(format!("trajectory_{id}_{NO_VERSIONS}.pt"));
        write_pt(path, &as_trajectory(episode)?, Storages::Own)?;
        self.enter(id, episode.len(), NO_VERSIONS);
        self.entries.sort_by_key(|(id, _)| *id);
        self.write_indices()
    }

    fn enter(&mut self, id: u64, steps: usize, weights: &str) {
        self.samples += steps as u64;
        let entry = json!({
            "num_samples": steps,
            "trajectory_id": id,
            "max_episode_length": steps,
            "shape": [steps, 1, 1],
            "model_weights_id": weights,
        });
        self.entries.push((id, entry));
    }

    fn write_indices(&self) -> Result<(), ReplayBufferError> {
        let index: Map<String, Value> =
            self.entries.iter().map(|(id, entry)| (id.to_string(), entry.clone())).collect();
        let ids: Vec<u64> = self.entries.iter().map(|(id, _)| *id).collect();
        let metadata = json!({
            "trajectory_format": "pt",
            "size": self.entries.len(),
            "total_samples": self.samples,
            "trajectory_counter": ids.last().map_or(0, |id| id + 1),
            "seed": SEED,
        });
        self.write_json(INDEX, &json!({"trajectory_index": index, "trajectory_id_list": ids}))?;
        self.write_json(METADATA, &metadata)
    }

    fn write_json(&self, name: &str, value: &Value) -> Result<(), ReplayBufferError> {
        let path = self.folder.join(name);
        let text = value.to_string();
        AtomicFile::write(&path, [text.as_bytes()]).map_err(|source| ReplayBufferError::Io { path, source })
    }
}

impl EpisodeSink for Writer {
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError> {
        Ok(self.append(episode)?)
    }
}
