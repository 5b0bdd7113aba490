//! Where each episode's frames are: v3 has a table of that, v2 a file per episode.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::info::{Info, Version};
use super::json::read_lines;
use super::limits::Limits;
use super::template;
use crate::lerobot::error::{InFile, LeRobotError, Problem, Result, mismatch};
use crate::lerobot::feature::Feature;
use crate::lerobot::table::Table;

/// Rows of a data file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EpisodeLocation {
    pub(super) episode: u64,
    pub(super) file: Arc<Path>,
    pub(super) first_row: u64,
    pub(super) frames: u64,
    /// Where its frames of each video feature are, in the order of the features.
    pub(super) videos: Vec<VideoLocation>,
}

/// Frames of a video file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VideoLocation {
    pub(super) file: Arc<Path>,
    /// When the first of them is shown.
    pub(super) from_secs: f64,
}

/// Texts by number.
pub(super) type Tasks = HashMap<i64, Arc<str>>;

/// All episodes of a dataset, in order.
pub(super) fn find(root: &Path, info: &Info, limits: &Limits) -> Result<Vec<EpisodeLocation>> {
    match info.version {
        Version::V2 => find_v2(root, info, limits),
        Version::V3 => find_v3(root, info, limits),
    }
}

/// All tasks of a dataset.
pub(super) fn tasks(root: &Path, info: &Info, limits: &Limits) -> Result<Tasks> {
    if info.version == Version::V3 {
        let table = Table::open(&root.join("meta/tasks.parquet"))?;
        check_count(table.path(), table.rows(), limits)?;
        let numbers = table.integers("task_index", 0..table.rows())?;
        let index = ["__index_level_0__", "task"].into_iter().find(|name| table.has(name)).unwrap_or("task");
        let texts = table.texts(index, 0..table.rows())?;
        return Ok(numbers.into_iter().zip(texts.into_iter().map(Arc::from)).collect());
    }
    let path = root.join("meta/tasks.jsonl");
    let lines = read_lines(&path, limits.json_bytes, limits.episodes)?;
    let task = |line: &Value| Some((line.get("task_index")?.as_i64()?, line.get("task")?.as_str()?.into()));
    let tasks: Option<Tasks> = lines.iter().map(task).collect();
    tasks.ok_or_else(|| mismatch("`task_index` and `task` in every line", "a line without")).in_file(&path)
}

fn find_v2(root: &Path, info: &Info, limits: &Limits) -> Result<Vec<EpisodeLocation>> {
    let path = root.join("meta/episodes.jsonl");
    let patterns = video_patterns(root, info)?;
    let mut all = Vec::new();
    for line in read_lines(&path, limits.json_bytes, limits.episodes)? {
        let number = |key: &str| line.get(key).and_then(Value::as_u64);
        let Some((episode, frames)) = number("episode_index").zip(number("length")) else {
            let problem = mismatch("`episode_index` and `length` in every line", "a line without");
            return Err(LeRobotError::new(&path, problem));
        };
        let values = [("episode_chunk", episode / info.chunks_size), ("episode_index", episode)];
        let file = template::fill(root, &info.data_path, &values, "data_path")?;
        let video = |(_, pattern): &(&str, String)| -> Result<VideoLocation> {
            let file = template::fill(root, pattern, &values, "video_path")?;
            Ok(VideoLocation { file: file.into(), from_secs: 0.0 })
        };
        let videos = patterns.iter().map(video).collect::<Result<_>>()?;
        all.push(EpisodeLocation { episode, file: file.into(), first_row: 0, frames, videos });
    }
    all.sort_by_key(|location| location.episode);
    Ok(all)
}

