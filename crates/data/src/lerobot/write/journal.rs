//! Episodes of a shard that is not complete: a file each, whole or absent.
//!
//! A process that is killed loses the episode it was writing and no other. The files have the rows as they will be
//! in the dataset, so that completing a shard copies bytes and decodes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use plaudit_pyfiles::atomic_file::AtomicFile;

use super::Settings;
use super::frames::{EpisodeIndices, Frames, frames};
use super::source::SourceEpisode;
use super::stats::Stats;
use crate::lerobot::error::{InFile, LeRobotError, Problem, Result};
use crate::lerobot::feature::Feature;
use crate::lerobot::table::{self, Table};

/// Under this key a file says what the dataset's other files will need of it.
const KEY: &str = "plaudit";

/// What is known of an episode without its frames.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) robot_type: String,
    pub(super) fps: f64,
    pub(super) task: String,
    pub(super) frames: u64,
    pub(super) features: Vec<Feature>,
    pub(super) stats: Vec<Stats>,
}

/// Writes an episode into `folder` and waits until it is on disk: its videos first, so that its own file stands for all.
pub(super) fn write(
    folder: &Path,
    source: &SourceEpisode<'_>,
    features: &[Feature],
    (task, indices): (&str, EpisodeIndices),
    settings: &Settings,
) -> Result<()> {
    let path = folder.join(format!("episode_{:06}.parquet", indices.episode));
    let film = |feature: usize| film_of(&path, feature);
    let Frames { columns, stats } = frames(source, features, indices, settings.fps, film).in_file(&path)?;
    let Settings { robot_type, fps, .. } = settings.clone();
    let (frames, features) = (source.episode.len(), features.to_vec());
    let record = Record { robot_type, fps, task: task.to_owned(), frames: frames as u64, features, stats };
    let text = (KEY, serde_json::to_string(&record).in_file(&path)?);
    let file = AtomicFile::create(&path).in_file(&path)?;
    table::write(file, frames, &columns, &[text]).in_file(&path)?.commit().in_file(&path)
}

/// Where the video of a feature, by its number, lies beside the file of its episode.
pub(super) fn film_of(episode: &Path, feature: usize) -> PathBuf {
    episode.with_extension(format!("feature_{feature}.mp4"))
}

/// What is known of the episode at `path`.
pub(super) fn record(path: &Path) -> Result<Record> {
    let table = Table::open(path)?;
    let text = table.text(KEY).ok_or_else(|| {
        let hint = "the file was not written here; take it out of the folder";
        LeRobotError::new(path, Problem::Missing { what: "the note on the episode", hint })
    })?;
    serde_json::from_str(text).in_file(path)
}

/// The whole episodes in `folder`, in order.
pub(super) fn episodes(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).in_file(folder)? {
        let path = entry.in_file(folder)?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            all.push(path);
        }
    }
    // Numbers may outgrow their six digits.
    all.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(all)
}
