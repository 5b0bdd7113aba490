//! One image where it lies, and its bytes of height, width and channel.

use std::borrow::Cow;
use std::sync::Arc;

use plaudit_core::FrameShape;
use plaudit_draw as draw;
use plaudit_pyfiles::Array;

use super::image_file::EncodedImage;
use super::pixel_format::{ChannelOrder, PixelFormat, Strictness};
use super::problem::FileProblem;
use crate::store::StoredEpisode;
use crate::video::{VideoError, VideoSegment};

/// An image as it lies in its file. Cloning copies no pixel.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    /// In a Python file, as somebody wrote it.
    Array(Array, ChannelOrder),
    /// In a store, as bytes.
    Stored(Arc<StoredEpisode>, usize, usize),
    /// In a video, decoded when it is asked for.
    Video(VideoSegment, usize),
    /// A PNG or JPEG, decoded when it is asked for.
    Encoded(EncodedImage),
}

/// An image in its file: bytes of height, width and channel, or what becomes them. Cloning copies no pixel.
#[derive(Clone, Debug)]
pub struct FrameImage {
    frame: Frame,
    pixel_format: PixelFormat,
}

impl FrameImage {
    /// An image: bytes, or floats from 0 to 1. Channels are found where there are 1, 3 or 4 of them.
    pub(crate) fn of(frame: Frame, location: impl Fn() -> String) -> Result<Self, FileProblem> {
        let pixel_format = frame.pixel_format(None, Strictness::AllowByteFloats, location)?;
        Ok(Self { frame, pixel_format })
    }

    /// Its size.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let [height, width, channels] = self.sides();
        FrameShape { height, width, channels }
    }

    /// Height, width and channels.
    pub(crate) fn sides(&self) -> [usize; 3] {
        self.pixel_format.shape()
    }

    /// Its bytes: a slice of the file where they lie as wanted, else converted or decoded.
    ///
    /// # Errors
    /// When it is a frame of a video that cannot be decoded.
    pub fn pixels(&self) -> Result<Cow<'_, [u8]>, FileProblem> {
        self.frame.pixels_as(&self.pixel_format)
    }

    /// What tells it from others, into a hash: its pixels, or of a video or of a compressed
    /// image what it is decoded from, so that nothing has to be decoded for it.
    ///
    /// # Errors
    /// When it is a frame of a video that ends before it.
    pub fn identity(&self) -> Result<Cow<'_, [u8]>, FileProblem> {
        match &self.frame {
            Frame::Video(segment, at) => {
                let digest = segment.digest(*at).map_err(|error| in_video(segment, error))?;
                Ok(Cow::Owned(digest.to_vec()))
            }
            Frame::Encoded(image) => Ok(Cow::Borrowed(image.bytes())),
            Frame::Array(..) | Frame::Stored(..) => self.pixels(),
        }
    }

    /// Made small and put into the middle of a black square of RGB.
    pub(crate) fn thumb(&self, side: usize) -> Result<Vec<u8>, FileProblem> {
        let small = draw::Canvas::fitted(self.shape(), &self.pixels()?, side);
        let mut square = draw::Canvas::filled(side, side, [0; 3]);
        let middle = ((side - small.width().min(side)) / 2, (side - small.height().min(side)) / 2);
        square.put(middle, &small);
        Ok(square.pixels().to_vec())
    }
}

impl Frame {
    /// An image, if an array has the shape of one.
    pub(super) fn found(array: &Array, prefer: ChannelOrder) -> Option<Self> {
        Some(Self::Array(array.clone(), order(array.shape(), prefer)?))
    }

    /// An array that is an image, whatever its shape: one that is none is refused when its pixels are asked for.
    pub(super) fn assumed(array: &Array, prefer: ChannelOrder) -> Self {
        Self::Array(array.clone(), order(array.shape(), prefer).unwrap_or(prefer))
    }

    /// An image of a stored episode.
    pub(super) fn stored(episode: &Arc<StoredEpisode>, camera: usize, at: usize) -> Self {
        Self::Stored(episode.clone(), camera, at)
    }

