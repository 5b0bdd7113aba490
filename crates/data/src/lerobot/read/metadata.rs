//! What a dataset's metadata says, and whether the files it names are there. No frame is read, so datasets
//! whose videos nothing here decodes have an outline too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::info::Info;
use super::limits::Limits;
use super::locations;
use crate::lerobot::error::Result;

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
        let videos = locations.iter().flat_map(|location| &location.videos);
        let videos: BTreeSet<PathBuf> = videos.map(|video| video.file.to_path_buf()).collect();
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
