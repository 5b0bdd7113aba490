//! One image where it lies.

use std::borrow::Cow;

use plaudit_core::FrameShape;

use crate::recording::{FileProblem, Frame, PixelFormat, Strictness};

/// An image in its file: bytes of height, width and channel, or what becomes them. Cloning copies no pixel.
#[derive(Clone, Debug)]
pub struct FrameImage {
    frame: Frame,
    pixel_format: PixelFormat,
}

impl FrameImage {
    /// An image: bytes, or floats from 0 to 1. Channels are found where there are 1, 3 or 4 of them.
    pub(super) fn of(frame: Frame, location: impl Fn() -> String) -> Result<Self, FileProblem> {
        let pixel_format = frame.pixel_format(None, Strictness::AllowByteFloats, location)?;
        Ok(Self { frame, pixel_format })
    }

    /// Its size.
    #[must_use]
    pub fn shape(&self) -> FrameShape {
        let [height, width, channels] = self.pixel_format.shape();
        FrameShape { height, width, channels }
    }

    /// Its bytes: in place where they lie as wanted, else converted.
    #[must_use]
    pub fn pixels(&self) -> Cow<'_, [u8]> {
        self.frame.pixels_as(&self.pixel_format)
    }
}
