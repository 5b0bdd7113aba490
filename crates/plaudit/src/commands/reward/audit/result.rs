//! What an audit found: the JSON twin of the page, the words for a terminal, and what goes into the checkpoint.

use std::fmt::Write as _;
use std::path::Path;

use plaudit_reward::audit::{
    Alarm, Calibration, CurvePoint, Guarantee, Interval, Latency, RegionSource, Saliency, ScoresAt, Severity,
    Slice, Stressed, SuspectedLabel, Timing, Verdict,
};
use plaudit_reward::card::ModelCard;
use plaudit_reward::metrics::Metrics;
use plaudit_reward::pictures::Mistakes;
use plaudit_reward::watch::KnownSuccesses;
use serde::Serialize;

use super::training_data::SharedWithTraining;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Audit {
    pub(super) model: String,
    pub(super) data: Vec<String>,
    pub(super) passed: bool,
    pub(super) verdict: Verdict,
    pub(super) episodes: usize,
    pub(super) in_episodes: bool,
    pub(super) auc: Option<Interval>,
    pub(super) average_precision: Option<Interval>,
    pub(super) operating: Operating,
    /// At the threshold and the temperature.
    pub(super) metrics: Metrics,
    pub(super) calibration: Calibration,
    pub(super) roc: Vec<CurvePoint>,
    pub(super) precision_recall: Vec<CurvePoint>,
    pub(super) timing: Timing,
    pub(super) scores_of_successes: Vec<ScoresAt>,
    pub(super) scores_of_failures: Vec<ScoresAt>,
    pub(super) mistakes: Mistakes,
    pub(super) suspected_labels: Vec<SuspectedLabel>,
    pub(super) shared_with_training: SharedWithTraining,
    pub(super) slices: Slices,
    pub(super) stress: Vec<Stressed>,
    pub(super) regions_known_by: RegionSource,
    pub(super) saliency: Vec<Saliency>,
    pub(super) background: Background,
    pub(super) latency: Vec<Timed>,
    /// Long, and for the checkpoint alone.
    #[serde(skip)]
    pub(super) known_successes: Option<KnownSuccesses>,
    pub(super) stored: Stored,
}

/// The threshold, and what is promised about it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Operating {
    pub(super) threshold: f64,
    pub(super) temperature: f64,
    pub(super) alarm: Alarm,
    pub(super) max_fpr: f64,
    pub(super) confidence: f64,
    /// Who chose the threshold.
    pub(super) chosen: Chosen,
    pub(super) guarantee: Option<Guarantee>,
    /// Why nothing is promised.
    pub(super) refused: Option<String>,
    /// Episodes that can raise an alarm, those that do at the threshold, and the rate that this bounds.
    pub(super) alarms: Alarms,
}

/// Who chose a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Chosen {
    /// The promise.
    Guarantee,
    /// Whoever asked for the audit.
    Asked,
    /// The checkpoint, before.
    Checkpoint,
    /// The highest F1 on this data: nobody said anything better.
    BestF1,
}

/// Episodes with false alarms.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Alarms {
    pub(super) episodes: usize,
    pub(super) raised: usize,
    /// Upper bound of the rate with the confidence that was asked for.
    pub(super) bound: f64,
}

/// The model on parts of the data.
#[derive(Debug, Serialize)]
pub(super) struct Slices {
    pub(super) by_length: Vec<Slice>,
    pub(super) by_data: Vec<Slice>,
    pub(super) by_camera: Vec<Stressed>,
}

/// Whether the background decides.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Background {
    pub(super) looks_at_background: bool,
    /// How much of its ranking a model keeps that sees the background alone: 0 none, 1 all.
    pub(super) ranking_from_background: Option<f64>,
    /// The share of what matters to it that lies where hardly anything moves.
    pub(super) saliency_on_still_squares: f64,
}

/// Latency and memory at one batch size.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Timed {
    #[serde(flatten)]
    pub(super) latency: Latency,
    pub(super) peak_bytes: Option<u64>,
}

/// Whether the checkpoint was changed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "stored")]
pub(in crate::commands::reward) enum Stored {
    In { file: String },
    No { why: String },
}

impl Audit {
    pub(super) fn json(&self) -> String {
        serde_json::to_string_pretty(self).map_or_else(|error| error.to_string(), |text| text + "\n")
    }

