//! The folder of a dataset: where it lies below a path, its splits, and their files.

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::plain_file;
use serde_json::Value;

use super::error::RldsError;
use crate::own_folder::OwnFolder;

const INFO: &str = "dataset_info.json";
const FEATURES: &str = "features.json";
/// Bytes of the largest description that is read.
const MOST_BYTES: u64 = 64 << 20;
/// Folders that are looked into: what has more is no folder of versions.
const MOST_FOLDERS: usize = 64;

/// The dataset at a path: the folder itself, or the only one below it (`NAME/VERSION`, `NAME/CONFIG/VERSION`).
pub(crate) fn find(path: &Path) -> Vec<PathBuf> {
    let is_dataset = |folder: &Path| folder.join(INFO).is_file() && folder.join(FEATURES).is_file();
    let mut level = vec![path.to_owned()];
    for _ in 0..3 {
        let found: Vec<PathBuf> = level.iter().filter(|folder| is_dataset(folder)).cloned().collect();
        if !found.is_empty() {
            return found;
        }
        let below = |folder: &PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
        // What is being written has a name that says so.
        let is_whole = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            entry.file_type().is_ok_and(|kind| kind.is_dir())
                && !name.starts_with('.')
                && !name.contains("incomplete")
        };
        let folders = level.iter().flat_map(below).filter(is_whole).map(|entry| entry.path());
        level = folders.collect();
        level.sort();
        if level.len() > MOST_FOLDERS {
            break;
        }
    }
    Vec::new()
}

/// The description of what an episode has.
pub(crate) fn features(folder: &Path) -> Result<super::Features, RldsError> {
    super::Features::parse(&read(folder, FEATURES)?)
}

/// A split, and its files in their order.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) name: String,
    pub(crate) shards: Vec<Shard>,
}

/// One file of a split.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) file: PathBuf,
    /// The number of its first episode in the split.
    pub(crate) first: usize,
    pub(crate) episodes: usize,
}

/// The splits of a dataset, as `dataset_info.json` says.
pub(crate) fn shards(folder: &Path) -> Result<Vec<Split>, RldsError> {
    let wrong = |what: String| RldsError::Description { file: INFO, what };
    let info: Value =
        serde_json::from_slice(&read(folder, INFO)?).map_err(|error| wrong(error.to_string()))?;
    let format = info["fileFormat"].as_str().unwrap_or("tfrecord");
    if format != "tfrecord" {
        return Err(wrong(format!("its files are of format `{format}`, and `tfrecord` is read")));
    }
    let dataset = file_word(&info["name"]).ok_or_else(|| wrong("`name` is no name of a file".into()))?;
    let splits = info["splits"].as_array().ok_or_else(|| wrong("it has no list of `splits`".into()))?;
    let split = |split: &Value| {
        let name = file_word(&split["name"]).ok_or_else(|| wrong("a split has no name".into()))?;
        let template = split["filepathTemplate"].as_str().unwrap_or(TEMPLATE);
        if template != TEMPLATE {
            return Err(wrong(format!(
                "files of `{name}` are called `{template}`, where `{TEMPLATE}` is read"
            )));
        }
        let lengths = split["shardLengths"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut shards = Vec::new();
        let mut first = 0_usize;
        for (at, length) in lengths.iter().enumerate() {
            let number = length.as_str().and_then(|text| text.parse().ok()).or_else(|| length.as_u64());
            let episodes = number.and_then(|number| usize::try_from(number).ok());
            let episodes =
                episodes.ok_or_else(|| wrong(format!("`shardLengths` of `{name}` has {length}")))?;
            let file = folder.join(format!("{dataset}-{name}.tfrecord-{at:05}-of-{:05}", lengths.len()));
            shards.push(Shard { file, first, episodes });
            first = first.saturating_add(episodes);
        }
        Ok(Split { name: name.into(), shards })
    };
    splits.iter().map(split).collect()
}

const TEMPLATE: &str = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";

/// A word that can be part of a file's name, and leads nowhere else.
fn file_word(value: &Value) -> Option<&str> {
    let is_word = |text: &&str| !text.is_empty() && !text.contains(['/', '\\', '\0']);
    value.as_str().filter(is_word)
}

fn read(folder: &Path, file: &'static str) -> Result<Vec<u8>, RldsError> {
    let wrong = |what: String| RldsError::Description { file, what };
    let path = folder.join(file);
    if OwnFolder::of(folder).is_outside(&path) {
        return Err(wrong("it is a link that leads out of the dataset's folder".into()));
    }
    plain_file::read(&path, MOST_BYTES).map_err(|error| wrong(error.to_string()))
}
