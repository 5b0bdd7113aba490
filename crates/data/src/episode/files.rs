//! Episodes as files of their own: names, numbers, and never a file over another.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use plaudit_pyfiles::{PickleStyle, write_npy, write_pickle};

use super::Episode;
use super::as_python::{as_frames, as_npy, as_pickle, pickle_name};
use super::writer::{EpisodeSink, ExistingEpisodes, SinkError, WriterError};
use crate::recording::DatasetFormat;

/// The format of episode files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EpisodeFormat {
    /// One pickle per episode, all in one folder.
    Pickle,
    /// One pickle of frames per episode, in `success/` and `failure/`.
    Frames,
    /// One `.npy` dictionary per episode, in a folder for successes and one for failures.
    Npy {
        /// Where successes go.
        positive: PathBuf,
        /// Where failures go.
        negative: PathBuf,
        /// The cameras to keep; empty: all.
        cameras: Vec<String>,
    },
}

impl EpisodeFormat {
    /// What it is called where it is read.
    pub(super) fn dataset_format(&self) -> DatasetFormat {
        match self {
            Self::Pickle => DatasetFormat::Episodes,
            Self::Frames => DatasetFormat::Frames,
            Self::Npy { .. } => DatasetFormat::Trajectories,
        }
    }

    /// Folders that one collection at a time may write to.
    pub(super) fn claimed(&self, directory: &Path) -> Vec<PathBuf> {
        match self {
            Self::Pickle | Self::Frames => vec![directory.to_owned()],
            Self::Npy { positive, negative, .. } => vec![positive.clone(), negative.clone()],
        }
    }

    /// Where the files lie: successes, then failures where they lie apart.
    fn folders(&self, directory: &Path) -> Vec<PathBuf> {
        match self {
            Self::Pickle => vec![directory.to_owned()],
            Self::Frames => vec![directory.join("success"), directory.join("failure")],
            Self::Npy { positive, negative, .. } => vec![positive.clone(), negative.clone()],
        }
    }

    /// The number in a file name of this format: the rank of a single pickle, otherwise the episode's.
    fn number_of(&self, name: &str) -> Option<u64> {
        match self {
            Self::Pickle => name.strip_prefix("rank_")?.split('_').next()?.parse().ok(),
            Self::Frames => name.strip_prefix("episode_")?.strip_suffix(".pkl")?.parse().ok(),
            Self::Npy { .. } => name.strip_suffix(".npy")?.parse().ok(),
        }
    }
}

/// Writes one file per episode.
pub(super) struct FileSink {
    format: EpisodeFormat,
    folders: Vec<PathBuf>,
    /// Per folder, the next free number; for single pickles, the rank no file has yet.
    next: Vec<u64>,
    /// Whether a file that is there was written by the same collection, before it was stopped.
    resumes: bool,
}

impl FileSink {
    /// Makes the folders. `begun` are the numbers that a collection
    /// that is resumed began with; without them, numbering continues after the files that are there.
    pub(super) fn open(
        directory: &Path,
        format: EpisodeFormat,
        begun: Option<&[u64]>,
    ) -> Result<(Self, ExistingEpisodes), WriterError> {
        let folders = format.folders(directory);
        let mut found = ExistingEpisodes::default();
        let mut next = Vec::new();
        for folder in &folders {
            let refused = |source| WriterError::Folder { folder: folder.clone(), source };
            std::fs::create_dir_all(folder).map_err(refused)?;
            let (episodes, number) = scan_folder(folder, &format).map_err(refused)?;
            found.episodes += episodes;
            next.push(number);
        }
        let begun = begun.filter(|begun| begun.len() == next.len());
        let sink =
            Self { next: begun.map_or(next, <[u64]>::to_vec), format, folders, resumes: begun.is_some() };
        Ok((sink, found))
    }

    /// The next free numbers.
    pub(super) fn next(&self) -> &[u64] {
        &self.next
    }

    /// The file of the next episode, and its number.
    fn next_path(&mut self, episode: &Episode) -> (PathBuf, u64) {
        let side = usize::from(!episode.success && self.folders.len() > 1);
        let folder = &self.folders[side];
        match self.format {
            EpisodeFormat::Pickle => (folder.join(pickle_name(episode, self.next[0])), self.next[0]),
            EpisodeFormat::Frames => {
                // One counter for both folders, as that collector had it.
                let number = self.next.iter().copied().max().unwrap_or(0);
                self.next.fill(number + 1);
                (folder.join(format!("episode_{number:06}.pkl")), number)
            }
            EpisodeFormat::Npy { .. } => {
                let number = self.next[side];
                self.next[side] += 1;
                (folder.join(format!("{number:06}.npy")), number)
            }
        }
    }
}

impl EpisodeSink for FileSink {
    fn write(&mut self, episode: &Episode) -> Result<(), SinkError> {
        let (path, number) = self.next_path(episode);
        if path.try_exists()? {
            return match self.resumes {
                true => Ok(()),
                false => {
                    Err(format!("{} is there already, and no episode is overwritten", path.display()).into())
                }
            };
        }
        match &self.format {
            EpisodeFormat::Pickle => {
                write_pickle(path, &as_pickle(episode, number)?, PickleStyle::default())?
            }
            EpisodeFormat::Frames => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                write_pickle(path, &as_frames(episode, number, now)?, PickleStyle::default())?;
            }
            EpisodeFormat::Npy { cameras, .. } => write_npy(path, &as_npy(episode, cameras)?)?,
        }
        Ok(())
    }
}

/// Whole episodes, and the next free number of a folder.
fn scan_folder(folder: &Path, format: &EpisodeFormat) -> io::Result<(u64, u64)> {
    let (mut episodes, mut next) = (0, 0);
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(number) = format.number_of(&name) {
            episodes += 1;
            next = next.max(number + 1);
        }
    }
    Ok((episodes, next))
}
