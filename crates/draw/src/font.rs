//! Text: Inter, a libre font that lies inside the binary, drawn with smooth edges at any size.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use ab_glyph::{Font as _, FontRef, PxScale, ScaleFont as _, point};

use crate::canvas::Canvas;
use crate::colour::Rgb;

/// How thick letters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Text.
    Regular,
    /// Titles.
    SemiBold,
}

/// Sizes below and above are drawn as these.
const SIZES: std::ops::RangeInclusive<usize> = 6..=96;
/// A letter may begin at so many places within a pixel, which keeps the gaps between small ones even.
const PHASES: usize = 4;
/// Cached glyphs of one font: all glyphs of the font files, which a test counts.
const GLYPHS: usize = 256;

static FACES: LazyLock<[FontRef<'static>; 2]> = LazyLock::new(|| {
    let files: [&'static [u8]; 2] =
        [include_bytes!("../font/Inter-Regular.ttf"), include_bytes!("../font/Inter-SemiBold.ttf")];
    files.map(|file| FontRef::try_from_slice(file).expect("the fonts are part of the binary, and tested"))
});

static FONTS: Mutex<Vec<Arc<Font>>> = Mutex::new(Vec::new());

/// A font of one weight and size.
pub struct Font {
    weight: Weight,
    size: usize,
    /// Each glyph at each phase, rasterized when it is first needed.
    glyphs: Vec<[OnceLock<Glyph>; PHASES]>,
}

/// The bitmap of a letter.
struct Glyph {
    /// Pixels from the pen to the left, and from the baseline down to the top.
    left: i32,
    top: i32,
    width: usize,
    /// How much of each pixel is covered.
    cover: Vec<u8>,
}

impl Font {
    /// The font of a weight and a size: the height of an em, in pixels.
    #[must_use]
    pub fn get(weight: Weight, size: usize) -> Arc<Self> {
        let size = size.clamp(*SIZES.start(), *SIZES.end());
        let mut fonts = FONTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = fonts.iter().find(|font| (font.weight, font.size) == (weight, size)) {
            return known.clone();
        }
        let glyphs = (0..GLYPHS).map(|_| std::array::from_fn(|_| OnceLock::new())).collect();
        let font = Arc::new(Self { weight, size, glyphs });
        fonts.push(font.clone());
        font
    }

    /// Pixels from one line to the next.
    #[must_use]
    pub fn line_height(&self) -> usize {
        (self.size * 27).div_ceil(20)
    }

    /// Pixels that a text takes from left to right.
    #[must_use]
    pub fn width(&self, text: &str) -> usize {
        text.chars().map(|letter| self.advance(letter)).sum::<f32>().ceil() as usize
    }

    /// Draws a line of text whose box has its top left corner at (`left`, `top`) and is one line high. What the font
    /// does not have is drawn as an empty box.
    pub fn draw(&self, image: &mut Canvas, (left, top): (usize, usize), colour: Rgb, text: &str) {
        // Capitals stand in the middle of the line; they are 0.73 of an em high.
        let baseline =
            top as i32 + ((self.line_height() as f32 + 0.727 * self.size as f32) / 2.0).round() as i32;
        let mut pen = left as f32;
        for letter in text.chars() {
            let place = (pen * PHASES as f32).round() as usize;
            self.draw_glyph(image, letter, (place / PHASES, place % PHASES), baseline, colour);
            pen += self.advance(letter);
        }
    }

