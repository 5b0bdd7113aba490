//! LeRobot datasets with videos, as far as their metadata tells.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::collection::{Format, list};
use super::error::InspectError;
use super::finding::Finding;
use super::report::{Camera, Duplicates, Lengths, Report, Size, Success, Width};
use super::suspicion::Suspicion;
use crate::lerobot::{Dataset, Problem};

/// What `meta/info.json` says of a dataset whose images are in videos, which are not read.
pub(super) fn of_videos(path: &Path) -> Result<Option<Report>, InspectError> {
    let file = path.join("meta/info.json");
    let video = match file.is_file().then(|| Dataset::open(path)) {
        Some(Err(error)) if matches!(error.problem(), Problem::Video { .. }) => error.to_string(),
        _ => return Ok(None),
    };
    let failed = |source| InspectError::Read { path: file.clone(), source };
    let text = fs::read(&file).map_err(failed)?;
    let info: Value = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    let count = |key: &str| info[key].as_u64().unwrap_or(0) as usize;
    let (episodes, frames) = (count("total_episodes"), count("total_frames"));
    Ok(Some(Report {
        path: path.display().to_string(),
        format: Format::Lerobot,
        files: parquet_files(&path.join("data")),
        looked_at: 0,
        episodes,
        frames,
        lengths: lengths(path, episodes, frames),
        success: Success::default(),
        labels: Vec::new(),
        cameras: cameras(&info, frames),
        state_widths: widths(&info, &["state", "observation.state"], episodes),
        action_widths: widths(&info, &["actions", "action"], episodes),
        reward: None,
        duplicates: Duplicates::default(),
        leakage: None,
        findings: vec![Finding::whole(Suspicion::MetadataOnly, vec![video])],
        broken: Vec::new(),
        picks: Vec::new(),
    }))
}

fn parquet_files(folder: &Path) -> usize {
    let chunks = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    chunks.map(|chunk| list(&chunk, "parquet").len()).sum()
}

/// From the list of episodes where it is text, as in version 2; the average where it is not.
fn lengths(path: &Path, episodes: usize, frames: usize) -> Lengths {
    let text = fs::read_to_string(path.join("meta/episodes.jsonl")).unwrap_or_default();
    let length = |line: &str| serde_json::from_str::<Value>(line).ok()?["length"].as_u64();
    let mut all: Vec<usize> = text.lines().filter_map(length).map(|length| length as usize).collect();
    all.sort_unstable();
    let mean = frames / episodes.max(1);
    let at = |place: usize| all.get(place).copied().unwrap_or(mean);
    Lengths { min: at(0), median: at(all.len() / 2), max: at(all.len().saturating_sub(1)), total: frames }
}

fn cameras(info: &Value, frames: usize) -> Vec<Camera> {
    let features = info["features"].as_object().into_iter().flatten();
    let camera = |(name, feature): (&String, &Value)| {
        if !matches!(feature["dtype"].as_str(), Some("image" | "video")) {
            return None;
        }
        let side = |at: usize| feature["shape"][at].as_u64().unwrap_or(0) as usize;
        let sizes = vec![Size { shape: [side(0), side(1), side(2)], frames }];
        Some(Camera { name: name.clone(), sizes })
    };
    features.filter_map(camera).collect()
}

fn widths(info: &Value, names: &[&str], episodes: usize) -> Vec<Width> {
    let width = |width| Width { width: width as usize, episodes };
    names.iter().filter_map(|name| info["features"][*name]["shape"][0].as_u64()).map(width).collect()
}
