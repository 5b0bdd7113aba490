//! Whether a vision-language judge can be trusted: everything that is found, and what is stored beside its weights.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use plaudit_core::Seed;
use plaudit_data::windows::Windows;
use plaudit_reward::audit::{
    Agreement, AtBand, Disturbed, Interval, JudgedWindows, LabelCalibration, Verdict, WindowChange,
    agreement, at_bands, calibrate_labels,
};
use plaudit_reward::metrics::LabelMetrics;
use plaudit_reward::pictures::{Png, strip};
use plaudit_reward::sft::answers;
use plaudit_reward::trend::JudgeFolder;
use serde::Serialize;

use super::super::audit::{Stored, findings, interval, write};
use super::super::sft::confusion_table;
use super::eval::in_words;
use super::verdict::verdict;
use super::{Bench, JudgeArgs, page, windows};
use crate::cli::Volume;
use crate::commands::report;
use crate::failure::Failure;
use crate::progress::{Doing, ProgressBar};
use crate::say;

/// Draws behind an interval.
const RESAMPLES: u64 = 500;
/// Mistakes that are shown.
const SHOWN: usize = 20;

/// An audit about to be made.
pub(in super::super) struct AuditOfJudge<'a> {
    pub(in super::super) judge: JudgeFolder,
    pub(in super::super) asked: &'a JudgeArgs,
    pub(in super::super) data: &'a [PathBuf],
    pub(in super::super) train_data: &'a [PathBuf],
    pub(in super::super) min_accuracy: f64,
    /// Windows of each label that are changed.
    pub(in super::super) changed: usize,
    pub(in super::super) seed: u64,
    pub(in super::super) no_store: bool,
    pub(in super::super) json: bool,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct JudgeAudit {
    pub(super) model: String,
    pub(super) data: Vec<String>,
    pub(super) passed: bool,
    pub(super) verdict: Verdict,
    pub(super) episodes: usize,
    /// The order of every triple.
    pub(super) labels: [&'static str; 3],
    pub(super) balanced_accuracy: Option<Interval>,
    /// At the temperature.
    pub(super) metrics: LabelMetrics,
    pub(super) calibration: LabelCalibration,
    pub(super) abstaining: Vec<AtBand>,
    pub(super) agreement: Option<Agreement>,
    pub(super) changed: Vec<Disturbed>,
    pub(super) mistakes: Vec<WindowMistake>,
    pub(super) seen_before: SeenBefore,
    /// A question of these windows that the judge was not tuned with.
    pub(super) other_words: Option<String>,
    pub(super) windows_per_second: f64,
    pub(super) stored: Stored,
}

/// A window that was judged wrongly.
#[derive(Debug, Serialize)]
pub(super) struct WindowMistake {
    pub(super) window: String,
    pub(super) pickle: String,
    pub(super) what: String,
}

/// Whether the judge knew these windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "known")]
pub(super) enum SeenBefore {
    /// It learned from episodes of them.
    Training { episodes: usize, of: usize },
    /// It was chosen on them.
    Validation,
    /// Both were compared, and no episode is in both.
    Apart,
    /// What it learned from is not there.
    Unknown,
}

impl AuditOfJudge<'_> {
    /// Does it; the verdict is the exit code.
    pub(in super::super) fn run(self, folder: &Path, volume: Volume) -> Result<(), Failure> {
        let bar = ProgressBar::new("reward audit", volume);
        let bench = Bench::open(self.judge.clone(), self.asked, self.data)?;
        let (mut audit, pictures) = self.examine(&bench, &bar)?;
        audit.stored = self.store(&bench, &audit)?;
        drop(bar);
        let json = audit.json();
        write(&folder.join("audit.html"), page::page(&audit, &pictures).as_bytes())?;
        write(&folder.join("audit.json"), json.as_bytes())?;
        if let Stored::In { file } = &audit.stored {
            write(&report::beside(Path::new(file)), json.as_bytes())?; // for reports on runs that this judge pays
        }
        say::out(&if self.json { json } else { audit.text(folder) })?;
        if audit.verdict.passed() { Ok(()) } else { Err(Failure::Verdict) }
    }

    fn examine(&self, bench: &Bench, bar: &ProgressBar) -> Result<(JudgeAudit, Vec<(Png, String)>), Failure> {
        let seed = Seed::new(self.seed).purpose("audit");
        let began = Instant::now();
        let judged = bench.judged(bar)?;
        let windows_per_second = judged.truth.len() as f64 / began.elapsed().as_secs_f64().max(1e-9);
        let calibration = calibrate_labels(&judged, seed);
        let temperature = calibration.temperature.unwrap_or(1.0);
        let worst = judged.worst(temperature, SHOWN);
        let mistake = |number: &usize| WindowMistake {
            window: bench.name(*number),
            pickle: bench.windows.row(*number).pickle.display().to_string(),
            what: bench.mistake(*number, &judged, temperature),
        };
        let mistakes: Vec<WindowMistake> = worst.iter().map(mistake).collect();
        let picture = |(number, mistake): (&usize, &WindowMistake)| {
            Ok((strip(&bench.frames(*number)?), format!("{} · {}", mistake.what, mistake.window)))
        };
        let pictures = worst.iter().zip(&mistakes).map(picture).collect::<Result<_, Failure>>()?;
        let mut audit = JudgeAudit {
            model: bench.folder.own().display().to_string(),
            data: self.data.iter().map(|path| path.display().to_string()).collect(),
            passed: false,
            verdict: Verdict::default(),
            episodes: judged.episodes.len(),
            labels: answers(),
            balanced_accuracy: judged.balanced_accuracy(RESAMPLES, seed),
            metrics: judged.metrics(temperature),
            abstaining: at_bands(&judged, temperature),
            agreement: agreement(&judged, temperature, RESAMPLES, seed),
            changed: self.changed(bench, &judged, bar)?,
            mistakes,
            seen_before: self.seen_before(bench),
            other_words: other_words(bench),
            windows_per_second,
            calibration,
            stored: Stored::No { why: String::new() },
        };
        audit.verdict = verdict(&audit, self.min_accuracy);
        audit.passed = audit.verdict.passed();
        Ok((audit, pictures))
    }

    /// Some windows of each label, played backwards, held still, and with each view covered.
    fn changed(
        &self,
        bench: &Bench,
        judged: &JudgedWindows,
        bar: &ProgressBar,
    ) -> Result<Vec<Disturbed>, Failure> {
        let some = |label: usize| {
            let all: Vec<usize> = (0..judged.truth.len()).filter(|at| judged.truth[*at] == label).collect();
            let step = all.len().div_ceil(self.changed.max(1)).max(1);
            all.into_iter().step_by(step)
        };
        let numbers: Vec<usize> = (0..answers().len()).flat_map(some).collect();
        let before: Vec<usize> = numbers.iter().map(|at| judged.truth[*at]).collect();
        let views = numbers.first().map_or(Ok(0), |first| bench.frames(*first).map(|views| views.len()))?;
        let covered = (0..views).filter(|_| views > 1).map(|view| WindowChange::Covered { view });
        let all: Vec<WindowChange> =
            [WindowChange::Backwards, WindowChange::Still].into_iter().chain(covered).collect();
        let changed = |(done, change): (usize, &WindowChange)| {
            bar.show(Doing { what: "changing windows", unit: "ways", done, total: all.len() });
            Ok(Disturbed::of(change, bench.judged_with(change, &numbers)?, &before))
        };
        all.iter().enumerate().map(changed).collect()
    }

    /// Looks for episodes that the judge learned from: where it was said to be, or else where its card says it was.
    fn seen_before(&self, bench: &Bench) -> SeenBefore {
        let card = bench.judge.card().cloned().unwrap_or_default();
        let said = if self.train_data.is_empty() { &card.trained_on[..] } else { self.train_data };
        // What is there now need not be what was there then, so that trouble with it is not the user's.
        let Ok(train) = windows(said, self.asked) else { return SeenBefore::Unknown };
        if train.is_empty() {
            return SeenBefore::Unknown;
        }
        let (trained, these) = (episodes(&train), episodes(&bench.windows));
        let shared = these.intersection(&trained).count();
        let chosen_on =
            |path: &PathBuf| windows(std::slice::from_ref(path), self.asked).map(|read| episodes(&read));
        if shared > 0 {
            return SeenBefore::Training { episodes: shared, of: these.len() };
        }
        let validated = card.validated_on.iter().filter_map(|path| chosen_on(path).ok());
        match validated.into_iter().any(|chosen| chosen.intersection(&these).next().is_some()) {
            true => SeenBefore::Validation,
            false => SeenBefore::Apart,
        }
    }

    /// Writes the temperature beside the weights, if the windows can be believed.
    fn store(&self, bench: &Bench, audit: &JudgeAudit) -> Result<Stored, Failure> {
        if self.no_store {
            return Ok(Stored::No { why: "it was asked to leave the judge as it is".into() });
        }
        let of_the_data = |code: &str| matches!(code, "leak" | "one_direction" | "other_words");
        if let Some(found) = audit.verdict.findings.iter().find(|finding| of_the_data(finding.code)) {
            return Ok(Stored::No { why: format!("what was measured cannot be believed: {}", found.what) });
        }
        let Some(temperature) = audit.calibration.temperature else {
            return Ok(Stored::No { why: "no temperature could be fitted".into() });
        };
        if !bench.folder.own().is_dir() {
            return Ok(Stored::No {
                why: "the adapters are one file, and there is no folder of theirs".into(),
            });
        }
        let mut card = bench.judge.card().cloned().unwrap_or_default();
        card.label_temperature = Some(temperature);
        let file = card.write(bench.folder.own()).map_err(|error| Failure::work(error, None))?;
        Ok(Stored::In { file: file.display().to_string() })
    }
}