    /// The card with what was found in it. A threshold that was there before and stays means the same scores.
    pub(super) fn card(&self, before: &ModelCard) -> ModelCard {
        let temperature = self.calibration.temperature.unwrap_or_else(|| before.temperature());
        let promised = self.operating.guarantee.map(|_| self.operating.threshold);
        let kept =
            before.threshold.map(|threshold| at_temperature(threshold, before.temperature(), temperature));
        ModelCard {
            temperature: Some(temperature),
            threshold: promised.or(kept),
            guarantee: self.operating.guarantee,
            known_successes: self.known_successes.clone(),
            ..before.clone()
        }
    }

    /// For a terminal.
    pub(super) fn text(&self, folder: &Path) -> String {
        let mut text = findings(&self.verdict);
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<13}{value}");
        };
        line(
            "episodes",
            format!(
                "{} ({} frames, {} of success)",
                self.episodes, self.metrics.frames, self.metrics.successes
            ),
        );
        line("AUC", interval(self.auc));
        line("avg. prec.", interval(self.average_precision));
        line("threshold", format!("{:.4}: {}", self.operating.threshold, self.operating.promise()));
        line(
            "temperature",
            format!(
                "{:.3}: calibration error {:.4} before, {:.4} after",
                self.operating.temperature, self.calibration.before.ece, self.calibration.after.ece
            ),
        );
        let Timing { successes, detected, .. } = self.timing;
        line("noticed", format!("{detected} of {successes} successful episodes"));
        for timed in &self.latency {
            let Latency { batch, p50_ms, p99_ms, .. } = timed.latency;
            line("latency", format!("{p50_ms:.1} ms, p99 {p99_ms:.1} ms for {batch} at once"));
        }
        match &self.stored {
            Stored::In { file } => line("stored in", file.clone()),
            Stored::No { why } => line("not stored", why.clone()),
        }
        line("page", folder.join("audit.html").display().to_string());
        line("JSON", folder.join("audit.json").display().to_string());
        text
    }
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

impl Operating {
    /// In words, what is promised.
    pub(super) fn promise(&self) -> String {
        let Alarms { episodes, raised, bound } = self.alarms;
        match (&self.guarantee, &self.refused) {
            (Some(_), _) => format!(
                "at most {} of new episodes raise a false alarm, with confidence {} ({raised} of {episodes} did here)",
                percent(self.max_fpr),
                percent(self.confidence)
            ),
            (None, Some(_)) => format!(
                "nothing is promised; {raised} of {episodes} episodes raise a false alarm, so at most {} of new ones do, \
                 with confidence {}",
                percent(bound),
                percent(self.confidence)
            ),
            (None, None) => "nothing is promised".into(),
        }
    }
}

/// A threshold on scores at one temperature, for scores at another: it parts the same logits.
pub(super) fn at_temperature(threshold: f64, from: f64, to: f64) -> f64 {
    if threshold <= 0.0 || threshold >= 1.0 {
        return threshold;
    }
    let logit = (threshold / (1.0 - threshold)).ln() * from / to;
    1.0 / (1.0 + (-logit).exp())
}

/// A number with its interval.
pub(in crate::commands::reward) fn interval(found: Option<Interval>) -> String {
    found.map_or("-".into(), |Interval { value, low, high }| format!("{value:.4} ({low:.4} to {high:.4})"))
}

/// A share in words, with as many digits as it needs.
pub(in crate::commands::reward) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_parts_the_same_logits_at_any_temperature() {
        let moved = at_temperature(0.8, 1.0, 2.0);
        let logit = (0.8f64 / 0.2).ln();
        assert!((moved - 1.0 / (1.0 + (-logit / 2.0).exp())).abs() < 1e-12);
        assert!((at_temperature(moved, 2.0, 1.0) - 0.8).abs() < 1e-12);
        assert_eq!((at_temperature(1.0, 1.0, 3.0), at_temperature(0.0, 1.0, 3.0)), (1.0, 0.0));
        assert_eq!(
            (percent(0.01), percent(0.5), percent(0.0125)),
            ("1 %".into(), "50 %".into(), "1.25 %".into())
        );
    }
}
