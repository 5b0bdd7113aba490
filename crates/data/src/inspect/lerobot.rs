//! LeRobot datasets with videos, as far as their metadata says.

use std::path::{Path, PathBuf};

use super::error::InspectError;
use super::finding::Finding;
use super::report::{
    BrokenFile, Camera, Duplicates, ImageSize, Interventions, Lengths, Report, Success, VectorWidth, relative,
};
use super::suspicion::Suspicion;
use crate::lerobot::{Dataset, DatasetMetadata, Feature, Info, Problem, shards};
use crate::recording::{DatasetFormat, OpenError};
use crate::video::{Video, VideoError};

/// What the metadata says of a dataset whose videos nothing here decodes. Every file that it names is looked for.
pub(super) fn of_videos(path: &Path) -> Result<Option<Report>, InspectError> {
    let is_dataset = path.join("meta/info.json").is_file();
    match is_dataset.then(|| Dataset::open(path).and_then(|dataset| dataset.video_decoders())) {
        Some(Err(error)) if matches!(error.problem(), Problem::Video(VideoError::NoDecoder { .. })) => {}
        _ => return Ok(None),
    }
    let metadata = DatasetMetadata::read(path).map_err(OpenError::from)?;
    let report = report(path, &metadata, "nothing here decodes it: install ffmpeg");
    let has_data = metadata.data_files.iter().any(|file| !metadata.missing.contains(file));
    match has_data {
        true => Ok(Some(report)),
        false => Err(InspectError::NothingRead { path: path.into(), report: Box::new(report) }),
    }
}

/// What the metadata says of a dataset of which no episode could be read because its videos are damaged; nothing where
/// they are not what is wrong.
pub(super) fn of_damaged_videos(path: &Path) -> Option<Report> {
    let metadata = DatasetMetadata::read(path).ok().filter(|metadata| !metadata.video_files.is_empty())?;
    let mut report = report(path, &metadata, "none of its frames could be read");
    let there = metadata.video_files.iter().filter(|file| !metadata.missing.contains(file));
    let damage = |file: &PathBuf| {
        let error = Video::open(file).and_then(|video| video.check_first()).err()?;
        Some(BrokenFile { file: relative(file, path), problem: error.to_string() })
    };
    report.broken.extend(there.filter_map(damage));
    let is_missing = |file: &PathBuf| metadata.missing.contains(file);
    let is_damaged = !report.broken.is_empty() && !metadata.data_files.iter().all(is_missing);
    is_damaged.then_some(report)
}

/// Says of each camera that is a video what it was decoded by.
pub(super) fn name_decoders(path: &Path, cameras: &mut [Camera]) {
    for shard in shards(path).unwrap_or_default() {
        let found = Dataset::open(&shard).and_then(|dataset| dataset.video_decoders()).unwrap_or_default();
        for (name, codec, decoder) in found {
            let of_it = cameras.iter_mut().filter(|camera| camera.name == name);
            of_it.for_each(|camera| camera.video = Some(format!("{codec} by {decoder}")));
        }
    }
}

/// `why` is why no frame was looked at.
fn report(path: &Path, metadata: &DatasetMetadata, why: &str) -> Report {
    let DatasetMetadata { info, lengths, data_files, video_files, missing } = metadata;
    let frames = lengths.iter().sum::<u64>() as usize;
    let gone = |file: &PathBuf| BrokenFile {
        file: relative(file, path),
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
        interventions: Interventions::default(),
        duplicates: Duplicates::default(),
        leakage: None,
        findings: vec![Finding::of_dataset(Suspicion::MetadataOnly, videos(info, why))],
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

/// The features that were not looked at, each with its codec.
fn videos(info: &Info, why: &str) -> Vec<String> {
    let videos = info.features.iter().filter(|feature| feature.is_video());
    let codec =
        |feature: &Feature| feature.codec.clone().unwrap_or_else(|| "a codec it does not name".into());
    videos.map(|feature| format!("{} is a video ({}), and {why}", feature.name, codec(feature))).collect()
}

fn cameras(info: &Info, frames: usize) -> Vec<Camera> {
    let images = info.features.iter().filter(|feature| feature.is_image() || feature.is_video());
    let camera = |feature: &Feature| {
        let shape = feature.frame_shape()?;
        let sizes = vec![ImageSize { shape: [shape.height, shape.width, shape.channels], frames }];
        Some(Camera { name: feature.name.clone(), sizes, video: None })
    };
    images.filter_map(camera).collect()
}

fn widths(info: &Info, names: &[&str], episodes: usize) -> Vec<VectorWidth> {
    let features = names.iter().filter_map(|name| info.feature(name));
    features.filter_map(|feature| Some(VectorWidth { width: *feature.shape.first()?, episodes })).collect()
}
