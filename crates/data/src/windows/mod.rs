//! Labelled windows where they lie: what a vision-language model is fine-tuned on.
//!
//! [`Windows::read`] takes the manifests (`segments.jsonl`) that [`convert_windows`](crate::convert::convert_windows) or
//! RLinf's script writes. Frames stay in their pickles until [`Windows::frames`] asks for them.

mod error;
mod frames;
pub(crate) mod manifest;
mod objective;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use error::{LineProblem, WindowProblem, WindowsError};
pub use frames::WindowFrame;
pub use objective::{Objective, evenly_spaced};

/// Options for reading windows.
#[derive(Clone, Debug)]
pub struct WindowReadOptions {
    /// The key of the question in each line; `question` where a line has no such key.
    pub prompt_key: String,
    /// The key of the answer in each line; `label` or `supervision.label` where a line has no such key.
    pub answer_key: String,
    /// What may be asked. A line that does not say what it asks, asks for the trend.
    pub objectives: Vec<Objective>,
    /// The folder that paths are looked up in which lead nowhere by themselves.
    pub data_root: Option<PathBuf>,
    /// Whether a window has more than the main view.
    pub views: WindowViews,
}

/// The cameras of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowViews {
    /// The main one alone.
    Main,
    /// The main one and all others; there is at least one other.
    #[default]
    All,
}

/// A window of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowRow {
    /// What is asked.
    pub prompt: String,
    /// What kind of question that is.
    pub objective: Objective,
    /// Which of its answers is right.
    pub answer: usize,
    /// Where its frames are.
    pub pickle: PathBuf,
    /// The episode it was cut from, if that is written.
    pub episode: Option<String>,
    /// How many frames it was cut to, if that is written.
    pub size: Option<usize>,
    /// The step of its first frame in the episode, if that is written.
    pub start: Option<usize>,
    /// By how much the environment's own measure grew from its first frame to its last, if that is written.
    pub progress: Option<f64>,
}

/// Windows of some manifests, in their order.
#[derive(Clone, Debug)]
pub struct Windows {
    rows: Vec<WindowRow>,
    views: WindowViews,
}

impl Windows {
    /// Reads manifests: files, or folders with a `segments.jsonl`.
    ///
    /// # Errors
    /// When one cannot be read, lists nothing, or has a line without question, answer or frames.
    pub fn read(manifests: &[PathBuf], options: &WindowReadOptions) -> Result<Self, WindowsError> {
        let mut rows = Vec::new();
        for manifest in manifests {
            rows.extend(manifest::rows(manifest, options)?);
        }
        Ok(Self { rows, views: options.views })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the manifest says of a window.
    #[must_use]
    pub fn row(&self, number: usize) -> &WindowRow {
        &self.rows[number]
    }

    /// All of them.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &WindowRow> {
        self.rows.iter()
    }

    /// What is asked in them, each once.
    #[must_use]
    pub fn objectives(&self) -> Vec<Objective> {
        let asked = |objective: &Objective| self.rows.iter().any(|row| row.objective == *objective);
        Objective::ALL.into_iter().filter(asked).collect()
    }

    /// How many windows of an objective each answer is right for.
    #[must_use]
    pub fn balance(&self, objective: Objective) -> Vec<(&'static str, usize)> {
        let asked = || self.rows.iter().filter(|row| row.objective == objective);
        let count = |answer: usize| asked().filter(|row| row.answer == answer).count();
        objective.answers().iter().enumerate().map(|(i, answer)| (*answer, count(i))).collect()
    }

    /// Every question once.
    #[must_use]
    pub fn prompts(&self) -> Vec<&str> {
        let prompts: BTreeMap<&str, ()> = self.rows.iter().map(|row| (row.prompt.as_str(), ())).collect();
        prompts.into_keys().collect()
    }

    /// The frames of a window, by view: the main one first.
    ///
    /// # Errors
    /// When the pickle cannot be read, lacks a view, or has fewer frames than it was cut to.
    pub fn frames(&self, number: usize) -> Result<Vec<Vec<WindowFrame>>, WindowsError> {
        let row = &self.rows[number];
        // The second clip of a pair stands where a second camera would.
        let views = if row.objective == Objective::Preference { WindowViews::All } else { self.views };
        frames::read(row, views)
    }
}

#[cfg(test)]
mod tests;