    /// Its pixel format; `said` is the order of channels that somebody vouches for.
    pub(crate) fn pixel_format(
        &self,
        said: Option<ChannelOrder>,
        strictness: Strictness,
        location: impl Fn() -> String,
    ) -> Result<PixelFormat, FileProblem> {
        match self {
            Self::Array(array, order) => PixelFormat::of(array, said.unwrap_or(*order), strictness, location),
            Self::Stored(episode, camera, _) => {
                let shape = episode.cameras().nth(*camera).map(|(_, shape)| shape);
                let shape = shape.map_or([0; 3], |shape| [shape.height, shape.width, shape.channels]);
                PixelFormat::bytes(shape)
                    .ok_or_else(|| FileProblem::Shape { location: location(), shape: shape.to_vec() })
            }
            Self::Video(segment, _) => decoded_format(segment.frames.shape(), location),
            Self::Encoded(image) => decoded_format(image.shape(), location),
        }
    }

    /// Its bytes where they lie; nothing where they have to be decoded.
    pub(crate) fn in_place(&self) -> Option<&[u8]> {
        match self {
            Self::Array(array, _) => Some(array.bytes()),
            Self::Stored(episode, camera, at) => Some(episode.frame(*camera, *at)),
            Self::Video(..) | Self::Encoded(_) => None,
        }
    }

    /// Its bytes as they are stored, or decoded.
    pub(crate) fn stored_bytes(&self) -> Result<Cow<'_, [u8]>, FileProblem> {
        match self {
            Self::Array(array, _) => Ok(Cow::Borrowed(array.bytes())),
            Self::Stored(episode, camera, at) => Ok(Cow::Borrowed(episode.frame(*camera, *at))),
            Self::Video(segment, at) => {
                let rgb = segment.rgb(*at).map_err(|error| in_video(segment, error))?;
                Ok(Cow::Owned(rgb.to_vec()))
            }
            Self::Encoded(image) => image.rgb().map(Cow::Owned),
        }
    }

    /// The image that it is.
    pub(crate) fn image(&self) -> Result<FrameImage, FileProblem> {
        FrameImage::of(self.clone(), || "an image".into())
    }

    /// Its bytes, where the format is known.
    pub(crate) fn pixels_as(&self, format: &PixelFormat) -> Result<Cow<'_, [u8]>, FileProblem> {
        let stored = self.stored_bytes()?;
        if format.is_plain() {
            return Ok(stored);
        }
        let mut bytes = vec![0; format.shape().iter().product()];
        format.convert(&stored, &mut bytes);
        Ok(Cow::Owned(bytes))
    }
}

fn decoded_format(shape: FrameShape, location: impl Fn() -> String) -> Result<PixelFormat, FileProblem> {
    let shape = [shape.height, shape.width, shape.channels];
    let wrong = || FileProblem::Shape { location: location(), shape: shape.to_vec() };
    PixelFormat::bytes(shape).ok_or_else(wrong)
}

fn in_video(segment: &VideoSegment, source: VideoError) -> FileProblem {
    FileProblem::Video { path: segment.frames.path().into(), source }
}

/// Where the channels are: there are 1, 3 or 4 of them.
fn order(shape: &[usize], prefer: ChannelOrder) -> Option<ChannelOrder> {
    let is_channels = |side: usize| matches!(side, 1 | 3 | 4);
    let ([1, first, _, last] | [first, _, last]) = *shape else { return None };
    match (is_channels(first), is_channels(last)) {
        (true, true) => Some(prefer),
        (true, false) => Some(ChannelOrder::ChannelsFirst),
        (false, true) => Some(ChannelOrder::ChannelsLast),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_fitted_whole() {
        let array = Array::from_slice(&[2, 4, 3], &[10u8; 24]).unwrap();
        let image = Frame::found(&array, ChannelOrder::ChannelsLast).unwrap();
        let fitted = image.image().unwrap().thumb(4).unwrap();
        assert_eq!(&fitted[..12], [0; 12], "a wide image has bars above and below");
        assert_eq!(&fitted[12..36], [10; 24]);
        let grey = Array::from_slice(&[1, 2, 2], &[0.0f32, 0.2, 0.4, 1.0]).unwrap();
        let small = Frame::found(&grey, ChannelOrder::ChannelsLast).unwrap();
        assert_eq!(small.image().unwrap().thumb(1).unwrap(), [102; 3]);
        assert!(
            Frame::found(&Array::from_slice(&[7], &[0u8; 7]).unwrap(), ChannelOrder::ChannelsLast).is_none()
        );
    }
}
