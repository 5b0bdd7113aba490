//! JPEG images to pixels; sizes are checked before anything is decoded.

use plaudit_core::{FrameShape, Frames};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The longest side of an image.
const LONGEST_SIDE: usize = 4096;

/// An RGB image.
pub(super) fn jpeg(bytes: &[u8]) -> Result<Frames, String> {
    // A frame that was cut off has no end, which decoders forgive and people would not.
    if !bytes.starts_with(&[0xff, 0xd8]) || !bytes.trim_ascii_end().ends_with(&[0xff, 0xd9]) {
        return Err("it is not a whole JPEG".into());
    }
    let options = DecoderOptions::default()
        .set_max_height(LONGEST_SIDE)
        .set_max_width(LONGEST_SIDE)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    let pixels = decoder.decode().map_err(|error| error.to_string())?;
    let (width, height) = decoder.dimensions().ok_or("it has no size")?;
    let shape = FrameShape::rgb(height, width);
    if pixels.len() != shape.bytes() {
        return Err("it is not as large as it says".into());
    }
    Frames::new(shape, pixels).map_err(|error| error.to_string())
}
