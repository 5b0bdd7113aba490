//! Whether a vision-language judge can be trusted: everything that is found, and what is stored beside its weights.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

use plaudit_core::Seed;
use plaudit_data::windows::{WindowViews, Windows};
use serde::Serialize;

use super::findings::verdict;
use super::{
    AbstainPoint, Agreement, Disturbed, JudgeBench, LabelCalibration, ScoredWindows, WindowChange,
    abstain_curve, agreement, calibrate_labels,
};
use crate::audit::{AuditError, AuditProgress, Interval, OnAuditProgress, Stored, Verdict};
use crate::metrics::LabelMetrics;
use crate::sft::answers;
use crate::trend::JudgeCardError;

/// Bootstrap resamples behind an interval.
const RESAMPLES: u64 = 500;
/// Mistakes that are kept.
const MISTAKES: usize = 20;

/// What is asked of a judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgeAuditSettings {
    /// A judge whose balanced accuracy may be lower does not pass.
    pub min_accuracy: f64,
    /// Windows of each label that are changed.
    pub changed: usize,
    /// Seed of the episodes that fit the temperature, and of the intervals.
    pub seed: u64,
}

impl JudgeAuditSettings {
    /// What is asked where nothing else is.
    pub const DEFAULT: Self = Self { min_accuracy: 0.7, changed: 100, seed: 42 };
}

impl Default for JudgeAuditSettings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// An audit of a judge about to be made.
pub struct JudgeAuditor<'a> {
    /// The judge and the windows.
    pub bench: &'a JudgeBench,
    /// Where the windows were read from.
    pub data: &'a [PathBuf],
    /// What is asked of it.
    pub settings: JudgeAuditSettings,
    /// Windows it learned from, to look for episodes that are in both; none: where its card says they were.
    pub train_data: &'a [PathBuf],
    /// The views of those that are read.
    pub views: WindowViews,
    /// Called as often as there is news.
    pub on_progress: &'a OnAuditProgress<'a>,
}

/// Everything that was found. As JSON, it is what a page about the audit shows.
#[derive(Debug, Clone, Serialize)]
pub struct JudgeAudit {
    /// The judge.
    pub model: String,
    /// What it was audited on.
    pub data: Vec<String>,
    /// Whether the judge may be used as a reward.
    pub passed: bool,
    /// Why, or why not.
    pub verdict: Verdict,
    /// How many episodes.
    pub episodes: usize,
    /// The order of every triple.
    pub labels: [&'static str; 3],
    /// The mean of the labels' recalls.
    pub balanced_accuracy: Option<Interval>,
    /// At the temperature.
    pub metrics: LabelMetrics,
    /// How honest probabilities are, before and after the temperature.
    pub calibration: LabelCalibration,
    /// What abstaining gains.
    pub abstaining: Vec<AbstainPoint>,
    /// Whether votes go with the environment's own measure of progress.
    pub agreement: Option<Agreement>,
    /// Windows changed in ways of which the right answer is known.
    pub changed: Vec<Disturbed>,
    /// What it was surest of, and wrong.
    pub mistakes: Vec<WindowMistake>,
    /// Whether it learned from these windows.
    pub seen_before: SeenBefore,
    /// A prompt of these windows that the judge was not tuned with.
    pub unseen_prompt: Option<String>,
    /// How fast it answers.
    pub windows_per_second: f64,
    /// Whether the judge's card has the temperature.
    pub stored: Stored,
}

/// A window that was judged wrongly.
#[derive(Debug, Clone, Serialize)]
pub struct WindowMistake {
    /// Which of the windows.
    #[serde(skip)]
    pub number: usize,
    /// Its name.
    pub window: String,
    /// Its file.
    pub pickle: String,
    /// What is right, and what was said.
    pub what: String,
}

/// Whether the judge knew these windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "known")]
pub enum SeenBefore {
    /// It learned from episodes of them.
    Training {
        /// From so many.
        episodes: usize,
        /// Of so many.
        of: usize,
    },
    /// It was chosen on them.
    Validation,
    /// Both were compared, and no episode is in both.
    Apart,
    /// What it learned from is not there.
    Unknown,
}

/// Why the temperature of a judge was not stored.
#[derive(Debug, thiserror::Error)]
pub enum NotStored {
    /// The windows say nothing about new episodes.
    #[error("what was measured cannot be believed: {0}")]
    Unbelievable(String),
    /// There is none.
    #[error("no temperature could be fitted")]
    NoTemperature,
    /// A judge without a folder of its own.
    #[error("the adapters are one file, and there is no folder of theirs")]
    NoFolder,
    /// The system refuses.
    #[error(transparent)]
    Card(#[from] JudgeCardError),
}

impl JudgeAuditor<'_> {
    /// Runs the judge. Nothing is stored yet: [`JudgeAudit::store`] does that.
    ///
    /// # Errors
    /// When windows cannot be read or shown.
    pub fn audit(&self) -> Result<JudgeAudit, AuditError> {
        let (bench, seed) = (self.bench, Seed::new(self.settings.seed).purpose("audit"));
        let began = Instant::now();
        let judged = bench.judged(&|done, total| self.report("judging", "windows", done, total))?;
        let windows_per_second = judged.truth.len() as f64 / began.elapsed().as_secs_f64().max(1e-9);
        let calibration = calibrate_labels(&judged, seed);
        let temperature = calibration.temperature.unwrap_or(1.0);
        let mistake = |number: usize| WindowMistake {
            number,
            window: bench.name(number),
            pickle: bench.windows.row(number).pickle.display().to_string(),
            what: bench.mistake(number, &judged, temperature),
        };
        let mut audit = JudgeAudit {
            model: bench.folder.own().display().to_string(),
            data: self.data.iter().map(|path| path.display().to_string()).collect(),
            passed: false,
            verdict: Verdict::default(),
            episodes: judged.episodes.len(),
            labels: answers(),
            balanced_accuracy: judged.balanced_accuracy(RESAMPLES, seed),
            metrics: judged.metrics(temperature),
            abstaining: abstain_curve(&judged, temperature),
            agreement: agreement(&judged, temperature, RESAMPLES, seed),
            changed: self.changed(&judged)?,
            mistakes: judged.worst(temperature, MISTAKES).into_iter().map(mistake).collect(),
            seen_before: self.seen_before(),
            unseen_prompt: unseen_prompt(bench),
            windows_per_second,
            calibration,
            stored: Stored::No { why: String::new() },
        };
        audit.verdict = verdict(&audit, self.settings.min_accuracy);
        audit.passed = audit.verdict.passed();
        Ok(audit)
    }

