//! One RGB image, and drawing into it.

use plaudit_core::FrameShape;

use crate::colour::{FAINT, GREY, Rgb};

/// Pixels that do not form an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are not an RGB image of {width}x{height}, which needs {}", width * height * 3)]
pub struct WrongPixels {
    /// Columns that were asked for.
    pub width: usize,
    /// Rows that were asked for.
    pub height: usize,
    /// Bytes that there are.
    pub bytes: usize,
}

/// One RGB image: u8, rows from the top, three bytes a pixel. What is drawn outside of it is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    /// An image of the given pixels, `[height, width, 3]`.
    ///
    /// # Errors
    /// When there are more or fewer pixels than that, or none.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, WrongPixels> {
        if pixels.is_empty() || pixels.len() != width * height * 3 {
            return Err(WrongPixels { width, height, bytes: pixels.len() });
        }
        Ok(Self { width, height, pixels })
    }

    /// An image of one colour. A side of zero becomes one pixel: every image shows something.
    #[must_use]
    pub fn filled(width: usize, height: usize, colour: Rgb) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        Self { width, height, pixels: colour.repeat(width * height) }
    }

    /// An image made so large or small that its longer side is `side`; each pixel is the mean of those it covers. One
    /// channel is grey; of two or more than three, the first and the first three are shown. Pixels that do not
    /// fill the shape give a crossed-out square.
    #[must_use]
    pub fn fitted(shape: FrameShape, pixels: &[u8], side: usize) -> Self {
        let FrameShape { height, width, channels } = shape;
        let bytes = height.checked_mul(width).and_then(|count| count.checked_mul(channels));
        if bytes != Some(pixels.len()) || pixels.is_empty() {
            return Self::crossed_out(side);
        }
        let long = height.max(width);
        let [tall, wide] = [height, width].map(|length| (length * side / long).max(1));
        let mut fitted = Self::filled(wide, tall, [0; 3]);
        for (at, pixel) in fitted.pixels.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let rows = covered(at / wide, tall, height);
            let columns = covered(at % wide, wide, width);
            *pixel = std::array::from_fn(|channel| {
                mean(pixels, shape, &rows, &columns, if channels < 3 { 0 } else { channel })
            });
        }
        fitted
    }

    /// What is shown instead of an invalid image.
    fn crossed_out(side: usize) -> Self {
        let mut image = Self::filled(side, side, FAINT);
        let end = side as f32;
        image.line([0.0, 0.0], [end, end], 2.0, GREY);
        image.line([0.0, end], [end, 0.0], 2.0, GREY);
        image
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

    /// Colours the rectangle from (`left`, `top`).
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

    /// Draws a straight line with smooth edges. Places are `[x, y]`; the middle of the first pixel is at 0.5.
    pub fn line(&mut self, from: [f32; 2], to: [f32; 2], thick: f32, colour: Rgb) {
        let reach = thick / 2.0 + 1.0;
        let span = |axis: usize, end: usize| {
            let low = (from[axis].min(to[axis]) - reach).max(0.0) as usize;
            low..((from[axis].max(to[axis]) + reach).max(0.0) as usize).min(end)
        };
        for y in span(1, self.height) {
            for x in span(0, self.width) {
                let away = distance([x as f32 + 0.5, y as f32 + 0.5], from, to);
                let cover = (thick / 2.0 + 0.5 - away).clamp(0.0, 1.0);
                self.blend((x, y), colour, (cover * 255.0) as u8);
            }
        }
    }

    /// Mixes a colour into one pixel: 0 leaves it, 255 covers it.
    pub fn blend(&mut self, (x, y): (usize, usize), colour: Rgb, cover: u8) {
        if x >= self.width || y >= self.height || cover == 0 {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (value, wanted) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            let (old, new, cover) = (u32::from(*value), u32::from(wanted), u32::from(cover));
            *value = ((old * (255 - cover) + new * cover + 127) / 255) as u8;
        }
    }

    /// Copies another image to (`left`, `top`).
    pub fn put(&mut self, at: (usize, usize), image: &Self) {
        self.paste(at, FrameShape::rgb(image.height, image.width), &image.pixels);
    }

    /// Copies an image to (`left`, `top`): RGB, or grey with any other number of channels (the first is shown).
    pub fn paste(&mut self, (left, top): (usize, usize), shape: FrameShape, image: &[u8]) {
        let row = (shape.width * shape.channels).max(1);
        for (y, from) in image.chunks_exact(row).enumerate() {
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

/// How far a place is from a straight line between two others.
fn distance(place: [f32; 2], from: [f32; 2], to: [f32; 2]) -> f32 {
    let along = [to[0] - from[0], to[1] - from[1]];
    let away = [place[0] - from[0], place[1] - from[1]];
    let length = along[0] * along[0] + along[1] * along[1];
    let share = (away[0] * along[0] + away[1] * along[1]) / length.max(f32::MIN_POSITIVE);
    let share = share.clamp(0.0, 1.0);
    let [x, y] = [away[0] - along[0] * share, away[1] - along[1] * share];
    (x * x + y * y).sqrt()
}

/// Which of `from` pixels the pixel number `at` of `to` covers: at least one.
fn covered(at: usize, to: usize, from: usize) -> std::ops::Range<usize> {
    let start = at * from / to;
    start..((at + 1) * from / to).max(start + 1)
}

fn mean(
    pixels: &[u8],
    shape: FrameShape,
    rows: &std::ops::Range<usize>,
    columns: &std::ops::Range<usize>,
    channel: usize,
) -> u8 {
    let value = |row: usize, column: usize| {
        u64::from(pixels[(row * shape.width + column) * shape.channels + channel])
    };
    let sum: u64 = rows.clone().flat_map(|row| columns.clone().map(move |column| value(row, column))).sum();
    (sum / (rows.len() * columns.len()).max(1) as u64) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_stays_inside() {
        let mut image = Canvas::filled(3, 2, [9; 3]);
        image.fill((2, 1), (5, 5), [1, 2, 3]);
        assert_eq!((image.at(1, 1), image.at(2, 1)), ([9; 3], [1, 2, 3]));
        image.shade((0, 0), (1, 9));
        assert_eq!(image.at(0, 1), [3; 3]);
        image.line([-50.0, -7.0], [90.0, 40.0], 3.0, [200; 3]);
        image.blend((7, 7), [1; 3], 255);
        image.border((0, 0), (3, 2), 7, [5; 3]);
        assert!(image.pixels().iter().all(|value| *value == 5), "a thick border fills a small image");
    }

    #[test]
    fn pixels_must_fit_the_size() {
        let error = Canvas::new(2, 2, vec![0; 11]).unwrap_err();
        assert_eq!(error.to_string(), "11 bytes are not an RGB image of 2x2, which needs 12");
        assert!(Canvas::new(0, 0, vec![]).is_err());
    }

    #[test]
    fn a_level_line_covers_its_pixels_and_no_others() {
        let mut image = Canvas::filled(6, 5, [255; 3]);
        image.line([1.0, 2.5], [5.0, 2.5], 1.0, [0; 3]);
        let row = |y: usize| (0..6).map(|x| image.at(x, y)[0]).collect::<Vec<_>>();
        assert_eq!(row(2)[1..5], [0; 4]);
        assert_eq!((row(1), row(3)), (vec![255; 6], vec![255; 6]));
    }

    #[test]
    fn images_are_fitted_whole() {
        let wide = Canvas::fitted(FrameShape::rgb(1, 2), &[10, 20, 30, 200, 210, 220], 4);
        assert_eq!(wide.size(), (4, 2));
        assert_eq!((wide.at(1, 1), wide.at(2, 0)), ([10, 20, 30], [200, 210, 220]));
        let grey = FrameShape { height: 2, width: 2, channels: 1 };
        assert_eq!(Canvas::fitted(grey, &[0, 51, 102, 255], 1).at(0, 0), [102; 3]);
        let deep = FrameShape { height: 1, width: 1, channels: 4 };
        assert_eq!(Canvas::fitted(deep, &[1, 2, 3, 4], 1).at(0, 0), [1, 2, 3]);
    }

    #[test]
    fn an_invalid_image_is_crossed_out() {
        let crossed = Canvas::crossed_out(8);
        let huge = FrameShape { height: usize::MAX, width: 2, channels: 3 };
        for shape in [FrameShape::rgb(0, 4), FrameShape::rgb(2, 2), huge] {
            assert_eq!(Canvas::fitted(shape, &[], 8), crossed, "{shape:?}");
            assert_eq!(Canvas::fitted(shape, &[1; 7], 8), crossed, "{shape:?}");
        }
    }
}
