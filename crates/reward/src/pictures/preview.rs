//! What augmentation makes of some frames.

use plaudit_core::Seed;

use super::Png;
use super::sheet::{Cell, Tint, sheet};
use crate::augment::Augment;
use crate::dataset::{Batch, Frames};

/// Frames on a preview: so many of each label.
const OF_EACH: usize = 3;
/// Versions of each frame.
const VERSIONS: usize = 6;

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
        let cell = |batch: &Batch, words: String| {
            let (shape, pixels) = batch.picture(0, 0);
            Cell { shape, pixels: pixels.to_vec(), tint: Tint::of(success), words: vec![words] }
        };
        let mut cells = vec![cell(&Batch::of(frames, &[number]), "as it is".into())];
        for version in 0..VERSIONS as u64 {
            let batch = Batch::augmented(frames, &[number], augment, epoch(version));
            cells.push(cell(&batch, format!("epoch {version}")));
        }
        let origin = frames.origin(number);
        (format!("{} frame {}", origin.episode, origin.at), cells)
    };
    let rows: Vec<_> = [true, false].into_iter().flat_map(spread).map(row).collect();
    sheet(&rows)
}
