//! Completing a shard: from a folder of episodes to a dataset.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::atomic_file::sync_folder_of;

use super::Shard;
use super::film::Reel;
use super::folder::ShardPaths;
use super::journal::{self, Record};
use super::meta::{self, EpisodeRow};
use super::stats::Stats;
use crate::lerobot::error::{InFile, Result};
use crate::lerobot::feature::{Feature, hugging_face};
use crate::lerobot::table::Splice;

/// lerobot's own measures: bytes in a data file, files in a folder.
const FILE_BYTES: usize = 100 << 20;
const FILES: u64 = 1000;
/// Episodes whose statistics are in memory at once.
const EPISODES_AT_ONCE: usize = 500;

/// Makes a dataset of the episodes in the shard's open folder, which is gone then. Nothing, if there are no episodes.
pub(super) fn complete(paths: &ShardPaths) -> Result<Option<Shard>> {
    let shard = assemble(paths)?;
    fs::remove_dir_all(&paths.open).in_file(&paths.open)?;
    Ok(shard)
}

/// Makes a dataset of the episodes in the shard's open folder, which stays. It has its name only once all of it is on
/// disk. Nothing, if there are no episodes.
pub(super) fn assemble(paths: &ShardPaths) -> Result<Option<Shard>> {
    let files = journal::episodes(&paths.open)?;
    if files.is_empty() {
        return Ok(None);
    }
    remove_partial(paths)?;
    let frames = Assembly::new(paths.partial.clone()).run(&files)?;
    fs::rename(&paths.partial, &paths.done).in_file(&paths.done)?;
    sync_folder_of(&paths.done);
    Ok(Some(Shard { path: paths.done.clone(), episodes: files.len() as u64, frames }))
}

/// Removes a dataset that was not completed.
pub(super) fn remove_partial(paths: &ShardPaths) -> Result<()> {
    match paths.partial.exists() {
        true => fs::remove_dir_all(&paths.partial).in_file(&paths.partial),
        false => Ok(()),
    }
}

/// A dataset in the making.
struct Assembly {
    root: PathBuf,
    data: Option<(PathBuf, Splice)>,
    data_files: u64,
    /// The files of each video feature, by the feature's number.
    reels: Vec<(usize, Reel)>,
    frames: u64,
    robot_type: String,
    fps: f64,
    tasks: Vec<String>,
    task_numbers: HashMap<String, usize>,
    features: Vec<Feature>,
    stats: Vec<Stats>,
}

impl Assembly {
    fn new(root: PathBuf) -> Self {
        Self {
            root,
            data: None,
            data_files: 0,
            reels: Vec::new(),
            frames: 0,
            robot_type: String::new(),
            fps: 0.0,
            tasks: Vec::new(),
            task_numbers: HashMap::new(),
            features: Vec::new(),
            stats: Vec::new(),
        }
    }

    /// Writes everything; returns the number of frames.
    fn run(mut self, files: &[PathBuf]) -> Result<u64> {
        for (number, some) in files.chunks(EPISODES_AT_ONCE).enumerate() {
            let mut rows = Vec::new();
            for (at, file) in some.iter().enumerate() {
                let episode = (number * EPISODES_AT_ONCE + at) as u64;
                rows.push(self.add(file, episode)?);
            }
            let path = self.numbered("meta/episodes", number as u64)?;
            meta::write_episodes(&path, &rows, &self.features, chunk_and_file(number as u64))?;
        }
        self.close_data()?;
        self.reels.iter_mut().try_for_each(|(_, reel)| reel.close())?;
        let meta = self.root.join("meta");
        meta::write_tasks(&meta.join("tasks.parquet"), &self.tasks)?;
        meta::write_stats(&meta.join("stats.json"), &self.features, &self.stats)?;
        let info = meta::Info {
            robot_type: &self.robot_type,
            fps: self.fps,
            episodes: files.len() as u64,
            frames: self.frames,
            tasks: self.tasks.len() as u64,
            features: &self.features,
        };
        meta::write_info(&meta.join("info.json"), &info)?;
        sync_folder_of(&meta.join("info.json"));
        Ok(self.frames)
    }

    /// Copies an episode's frames, and notes the rest.
    fn add(&mut self, file: &Path, episode: u64) -> Result<EpisodeRow> {
        let Record { robot_type, fps, task, frames, features, stats } = journal::record(file)?;
        if self.stats.is_empty() {
            (self.robot_type, self.fps) = (robot_type, fps);
            (self.features, self.stats) = (features, stats.clone());
            let videos = self.features.iter().enumerate().filter(|(_, feature)| feature.is_video());
            let reel =
                |(at, feature): (usize, &Feature)| (at, Reel::new(&self.root, &feature.name, self.fps));
            self.reels = videos.map(reel).collect();
        } else {
            self.stats.iter_mut().zip(&stats).for_each(|(all, stats)| all.merge(stats));
        }
        if !self.task_numbers.contains_key(&task) {
            self.task_numbers.insert(task.clone(), self.tasks.len());
            self.tasks.push(task.clone());
        }
        self.data_with_room(file)?.append(file)?;
        let video =
            |(at, reel): &mut (usize, Reel)| reel.append(&journal::film_of(file, *at), chunk_and_file);
        let videos = self.reels.iter_mut().map(video).collect::<Result<_>>()?;
        let (first, data) = (self.frames, chunk_and_file(self.data_files - 1));
        self.frames += frames;
        Ok(EpisodeRow { episode, task, first, frames, data, videos, stats })
    }

    /// The data file to write to: a new one if there is none, or if the last is full.
    fn data_with_room(&mut self, like: &Path) -> Result<&mut Splice> {
        if self.data.as_ref().is_some_and(|(_, splice)| splice.bytes() >= FILE_BYTES) {
            self.close_data()?;
        }
        let current = match self.data.take() {
            Some(current) => current,
            None => {
                let path = self.numbered("data", self.data_files)?;
                self.data_files += 1;
                let text = ("huggingface", hugging_face(&self.features));
                let splice = Splice::create(&path, like, &text)?;
                (path, splice)
            }
        };
        Ok(&mut self.data.insert(current).1)
    }

    fn close_data(&mut self) -> Result<()> {
        self.data.take().map_or(Ok(()), |(path, splice)| splice.finish(&path))
    }

    /// `chunk-000/file-000.parquet` and so on; the folder is made.
    fn numbered(&self, under: &str, number: u64) -> Result<PathBuf> {
        let (chunk, file) = chunk_and_file(number);
        let folder = self.root.join(under).join(format!("chunk-{chunk:03}"));
        fs::create_dir_all(&folder).in_file(&folder)?;
        Ok(folder.join(format!("file-{file:03}.parquet")))
    }
}

fn chunk_and_file(number: u64) -> (u64, u64) {
    (number / FILES, number % FILES)
}
