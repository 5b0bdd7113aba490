//! An episode to be written: its numbers, and images that are asked for one after the other.

use std::borrow::Cow;
use std::sync::Arc;

use plaudit_core::FrameShape;

use crate::episode::{CameraTrack, Episode};
use crate::lerobot::error::Problem;

/// An episode whose images need not be in memory together.
pub struct SourceEpisode<'a> {
    /// Its numbers. The images in it are not used.
    pub episode: &'a Episode,
    /// Images by camera, the main view first.
    pub cameras: Vec<SourceCamera<'a>>,
    /// Whether its rewards were recorded.
    pub has_rewards: bool,
    /// What is known of its success.
    pub success: KnownSuccess,
}

/// What is known of an episode's success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownSuccess {
    /// Nothing.
    Nothing,
    /// Of the whole.
    Episode,
    /// At each step.
    Steps,
}

/// One camera's images.
pub struct SourceCamera<'a> {
    /// Which camera.
    pub name: Arc<str>,
    /// Shape of each image.
    pub shape: FrameShape,
    /// The image before an action, HWC, or why there is none.
    pub image: ImageAt<'a>,
}

/// Gives the image of a frame, HWC, or says why there is none.
pub type ImageAt<'a> = Box<dyn Fn(usize) -> Result<Cow<'a, [u8]>, String> + 'a>;

impl<'a> From<&'a Episode> for SourceEpisode<'a> {
    /// As environments give them: everything is known.
    fn from(episode: &'a Episode) -> Self {
        let cameras = episode.cameras.iter().map(SourceCamera::from).collect();
        Self { episode, cameras, has_rewards: true, success: KnownSuccess::Steps }
    }
}

impl<'a> From<&'a CameraTrack> for SourceCamera<'a> {
    fn from(track: &'a CameraTrack) -> Self {
        let image = Box::new(|at| Ok(Cow::Borrowed(track.image(at))));
        Self { name: track.name.clone(), shape: track.shape, image }
    }
}

impl SourceCamera<'_> {
    /// The image of a frame, which has the bytes of its shape.
    pub(super) fn at(&self, frame: usize) -> Result<Cow<'_, [u8]>, Problem> {
        let image = (self.image)(frame).map_err(|why| Problem::Image { frame, why })?;
        match image.len() == self.shape.bytes() {
            true => Ok(image),
            false => {
                let why = format!("{} bytes, where {} are expected", image.len(), self.shape.bytes());
                Err(Problem::Image { frame, why })
            }
        }
    }
}
