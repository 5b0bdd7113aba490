//! Windows that were changed in ways of which the right answer is known: a judge that does not follow looks at something
//! else than what happens.

use plaudit_data::windows::WindowFrame;
use serde::Serialize;

use super::ScoredWindows;
use crate::audit::stress::cover;
use crate::metrics::LABELS;
use crate::trend::{LabelLogits, Trend};

/// A change of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowChange {
    /// Shown from its end to its beginning: better becomes worse.
    Backwards,
    /// Its first frame throughout: no trend can be seen.
    Still,
    /// One of its views grey: the answer stays.
    Covered {
        /// Which view.
        view: usize,
    },
}

/// How a judge does on changed windows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disturbed {
    /// What was done.
    pub name: String,
    /// How many windows.
    pub windows: usize,
    /// Share judged as they should be, changed as they are.
    pub right: f64,
    /// Mean vote: from -1 (worse) to 1 (better).
    pub vote: f64,
}

impl WindowChange {
    /// What is done, in a few words.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Backwards => "played backwards".into(),
            Self::Still => "the first frame throughout".into(),
            Self::Covered { view: 0 } => "the main view covered".into(),
            Self::Covered { view } => format!("other view {view} covered"),
        }
    }

    /// The right answer afterwards, by the one before.
    #[must_use]
    pub fn answer(&self, before: usize) -> usize {
        let after = match (self, Trend::LABELS[before]) {
            (Self::Still, _) => Trend::Unclear,
            (Self::Backwards, Trend::Positive) => Trend::Negative,
            (Self::Backwards, Trend::Negative) => Trend::Positive,
            (_, same) => same,
        };
        Trend::LABELS.iter().position(|label| *label == after).unwrap_or(LABELS - 1)
    }
}

/// A window with a change made to it.
#[must_use]
pub(super) fn disturbed_window(
    change: &WindowChange,
    mut views: Vec<Vec<WindowFrame>>,
) -> Vec<Vec<WindowFrame>> {
    match change {
        WindowChange::Backwards => views.iter_mut().for_each(|view| view.reverse()),
        WindowChange::Still => {
            for view in &mut views {
                let first = view.first().cloned();
                view.iter_mut().zip(first.iter().cycle()).for_each(|(frame, first)| frame.clone_from(first));
            }
        }
        WindowChange::Covered { view } => {
            for frame in views.get_mut(*view).into_iter().flatten() {
                frame.rgb.chunks_exact_mut(3).for_each(cover);
            }
        }
    }
    views
}

impl Disturbed {
    /// What a judge said of changed windows, whose answers were these before the change.
    #[must_use]
    pub fn of(change: &WindowChange, logits: Vec<LabelLogits>, before: &[usize]) -> Self {
        let windows = ScoredWindows {
            progress: vec![None; logits.len()],
            episodes: Vec::new(),
            truth: before.iter().map(|answer| change.answer(*answer)).collect(),
            logits,
        };
        let count = windows.truth.len().max(1) as f64;
        let right = windows
            .predicted()
            .iter()
            .zip(&windows.truth)
            .filter(|(predicted, right)| predicted == right)
            .count();
        Self {
            name: change.name(),
            windows: windows.truth.len(),
            right: right as f64 / count,
            vote: windows.votes(1.0).iter().sum::<f64>() / count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Vec<Vec<WindowFrame>> {
        let frame = |level: u8| WindowFrame { height: 1, width: 1, rgb: vec![level; 3] };
        vec![vec![frame(1), frame(2), frame(3)], vec![frame(4), frame(5), frame(6)]]
    }

    fn levels(views: &[Vec<WindowFrame>]) -> Vec<Vec<u8>> {
        views.iter().map(|view| view.iter().map(|frame| frame.rgb[0]).collect()).collect()
    }

    #[test]
    fn changes_change_images_and_answers() {
        let after = |change: &WindowChange| levels(&disturbed_window(change, window()));
        assert_eq!(after(&WindowChange::Backwards), [[3, 2, 1], [6, 5, 4]]);
        assert_eq!(after(&WindowChange::Still), [[1, 1, 1], [4, 4, 4]]);
        let covered = after(&WindowChange::Covered { view: 1 });
        assert_eq!(covered[0], [1, 2, 3]);
        assert!(covered[1].iter().all(|level| *level > 100), "{covered:?}");
        let answers = |change: WindowChange| [0, 1, 2].map(|answer| change.answer(answer));
        assert_eq!(answers(WindowChange::Backwards), [1, 0, 2]);
        assert_eq!(answers(WindowChange::Still), [2, 2, 2]);
        assert_eq!(answers(WindowChange::Covered { view: 0 }), [0, 1, 2]);
    }

    #[test]
    fn what_follows_the_change_is_right() {
        let predicted = vec![LabelLogits([0.0, 9.0, 0.0]), LabelLogits([0.0, 9.0, 0.0])];
        let found = Disturbed::of(&WindowChange::Backwards, predicted, &[0, 1]);
        assert_eq!((found.right, found.windows), (0.5, 2));
        assert!(found.vote < -0.99);
    }
}
