//! The numbers of scikit-learn, to nine digits.

#![allow(clippy::unwrap_used)] // a test that cannot go on says so by stopping

use plaudit_reward::metrics::{Metrics, precision_recall_curve, roc_curve};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    scores: Vec<f64>,
    truth: Vec<bool>,
    threshold: f64,
    auc: Option<f64>,
    average_precision: Option<f64>,
    precision: Option<f64>,
    recall: Option<f64>,
    f1: Option<f64>,
    accuracy: f64,
    brier: f64,
    log_loss: f64,
    ece: f64,
    confusion: [usize; 4],
    roc: Option<Vec<(f64, f64)>>,
    precision_recall: Option<Vec<(f64, f64)>>,
}

fn same_points(found: &[(f64, f64)], expected: &[(f64, f64)]) -> bool {
    let near = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9;
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

#[test]
fn metrics_are_scikit_learns() {
    let expected: Expected = serde_json::from_str(include_str!("metrics/expected.json")).unwrap();
    assert!(expected.cases.len() >= 10);
    for case in expected.cases {
        let found = Metrics::of(&case.scores, &case.truth, case.threshold);
        let pairs = [
            ("auc", found.auc, case.auc),
            ("average_precision", found.average_precision, case.average_precision),
            ("precision", found.precision, case.precision),
            ("recall", found.recall, case.recall),
            ("f1", found.f1, case.f1),
            ("accuracy", Some(found.accuracy), Some(case.accuracy)),
            ("brier", Some(found.brier), Some(case.brier)),
            ("log_loss", Some(found.log_loss), Some(case.log_loss)),
            ("ece", Some(found.ece), Some(case.ece)),
        ];
        for (metric, found, expected) in pairs {
            let same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-9,
                (found, expected) => found == expected,
            };
            assert!(same, "{}: {metric} is {found:?}, scikit-learn says {expected:?}", case.name);
        }
        if let (Some(roc), Some(expected)) = (&case.roc, &case.precision_recall) {
            assert!(same_points(&roc_curve(&case.scores, &case.truth), roc), "{}: roc", case.name);
            let found = precision_recall_curve(&case.scores, &case.truth);
            assert!(same_points(&found, expected), "{}: {found:?} is not {expected:?}", case.name);
        }
        let confusion = found.confusion;
        let found = [
            confusion.true_positives,
            confusion.false_positives,
            confusion.true_negatives,
            confusion.false_negatives,
        ];
        assert_eq!(found, case.confusion, "{}", case.name);
    }
}
