//! `plaudit reward audit` of a vision-language judge: its page, its JSON, and what is stored beside its weights.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use plaudit_reward::audit::{
    JudgeAudit, JudgeAuditSettings, JudgeAuditor, JudgeBench, LabelCalibration, Stored, WindowMistake,
};
use plaudit_reward::images::{Png, window_strip};
use plaudit_reward::trend::JudgeFolder;
use plaudit_view::write_atomically;

use super::super::audit::{failure, findings, hints, interval, show, write};
use super::super::sft::confusion_table;
use super::super::train;
use super::eval::in_words;
use super::{JudgeArgs, bench, page};
use crate::cli::Verbosity;
use crate::commands::report::audit_file;
use crate::console;
use crate::failure::Failure;
use crate::progress::ProgressBar;

/// An audit about to be made.
pub(in super::super) struct JudgeAuditRun<'a> {
    pub(in super::super) judge: JudgeFolder,
    pub(in super::super) asked: &'a JudgeArgs,
    pub(in super::super) data: &'a [PathBuf],
    pub(in super::super) train_data: &'a [PathBuf],
    pub(in super::super) settings: JudgeAuditSettings,
    pub(in super::super) no_store: bool,
    pub(in super::super) json: bool,
}

impl JudgeAuditRun<'_> {
    /// Does it; the verdict is the exit code.
    pub(in super::super) fn run(self, folder: &Path, verbosity: Verbosity) -> Result<(), Failure> {
        let bar = ProgressBar::new("reward audit", verbosity);
        let bench = bench(self.judge.clone(), self.asked, self.data)?;
        let auditor = JudgeAuditor {
            bench: &bench,
            data: self.data,
            settings: self.settings,
            train_data: self.train_data,
            views: self.asked.views(),
            on_progress: &|progress| show(&bar, progress),
        };
        let mut audit = auditor.audit().map_err(failure)?;
        hints::for_judges(&mut audit.verdict);
        drop(bar);
        let images = images(&bench, &audit.mistakes)?;
        let write_pages = |audit: &JudgeAudit| {
            write(&folder.join("audit.html"), page::page(audit, &images).as_bytes())?;
            write(&folder.join("audit.json"), json(audit).as_bytes())
        };
        // Before the folder of the judge is touched, which may be read-only: an audit takes long.
        write_pages(&audit)?;
        audit.stored = self.store(&bench, &audit);
        write_pages(&audit)?;
        let json = json(&audit);
        if let Stored::In { file } = &audit.stored
            && let Err(error) = write_atomically(&audit_file(Path::new(file)), json.as_bytes())
        {
            console::eprintln(&format!("warning: reports will not show this audit: {error}"));
        }
        console::print(&if self.json { json } else { text(&audit, folder) })?;
        if audit.passed { Ok(()) } else { Err(Failure::AuditNotPassed) }
    }

    /// Writes the temperature beside the weights, unless that was not wanted.
    fn store(&self, bench: &JudgeBench, audit: &JudgeAudit) -> Stored {
        let temperature = match audit.believable_temperature() {
            Ok(temperature) => temperature,
            Err(why) => return Stored::No { why: why.to_string() },
        };
        let no = |why: &dyn std::fmt::Display| Stored::No {
            why: format!("{why}; to apply it, set reward.model.label_temperature={temperature}"),
        };
        if self.no_store {
            return no(&"it was asked to leave the judge as it is");
        }
        match audit.store(bench) {
            Ok(file) => Stored::In { file: file.display().to_string() },
            Err(why) => no(&why),
        }
    }
}

/// The frames of mistakes, with captions.
fn images(bench: &JudgeBench, mistakes: &[WindowMistake]) -> Result<Vec<(Png, String)>, Failure> {
    let image = |mistake: &WindowMistake| {
        let frames = bench.frames(mistake.number).map_err(train::failure)?;
        Ok((window_strip(&frames), format!("{} · {}", mistake.what, mistake.window)))
    };
    mistakes.iter().map(image).collect()
}

fn json(audit: &JudgeAudit) -> String {
    serde_json::to_string_pretty(audit).map_or_else(|error| error.to_string(), |text| text + "\n")
}

/// For a terminal.
fn text(audit: &JudgeAudit, folder: &Path) -> String {
    let mut text = findings(&audit.verdict);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<13}{value}");
    };
    line("windows", format!("{} of {} episodes", audit.metrics.windows, audit.episodes));
    line(
        "accuracy",
        format!("{} balanced, {:.4} plain", interval(audit.balanced_accuracy), audit.metrics.accuracy),
    );
    let progress = audit.agreement.as_ref().map_or("not known".into(), in_words);
    line("progress", progress);
    let LabelCalibration { temperature, before, after, .. } = &audit.calibration;
    let temperature = temperature.map_or("none".into(), |temperature| format!("{temperature:.3}"));
    line(
        "temperature",
        format!("{temperature}: calibration error {:.4} before, {:.4} after", before.ece, after.ece),
    );
    for changed in &audit.changed {
        line("changed", format!("{}: {:.4} labelled correctly", changed.name, changed.right));
    }
    line("speed", format!("{:.0} windows per second", audit.windows_per_second));
    match &audit.stored {
        Stored::In { file } => line("stored in", file.clone()),
        Stored::No { why } => line("not stored", why.clone()),
    }
    line("page", folder.join("audit.html").display().to_string());
    line("JSON", folder.join("audit.json").display().to_string());
    text + &confusion_table(&audit.metrics.confusion)
}
