//! Where a model looks: how much its answer changes when a square of the image is covered.

use plaudit_core::FrameShape;
use plaudit_nn::classifier::ClassifierError;
use serde::Serialize;

use super::BackgroundImage;
use super::stress::cover;
use crate::custom::ImageScorer;
use crate::dataset::{Batch, Frames};
use crate::images::Png;

/// Squares across and down.
const GRID: usize = 8;
/// A square that moves less than this share of what the busiest does, stands still.
const STILL: f64 = 0.25;

/// How much each square of a view matters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saliency {
    /// The view.
    pub view: String,
    /// Mean change of the logit when a square is covered, row by row; `grid` rows of `grid` squares.
    pub change: Vec<f64>,
    /// Squares across and down.
    pub grid: usize,
    /// The share of all change that squares make in which hardly anything ever moves.
    pub on_still_squares: f64,
    /// The share of the squares in which hardly anything ever moves.
    pub still_squares: f64,
}

/// Covers each square of a view in some frames.
///
/// # Errors
/// When images do not fit the model.
pub(super) fn saliency(
    scorer: &dyn ImageScorer,
    frames: &Frames,
    sample: &[usize],
    (view, background_image): (usize, &BackgroundImage),
    on_progress: &dyn Fn(usize, usize),
) -> Result<Saliency, ClassifierError> {
    let plain = scorer.logits(&Batch::of(frames, sample).images()?)?;
    let mut change = Vec::with_capacity(GRID * GRID);
    for square in 0..GRID * GRID {
        on_progress(square, GRID * GRID);
        let batch = Batch::edited(frames, sample, &|_, at, shape, pixels| {
            if at == view {
                for_each_pixel(square, shape, |pixel| {
                    cover(&mut pixels[pixel * shape.channels..][..shape.channels]);
                });
            }
        });
        let logits = scorer.logits(&batch.images()?)?;
        let sum: f64 = plain.iter().zip(&logits).map(|(a, b)| f64::from((a - b).abs())).sum();
        change.push(sum / sample.len().max(1) as f64);
    }
    let motion = motion(frames, sample, view, background_image)?;
    let busiest = motion.iter().copied().fold(0.0, f64::max);
    let still: Vec<bool> = motion.iter().map(|motion| *motion < STILL * busiest).collect();
    let total: f64 = change.iter().sum();
    let on_still: f64 =
        change.iter().zip(&still).filter(|(_, still)| **still).map(|(change, _)| change).sum();
    Ok(Saliency {
        view: frames.views()[view].to_string(),
        change,
        grid: GRID,
        on_still_squares: if total > 0.0 { on_still / total } else { 0.0 },
        still_squares: still.iter().filter(|still| **still).count() as f64 / still.len() as f64,
    })
}

/// For each square, the mean share of its pixels that show something that is not always there.
fn motion(
    frames: &Frames,
    sample: &[usize],
    view: usize,
    background_image: &BackgroundImage,
) -> Result<Vec<f64>, ClassifierError> {
    let shape = frames.shapes()[view];
    let mut motion = vec![0.0; GRID * GRID];
    for number in sample {
        let differs = background_image.differs(view, &frames.pixels(*number, view)?, shape.channels);
        for (square, sum) in motion.iter_mut().enumerate() {
            let (mut moving, mut all) = (0usize, 0usize);
            for_each_pixel(square, shape, |pixel| {
                moving += usize::from(differs[pixel]);
                all += 1;
            });
            *sum += moving as f64 / (all.max(1) * sample.len()) as f64;
        }
    }
    Ok(motion)
}

fn for_each_pixel(square: usize, shape: FrameShape, mut each: impl FnMut(usize)) {
    let (row, column) = (square / GRID, square % GRID);
    let part = |at: usize, side: usize| at * side / GRID..(at + 1) * side / GRID;
    for y in part(row, shape.height) {
        for x in part(column, shape.width) {
            each(y * shape.width + x);
        }
    }
}

impl Saliency {
    /// A frame under the squares that matter: grey where nothing does, through orange to yellow where most does.
    #[must_use]
    pub fn image(&self, shape: FrameShape, pixels: &[u8]) -> Png {
        let most = self.change.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut out = vec![0; shape.height * shape.width * 3];
        for (square, change) in self.change.iter().enumerate() {
            let strength = (change / most) as f32;
            let heat = [240.0, 60.0 + 180.0 * strength, 30.0];
            for_each_pixel(square, shape, |at| {
                let pixel = &pixels[at * shape.channels..][..shape.channels];
                let grey = pixel.iter().map(|byte| f32::from(*byte)).sum::<f32>() / shape.channels as f32;
                for (channel, out) in out[at * 3..at * 3 + 3].iter_mut().enumerate() {
                    let mixed = grey * (1.0 - 0.7 * strength) + heat[channel] * 0.7 * strength;
                    *out = mixed.clamp(0.0, 255.0) as u8;
                }
            });
        }
        Png::of(FrameShape::rgb(shape.height, shape.width), &out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_cover_every_pixel_once() {
        for (height, width) in [(64, 64), (30, 17), (8, 9)] {
            let shape = FrameShape::rgb(height, width);
            let mut seen = vec![0; height * width];
            (0..GRID * GRID).for_each(|square| for_each_pixel(square, shape, |pixel| seen[pixel] += 1));
            assert!(seen.iter().all(|times| *times == 1), "{height}x{width}");
        }
    }
}