/// A question that the judge was not tuned with, if it says which those were.
fn other_words(bench: &Bench) -> Option<String> {
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

impl JudgeAudit {
    fn json(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|error| error.to_string(), |text| text + "\n")
    }

    /// For a terminal.
    fn text(&self, folder: &Path) -> String {
        let mut text = findings(&self.verdict);
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<13}{value}");
        };
        line("windows", format!("{} of {} episodes", self.metrics.windows, self.episodes));
        line(
            "accuracy",
            format!("{} balanced, {:.4} plain", interval(self.balanced_accuracy), self.metrics.accuracy),
        );
        let progress = self.agreement.as_ref().map_or("not known".into(), in_words);
        line("progress", progress);
        let LabelCalibration { temperature, before, after, .. } = &self.calibration;
        let temperature = temperature.map_or("none".into(), |temperature| format!("{temperature:.3}"));
        line(
            "temperature",
            format!("{temperature}: calibration error {:.4} before, {:.4} after", before.ece, after.ece),
        );
        for changed in &self.changed {
            line("changed", format!("{}: {:.4} judged as they should be", changed.name, changed.right));
        }
        line("speed", format!("{:.0} windows per second", self.windows_per_second));
        match &self.stored {
            Stored::In { file } => line("stored in", file.clone()),
            Stored::No { why } => line("not stored", why.clone()),
        }
        line("page", folder.join("audit.html").display().to_string());
        line("JSON", folder.join("audit.json").display().to_string());
        text + &confusion_table(&self.metrics.confusion)
    }
}