fn find_v3(root: &Path, info: &Info, limits: &Limits) -> Result<Vec<EpisodeLocation>> {
    let mut all = Vec::new();
    let mut files: HashMap<(i64, i64), Arc<Path>> = HashMap::new();
    let patterns = video_patterns(root, info)?;
    for path in episode_tables(&root.join("meta/episodes"))? {
        let table = Table::open(&path)?;
        check_count(&path, table.rows().saturating_add(all.len() as u64), limits)?;
        let column = |name| table.integers(name, 0..table.rows());
        let (episodes, lengths) = (column("episode_index")?, column("length")?);
        let (chunks, numbers) = (column("data/chunk_index")?, column("data/file_index")?);
        let firsts = column("dataset_from_index")?;
        let mut videos = Vec::new();
        for (feature, pattern) in &patterns {
            videos.push(videos_v3(root, &table, feature, pattern)?.into_iter());
        }
        for row in 0..episodes.len() {
            let key = (chunks[row], numbers[row]);
            let values = [("chunk_index", size(&path, key.0)?), ("file_index", size(&path, key.1)?)];
            let file = match files.get(&key) {
                Some(file) => file.clone(),
                None => template::fill(root, &info.data_path, &values, "data_path")?.into(),
            };
            files.insert(key, file.clone());
            let (episode, first_row) = (size(&path, episodes[row])?, size(&path, firsts[row])?);
            let videos = videos.iter_mut().filter_map(Iterator::next).collect();
            all.push(EpisodeLocation {
                episode,
                file,
                first_row,
                frames: size(&path, lengths[row])?,
                videos,
            });
        }
    }
    all.sort_by_key(|location| location.episode);
    rows_within_files(&mut all);
    Ok(all)
}

/// The file names of each video feature, with braces for numbers alone.
fn video_patterns<'a>(root: &Path, info: &'a Info) -> Result<Vec<(&'a str, String)>> {
    let features = info.features.iter().filter(|feature| feature.is_video());
    let pattern = |feature: &'a Feature| {
        let pattern = info.video_path.as_ref().ok_or_else(|| {
            let hint = "a dataset with videos says where they are";
            let problem = Problem::Missing { what: "the text `video_path`", hint };
            LeRobotError::new(root.join("meta/info.json"), problem)
        })?;
        Ok((feature.name.as_str(), pattern.replace("{video_key}", &feature.name)))
    };
    features.map(pattern).collect()
}

/// Where a video's frames of each episode of a table are.
fn videos_v3(root: &Path, table: &Table, feature: &str, pattern: &str) -> Result<Vec<VideoLocation>> {
    let (path, rows) = (table.path(), 0..table.rows());
    let column = |name: &str| format!("videos/{feature}/{name}");
    let chunks = table.integers(&column("chunk_index"), rows.clone())?;
    let numbers = table.integers(&column("file_index"), rows.clone())?;
    let starts = table.floats(&column("from_timestamp"), rows, 1)?;
    let location = |((chunk, number), start): ((i64, i64), f32)| {
        let values = [("chunk_index", size(path, chunk)?), ("file_index", size(path, number)?)];
        let file = template::fill(root, pattern, &values, "video_path")?;
        Ok(VideoLocation { file: file.into(), from_secs: f64::from(start) })
    };
    chunks.into_iter().zip(numbers).zip(starts).map(location).collect()
}

/// Frames are counted over the dataset; rows are counted in a file.
fn rows_within_files(locations: &mut [EpisodeLocation]) {
    let mut firsts: HashMap<Arc<Path>, u64> = HashMap::new();
    for location in &*locations {
        let first = firsts.entry(location.file.clone()).or_insert(location.first_row);
        *first = location.first_row.min(*first);
    }
    for location in locations {
        location.first_row -= firsts.get(&location.file).copied().unwrap_or(0);
    }
}

/// `chunk-000/file-000.parquet` and so on, in order.
fn episode_tables(folder: &Path) -> Result<Vec<PathBuf>> {
    let missing = |folder: &Path| {
        let hint = "a v3 dataset keeps where its episodes are in parquet files there";
        LeRobotError::new(folder, Problem::Missing { what: "the list of episodes", hint })
    };
    let mut all = Vec::new();
    for chunk in sorted(folder).map_err(|_| missing(folder))? {
        if chunk.is_dir() {
            let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "parquet");
            all.extend(sorted(&chunk).in_file(&chunk)?.into_iter().filter(is_table));
        }
    }
    if all.is_empty() { Err(missing(folder)) } else { Ok(all) }
}

fn sorted(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries: std::io::Result<Vec<_>> = std::fs::read_dir(folder)?.collect();
    let mut paths: Vec<PathBuf> = entries?.into_iter().map(|entry| entry.path()).collect();
    paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(paths)
}

fn size(path: &Path, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| mismatch("a number", number.to_string())).in_file(path)
}

fn check_count(path: &Path, got: u64, limits: &Limits) -> Result<()> {
    if got <= limits.episodes {
        return Ok(());
    }
    let hint = "raise the limit on episodes";
    Err(LeRobotError::new(path, Problem::Limit { what: "episodes", got, limit: limits.episodes, hint }))
}
