//! What augmentation makes of some frames.

use plaudit_core::Seed;
use plaudit_draw::{Canvas, ContactSheet, Group, SheetFrame, Tint};

use super::{Png, SIDE, by_label};
use crate::augment::Augment;
use crate::dataset::{Batch, Frames};

/// Frames on a preview: so many of each label.
const OF_EACH: usize = 3;
/// Versions of each frame.
const VERSIONS: usize = 5;

/// A sheet of some frames as they are and as training sees them in its first epochs.
#[must_use]
pub fn preview(frames: &Frames, augment: &Augment, epoch: impl Fn(u64) -> Seed) -> Png {
    let spread = |success: bool| {
        let all: Vec<usize> = (0..frames.len()).filter(|at| frames.success(*at) == success).collect();
        let count = OF_EACH.min(all.len());
        (0..count).map(move |n| all[n * all.len() / count]).collect::<Vec<_>>()
    };
    let row = |number: usize| {
        let success = frames.success(number);
        let frame = |batch: &Batch, words: String| {
            let (shape, pixels) = batch.image(0, 0);
            let image = Canvas::fitted(shape, pixels, SIDE);
            SheetFrame { image, tint: Tint::of(success), caption: vec![words] }
        };
        let mut versions = vec![frame(&Batch::of(frames, &[number]), "as recorded".into())];
        for version in 0..VERSIONS as u64 {
            let batch = Batch::augmented(frames, &[number], augment, epoch(version));
            versions.push(frame(&batch, format!("epoch {version}")));
        }
        let origin = frames.origin(number);
        Group { heading: format!("frame {} of {}", origin.at, origin.episode), frames: versions }
    };
    let sheet = ContactSheet {
        title: "What augmentation makes of some frames".into(),
        about: "Each row is one frame: as recorded, and as training sees it in its first epochs.".into(),
        legend: by_label(),
        columns: 1 + VERSIONS,
        groups: [true, false].into_iter().flat_map(spread).map(row).collect(),
    };
    Png::from(&sheet.draw())
}
