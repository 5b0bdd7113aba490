//! A vision-language judge and the labelled windows it is measured on.

use std::path::{Path, PathBuf};

use plaudit_data::windows::{Objective, WindowFrame, WindowReadOptions, WindowViews, Windows};

use super::{ScoredWindows, WindowChange, disturbed_window};
use crate::audit::{AuditError, OnScored};
use crate::sft::{InputFormat, answers, window_logits};
use crate::train::TrainError;
use crate::trend::{JudgeFolder, LabelLogits, LocalVlm};

/// Windows that the judge is shown at once.
const BATCH: usize = 32;

/// A judge, ready to score windows.
pub struct JudgeBench {
    /// Where it is.
    pub folder: JudgeFolder,
    /// The judge.
    pub judge: LocalVlm,
    /// What it is measured on.
    pub windows: Windows,
    /// How it is shown windows.
    pub input_format: InputFormat,
}

impl JudgeBench {
    /// The windows of manifests, of folders with one, or of folders with a training and a held-out part: the latter.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read_windows(data: &[PathBuf], views: WindowViews) -> Result<Windows, TrainError> {
        let manifest = |path: &PathBuf| {
            let held_out = path.join("eval/segments.jsonl");
            let is_root = !path.join("segments.jsonl").is_file() && held_out.is_file();
            if is_root { held_out } else { path.clone() }
        };
        let manifests: Vec<PathBuf> = data.iter().map(manifest).collect();
        let reading = WindowReadOptions {
            prompt_key: "prompt".into(),
            answer_key: "answer".into(),
            objectives: vec![Objective::Trend],
            data_root: data.first().filter(|path| path.is_dir()).cloned(),
            views,
        };
        Ok(Windows::read(&manifests, &reading)?)
    }

    /// What the judge says of every window.
    ///
    /// # Errors
    /// When a window cannot be shown, or answers are no numbers.
    pub fn judged(&self, on_progress: &OnScored<'_>) -> Result<ScoredWindows, AuditError> {
        let show = |number: usize| self.input_format.inputs(self.judge.processor(), &self.windows, number);
        let numbers: Vec<usize> = (0..self.windows.len()).collect();
        let logits = window_logits(&self.judge, &numbers, BATCH, &show, on_progress)?;
        let judged = ScoredWindows::of(&self.windows, logits);
        if judged.is_finite() {
            return Ok(judged);
        }
        let model = self.folder.own().display().to_string();
        Err(AuditError::NotFinite { model, what: "logits" })
    }

    /// What it says of some windows with a change made to them.
    pub(super) fn judged_with(
        &self,
        change: &WindowChange,
        numbers: &[usize],
    ) -> Result<Vec<LabelLogits>, TrainError> {
        let show = |number: usize| {
            let views = disturbed_window(change, self.windows.frames(number)?);
            let row = self.windows.row(number);
            let inputs = self.input_format.of_frames(self.judge.processor(), &views, &row.prompt);
            inputs.map_err(|error| TrainError::Window { path: row.pickle.clone(), error: error.into() })
        };
        window_logits(&self.judge, numbers, BATCH, &show, &|_, _| {})
    }

    /// The frames of a window.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn frames(&self, number: usize) -> Result<Vec<Vec<WindowFrame>>, TrainError> {
        Ok(self.windows.frames(number)?)
    }

    /// Which window it is: its episode and first step, or its file.
    #[must_use]
    pub fn name(&self, number: usize) -> String {
        let row = self.windows.row(number);
        let last = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        match (row.episode.as_deref().and_then(|path| last(Path::new(path))), row.start) {
            (Some(episode), Some(start)) => format!("{episode} step {start}"),
            _ => last(&row.pickle).unwrap_or_default(),
        }
    }

    /// What is right, what is said, and how likely it is said to be.
    #[must_use]
    pub fn mistake(&self, number: usize, judged: &ScoredWindows, temperature: f64) -> String {
        let (said, likely) = (judged.predicted()[number], judged.probabilities(temperature)[number]);
        let [right, said_word] = [judged.truth[number], said].map(|label| answers()[label]);
        format!("is {right}, called {said_word} ({:.3})", likely[said])
    }
}
