//! The background: the image that a fixed camera would see of an empty scene.
//!
//! The median of each pixel over many frames is what it shows when nothing is in front of it, as long as nothing
//! stays in one place for half of the time.

use plaudit_nn::classifier::ClassifierError;
use rayon::prelude::*;

use crate::dataset::Frames;

/// Frames that the median is taken of.
const SAMPLED_FRAMES: usize = 101;
/// A pixel that differs from what stands still by more levels than this, in any colour, shows something else.
const DIFFERENT: u8 = 20;

/// The background image of each view.
#[derive(Debug, Clone)]
pub(super) struct BackgroundImage {
    views: Vec<Vec<u8>>,
}

impl BackgroundImage {
    /// Of frames spread over all episodes.
    ///
    /// # Errors
    /// When one cannot be decoded.
    pub(super) fn of(frames: &Frames) -> Result<Self, ClassifierError> {
        let count = frames.len().min(SAMPLED_FRAMES);
        let numbers: Vec<usize> = (0..count).map(|at| at * frames.len() / count).collect();
        let still = |view: usize| {
            let pixels = |number: &usize| frames.pixels(*number, view);
            let images: Vec<_> = numbers.iter().map(pixels).collect::<Result<_, _>>()?;
            let middle = |at: usize| {
                let mut values: Vec<u8> = images.iter().map(|pixels| pixels[at]).collect();
                let half = values.len() / 2;
                *values.select_nth_unstable(half).1
            };
            Ok((0..frames.shapes()[view].bytes()).into_par_iter().map(middle).collect())
        };
        let views = if frames.is_empty() { 0 } else { frames.views().len() };
        Ok(Self { views: (0..views).map(still).collect::<Result<_, ClassifierError>>()? })
    }

    /// The background image of a view.
    #[must_use]
    pub(super) fn image(&self, view: usize) -> &[u8] {
        &self.views[view]
    }

    /// For each pixel of an image of a view, whether it shows something that is not always there.
    #[must_use]
    pub(super) fn differs(&self, view: usize, pixels: &[u8], channels: usize) -> Vec<bool> {
        let pairs = pixels.chunks_exact(channels).zip(self.views[view].chunks_exact(channels));
        pairs.map(|(now, still)| now.iter().zip(still).any(|(a, b)| a.abs_diff(*b) > DIFFERENT)).collect()
    }
}
