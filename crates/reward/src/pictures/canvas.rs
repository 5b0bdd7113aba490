//! A surface to draw on: rectangles, lines, letters and other pictures.

use std::ops::Range;

use plaudit_core::FrameShape;

use super::{Png, font};

pub(super) type Rgb = [u8; 3];

/// Behind everything.
pub(super) const PAPER: Rgb = [24, 24, 27];
pub(super) const INK: Rgb = [228, 228, 231];
pub(super) const GREEN: Rgb = [34, 197, 94];
pub(super) const RED: Rgb = [239, 68, 68];
pub(super) const GREY: Rgb = [113, 113, 122];

/// An RGB picture. What is drawn outside of it is lost.
pub(super) struct Canvas {
    height: usize,
    width: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    pub(super) fn new(height: usize, width: usize) -> Self {
        Self { height, width, pixels: PAPER.repeat(height * width) }
    }

    pub(super) fn set(&mut self, row: usize, column: usize, colour: Rgb) {
        if row < self.height && column < self.width {
            let at = (row * self.width + column) * 3;
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    pub(super) fn fill(&mut self, rows: Range<usize>, columns: Range<usize>, colour: Rgb) {
        for row in rows {
            for column in columns.clone() {
                self.set(row, column, colour);
            }
        }
    }

    /// A line from one place to another, two dots thick.
    pub(super) fn line(&mut self, from: [f64; 2], to: [f64; 2], colour: Rgb) {
        let steps = (to[0] - from[0]).abs().max((to[1] - from[1]).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let share = step as f64 / steps as f64;
            let at = |axis: usize| (from[axis] + (to[axis] - from[axis]) * share).round().max(0.0) as usize;
            let (row, column) = (at(0), at(1));
            self.fill(row..row + 2, column..column + 1, colour);
        }
    }

    /// A line of letters, each dot `scale` pixels wide.
    pub(super) fn write(&mut self, row: usize, column: usize, text: &str, scale: usize, colour: Rgb) {
        for (place, letter) in text.chars().enumerate() {
            let glyph = font::glyph(letter);
            let left = column + place * font::ADVANCE * scale;
            for down in 0..font::HEIGHT {
                for right in (0..3).filter(|right| font::dot(glyph, down, *right)) {
                    let (top, left) = (row + down * scale, left + right * scale);
                    self.fill(top..top + scale, left..left + scale, colour);
                }
            }
        }
    }

    /// A picture fitted into a square, each of its pixels the mean of those it covers.
    pub(super) fn paste(&mut self, row: usize, column: usize, side: usize, shape: FrameShape, pixels: &[u8]) {
        let FrameShape { height, width, channels } = shape;
        let long = height.max(width).max(1);
        let (tall, wide) = ((height * side / long).max(1), (width * side / long).max(1));
        let (top, left) = (row + (side - tall) / 2, column + (side - wide) / 2);
        for y in 0..tall {
            for x in 0..wide {
                let (rows, columns) = (covered(y, tall, height), covered(x, wide, width));
                let colour = std::array::from_fn(|channel| {
                    let channel = if channels < 3 { 0 } else { channel };
                    mean(pixels, shape, &rows, &columns, channel)
                });
                self.set(top + y, left + x, colour);
            }
        }
    }

    pub(super) fn png(&self) -> Png {
        Png::of(FrameShape::rgb(self.height, self.width), &self.pixels)
    }
}

/// As much of a text as fits so many pixels; of a long one, its end, which tells more.
pub(super) fn fitting(text: &str, width: usize, scale: usize) -> String {
    let room = width / (font::ADVANCE * scale);
    let letters = text.chars().count();
    text.chars().skip(letters.saturating_sub(room)).collect()
}

/// Which of `from` pixels the pixel number `at` of `to` covers: at least one.
fn covered(at: usize, to: usize, from: usize) -> Range<usize> {
    let start = at * from / to;
    start..((at + 1) * from / to).max(start + 1)
}

fn mean(pixels: &[u8], shape: FrameShape, rows: &Range<usize>, columns: &Range<usize>, channel: usize) -> u8 {
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
    fn what_is_outside_is_lost() {
        let mut canvas = Canvas::new(4, 4);
        canvas.fill(2..99, 2..99, RED);
        canvas.line([-5.0, 0.0], [50.0, 50.0], GREEN);
        canvas.write(3, 2, "wide", 2, INK);
        assert_eq!(canvas.pixels.len(), 48);
        assert_eq!(fitting("episode_17", 20, 1), "de_17");
    }

    #[test]
    fn a_wide_picture_has_bars() {
        let mut canvas = Canvas::new(4, 4);
        canvas.paste(0, 0, 4, FrameShape::rgb(1, 2), &[10, 20, 30, 200, 210, 220]);
        assert_eq!(&canvas.pixels[..12], PAPER.repeat(4));
        assert_eq!(&canvas.pixels[12..24], [10, 20, 30, 10, 20, 30, 200, 210, 220, 200, 210, 220]);
    }
}
