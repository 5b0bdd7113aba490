//! The worst mistakes of a model, as pictures: what it was surest of, and wrong.

use crate::dataset::Frames;

use super::Png;
use super::sheet::{Cell, Tint, sheet};

/// A frame that was judged wrongly.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Mistake {
    /// Which frame of the part.
    #[serde(skip)]
    pub frame: usize,
    /// Its episode.
    pub episode: String,
    /// Which entry of the episode.
    pub at: usize,
    /// What the model said.
    pub score: f64,
}

/// The worst mistakes of both kinds.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Mistakes {
    /// Failures with the highest scores: what a policy would be paid for.
    pub false_positives: Vec<Mistake>,
    /// Successes with the lowest scores.
    pub false_negatives: Vec<Mistake>,
}

/// Pictures in a row.
const COLUMNS: usize = 8;

impl Mistakes {
    /// The worst of each kind at a threshold, at most `most`.
    #[must_use]
    pub fn worst(frames: &Frames, scores: &[f64], threshold: f64, most: usize) -> Self {
        let of = |success: bool| {
            let wrong = |at: &usize| frames.success(*at) == success && (scores[*at] > threshold) != success;
            let mut numbers: Vec<usize> = (0..scores.len()).filter(wrong).collect();
            numbers.sort_by(|a, b| match success {
                true => scores[*a].total_cmp(&scores[*b]),
                false => scores[*b].total_cmp(&scores[*a]),
            });
            numbers.truncate(most);
            let mistake = |frame: usize| {
                let origin = frames.origin(frame);
                Mistake { frame, episode: origin.episode.into(), at: origin.at, score: scores[frame] }
            };
            numbers.into_iter().map(mistake).collect()
        };
        Self { false_positives: of(false), false_negatives: of(true) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.false_positives.is_empty() && self.false_negatives.is_empty()
    }

    /// All of them on a sheet, the worst first, every view side by side; the border says what is true.
    #[must_use]
    pub fn sheet(&self, frames: &Frames) -> Png {
        let kinds = [
            ("called success, is failure", &self.false_positives, false),
            ("called failure, is success", &self.false_negatives, true),
        ];
        let mut rows = Vec::new();
        for (name, mistakes, truth) in kinds {
            let cells: Vec<Cell> =
                mistakes.iter().flat_map(|mistake| cells(frames, mistake, truth)).collect();
            for (line, cells) in cells.chunks(COLUMNS).enumerate() {
                rows.push((if line == 0 { name.into() } else { String::new() }, cells.to_vec()));
            }
        }
        sheet(&rows)
    }
}

fn cells(frames: &Frames, mistake: &Mistake, truth: bool) -> Vec<Cell> {
    let cell = |view: usize| {
        let image = frames.image(mistake.frame, view);
        let views = if frames.views().len() > 1 { frames.views()[view].to_string() } else { String::new() };
        Cell {
            shape: image.shape(),
            pixels: image.pixels().into_owned(),
            tint: Tint::of(truth),
            words: vec![
                format!("p {:.4} frame {} {views}", mistake.score, mistake.at),
                mistake.episode.clone(),
            ],
        }
    };
    (0..frames.views().len()).map(cell).collect()
}
