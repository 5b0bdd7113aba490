//! An audit in words for a terminal, and as JSON.

use std::fmt::Write as _;
use std::path::Path;

use plaudit_reward::audit::{
    AlarmFrames, Audit, Interval, Latency, OperatingPoint, RewardedSuccess, Severity, Stored, ThresholdAt,
    Verdict,
};
use plaudit_reward::metrics::ProgressMetrics;
use serde::Serialize;

use super::manual_settings::ManualSettings;

/// How well scores follow the progress of episodes.
fn progress(progress: &ProgressMetrics) -> String {
    let some = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    format!(
        "value-order correlation {}, Kendall's tau {} up to success; AUC of last frames {}",
        some(progress.voc),
        some(progress.kendall),
        some(progress.last_frame_auc)
    )
}

/// An audit, and how to use it where it could not be stored.
#[derive(Debug, Serialize)]
pub(super) struct AuditReport {
    #[serde(flatten)]
    pub(super) audit: Audit,
    /// What to write where nothing was stored.
    pub(super) manual_settings: Option<ManualSettings>,
}

impl AuditReport {
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|error| error.to_string(), |text| text + "\n")
    }

    /// For a terminal.
    pub(super) fn text(&self, folder: &Path) -> String {
        let audit = &self.audit;
        let mut text = findings(&audit.verdict);
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<13}{value}");
        };
        line(
            "episodes",
            format!(
                "{} ({} frames, {} of success)",
                audit.episodes, audit.metrics.frames, audit.metrics.successes
            ),
        );
        line("AUC", interval(audit.auc));
        line("avg. prec.", interval(audit.average_precision));
        line("progress", progress(&audit.progress));
        line("threshold", format!("{}: {}", written(&audit.operating), audit.operating.guarantee_text()));
        line("", format!("a false alarm: {}", audit.operating.false_alarm_text()));
        if let Some(conditions) = &audit.conditions {
            line("", format!("rewarded only where {} holds, as the model's card says", conditions.text()));
        }
        line("", format!("for {}", scale(&audit.operating)));
        if let (Stored::No { .. }, Some(at)) = (&audit.stored, audit.operating.at_fitted_temperature) {
            line("", unapplied(at));
        }
        line(
            "temperature",
            format!(
                "{} fitted: calibration error {:.4} before, {:.4} after",
                audit.calibration.temperature.map_or("none".into(), |fitted| format!("{fitted:.3}")),
                audit.calibration.before.ece,
                audit.calibration.after.ece
            ),
        );
        line("detected", detected(audit));
        for timed in &audit.latency {
            let Latency { batch, p50_ms, p99_ms, .. } = timed.latency;
            line("latency", format!("{p50_ms:.1} ms, p99 {p99_ms:.1} ms for {batch} at once"));
        }
        match &audit.stored {
            Stored::In { file } => {
                line("stored in", format!("{file}: threshold and temperature"));
                line(
                    "",
                    "where a config sets reward.reward_threshold, set it to null to go by this one".into(),
                );
            }
            Stored::No { why } => line("not stored", why.clone()),
        }
        for (name, value) in self.manual_settings.iter().flat_map(ManualSettings::lines) {
            line(name, value);
        }
        line("page", folder.join("audit.html").display().to_string());
        line("JSON", folder.join("audit.json").display().to_string());
        text
    }
}

/// What of success is rewarded at the threshold.
pub(super) fn detected(audit: &Audit) -> String {
    let OperatingPoint { rewarded_success, rule, .. } = &audit.operating;
    let RewardedSuccess { episodes, rewarded_episodes, frames, rewarded_frames } = rewarded_success;
    let frames = match rule.alarm {
        AlarmFrames::AnyFrame => format!(", {rewarded_frames} of {frames} frames of success"),
        AlarmFrames::LastFrame => String::new(), // of which an episode has one
    };
    format!("{rewarded_episodes} of {episodes} successful episodes{frames}")
}

/// A verdict for a terminal.
pub(in crate::commands::reward) fn findings(verdict: &Verdict) -> String {
    let mut text = format!("{}\n", if verdict.passed() { "PASSED" } else { "NOT PASSED" });
    for finding in &verdict.findings {
        let word = match finding.severity {
            Severity::Fatal => "no",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let _ = writeln!(text, "  {word:<8} {}\n           {}", finding.what, finding.hint);
    }
    text
}

/// The threshold at a temperature that is not applied, in words, so that it is not taken for the threshold.
pub(super) fn unapplied(at: ThresholdAt) -> String {
    let ThresholdAt { threshold, temperature } = at;
    format!(
        "(it is {threshold:.4} at the fitted temperature {temperature:.3}, which is not applied, as it is not stored)"
    )
}

/// The threshold with all digits: fewer would decide otherwise about the frames next to it.
pub(super) fn written(operating: &OperatingPoint) -> String {
    (operating.threshold as f32).to_string()
}

/// In words, which scores the threshold is for.
pub(super) fn scale(operating: &OperatingPoint) -> String {
    format!(
        "scores as `train`, `reward eval` and `serve` give them now: at temperature {}",
        operating.temperature
    )
}

/// A number with its interval.
pub(in crate::commands::reward) fn interval(found: Option<Interval>) -> String {
    found.map_or("-".into(), |Interval { value, low, high }| format!("{value:.4} ({low:.4} to {high:.4})"))
}
