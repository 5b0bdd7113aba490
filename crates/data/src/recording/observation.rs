//! One observation: images by camera, and a state.

use std::sync::Arc;

use plaudit_pyfiles::{Array, DType, PyValue};

use super::cameras::{CameraKey, MAIN};
use super::frame::Frame;
use super::image_file::EncodedImage;
use super::keys;
use super::pixel_format::ChannelOrder;
use super::problem::FileProblem;
use crate::store::StoredEpisode;
use crate::video::VideoSegment;

/// What was seen at one step. Nothing of it is read before it is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// A dict as a collector wrote it.
    Dict(PyValue),
    /// One row of columns.
    Row(Arc<Columns>, usize),
    /// One entry of a stored episode.
    Stored(Arc<StoredEpisode>, usize),
}

/// Observations that lie in columns: the images of each camera one after the other.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(super) cameras: Vec<(String, Vec<Array>)>,
    /// Cameras whose images are in videos, counted after the others.
    pub(super) videos: Vec<(String, VideoSegment)>,
    /// Cameras whose images are compressed one by one, counted after those.
    pub(super) encoded: Vec<(String, Vec<EncodedImage>)>,
    pub(super) states: Vec<Vec<f32>>,
    /// Where channels are looked for first.
    pub(super) channel_order: ChannelOrder,
    /// Which camera is the main one; the first if nothing is said.
    pub(super) main: Option<usize>,
}

impl Columns {
    /// An observation of each row.
    pub(super) fn rows(self, count: usize) -> Vec<Observation> {
        let columns = Arc::new(self);
        (0..count).map(|at| Observation::Row(columns.clone(), at)).collect()
    }
}

impl Observation {
    /// Every image, with the name of its camera.
    pub(crate) fn images(&self) -> Vec<(String, Frame)> {
        match self {
            Self::Dict(value) => images_of(value),
            Self::Row(columns, at) => {
                let image = |(name, images): &(String, Vec<Array>)| {
                    Some((name.clone(), Frame::found(images.get(*at)?, columns.channel_order)?))
                };
                let arrays = columns.cameras.iter().filter_map(image);
                let filmed = |(name, video): &(String, VideoSegment)| {
                    (*at < video.len).then(|| (name.clone(), Frame::Video(video.clone(), *at)))
                };
                let encoded = |(name, images): &(String, Vec<EncodedImage>)| {
                    Some((name.clone(), Frame::Encoded(images.get(*at)?.clone())))
                };
                let filmed = columns.videos.iter().filter_map(filmed);
                arrays.chain(filmed).chain(columns.encoded.iter().filter_map(encoded)).collect()
            }
            Self::Stored(episode, at) => {
                let cameras = episode.cameras().enumerate();
                cameras
                    .map(|(camera, (name, _))| (name.into(), Frame::stored(episode, camera, *at)))
                    .collect()
            }
        }
    }

    /// The image of a camera, if it has one.
    pub(crate) fn image(
        &self,
        key: &CameraKey,
        location: impl Fn() -> String,
    ) -> Result<Option<Frame>, FileProblem> {
        match self {
            Self::Dict(value) => image_under(value, key, location),
            Self::Row(columns, at) => Ok(columns.index(key).and_then(|index| columns.frame(index, *at))),
            Self::Stored(episode, at) => {
                let index = key.among(episode.cameras().map(|(name, _)| name));
                Ok(index.map(|index| Frame::stored(episode, index, *at)))
            }
        }
    }

    /// The environment's state vector, if it was recorded.
    pub(crate) fn state(&self) -> Option<Vec<f32>> {
        match self {
            Self::Dict(value) => {
                ["states", "state"].iter().find_map(|key| value.get(key)?.as_array()?.to_f32())
            }
            Self::Row(columns, at) => columns.states.get(*at).filter(|state| !state.is_empty()).cloned(),
            Self::Stored(episode, at) => Some(episode.state(*at).to_vec()).filter(|state| !state.is_empty()),
        }
    }

    /// The names that an image could have been under, for a message.
    pub(crate) fn names(&self) -> String {
        match self {
            Self::Dict(value) => keys::of(Some(value)),
            _ => {
                let names: Vec<String> = self.images().into_iter().map(|(name, _)| name).collect();
                if names.is_empty() { "nothing".into() } else { names.join(", ") }
            }
        }
    }

