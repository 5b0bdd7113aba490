//! The images of an episode, as a judge is shown them. Each is decoded when it is asked for.

use plaudit_data::recording::Recording;

use super::conversation::RgbImage;
use crate::dataset::Frames;
use crate::models::RewardModelError;

/// The images of an episode.
pub struct EpisodeClip<'a> {
    name: &'a str,
    len: usize,
    cameras: usize,
    image: Box<dyn Fn(usize, usize) -> Result<RgbImage<'a>, RewardModelError> + 'a>,
}

impl<'a> EpisodeClip<'a> {
    /// Frames of a dataset; `episode` are their numbers, in order.
    #[must_use]
    pub fn of_frames(frames: &'a Frames, episode: &'a [usize]) -> Self {
        let image = move |at: usize, view: usize| {
            let pixels = frames.pixels(episode[at], view).map_err(backend)?;
            Ok(RgbImage::rgb_of(frames.image(episode[at], view).shape(), pixels))
        };
        Self {
            name: episode.first().map_or("", |first| frames.origin(*first).episode),
            len: episode.len(),
            cameras: frames.views().len(),
            image: Box::new(image),
        }
    }

    /// A recording, through these of its cameras.
    #[must_use]
    pub fn of_recording(recording: &'a Recording, cameras: &'a [String]) -> Self {
        let image = move |at: usize, view: usize| {
            let camera = cameras[view].as_str();
            let image = recording.frame(at, camera).map_err(backend)?;
            let image = image.ok_or_else(|| RewardModelError::Camera { camera: camera.into() })?;
            let pixels = image.pixels().map_err(backend)?.into_owned();
            Ok(RgbImage::rgb_of(image.shape(), pixels.into()))
        };
        Self { name: recording.name(), len: recording.len(), cameras: cameras.len(), image: Box::new(image) }
    }

    /// What the episode is called.
    pub(super) fn name(&self) -> &'a str {
        self.name
    }

    /// How many frames there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many cameras show them.
    pub(super) fn cameras(&self) -> usize {
        self.cameras
    }

    pub(super) fn image(&self, at: usize, view: usize) -> Result<RgbImage<'a>, RewardModelError> {
        (self.image)(at, view)
    }
}

fn backend(error: impl std::error::Error + Send + Sync + 'static) -> RewardModelError {
    RewardModelError::Backend(Box::new(error))
}