    fn draw_glyph(
        &self,
        image: &mut Canvas,
        letter: char,
        (pen, phase): (usize, usize),
        baseline: i32,
        colour: Rgb,
    ) {
        let id = self.face().glyph_id(letter);
        let Some(phases) = self.glyphs.get(usize::from(id.0)) else { return };
        let glyph = phases[phase].get_or_init(|| self.rasterize(id, phase));
        for (at, cover) in glyph.cover.iter().enumerate() {
            let x = pen as i64 + i64::from(glyph.left) + (at % glyph.width) as i64;
            let y = i64::from(baseline + glyph.top) + (at / glyph.width) as i64;
            if let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) {
                image.blend((x, y), colour, *cover);
            }
        }
    }

    fn rasterize(&self, id: ab_glyph::GlyphId, phase: usize) -> Glyph {
        let at = point(phase as f32 / PHASES as f32, 0.0);
        let Some(outline) = self.face().outline_glyph(id.with_scale_and_position(self.scale(), at)) else {
            return Glyph { left: 0, top: 0, width: 1, cover: Vec::new() };
        };
        let bounds = outline.px_bounds();
        let [width, height] = [bounds.width(), bounds.height()].map(|length| length.ceil().max(1.0) as usize);
        let mut cover = vec![0; width * height];
        outline.draw(|x, y, share| {
            if let Some(value) = cover.get_mut(y as usize * width + x as usize) {
                *value = (share.clamp(0.0, 1.0) * 255.0).round() as u8;
            }
        });
        Glyph { left: bounds.min.x as i32, top: bounds.min.y as i32, width, cover }
    }

    fn advance(&self, letter: char) -> f32 {
        let scaled = self.face().as_scaled(self.scale());
        scaled.h_advance(scaled.glyph_id(letter))
    }

    fn face(&self) -> &'static FontRef<'static> {
        &FACES[self.weight as usize]
    }

    /// `ab_glyph` measures fonts from the highest ascender to the lowest descender.
    fn scale(&self) -> PxScale {
        let face = self.face();
        let em = face.units_per_em().unwrap_or(2048.0);
        PxScale::from(self.size as f32 * face.height_unscaled() / em)
    }
}

impl fmt::Debug for Font {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Font").field("weight", &self.weight).field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEIGHTS: [Weight; 2] = [Weight::Regular, Weight::SemiBold];

    /// What a text looks like: darker signs where more is covered.
    fn rendered(font: &Font, text: &str) -> Canvas {
        let mut image = Canvas::filled(font.width(text) + 2, font.line_height(), [255; 3]);
        font.draw(&mut image, (1, 0), [0; 3], text);
        image
    }

    #[test]
    fn every_letter_is_there_and_differs() {
        let letters: Vec<char> = ('!'..='~').chain("äéß·–—…→−≈≤≥".chars()).collect();
        for weight in WEIGHTS {
            let font = Font::get(weight, 24);
            assert!(font.face().glyph_count() <= GLYPHS);
            let missing = rendered(&font, "\u{4e00}");
            let mut seen: Vec<(char, Canvas)> = Vec::new();
            for letter in letters.clone() {
                let image = rendered(&font, &letter.to_string());
                assert_ne!(image, missing, "the font has no {letter}");
                assert!(image.pixels().iter().any(|value| *value < 128), "{letter} is empty");
                let twin = seen.iter().find(|(_, other)| *other == image);
                assert!(twin.is_none(), "{letter} looks like {:?}", twin.map(|(other, _)| other));
                seen.push((letter, image));
            }
            assert!(rendered(&font, " ").pixels().iter().all(|value| *value == 255));
        }
    }

    #[test]
    fn digits_have_one_width_and_edges_are_smooth() {
        for size in [11, 13, 20] {
            let font = Font::get(Weight::Regular, size);
            let widths: Vec<usize> =
                ('0'..='9').map(|digit| font.width(&digit.to_string().repeat(8))).collect();
            assert!(widths.iter().all(|width| *width == widths[0]), "{size}: {widths:?}");
            let shades: std::collections::BTreeSet<u8> =
                rendered(&font, "success").pixels().iter().copied().collect();
            assert!(shades.len() > 16, "{size}: only {} shades of grey", shades.len());
        }
    }

    #[test]
    fn text_keeps_to_its_box_and_to_the_image() {
        for weight in WEIGHTS {
            for size in [0, 11, 14, 22, 96, 4000] {
                let font = Font::get(weight, size);
                let line = font.line_height();
                let mut image = Canvas::filled(font.width("fjÄgy|") + 4, 3 * line, [255; 3]);
                font.draw(&mut image, (2, line), [0; 3], "fjÄgy|");
                let is_paper = |y: usize| image.row(y).iter().all(|value| *value == 255);
                assert!((0..line).chain(2 * line..3 * line).all(is_paper), "{weight:?} {size}");
                font.draw(&mut image, (1_000_000, 1_000_000), [0; 3], "far away");
            }
        }
        assert!(Arc::ptr_eq(&Font::get(Weight::Regular, 0), &Font::get(Weight::Regular, 6)));
    }
}
