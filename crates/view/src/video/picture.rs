//! One RGB picture, and drawing into it.

use plaudit_core::FrameShape;

use super::VideoError;

/// A colour: red, green, blue.
pub type Rgb = [u8; 3];

/// One RGB picture: u8, rows from the top, three bytes a pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// A picture of the given pixels, `[height, width, 3]`.
    ///
    /// # Errors
    /// [`VideoError::Pixels`] when there are more or fewer pixels than that, or none.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, VideoError> {
        if pixels.is_empty() || pixels.len() != width * height * 3 {
            return Err(VideoError::Pixels { width, height, bytes: pixels.len() });
        }
        Ok(Self { width, height, pixels })
    }

    /// A picture of one colour. A side of zero becomes one pixel: every picture shows something.
    #[must_use]
    pub fn filled(width: usize, height: usize, colour: Rgb) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        Self { width, height, pixels: colour.repeat(width * height) }
    }

    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Width and height.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// All pixels, row after row.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The pixels of row `y`.
    #[must_use]
    pub fn row(&self, y: usize) -> &[u8] {
        &self.pixels[y * self.width * 3..(y + 1) * self.width * 3]
    }

    /// The colour at column `x` and row `y`.
    #[must_use]
    pub fn at(&self, x: usize, y: usize) -> Rgb {
        let at = (y * self.width + x) * 3;
        [self.pixels[at], self.pixels[at + 1], self.pixels[at + 2]]
    }

    /// Colours the rectangle from (`left`, `top`); what lies outside is not drawn.
    pub fn fill(&mut self, (left, top): (usize, usize), (width, height): (usize, usize), colour: Rgb) {
        for y in top..(top + height).min(self.height) {
            for pixel in self.span(y, left, width).as_chunks_mut::<3>().0 {
                *pixel = colour;
            }
        }
    }

    /// Darkens the rectangle from (`left`, `top`) to a third, so that light text can be read on it.
    pub fn shade(&mut self, (left, top): (usize, usize), (width, height): (usize, usize)) {
        for y in top..(top + height).min(self.height) {
            for value in self.span(y, left, width) {
                *value /= 3;
            }
        }
    }

    /// Draws a frame inside the rectangle from (`left`, `top`), `thick` pixels wide.
    pub fn border(
        &mut self,
        (left, top): (usize, usize),
        (width, height): (usize, usize),
        thick: usize,
        colour: Rgb,
    ) {
        let thick = thick.min(width.div_ceil(2)).min(height.div_ceil(2));
        self.fill((left, top), (width, thick), colour);
        self.fill((left, top + height - thick), (width, thick), colour);
        self.fill((left, top), (thick, height), colour);
        self.fill((left + width - thick, top), (thick, height), colour);
    }

    /// Copies an image to (`left`, `top`): RGB, or grey with any other number of channels (the first is shown).
    pub(super) fn paste(&mut self, (left, top): (usize, usize), shape: FrameShape, image: &[u8]) {
        for (y, from) in image.chunks_exact(shape.width * shape.channels).enumerate() {
            if top + y >= self.height {
                break;
            }
            let to = self.span(top + y, left, shape.width);
            if shape.channels == 3 {
                to.copy_from_slice(&from[..to.len()]);
                continue;
            }
            for (pixel, grey) in to.as_chunks_mut::<3>().0.iter_mut().zip(from.chunks(shape.channels)) {
                *pixel = [grey[0]; 3];
            }
        }
    }

    /// The part of row `y` that starts at `left`, at most `width` pixels.
    fn span(&mut self, y: usize, left: usize, width: usize) -> &mut [u8] {
        let (from, to) = (left.min(self.width), (left + width).min(self.width));
        &mut self.pixels[(y * self.width + from) * 3..(y * self.width + to) * 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_stays_inside() {
        let mut picture = Picture::filled(3, 2, [9; 3]);
        picture.fill((2, 1), (5, 5), [1, 2, 3]);
        assert_eq!((picture.at(1, 1), picture.at(2, 1)), ([9; 3], [1, 2, 3]));
        picture.shade((0, 0), (1, 9));
        assert_eq!(picture.at(0, 1), [3; 3]);
        picture.border((0, 0), (3, 2), 7, [5; 3]);
        assert!(picture.pixels().iter().all(|value| *value == 5), "a thick border fills a small picture");
    }

    #[test]
    fn pixels_must_fit_the_size() {
        let error = Picture::new(2, 2, vec![0; 11]).unwrap_err();
        assert_eq!(error.to_string(), "11 bytes are no RGB picture of 2x2, which needs 12");
        assert!(Picture::new(0, 0, vec![]).is_err());
    }
}
