//! Frames of plaudit's own store.

use std::path::Path;
use std::sync::Arc;

use plaudit_core::FrameShape;

use super::cameras::CameraKey;
use super::error::LabelledError;
use super::image::FrameImage;
use super::{Kind, LabelledData, LabelledEpisode, LabelledFrame};
use crate::store::{Store, StoredEpisode};

/// In a store of chosen images, the fact that says which entry of its recording a frame is.
const FRAME: &str = "frame";
/// Labels that were added under this name count for more than what the environment said.
const LABEL: &str = "success";

pub(super) fn read(path: &Path, keys: &[CameraKey]) -> Result<LabelledData, LabelledError> {
    let store = Store::open(path)?;
    let folder = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut cameras: Vec<(String, FrameShape)> = Vec::new();
    let mut episodes = Vec::new();
    for entry in store.episodes() {
        let episode = Arc::new(store.episode(entry.id)?);
        let places = places(path, &episode, keys)?;
        let shapes = sizes(path, &episode, &places)?;
        if cameras.is_empty() {
            cameras = keys.iter().map(|key| key.written.clone()).zip(shapes).collect();
        } else if let Some(((name, first), found)) =
            cameras.iter().zip(shapes).find(|((_, first), found)| first != found)
        {
            return Err(LabelledError::Images {
                path: path.into(),
                what: format!(
                    "camera `{name}` is {}x{} in episode {} and {}x{} in the first; all images of a dataset have one size",
                    found.height, found.width, entry.id, first.height, first.width
                ),
            });
        }
        let name = entry.id.to_string();
        episodes.push(LabelledEpisode { name, folder: folder.clone(), frames: frames(&episode, &places) });
    }
    if episodes.is_empty() {
        let what = "the store is empty; collect episodes into it".into();
        return Err(LabelledError::Images { path: path.into(), what });
    }
    let (path, kind) = (path.into(), Kind::Store);
    let has_past = LabelledData::is_gapless(&episodes);
    Ok(LabelledData { path, kind, cameras, episodes, in_episodes: true, has_past, skipped: Vec::new() })
}

fn places(path: &Path, episode: &StoredEpisode, keys: &[CameraKey]) -> Result<Vec<usize>, LabelledError> {
    let place = |key: &CameraKey| {
        key.among(episode.cameras().map(|(name, _)| name)).ok_or_else(|| LabelledError::Camera {
            path: path.into(),
            camera: key.written.clone(),
            has: episode.cameras().map(|(name, _)| name.to_string()).collect(),
        })
    };
    keys.iter().map(place).collect()
}

fn sizes(path: &Path, episode: &StoredEpisode, places: &[usize]) -> Result<Vec<FrameShape>, LabelledError> {
    let all: Vec<FrameShape> = episode.cameras().map(|(_, shape)| shape).collect();
    let shapes: Vec<FrameShape> = places.iter().map(|place| all[*place]).collect();
    if shapes.iter().any(|shape| shape.bytes() == 0) {
        let what = format!("episode {} has images without pixels", episode.id());
        return Err(LabelledError::Images { path: path.into(), what });
    }
    Ok(shapes)
}

/// Every moment with a label: one that was added, else what the environment said; unknown at a reset is a failure.
fn frames(episode: &Arc<StoredEpisode>, places: &[usize]) -> Vec<LabelledFrame> {
    let added = episode.labels(LABEL);
    let label = |at: usize| match added.map(|labels| labels[at]) {
        Some(label) if label.is_nan() => None,
        Some(label) => Some(label >= 0.5),
        None => Some(episode.success_at(at).unwrap_or(false)),
    };
    let recorded = episode.fact(FRAME).filter(|places| places.iter().all(|place| *place >= 0.0));
    let frame = |at: usize| {
        let images = places.iter().map(|place| FrameImage::stored(episode, *place, at)).collect();
        let success = label(at)?;
        let state = Some(episode.state(at)).filter(|state| !state.is_empty()).map(<[f32]>::to_vec);
        let at = recorded.map_or(at, |places| places[at] as usize);
        Some(LabelledFrame { images, success, at, state })
    };
    (0..episode.entries()).filter_map(frame).collect()
}
