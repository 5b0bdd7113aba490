//! Scores of several runs are aggregated as the `rliable` package does it (`rliable/make_fixtures.py`).
#![allow(clippy::unwrap_used, reason = "the fixtures are ours, and a broken one should stop the test")]

use std::collections::HashMap;

use plaudit_view::Interval;
use plaudit_view::aggregate::{Aggregate, Scores, probability_of_improvement};

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    scores: HashMap<String, Vec<Vec<f64>>>,
    aggregates: HashMap<String, [f64; 3]>,
    ends: HashMap<String, [[f64; 2]; 3]>,
    improvement: f64,
    improvement_ends: [f64; 2],
    thresholds: Vec<f64>,
    profiles: HashMap<String, Vec<f64>>,
    bands: HashMap<String, Vec<[f64; 2]>>,
}

/// Two bootstraps differ: by this much of the spread of the scores. Few runs have few resamples
/// that differ, and an end of an interval may be the neighbour of the other.
const BY_CHANCE: f64 = 0.05;

fn check(what: &str, found: Interval, point: f64, ends: [f64; 2], spread: f64) {
    assert!((found.middle - point).abs() < 1e-9, "{what}: {found:?}, rliable has {point}");
    for (own, theirs) in [(found.low, ends[0]), (found.high, ends[1])] {
        assert!((own - theirs).abs() <= BY_CHANCE * spread, "{what}: {found:?}, rliable has {ends:?}");
    }
}

#[test]
fn scores_are_aggregated_as_rliable_does() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("rliable/scores.json")).unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let all: Vec<f64> = case.scores.values().flatten().flatten().copied().collect();
        let spread =
            all.iter().copied().fold(f64::MIN, f64::max) - all.iter().copied().fold(f64::MAX, f64::min);
        let scores = |name: &str| Scores::new(case.scores[name].clone());
        for name in ["one", "other"] {
            let kinds = [Aggregate::InterquartileMean, Aggregate::Median, Aggregate::Mean];
            for ((kind, point), ends) in kinds.into_iter().zip(case.aggregates[name]).zip(case.ends[name]) {
                let found = scores(name).interval(kind);
                check(&format!("{}, {name}, {kind:?}", case.name), found, point, ends, spread);
            }
            let profile = scores(name).profile(&case.thresholds);
            for (at, found) in profile.into_iter().enumerate() {
                let what = format!("{}, {name}, above {}", case.name, case.thresholds[at]);
                // A share of few runs has few values: an end may be the neighbour.
                let step = 1.0 / scores(name).len() as f64;
                let (point, ends) = (case.profiles[name][at], case.bands[name][at]);
                check(&what, found, point, ends, (step / BY_CHANCE).max(1.0) * 1.001);
            }
        }
        let found = probability_of_improvement(&scores("one"), &scores("other")).unwrap();
        let what = format!("{}, improvement", case.name);
        check(&what, found, case.improvement, case.improvement_ends, 1.0);
    }
}
