//! The worst mistakes of a model, as images: what it was surest of, and wrong.

use plaudit_draw::{Canvas, ContactSheet, Group, SheetFrame, Tint};

use super::{Png, SIDE, by_label};
use crate::dataset::Frames;

/// A misclassified frame.
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
    /// Failures with the highest scores: what a policy would be rewarded for.
    pub false_positives: Vec<Mistake>,
    /// Successes with the lowest scores.
    pub false_negatives: Vec<Mistake>,
}

/// Frames in a row.
const COLUMNS: usize = 5;

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

    /// All of them on a sheet, the worst first, every view side by side; the border says what is true. `threshold` is the one
    /// that they were found with.
    #[must_use]
    pub fn sheet(&self, frames: &Frames, threshold: f64) -> Png {
        let kinds = [
            ("False positives: scored as success, labelled failure", &self.false_positives, false),
            ("False negatives: scored as failure, labelled success", &self.false_negatives, true),
        ];
        let groups = kinds.into_iter().filter(|(_, mistakes, _)| !mistakes.is_empty());
        let groups = groups.map(|(heading, mistakes, truth)| Group {
            heading: heading.into(),
            frames: mistakes.iter().flat_map(|mistake| views(frames, mistake, truth)).collect(),
        });
        let views_each = frames.views().len().max(1);
        let sheet = ContactSheet {
            title: "Worst mistakes of the reward model".into(),
            about: format!(
                "The surest first. A score above {} counts as success. The border is the label, not the score.",
                rounded(threshold)
            ),
            legend: by_label(),
            // The views of a frame stay beside each other.
            columns: (COLUMNS / views_each).max(1) * views_each,
            groups: groups.collect(),
        };
        Png::from(&sheet.draw())
    }
}

/// A threshold without digits that say nothing.
fn rounded(threshold: f64) -> f64 {
    (threshold * 1e4).round() / 1e4
}

fn views(frames: &Frames, mistake: &Mistake, truth: bool) -> Vec<SheetFrame> {
    let view = |number: usize| {
        let image = frames.image(mistake.frame, number);
        let mut caption = vec![format!("score {:.4}", mistake.score)];
        caption.push(format!("frame {} of {}", mistake.at, mistake.episode));
        if frames.views().len() > 1 {
            caption.push(frames.views()[number].to_string());
        }
        let image = Canvas::fitted(image.shape(), &frames.pixels_or_black(mistake.frame, number), SIDE);
        SheetFrame { image, tint: Tint::of(truth), caption }
    };
    (0..frames.views().len()).map(view).collect()
}
