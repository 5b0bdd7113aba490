//! The files under `meta/`.

use std::fs::{self, File};
use std::path::Path;

use parquet::data_type::ByteArray;
use serde_json::{Map, Value, json};

use plaudit_pyfiles::plain_file;

use super::stats::Stats;
use crate::lerobot::error::{InFile, Result};
use crate::lerobot::feature::Feature;
use crate::lerobot::table::{self, Column, Text, Values};

/// A row of `meta/episodes`.
pub(super) struct EpisodeRow {
    pub(super) episode: u64,
    pub(super) task: String,
    /// Its first frame, counted over the dataset.
    pub(super) first: u64,
    pub(super) frames: u64,
    /// Chunk and file of its frames.
    pub(super) data: (u64, u64),
    /// Where its frames of each video feature are, in the order of the features.
    pub(super) videos: Vec<VideoRange>,
    pub(super) stats: Vec<Stats>,
}

/// Frames of a video file.
pub(super) struct VideoRange {
    /// Chunk and file.
    pub(super) file: (u64, u64),
    /// From when to when they are shown, in seconds.
    pub(super) secs: (f64, f64),
}

/// What a dataset is, and how much there is in it.
pub(super) struct Info<'a> {
    pub(super) robot_type: &'a str,
    pub(super) fps: f64,
    pub(super) episodes: u64,
    pub(super) frames: u64,
    pub(super) tasks: u64,
    pub(super) features: &'a [Feature],
}

/// Where each episode is, and its statistics.
pub(super) fn write_episodes(
    path: &Path,
    rows: &[EpisodeRow],
    features: &[Feature],
    (chunk, file): (u64, u64),
) -> Result<()> {
    let whole = |name: &str, of: &dyn Fn(&EpisodeRow) -> u64| {
        Column::flat(name, Values::I64(rows.iter().map(|row| of(row) as i64).collect()))
    };
    let tasks = Values::Text(rows.iter().map(|row| ByteArray::from(row.task.as_str())).collect());
    let mut columns = vec![
        whole("episode_index", &|row| row.episode),
        Column::list("tasks", 1, tasks),
        whole("length", &|row| row.frames),
        whole("data/chunk_index", &|row| row.data.0),
        whole("data/file_index", &|row| row.data.1),
        whole("dataset_from_index", &|row| row.first),
        whole("dataset_to_index", &|row| row.first + row.frames),
    ];
    for (at, feature) in features.iter().filter(|feature| feature.is_video()).enumerate() {
        columns.extend(video_columns(rows, &feature.name, at));
    }
    for (at, feature) in features.iter().enumerate() {
        let stats: Vec<&Stats> = rows.iter().filter_map(|row| row.stats.get(at)).collect();
        columns.extend(Stats::to_columns(&feature.name, &stats));
    }
    columns.push(whole("meta/episodes/chunk_index", &|_| chunk));
    columns.push(whole("meta/episodes/file_index", &|_| file));
    write_table(path, rows.len(), &columns, &[])
}

/// Where each episode's frames of the video feature number `at` are.
fn video_columns(rows: &[EpisodeRow], feature: &str, at: usize) -> Vec<Column> {
    let videos = || rows.iter().filter_map(|row| row.videos.get(at));
    let column = |name: &str, values| Column::flat(format!("videos/{feature}/{name}"), values);
    vec![
        column("chunk_index", Values::I64(videos().map(|video| video.file.0 as i64).collect())),
        column("file_index", Values::I64(videos().map(|video| video.file.1 as i64).collect())),
        column("from_timestamp", Values::F64(videos().map(|video| video.secs.0).collect())),
        column("to_timestamp", Values::F64(videos().map(|video| video.secs.1).collect())),
    ]
}

/// The tasks, as pandas keeps a table whose index is a text.
pub(super) fn write_tasks(path: &Path, tasks: &[String]) -> Result<()> {
    const INDEX: &str = "__index_level_0__";
    let numbers = Values::I64((0..tasks.len() as i64).collect());
    let texts = Values::Text(tasks.iter().map(|task| ByteArray::from(task.as_str())).collect());
    let pandas = json!({
        "index_columns": [INDEX],
        "column_indexes": [{
            "name": null, "field_name": null, "pandas_type": "unicode", "numpy_type": "object",
            "metadata": { "encoding": "UTF-8" },
        }],
        "columns": [
            { "name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64",
              "metadata": null },
            { "name": null, "field_name": INDEX, "pandas_type": "unicode", "numpy_type": "object",
              "metadata": null },
        ],
        "creator": { "library": "plaudit", "version": env!("CARGO_PKG_VERSION") },
        "pandas_version": "2.2.3",
    });
    let columns = [Column::flat("task_index", numbers), Column::flat(INDEX, texts)];
    write_table(path, tasks.len(), &columns, &[("pandas", pandas.to_string())])
}

/// Statistics over all episodes.
pub(super) fn write_stats(path: &Path, features: &[Feature], stats: &[Stats]) -> Result<()> {
    let all: Map<String, Value> =
        features.iter().zip(stats).map(|(feature, stats)| (feature.name.clone(), stats.to_json())).collect();
    write_json(path, &Value::Object(all))
}

/// What the dataset is.
pub(super) fn write_info(path: &Path, info: &Info<'_>) -> Result<()> {
    // lerobot counts frames per second in whole numbers; a fraction is kept as it is.
    let whole = info.fps.fract() == 0.0 && info.fps.abs() < 1e9;
    let fps = if whole { json!(info.fps as i64) } else { json!(info.fps) };
    let features: Map<String, Value> =
        info.features.iter().map(|feature| (feature.name.clone(), feature.to_json(&fps))).collect();
    let has_videos = info.features.iter().any(Feature::is_video);
    let video_path =
        has_videos.then_some("videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4");
    let written = json!({
        "codebase_version": "v3.0",
        "robot_type": info.robot_type,
        "total_episodes": info.episodes,
        "total_frames": info.frames,
        "total_tasks": info.tasks,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": fps,
        "splits": { "train": format!("0:{}", info.episodes) },
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": video_path,
        "features": features,
    });
    write_json(path, &written)
}

/// How many episodes the dataset in a folder says it has; none, if it says nothing.
pub(super) fn total_episodes(root: &Path) -> u64 {
    let text = plain_file::read(&root.join("meta/info.json"), 64 << 20).unwrap_or_default();
    let info: Value = serde_json::from_slice(&text).unwrap_or_default();
    info.get("total_episodes").and_then(Value::as_u64).unwrap_or(0)
}

fn write_table(path: &Path, rows: usize, columns: &[Column], texts: &[Text]) -> Result<()> {
    let file = File::create_new(path).in_file(path)?;
    table::write(file, rows, columns, texts).in_file(path)?.sync_all().in_file(path)
}

fn write_json(path: &Path, value: &Value) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).in_file(path)?;
    text.push('\n');
    fs::write(path, text).in_file(path)?;
    File::open(path).and_then(|file| file.sync_all()).in_file(path)
}
