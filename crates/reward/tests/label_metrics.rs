//! Three labels as scikit-learn and SciPy measure them: metrics to nine digits, temperatures to six.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use plaudit_core::Seed;
use plaudit_reward::audit::{ScoredWindows, agreement, fit_label_temperature};
use plaudit_reward::trend::LabelLogits;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    logits: Vec<[f64; 3]>,
    truth: Vec<usize>,
    progress: Vec<f64>,
    confusion: [[usize; 3]; 3],
    accuracy: f64,
    balanced_accuracy: f64,
    precision: [Option<f64>; 3],
    recall: [Option<f64>; 3],
    f1: [Option<f64>; 3],
    ece: f64,
    label_ece: [f64; 3],
    brier: f64,
    log_loss: f64,
    temperature: Option<f64>,
    rank: f64,
}

fn near(name: &str, what: &str, found: Option<f64>, expected: Option<f64>, tolerance: f64) {
    let same = match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() < tolerance,
        (found, expected) => found == expected,
    };
    assert!(same, "{name}: {what} is {found:?}, and should be {expected:?}");
}

#[test]
fn three_labels_are_measured_as_scikit_learn_does() {
    let expected: Expected = serde_json::from_str(include_str!("metrics/labels.json")).unwrap();
    assert!(expected.cases.len() >= 8);
    for case in expected.cases {
        let windows = ScoredWindows {
            logits: case.logits.iter().map(|row| LabelLogits(row.map(|logit| logit as f32))).collect(),
            truth: case.truth.clone(),
            progress: case.progress.iter().copied().map(Some).collect(),
            episodes: (0..case.truth.len()).map(|number| vec![number]).collect(),
        };
        let found = windows.metrics(1.0);
        let name = &case.name;
        assert_eq!(found.confusion.0, case.confusion, "{name}");
        let near =
            |what: &str, found: Option<f64>, expected: Option<f64>| near(name, what, found, expected, 1e-9);
        near("accuracy", Some(found.accuracy), Some(case.accuracy));
        near("balanced_accuracy", Some(found.balanced_accuracy), Some(case.balanced_accuracy));
        near("ece", Some(found.ece), Some(case.ece));
        near("brier", Some(found.brier), Some(case.brier));
        near("log_loss", Some(found.log_loss), Some(case.log_loss));
        for (label, score) in found.labels.iter().enumerate() {
            near("precision", score.precision, case.precision[label]);
            near("recall", score.recall, case.recall[label]);
            near("f1", score.f1, case.f1[label]);
            near("label ece", Some(score.ece), Some(case.label_ece[label]));
        }
        let agreement = agreement(&windows, 1.0, 0, Seed::new(1)).unwrap();
        near("rank", agreement.rank.map(|rank| rank.value), Some(case.rank));
    }
}

#[test]
fn temperatures_are_those_of_the_least_log_loss() {
    let expected: Expected = serde_json::from_str(include_str!("metrics/labels.json")).unwrap();
    for case in expected.cases {
        let found = fit_label_temperature(&case.logits, &case.truth);
        // Where nothing helps, the end of the range is the best, and an optimiser only comes near it.
        let tolerance = if case.temperature.is_some_and(|at| at > 99.0) { 1e-3 } else { 1e-6 };
        let relative = case.temperature.unwrap_or(1.0) * tolerance;
        near(&case.name, "temperature", found, case.temperature, relative);
    }
}
