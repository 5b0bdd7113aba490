//! Colours mixed from the two of a palette that come closest.
//!
//! Which of the two a pixel gets depends on its colour and its place, and on nothing else. So what stands still in a
//! video stands still in its copy: no crawling dots, and nothing to store for pixels that did not change.

use std::collections::HashMap;

use super::palette::{distance, nearest};
use super::picture::Rgb;

/// Colours told apart exactly; a camera's noise makes more, and then they are told apart by [`BITS`] of each channel.
const MOST_EXACT: usize = 1 << 15;
const BITS: u32 = 6;
/// A colour closer than this to one of the palette is shown by that one alone: the eye sees no difference, and it does
/// see dots.
const GOOD_ENOUGH: f32 = 9.0 * 12.0;
/// A colour further than this from its mix looks wrong.
const MISFIT: f32 = 9.0 * 600.0;

/// How much it counts that the dots of a mix differ from each other.
const CONTRAST: f32 = 0.1;

/// The order in which the places of an 8x8 square turn to the second colour.
const ORDER: [[u8; 8]; 8] = [
    [0, 32, 8, 40, 2, 34, 10, 42],
    [48, 16, 56, 24, 50, 18, 58, 26],
    [12, 44, 4, 36, 14, 46, 6, 38],
    [60, 28, 52, 20, 62, 30, 54, 22],
    [3, 35, 11, 43, 1, 33, 9, 41],
    [51, 19, 59, 27, 49, 17, 57, 25],
    [15, 47, 7, 39, 13, 45, 5, 37],
    [63, 31, 55, 23, 61, 29, 53, 21],
];

/// Two colours of the palette, and how many places of 64 get the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mix {
    first: u8,
    second: u8,
    share: u8,
    /// Whether even the mix looks wrong.
    pub(super) misfit: bool,
}

impl Mix {
    /// The place in the palette for the pixel at column `x`, row `y`.
    pub(super) fn at(self, x: usize, y: usize) -> u8 {
        if ORDER[y % 8][x % 8] < self.share { self.second } else { self.first }
    }
}

/// Turns colours into places in a palette.
#[derive(Debug)]
pub(super) struct Dither {
    palette: Vec<[f32; 3]>,
    exact: HashMap<Rgb, Mix>,
    /// Mixes for all colours of [`BITS`], once they are needed.
    coarse: Vec<Option<Mix>>,
}

impl Dither {
    /// For a palette of at most 256 colours.
    pub(super) fn new(palette: &[Rgb]) -> Self {
        let palette = palette.iter().map(|colour| colour.map(f32::from)).collect();
        Self { palette, exact: HashMap::new(), coarse: Vec::new() }
    }

    /// How to show a colour.
    pub(super) fn mix(&mut self, colour: Rgb) -> Mix {
        if self.exact.len() >= MOST_EXACT {
            return self.coarse_mix(colour);
        }
        if let Some(mix) = self.exact.get(&colour) {
            return *mix;
        }
        let mix = self.find(colour.map(f32::from));
        self.exact.insert(colour, mix);
        mix
    }

    fn coarse_mix(&mut self, colour: Rgb) -> Mix {
        self.coarse.resize(1 << (3 * BITS), None);
        let key = colour.map(|channel| usize::from(channel >> (8 - BITS)));
        let at = key.iter().fold(0, |at, channel| at << BITS | channel);
        if let Some(mix) = self.coarse[at] {
            return mix;
        }
        let middle = 1 << (7 - BITS);
        let mix = self.find(key.map(|channel| (channel << (8 - BITS) | middle) as f32));
        self.coarse[at] = Some(mix);
        mix
    }

    /// The nearest colour, and the one that mixed with it comes closest without standing out from it.
    fn find(&self, colour: [f32; 3]) -> Mix {
        let first = nearest(&self.palette, colour);
        let near = self.palette[first];
        let alone = distance(near, colour);
        let mut mix = Mix { first: first as u8, second: first as u8, share: 0, misfit: alone > MISFIT };
        if alone < GOOD_ENOUGH {
            return mix;
        }
        let mut least = alone;
        for (second, far) in self.palette.iter().enumerate() {
            let span = distance(*far, near);
            if span == 0.0 {
                continue;
            }
            // How far along the way from the first to the second the colour lies.
            let along = ((span + alone - distance(*far, colour)) / (2.0 * span)).clamp(0.0, 0.5);
            let mixed = std::array::from_fn(|n| near[n] + along * (far[n] - near[n]));
            let cost = distance(mixed, colour) + CONTRAST * along * (1.0 - along) * span;
            if cost < least {
                least = cost;
                (mix.second, mix.share) = (second as u8, (along * 64.0).round() as u8);
            }
        }
        mix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_between_two_is_mixed_from_both_in_its_share() {
        let mut dither = Dither::new(&[[0; 3], [100; 3]]);
        for (grey, expected) in [(0_u8, 0), (25, 16), (50, 32), (75, 48), (100, 64)] {
            let mix = dither.mix([grey; 3]);
            let second = (0..64).filter(|n| mix.at(n % 8, n / 8) == 1).count();
            assert_eq!(second, expected, "{grey}");
        }
        assert!(dither.mix([255, 0, 0]).misfit && !dither.mix([90; 3]).misfit);
    }

    #[test]
    fn however_many_colours_memory_is_bounded_and_they_look_right() {
        let palette: Vec<Rgb> = (0..=255).step_by(5).map(|grey| [grey; 3]).collect();
        let mut dither = Dither::new(&palette);
        for n in 0..60_000_u32 {
            dither.mix([n as u8, (n >> 8) as u8, 0]);
        }
        assert_eq!((dither.exact.len(), dither.coarse.len()), (MOST_EXACT, 1 << 18));
        for grey in 0..=255_u8 {
            let shown = palette[usize::from(dither.mix([grey; 3]).at(3, 5))][0];
            assert!(shown.abs_diff(grey) <= 7, "{grey} is shown as {shown}");
        }
    }
}
