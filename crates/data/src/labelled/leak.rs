//! Whether frames that measure a model are among those it learned from.

use std::collections::HashSet;

use rayon::prelude::*;

use super::{LabelledData, LabelledError};
use crate::convert::{Fingerprint, FingerprintedImage, Leakage};

/// What frames to measure on share with frames that were learned from, by the images of their first camera.
///
/// # Errors
/// When a frame of a video cannot be decoded.
pub fn leakage(train: &[&LabelledData], measured: &[&LabelledData]) -> Result<Leakage, LabelledError> {
    Ok(Leakage::between(&fingerprinted(train)?, &fingerprinted(measured)?, &HashSet::new()))
}

fn fingerprinted(data: &[&LabelledData]) -> Result<Vec<FingerprintedImage>, LabelledError> {
    let episodes: Vec<_> = data.iter().flat_map(|data| &data.episodes).enumerate().collect();
    let frames = episodes.into_par_iter().flat_map_iter(|(episode, frames)| {
        frames.frames.iter().map(move |frame| {
            let image = &frame.images[0];
            let pixels =
                image.pixels().map_err(|problem| LabelledError::Frames(problem.in_file(&frames.name)))?;
            let fingerprint = Fingerprint::of(&pixels, image.sides());
            Ok(FingerprintedImage { episode, label: u8::from(frame.success), fingerprint })
        })
    });
    frames.collect()
}