    fn report(&self, what: &'static str, unit: &'static str, done: usize, total: usize) {
        (self.on_progress)(AuditProgress { what, unit, done, total });
    }

    /// Some windows of each label, played backwards, held still, and with each view covered.
    fn changed(&self, judged: &ScoredWindows) -> Result<Vec<Disturbed>, AuditError> {
        let some = |label: usize| {
            let all: Vec<usize> = (0..judged.truth.len()).filter(|at| judged.truth[*at] == label).collect();
            let step = all.len().div_ceil(self.settings.changed.max(1)).max(1);
            all.into_iter().step_by(step)
        };
        let numbers: Vec<usize> = (0..answers().len()).flat_map(some).collect();
        let before: Vec<usize> = numbers.iter().map(|at| judged.truth[*at]).collect();
        let views =
            numbers.first().map_or(Ok(0), |first| self.bench.frames(*first).map(|views| views.len()))?;
        let covered = (0..views).filter(|_| views > 1).map(|view| WindowChange::Covered { view });
        let all: Vec<WindowChange> =
            [WindowChange::Backwards, WindowChange::Still].into_iter().chain(covered).collect();
        let changed = |(done, change): (usize, &WindowChange)| {
            self.report("changing windows", "ways", done, all.len());
            Ok(Disturbed::of(change, self.bench.judged_with(change, &numbers)?, &before))
        };
        all.iter().enumerate().map(changed).collect()
    }

    /// Looks for episodes that the judge learned from: where it was said to be, or else where its card says it was.
    fn seen_before(&self) -> SeenBefore {
        let card = self.bench.judge.card().cloned().unwrap_or_default();
        let said = if self.train_data.is_empty() { &card.trained_on[..] } else { self.train_data };
        let read = |paths: &[PathBuf]| JudgeBench::read_windows(paths, self.views);
        // What is there now need not be what was there then, so that trouble with it is not the user's.
        let Ok(train) = read(said) else { return SeenBefore::Unknown };
        if train.is_empty() {
            return SeenBefore::Unknown;
        }
        let (trained, these) = (episodes(&train), episodes(&self.bench.windows));
        let shared = these.intersection(&trained).count();
        if shared > 0 {
            return SeenBefore::Training { episodes: shared, of: these.len() };
        }
        let chosen_on = |path: &PathBuf| read(std::slice::from_ref(path)).map(|read| episodes(&read));
        let mut validated = card.validated_on.iter().filter_map(|path| chosen_on(path).ok());
        match validated.any(|chosen| chosen.intersection(&these).next().is_some()) {
            true => SeenBefore::Validation,
            false => SeenBefore::Apart,
        }
    }
}

impl JudgeAudit {
    /// The temperature, if the windows can be believed.
    ///
    /// # Errors
    /// When they cannot, or there is none.
    pub fn believable_temperature(&self) -> Result<f64, NotStored> {
        let of_the_data = |code: &str| matches!(code, "leak" | "one_direction" | "unseen_prompt");
        match self.verdict.findings.iter().find(|finding| of_the_data(finding.code)) {
            Some(found) => Err(NotStored::Unbelievable(found.what.clone())),
            None => self.calibration.temperature.ok_or(NotStored::NoTemperature),
        }
    }

    /// Writes the temperature into the judge's card, beside its weights, if the windows can be believed.
    ///
    /// # Errors
    /// When they cannot, or the card cannot be written.
    pub fn store(&self, bench: &JudgeBench) -> Result<PathBuf, NotStored> {
        let temperature = self.believable_temperature()?;
        if !bench.folder.own().is_dir() {
            return Err(NotStored::NoFolder);
        }
        let mut card = bench.judge.card().cloned().unwrap_or_default();
        card.label_temperature = Some(temperature);
        Ok(card.write(bench.folder.own())?)
    }
}

/// A prompt that the judge was not tuned with, if its card lists those.
fn unseen_prompt(bench: &JudgeBench) -> Option<String> {
    let known = &bench.judge.card().filter(|card| !card.questions.is_empty())?.questions;
    let asked = bench.windows.prompts();
    asked.into_iter().find(|asked| !known.iter().any(|known| known == asked)).map(String::from)
}

/// The episodes that windows were cut from, by their files; windows of unknown origin by their own.
fn episodes(windows: &Windows) -> HashSet<String> {
    let name = |row: &plaudit_data::windows::WindowRow| {
        row.episode.clone().unwrap_or_else(|| row.pickle.display().to_string())
    };
    windows.rows().map(name).collect()
}
