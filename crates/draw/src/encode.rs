//! PNG files.

use plaudit_core::FrameShape;
use png::{BitDepth, ColorType, Compression, Encoder};

use crate::canvas::Canvas;

/// The image as a PNG file; `None` where its pixels do not fill the shape, or for a number of channels that PNG has no colours
/// for: 1 is grey, 2 grey with opacity, 3 RGB, 4 RGB with opacity.
#[must_use]
pub fn encode_png(shape: FrameShape, pixels: &[u8]) -> Option<Vec<u8>> {
    let (width, height) = (u32::try_from(shape.width).ok()?, u32::try_from(shape.height).ok()?);
    let mut bytes = Vec::with_capacity(pixels.len() / 2 + 1024);
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(match shape.channels {
        1 => ColorType::Grayscale,
        2 => ColorType::GrayscaleAlpha,
        3 => ColorType::Rgb,
        4 => ColorType::Rgba,
        _ => return None,
    });
    encoder.set_depth(BitDepth::Eight);
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(pixels).ok()?;
    writer.finish().ok()?;
    Some(bytes)
}

impl Canvas {
    /// The image as a PNG file.
    ///
    /// # Panics
    /// Never: pixels fill their image, and memory takes everything.
    #[must_use]
    pub fn png(&self) -> Vec<u8> {
        let shape = FrameShape::rgb(self.height(), self.width());
        encode_png(shape, self.pixels()).expect("an image has pixels, and as many as its size says")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_must_fill_a_shape_that_png_knows() {
        let shape = |height, width, channels| FrameShape { height, width, channels };
        let cases = [
            (shape(1, 2, 3), 6, true),
            (shape(1, 2, 1), 2, true),
            (shape(1, 2, 5), 10, false),
            (shape(0, 2, 3), 0, false),
            (shape(1, 2, 3), 5, false),
            (shape(1, usize::MAX, 3), 5, false),
        ];
        for (shape, bytes, is_fine) in cases {
            assert_eq!(encode_png(shape, &vec![7; bytes]).is_some(), is_fine, "{shape:?}");
        }
        assert!(Canvas::filled(0, 0, [1; 3]).png().starts_with(b"\x89PNG"));
    }
}