    /// The task in words, where each observation carries it.
    pub(crate) fn task(&self) -> Option<&str> {
        let Self::Dict(value) = self else { return None };
        value.get("task_descriptions").and_then(PyValue::as_str).filter(|text| !text.is_empty())
    }
}

impl Columns {
    fn index(&self, key: &CameraKey) -> Option<usize> {
        match self.main {
            Some(main) if key.written == MAIN => Some(main),
            _ => {
                let arrays = self.cameras.iter().map(|(name, _)| name.as_str());
                let videos = self.videos.iter().map(|(name, _)| name.as_str());
                let encoded = self.encoded.iter().map(|(name, _)| name.as_str());
                key.among(arrays.chain(videos).chain(encoded))
            }
        }
    }

    fn frame(&self, camera: usize, at: usize) -> Option<Frame> {
        if let Some((_, images)) = self.cameras.get(camera) {
            return Some(Frame::assumed(images.get(at)?, self.channel_order));
        }
        let camera = camera - self.cameras.len();
        if let Some((_, video)) = self.videos.get(camera) {
            return (at < video.len).then(|| Frame::Video(video.clone(), at));
        }
        let (_, images) = self.encoded.get(camera - self.videos.len())?;
        images.get(at).cloned().map(Frame::Encoded)
    }
}

fn image_under(
    value: &PyValue,
    key: &CameraKey,
    location: impl Fn() -> String,
) -> Result<Option<Frame>, FileProblem> {
    let array = match value.get(&key.key) {
        None | Some(PyValue::None) => return Ok(None),
        Some(PyValue::Array(array) | PyValue::Tensor(array)) => array,
        Some(PyValue::List(items) | PyValue::Tuple(items)) => {
            let image = items.get(key.view).and_then(PyValue::as_array);
            return Ok(image.map(|image| Frame::assumed(image, ChannelOrder::ChannelsLast)));
        }
        Some(other) => {
            let found = other.kind();
            return Err(FileProblem::Kind { location: location(), expected: "torch tensor", found });
        }
    };
    let view = match array.shape().len() {
        4 => array.row(key.view),
        _ => (key.view == 0).then(|| (**array).clone()),
    };
    Ok(view.map(|array| Frame::assumed(&array, ChannelOrder::ChannelsLast)))
}

fn images_of(observation: &PyValue) -> Vec<(String, Frame)> {
    let mut images = Vec::new();
    let mut add = |name: String, array: &Array| {
        images.extend(Frame::found(array, ChannelOrder::ChannelsLast).map(|frame| (name, frame)));
    };
    for (key, value) in observation.as_dict().into_iter().flat_map(|dict| dict.iter()) {
        let (Some(key), Some(array)) = (key.as_str(), value.as_array()) else { continue };
        if !is_pixels(key, array) {
            continue;
        }
        match *array.shape() {
            [views, _, _, _] if views > 1 => (0..views).for_each(|at| {
                array.row(at).iter().for_each(|array| add(format!("{key}[{at}]"), array));
            }),
            _ => add(key.into(), array),
        }
    }
    images
}

/// Bytes in three axes are pixels; floats are when they are called so.
fn is_pixels(key: &str, array: &Array) -> bool {
    let called_so =
        || ["image", "camera", "rgb", "view", "frame", "pixels"].iter().any(|word| key.contains(word));
    let floats = matches!(array.dtype(), DType::F16 | DType::F32 | DType::F64 | DType::Bf16);
    array.shape().len() >= 3 && (array.dtype() == DType::U8 || floats && called_so())
}

/// All numbers of an array, or the one number that it is; none where it is neither.
pub(super) fn numbers(value: &PyValue) -> Vec<f32> {
    match value.as_array() {
        Some(array) => array.to_f32().unwrap_or_default(),
        None => match value.as_items() {
            Some(items) => items.iter().filter_map(PyValue::to_f64).map(|number| number as f32).collect(),
            None => value.to_f64().map(|number| number as f32).into_iter().collect(),
        },
    }
}
