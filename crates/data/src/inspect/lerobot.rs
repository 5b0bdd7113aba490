//! LeRobot datasets with videos, as far as their metadata says.

use std::path::Path;

use super::error::InspectError;
use super::finding::Finding;
use super::report::{BrokenFile, Camera, Duplicates, ImageSize, Lengths, Report, Success, VectorWidth};
use super::suspicion::Suspicion;
use crate::lerobot::{Dataset, DatasetMetadata, Feature, Info, Problem};
use crate::recording::{DatasetFormat, OpenError};

/// What the metadata says of a dataset whose images are in videos, which cannot be decoded yet. Every file that it names
/// is looked for.
pub(super) fn of_videos(path: &Path) -> Result<Option<Report>, InspectError> {
    match path.join("meta/info.json").is_file().then(|| Dataset::open(path)) {
        Some(Err(error)) if matches!(error.problem(), Problem::Video { .. }) => {}
        _ => return Ok(None),
    }
    let metadata = DatasetMetadata::read(path).map_err(OpenError::from)?;
    let report = report(path, &metadata);
    let has_data = metadata.data_files.iter().any(|file| !metadata.missing.contains(file));
    match has_data {
        true => Ok(Some(report)),
        false => Err(InspectError::NothingRead { path: path.into(), report: Box::new(report) }),
    }
}

fn report(path: &Path, metadata: &DatasetMetadata) -> Report {
    let DatasetMetadata { info, lengths, data_files, video_files, missing } = metadata;
    let frames = lengths.iter().sum::<u64>() as usize;
    let relative = |file: &Path| file.strip_prefix(path).unwrap_or(file).display().to_string();
    let gone = |file: &std::path::PathBuf| BrokenFile {
        file: relative(file),
        problem: "the metadata names it, and it is not there".into(),
    };
    Report {
        path: path.display().to_string(),
        format: DatasetFormat::Lerobot,
        files: data_files.len() + video_files.len(),
        inspected_files: 0,
        episodes: lengths.len(),
        frames,
        lengths: steps(lengths),
        success: Success::default(),
        labels: Vec::new(),
        cameras: cameras(info, frames),
        state_widths: widths(info, &["state", "observation.state"], lengths.len()),
        action_widths: widths(info, &["actions", "action"], lengths.len()),
        reward: None,
        duplicates: Duplicates::default(),
        leakage: None,
        findings: vec![Finding::of_dataset(Suspicion::MetadataOnly, videos(info))],
        broken: missing.iter().map(gone).collect(),
        picks: Vec::new(),
    }
}

fn steps(lengths: &[u64]) -> Lengths {
    let mut all: Vec<usize> = lengths.iter().map(|length| *length as usize).collect();
    all.sort_unstable();
    let (Some(min), Some(max)) = (all.first(), all.last()) else { return Lengths::default() };
    Lengths { min: *min, median: all[all.len() / 2], max: *max, total: all.iter().sum() }
}

/// The features that cannot be looked at, each with its codec.
fn videos(info: &Info) -> Vec<String> {
    let videos = info.features.iter().filter(|feature| feature.is_video());
    let codec =
        |feature: &Feature| feature.codec.clone().unwrap_or_else(|| "a codec it does not name".into());
    videos
        .map(|feature| {
            format!("{} is a video ({}), and videos cannot be decoded yet", feature.name, codec(feature))
        })
        .collect()
}

fn cameras(info: &Info, frames: usize) -> Vec<Camera> {
    let images = info.features.iter().filter(|feature| feature.is_image() || feature.is_video());
    let camera = |feature: &Feature| {
        let shape = feature.frame_shape()?;
        let sizes = vec![ImageSize { shape: [shape.height, shape.width, shape.channels], frames }];
        Some(Camera { name: feature.name.clone(), sizes })
    };
    images.filter_map(camera).collect()
}

fn widths(info: &Info, names: &[&str], episodes: usize) -> Vec<VectorWidth> {
    let features = names.iter().filter_map(|name| info.feature(name));
    features.filter_map(|feature| Some(VectorWidth { width: *feature.shape.first()?, episodes })).collect()
}
