//! What stands still: the picture that a fixed camera would see of an empty scene.
//!
//! The middle value of each pixel over many frames is what it shows when nothing is in front of it, as long as nothing
//! stays in one place for half of the time.

use rayon::prelude::*;

use crate::dataset::Frames;

/// Frames that the middle is taken of.
const LOOKED_AT: usize = 101;
/// A pixel that differs from what stands still by more levels than this, in any colour, shows something else.
const DIFFERENT: u8 = 20;

/// The still picture of each view.
#[derive(Debug, Clone)]
pub struct Backdrop {
    views: Vec<Vec<u8>>,
}

impl Backdrop {
    /// Of frames spread over all episodes.
    #[must_use]
    pub fn of(frames: &Frames) -> Self {
        let count = frames.len().min(LOOKED_AT);
        let numbers: Vec<usize> = (0..count).map(|at| at * frames.len() / count).collect();
        let still = |view: usize| {
            let pictures: Vec<_> =
                numbers.iter().map(|number| frames.image(*number, view).pixels()).collect();
            let middle = |at: usize| {
                let mut values: Vec<u8> = pictures.iter().map(|pixels| pixels[at]).collect();
                let half = values.len() / 2;
                *values.select_nth_unstable(half).1
            };
            (0..frames.shapes()[view].bytes()).into_par_iter().map(middle).collect()
        };
        let views = if frames.is_empty() { 0 } else { frames.views().len() };
        Self { views: (0..views).map(still).collect() }
    }

    /// The still picture of a view.
    #[must_use]
    pub fn picture(&self, view: usize) -> &[u8] {
        &self.views[view]
    }

    /// For each pixel of a picture of a view, whether it shows something that is not always there.
    #[must_use]
    pub fn differs(&self, view: usize, pixels: &[u8], channels: usize) -> Vec<bool> {
        let pairs = pixels.chunks_exact(channels).zip(self.views[view].chunks_exact(channels));
        pairs.map(|(now, still)| now.iter().zip(still).any(|(a, b)| a.abs_diff(*b) > DIFFERENT)).collect()
    }
}
