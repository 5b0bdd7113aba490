//! Whether frames that measure a model are among those it learned from.

use std::collections::HashSet;

use rayon::prelude::*;

use super::LabelledData;
use crate::convert::{Fingerprint, FingerprintedImage, Leakage};

/// What frames to measure on share with frames that were learned from, by the images of their first camera.
#[must_use]
pub fn leakage(train: &[&LabelledData], measured: &[&LabelledData]) -> Leakage {
    Leakage::between(&fingerprinted(train), &fingerprinted(measured), &HashSet::new())
}

fn fingerprinted(data: &[&LabelledData]) -> Vec<FingerprintedImage> {
    let episodes: Vec<_> = data.iter().flat_map(|data| &data.episodes).enumerate().collect();
    let frames = episodes.into_par_iter().flat_map_iter(|(episode, frames)| {
        frames.frames.iter().map(move |frame| {
            let image = &frame.images[0];
            let fingerprint = Fingerprint::of(&image.pixels(), image.sides());
            FingerprintedImage { episode, label: u8::from(frame.success), fingerprint }
        })
    });
    frames.collect()
}
