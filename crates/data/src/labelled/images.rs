//! `train.pt` and `val.pt`: a list of images and a list of labels.

use std::path::Path;

use super::cameras::{CameraKey, MAIN};
use super::error::LabelledError;
use super::image::FrameImage;
use super::{Kind, LabelledData, LabelledEpisode, LabelledFrame};
use crate::convert::Origins;
use crate::python::{self, Array, PyValue};

/// All images of a file, by episode where the file says which they are from.
pub(super) fn read(path: &Path, cameras: &[CameraKey]) -> Result<LabelledData, LabelledError> {
    let wrong = |what: String| LabelledError::Images { path: path.into(), what };
    if let Some(camera) = cameras.iter().find(|camera| camera.key != MAIN || cameras.len() > 1) {
        return Err(wrong(format!(
            "a .pt of images has one camera, so `{}` cannot be told apart; train from the episodes, which have all",
            camera.written
        )));
    }
    let value = python::read(path).map_err(|error| wrong(error.to_string()))?;
    let need = |key: &str| {
        value.get(key).ok_or_else(|| {
            wrong(format!("a {} without `{key}`; is it what `plaudit dataset images` wrote?", value.kind()))
        })
    };
    let labels = labels(need("labels")?).ok_or_else(|| wrong("its labels are no zeros and ones".into()))?;
    let images = arrays(need("images")?).ok_or_else(|| wrong("its images are no arrays".into()))?;
    if images.len() != labels.len() {
        return Err(wrong(format!("{} images and {} labels; convert it again", images.len(), labels.len())));
    }
    let frame = |(at, (image, success)): (usize, (Array, bool))| {
        let image = FrameImage::of(&image, || format!("images[{at}]"))
            .map_err(|problem| LabelledError::Frames(problem.in_file(path)))?;
        Ok(LabelledFrame { images: vec![image], success, at, state: None })
    };
    let frames: Vec<LabelledFrame> =
        images.into_iter().zip(labels).enumerate().map(frame).collect::<Result<_, LabelledError>>()?;
    let Some(shape) = frames.first().map(|frame| frame.images[0].shape()) else {
        return Err(wrong("it holds no image; convert the episodes again".into()));
    };
    if let Some(other) = frames.iter().find(|frame| frame.images[0].shape() != shape) {
        let found = other.images[0].shape();
        let size =
            |shape: plaudit_core::FrameShape| format!("{}x{}x{}", shape.height, shape.width, shape.channels);
        return Err(wrong(format!(
            "images[0] is {}, but images[{}] is {}; all images of a dataset have one size",
            size(shape),
            other.at,
            size(found)
        )));
    }
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let origins = Origins::read(&value).filter(|origins| origins.of.len() == frames.len());
    let in_episodes = origins.is_some();
    let episodes = match origins {
        Some(origins) => by_episode(&origins, frames, &folder),
        None => vec![LabelledEpisode { name: stem, folder, frames }],
    };
    let cameras = vec![(cameras[0].written.clone(), shape)];
    let has_past = in_episodes && LabelledData::is_gapless(&episodes);
    Ok(LabelledData {
        path: path.into(),
        kind: Kind::Images,
        cameras,
        episodes,
        in_episodes,
        has_past,
        skipped: Vec::new(),
    })
}

/// Frames back in their episodes, in their order there.
fn by_episode(origins: &Origins, frames: Vec<LabelledFrame>, folder: &str) -> Vec<LabelledEpisode> {
    let empty =
        |name: &String| LabelledEpisode { name: name.clone(), folder: folder.into(), frames: Vec::new() };
    let mut episodes: Vec<LabelledEpisode> = origins.episodes.iter().map(empty).collect();
    for (frame, (episode, at)) in frames.into_iter().zip(&origins.of) {
        episodes[*episode].frames.push(LabelledFrame { at: *at, ..frame });
    }
    episodes.retain(|episode| !episode.frames.is_empty());
    for episode in &mut episodes {
        episode.frames.sort_by_key(|frame| frame.at);
    }
    episodes
}

/// A list of numbers, or an array of them; anything but 0 is a success.
fn labels(value: &PyValue) -> Option<Vec<bool>> {
    match value.as_items() {
        Some(items) => items.iter().map(PyValue::to_bool).collect(),
        None => Some(value.as_array()?.to_f64()?.into_iter().map(|label| label != 0.0).collect()),
    }
}

/// A list of arrays, or one array of all.
fn arrays(value: &PyValue) -> Option<Vec<Array>> {
    match value.as_items() {
        Some(items) => items.iter().map(|item| item.as_array().cloned()).collect(),
        None => {
            let stack = value.as_array()?;
            (0..*stack.shape().first()?).map(|at| stack.row(at)).collect()
        }
    }
}
