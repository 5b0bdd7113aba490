//! What a dataset's metadata says, and whether the files it names are there. No frame is read, so datasets with videos
//! have an outline too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::info::{Info, Version};
use super::limits::Limits;
use super::locations::{self, EpisodeLocation};
use super::template;
use crate::lerobot::error::{LeRobotError, Problem, Result};

/// A dataset by its metadata.
#[derive(Debug)]
pub struct DatasetMetadata {
    /// What it says of itself.
    pub info: Info,
    /// Frames of each episode, in order.
    pub lengths: Vec<u64>,
    /// Parquet files that hold frames.
    pub data_files: Vec<PathBuf>,
    /// Video files.
    pub video_files: Vec<PathBuf>,
    /// Those of both that are not there, or are no plain files.
    pub missing: Vec<PathBuf>,
}

impl DatasetMetadata {
    /// Reads what is under `meta/`.
    ///
    /// # Errors
    /// When something under `meta/` is missing or damaged, or the version is not read.
    pub fn read(root: &Path) -> Result<Self> {
        let limits = Limits::default();
        let info = Info::read(&root.join("meta/info.json"), &limits)?;
        let locations = locations::find(root, &info, &limits)?;
        let data: BTreeSet<PathBuf> = locations.iter().map(|location| location.file.to_path_buf()).collect();
        let videos = videos(root, &info, &locations, &limits)?;
        let missing = data.iter().chain(&videos).filter(|file| !file.is_file()).cloned().collect();
        Ok(Self {
            lengths: locations.iter().map(|location| location.frames).collect(),
            data_files: data.into_iter().collect(),
            video_files: videos.into_iter().collect(),
            missing,
            info,
        })
    }
}

/// Every video file that an episode is in.
fn videos(
    root: &Path,
    info: &Info,
    locations: &[EpisodeLocation],
    limits: &Limits,
) -> Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    for feature in info.features.iter().filter(|feature| feature.is_video()) {
        let pattern = info.video_path.as_ref().ok_or_else(|| {
            let hint = "a dataset with videos says where they are";
            let problem = Problem::Missing { what: "the text `video_path`", hint };
            LeRobotError::new(root.join("meta/info.json"), problem)
        })?;
        let pattern = pattern.replace("{video_key}", &feature.name);
        let mut add = |values: &[(&str, u64)]| -> Result<()> {
            files.insert(template::fill(root, &pattern, values, "video_path")?);
            Ok(())
        };
        match info.version {
            Version::V2 => locations.iter().try_for_each(|location| {
                let chunk = location.episode / info.chunks_size;
                add(&[("episode_chunk", chunk), ("episode_index", location.episode)])
            })?,
            Version::V3 => locations::video_files(root, &feature.name, limits)?
                .into_iter()
                .try_for_each(|(chunk, file)| add(&[("chunk_index", chunk), ("file_index", file)]))?,
        }
    }
    Ok(files)
}
