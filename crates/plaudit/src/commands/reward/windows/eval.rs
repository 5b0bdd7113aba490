//! How good a vision-language judge is on labelled windows.

use std::fmt::Write as _;
use std::path::PathBuf;

use plaudit_core::Seed;
use plaudit_reward::audit::{Agreement, JudgeBench, ScoredWindows, agreement};
use plaudit_reward::images::{SheetWindow, window_sheet};
use plaudit_reward::metrics::LabelMetrics;
use plaudit_reward::sft::answers;
use plaudit_reward::trend::JudgeFolder;

use super::super::audit::{self, interval};
use super::super::eval::{csv_field, output_folder};
use super::super::sft::confusion_table;
use super::super::train::failure;
use super::{JudgeArgs, bench};
use crate::cli::Verbosity;
use crate::console;
use crate::failure::Failure;
use crate::output;
use crate::progress::{ProgressBar, ProgressUpdate};

/// Mistakes that are shown.
const SHOWN: usize = 16;
/// Bootstrap resamples behind an interval.
const RESAMPLES: u64 = 200;

/// A measurement about to be made.
pub(in super::super) struct JudgeEvalRun<'a> {
    pub(in super::super) judge: JudgeFolder,
    pub(in super::super) asked: &'a JudgeArgs,
    pub(in super::super) data: &'a [PathBuf],
    pub(in super::super) output: Option<PathBuf>,
    pub(in super::super) json: bool,
}

impl JudgeEvalRun<'_> {
    pub(in super::super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let bar = ProgressBar::new("reward eval", verbosity);
        let bench = bench(self.judge, self.asked, self.data)?;
        let on_progress =
            |done, total| bar.show(ProgressUpdate { what: "judging", unit: "windows", done, total });
        let judged = bench.judged(&on_progress).map_err(audit::failure)?;
        drop(bar);
        let temperature = bench.judge.temperature();
        let metrics = judged.metrics(temperature);
        let agreement = agreement(&judged, temperature, RESAMPLES, Seed::new(0));
        let folder = output_folder(self.output)?;
        write(&folder.join("windows.csv"), csv(&bench, &judged, temperature).as_bytes())?;
        mistakes(&bench, &judged, temperature, &folder)?;
        if self.json {
            let value = serde_json::json!({
                "model": bench.folder.own().display().to_string(),
                "label_temperature": temperature,
                "labels": answers(),
                "metrics": metrics,
                "agreement": agreement,
                "output_dir": folder.display().to_string(),
            });
            return console::print(&format!("{value}\n"));
        }
        let measured = measured(&metrics, agreement.as_ref(), judged.episodes.len(), temperature);
        console::print(&format!("{measured}  written to        {}\n", folder.display()))
    }
}

fn write(path: &std::path::Path, bytes: &[u8]) -> Result<(), Failure> {
    output::write("--output-dir", path, bytes)
}

fn mistakes(
    bench: &JudgeBench,
    judged: &ScoredWindows,
    temperature: f64,
    folder: &std::path::Path,
) -> Result<(), Failure> {
    let worst = judged.worst(temperature, SHOWN);
    if worst.is_empty() {
        return Ok(());
    }
    let row = |number: usize| {
        let heading = format!("{}: {}", bench.mistake(number, judged, temperature), bench.name(number));
        let label = answers()[judged.truth[number]].into();
        Ok(SheetWindow { heading, label, views: bench.frames(number).map_err(failure)? })
    };
    let rows = worst.into_iter().map(row).collect::<Result<Vec<_>, Failure>>()?;
    window_sheet(&rows).write(&folder.join("mistakes.png")).map_err(|error| Failure::runtime(error, None))
}

/// Metrics as lines.
pub(super) fn measured(
    metrics: &LabelMetrics,
    agreement: Option<&Agreement>,
    episodes: usize,
    temperature: f64,
) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<18}{value}");
    };
    line("windows", format!("{} of {episodes} episodes", metrics.windows));
    line("balanced accuracy", format!("{:.4}", metrics.balanced_accuracy));
    line("accuracy", format!("{:.4}", metrics.accuracy));
    let some = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.4}"));
    for (name, label) in answers().iter().zip(&metrics.labels) {
        let found = format!(
            "precision {}, recall {}, F1 {} ({} windows)",
            some(label.precision),
            some(label.recall),
            some(label.f1),
            label.windows
        );
        line(name, found);
    }
    let calibration =
        format!("{:.4}, Brier {:.4}, log loss {:.4}", metrics.ece, metrics.brier, metrics.log_loss);
    line("calibration error", format!("{calibration}, at temperature {temperature:.3}"));
    line("with progress", agreement.map_or("not known for these windows".into(), in_words));
    text + &confusion_table(&metrics.confusion)
}

/// How votes go with the environment's measure.
pub(super) fn in_words(found: &Agreement) -> String {
    let direction = found.same_direction.map_or("-".into(), |share| format!("{share:.4}"));
    format!("rank correlation {}, same direction {direction}", interval(found.rank))
}

fn csv(bench: &JudgeBench, judged: &ScoredWindows, temperature: f64) -> String {
    let mut text = String::from("window,episode,step,label,predicted,positive,negative,unclear,progress\n");
    let (said, likely) = (judged.predicted(), judged.probabilities(temperature));
    for (number, row) in bench.windows.rows().enumerate() {
        let [positive, negative, unclear] = likely[number];
        let _ = writeln!(
            text,
            "{},{},{},{},{},{positive:.6},{negative:.6},{unclear:.6},{}",
            csv_field(&row.pickle.display().to_string()),
            csv_field(row.episode.as_deref().unwrap_or_default()),
            row.start.map(|step| step.to_string()).unwrap_or_default(),
            answers()[row.answer],
            answers()[said[number]],
            row.progress.map(|progress| format!("{progress:.6}")).unwrap_or_default(),
        );
    }
    text
}
