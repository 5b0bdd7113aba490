//! What `reward audit` left beside a model, for a page about runs that the model rewarded.

use std::path::{Path, PathBuf};

use plaudit_reward::open::{ClassifierCheckpoint, ModelLocation};
use plaudit_reward::trend::JudgeCard;
use plaudit_view::AuditedModel;
use plaudit_view::page::{Chart, Ends, Finding, Series, Tone, Unit};
use serde_json::Value;

/// Where the audit of a model is kept, next to it.
pub fn audit_file(model: &Path) -> PathBuf {
    model.with_extension("audit.json")
}

/// The result of a model's audit, if it was audited.
pub(super) fn audit_of(model: &Path) -> Option<AuditedModel> {
    let file = match ModelLocation::find(model, None).ok()? {
        ModelLocation::VisionLanguage(judge) => JudgeCard::file_in(judge.own()),
        ModelLocation::Classifier(path) => ClassifierCheckpoint::locate(&path).ok()?,
        ModelLocation::Server(_) => return None,
    };
    let text = std::fs::read_to_string(audit_file(&file)).ok()?;
    let audit: Value = serde_json::from_str(&text).ok()?;
    let findings = audit["verdict"]["findings"].as_array()?.iter().filter_map(finding).collect();
    Some(AuditedModel {
        model: model.display().to_string(),
        passed: audit["passed"].as_bool()?,
        guarantee: guarantee(&audit),
        findings,
        numbers: numbers(&audit),
        charts: [timeline(&audit), calibration(&audit)].into_iter().flatten().collect(),
    })
}

fn finding(found: &Value) -> Option<Finding> {
    let (tone, word) = match found["severity"].as_str()? {
        "fatal" => (Tone::Bad, "no"),
        "warning" => (Tone::Doubtful, "warning"),
        _ => (Tone::Plain, "note"),
    };
    let sentence = |key: &str| {
        let mut letters = found[key].as_str()?.chars();
        Some(letters.next()?.to_uppercase().chain(letters).chain(['.']).collect::<String>())
    };
    Some(Finding { tone, word: word.into(), what: sentence("what")?, hint: sentence("hint")? })
}

fn guarantee(audit: &Value) -> Option<String> {
    let operating = &audit["operating"];
    let [rate, confidence] = ["max_fpr", "confidence"].map(|key| operating[key].as_f64());
    operating["guarantee"].as_object()?;
    Some(format!(
        "At most {} % of new episodes raise a false alarm, with {} % confidence.",
        100.0 * rate?,
        100.0 * confidence?
    ))
}

fn numbers(audit: &Value) -> Vec<(String, String)> {
    let number = |name: &str, value: &Value| Some((name.to_string(), format!("{:.3}", value.as_f64()?)));
    let interval = |name: &str, of: &Value| {
        let [value, low, high] = ["value", "low", "high"].map(|key| of[key].as_f64());
        Some((name.to_string(), format!("{:.3} ({:.3} to {:.3})", value?, low?, high?)))
    };
    let numbers = [
        interval("balanced accuracy", &audit["balanced_accuracy"]),
        interval("rank correlation with progress", &audit["agreement"]["rank"]),
        interval("AUC", &audit["auc"]),
        interval("average precision", &audit["average_precision"]),
        number("threshold", &audit["operating"]["threshold"]),
        number("temperature", &audit["calibration"]["temperature"]),
        number("false alarms per episode, at most", &audit["operating"]["alarms"]["bound"]),
        number("calibration error", &audit["calibration"]["after"]["ece"]),
        audit["episodes"].as_u64().map(|episodes| ("episodes".into(), episodes.to_string())),
    ];
    numbers.into_iter().flatten().collect()
}

/// Columns of a list of objects.
fn rows<const N: usize>(list: &Value, keys: [&str; N]) -> Vec<[f64; N]> {
    let row = |one: &Value| {
        let values = keys.map(|key| one[key].as_f64());
        values.iter().all(Option::is_some).then(|| values.map(Option::unwrap_or_default))
    };
    list.as_array().into_iter().flatten().filter_map(row).collect()
}

/// Scores over time, of episodes that succeed and of those that do not.
fn timeline(audit: &Value) -> Option<Chart> {
    let series = |key: &str, name: &str, look: usize| {
        let rows = rows(&audit[key], ["frame", "mean", "low", "high"]);
        Series {
            name: name.into(),
            look,
            points: rows.iter().map(|row| (row[0], row[1])).collect(),
            band: rows.iter().map(|row| (row[0], row[2], row[3])).collect(),
            ..Series::default()
        }
    };
    let series = vec![
        series("scores_of_successes", "episodes that succeed", 0),
        series("scores_of_failures", "episodes that fail", 1),
    ];
    series.iter().any(|one| !one.points.is_empty()).then(|| Chart {
        title: "Scores over an episode".into(),
        caption: "The further apart the lines, the better the model tells success from failure.".into(),
        x_label: "frame of the episode".into(),
        x_unit: Unit::Whole,
        y_range: Some((0.0, 1.0)),
        series,
        key: vec!["line: mean; band: eight of ten episodes".into()],
        ..Chart::default()
    })
}

/// How often scores come true.
fn calibration(audit: &Value) -> Option<Chart> {
    let points = rows(&audit["calibration"]["after"]["bins"], ["score", "successes"]);
    let diagonal = vec![(0.0, 0.0), (1.0, 1.0)];
    (!points.is_empty()).then(|| Chart {
        title: "Scores, and how often they come true".into(),
        caption: "On the diagonal, a score of 0.7 comes true seven times of ten.".into(),
        x_label: "score".into(),
        x_range: Some((0.0, 1.0)),
        y_range: Some((0.0, 1.0)),
        series: vec![
            Series { name: "calibrated".into(), look: 6, points: diagonal, ..Series::default() },
            Series {
                name: "this model".into(),
                look: 0,
                dots: true,
                points: points.into_iter().map(|[score, share]| (score, share)).collect(),
                ..Series::default()
            },
        ],
        ends: Ends::Nothing,
        ..Chart::default()
    })
}
