//! What `reward audit` left beside a model, for a page about runs that the model rewarded.

use std::path::{Path, PathBuf};

use plaudit_reward::open::{ClassifierCheckpoint, ModelLocation};
use plaudit_reward::trend::JudgeCard;
use plaudit_view::page::{Chart, Finding, Tone};
use plaudit_view::{AuditedModel, format};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::reward::{calibration_chart, scores_chart};

/// Where the audit of a model is kept, next to it.
pub fn audit_file(model: &Path) -> PathBuf {
    model.with_extension("audit.json")
}

/// The file that an audit left beside a model, if it was audited.
pub(crate) fn audit_beside(model: &Path) -> Option<PathBuf> {
    let file = match ModelLocation::find(model, None).ok()? {
        ModelLocation::VisionLanguage(judge) => JudgeCard::file_in(judge.own()),
        ModelLocation::Classifier(path) => ClassifierCheckpoint::locate(&path).ok()?,
        ModelLocation::Custom(location) => location.card_file(),
        ModelLocation::Server(_) => return None,
    };
    Some(audit_file(&file)).filter(|audit| audit.is_file())
}

/// The result of a model's audit, if it was audited.
pub(in crate::commands) fn audit_of(model: &Path) -> Option<AuditedModel> {
    let text = std::fs::read_to_string(audit_beside(model)?).ok()?;
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
    let sentence = |key: &str| Some(format!("{}.", format::capitalised(found[key].as_str()?)));
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

/// A list of the audit, if it has one.
fn list<T: DeserializeOwned>(list: &Value) -> Vec<T> {
    Vec::deserialize(list).unwrap_or_default()
}

/// Scores over time, of episodes that succeed and of those that do not.
fn timeline(audit: &Value) -> Option<Chart> {
    let [successes, failures] = ["scores_of_successes", "scores_of_failures"].map(|key| list(&audit[key]));
    let is_known = !successes.is_empty() || !failures.is_empty();
    is_known.then(|| scores_chart(&successes, &failures))
}

/// How often scores come true.
fn calibration(audit: &Value) -> Option<Chart> {
    let [before, after] = ["before", "after"].map(|when| list(&audit["calibration"][when]["bins"]));
    (!after.is_empty()).then(|| calibration_chart("How often scores come true", "score", &before, &after))
}
