//! What a person reads about labels: a line while they are asked for, a page at the end.

use std::fmt::Write as _;
use std::path::Path;

use plaudit_reward::active_labels::{ErrorBound, LabelEnd, LabelStatus};

use super::Ended;
use super::models::LabelModels;

/// What came out.
pub(super) struct LabelResult<'a> {
    pub(super) status: LabelStatus,
    pub(super) bound: ErrorBound,
    pub(super) max_error: f64,
    pub(super) ended: Ended,
    pub(super) folder: &'a Path,
    /// The models at the end.
    pub(super) models: &'a LabelModels,
    /// The model of the beginning.
    pub(super) from: &'a Path,
    pub(super) frames: usize,
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// How far it is, in a line.
pub(super) fn status_line(status: &LabelStatus) -> String {
    let LabelStatus { successes, failures, skipped, checks, wrong, error_bound, .. } = status;
    let skipped = if *skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    let error = match checks {
        0 => "no checks yet".into(),
        _ => format!("checks: {checks}, {wrong} wrong, error at most {}", percent(*error_bound)),
    };
    format!("{} labels ({successes} success, {failures} failure{skipped}); {error}", successes + failures)
}

impl LabelResult<'_> {
    pub(super) fn text(&self) -> String {
        let LabelStatus { successes, failures, skipped, checks, wrong, confidence, .. } = self.status;
        let mut text = format!(
            "labels       {}: {successes} success, {failures} failure, {skipped} skipped; of {} frames\n",
            self.status.labels(),
            self.frames
        );
        if checks > 0 {
            let _ = writeln!(text, "checks       {checks} frames chosen at random, {wrong} decided wrongly");
            let _ = writeln!(
                text,
                "error        at most {} of frames like these, with confidence {confidence} (wanted: {})",
                percent(self.status.error_bound),
                percent(self.max_error)
            );
        }
        let _ = writeln!(text, "ended        {}", self.reason());
        let _ = writeln!(text, "written to   {}", self.folder.display());
        if self.models.paths.model != self.from {
            let _ = writeln!(text, "model        {}", self.models.paths.model.display());
        } else if self.status.labels() > 0 {
            let _ = writeln!(
                text,
                "next         plaudit reward train --from {} --add {}",
                self.from.display(),
                self.folder.display()
            );
        }
        text
    }

    fn reason(&self) -> String {
        let missing = || {
            let more = self.bound.checks_for(self.max_error).saturating_sub(self.bound.checks);
            format!("{more} more checks without a mistake would do")
        };
        match self.ended {
            Ended::By(LabelEnd::BoundMet) => "the model is wrong rarely enough".into(),
            Ended::By(LabelEnd::Count) => "as many labels as were asked for".into(),
            Ended::By(LabelEnd::AllAsked) => "every frame was asked about: give more data to go on".into(),
            Ended::Quit | Ended::Interrupted if self.bound.checks == 0 => {
                "stopped; the same command goes on".into()
            }
            Ended::Quit | Ended::Interrupted => format!("stopped; the same command goes on, {}", missing()),
        }
    }

    pub(super) fn json(&self) -> String {
        let ended = match self.ended {
            Ended::By(LabelEnd::BoundMet) => "bound_met",
            Ended::By(LabelEnd::Count) => "count",
            Ended::By(LabelEnd::AllAsked) => "all_asked",
            Ended::Quit => "quit",
            Ended::Interrupted => "interrupted",
        };
        let path = |path: &Path| path.display().to_string();
        let value = serde_json::json!({
            "model": path(&self.models.paths.model),
            "second_model": self.models.paths.second.as_deref().map(path),
            "frames": self.frames,
            "labels": self.status,
            "max_error": self.max_error,
            "ended": ended,
            "output_dir": path(self.folder),
        });
        format!("{value}\n")
    }
}
