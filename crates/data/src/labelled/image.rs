//! One image where it lies.

use std::borrow::Cow;
use std::sync::Arc;

use plaudit_core::FrameShape;

use crate::convert::{FileProblem, Form, Layout, Strictness};
use crate::python::{Array, Buffer};
use crate::store::StoredEpisode;

/// An image in its file: bytes of height, width and channel, or what becomes them. Cloning copies no pixel.
#[derive(Clone, Debug)]
pub struct FrameImage(Place);

#[derive(Clone, Debug)]
enum Place {
    /// In a Python file, as somebody wrote it.
    File { bytes: Buffer, form: Form },
    /// In a store, as bytes.
    Store { episode: Arc<StoredEpisode>, camera: usize, at: usize },
}

impl FrameImage {
    /// An array of an image: bytes, or floats from 0 to 1. Channels are found where there are 1, 3 or 4 of them.
    pub(super) fn of(array: &Array, place: impl Fn() -> String) -> Result<Self, FileProblem> {
        let is_channels = |side: usize| matches!(side, 1 | 3 | 4);
        let layout = match *array.shape() {
            [1, first, _, last] | [first, _, last] if is_channels(first) && !is_channels(last) => {
                Layout::ChannelsFirst
            }
            _ => Layout::ChannelsLast,
        };
        let form = Form::of(array, layout, Strictness::AllowByteFloats, place)?;
        Ok(Self(Place::File { bytes: array.buffer().clone(), form }))
    }

    /// An image of a stored episode.
    pub(super) fn stored(episode: &Arc<StoredEpisode>, camera: usize, at: usize) -> Self {
        Self(Place::Store { episode: episode.clone(), camera, at })
    }

    /// Its size.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        match &self.0 {
            Place::File { form, .. } => {
                let [height, width, channels] = form.shape();
                FrameShape { height, width, channels }
            }
            Place::Store { episode, camera, .. } => {
                let nothing = FrameShape { height: 0, width: 0, channels: 0 };
                episode.cameras().nth(*camera).map_or(nothing, |(_, shape)| shape)
            }
        }
    }

    /// Its bytes: in place where they lie as wanted, else converted.
    #[must_use]
    pub fn pixels(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Place::File { bytes, form } if form.is_plain() => Cow::Borrowed(&bytes[..]),
            Place::File { bytes, form } => {
                let mut pixels = vec![0; form.shape().iter().product()];
                form.convert(bytes, &mut pixels);
                Cow::Owned(pixels)
            }
            Place::Store { episode, camera, at } => Cow::Borrowed(episode.frame(*camera, *at)),
        }
    }
}
