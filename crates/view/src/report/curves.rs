//! The curves of runs: what matters first, then every metric.

use std::collections::BTreeMap;

use super::{Experiment, seeds};
use crate::page::{Chart, Html, Series};

/// What people look for first, and what to call it.
pub(super) const HEADLINES: &[(&str, &str)] = &[
    ("eval/success_true", "success, by truth (eval)"),
    ("eval/success_once", "success once (eval)"),
    ("env/success_true", "success, by truth"),
    ("env/success_once", "success once"),
    ("env/success_by_model", "success, by the model"),
    ("eval/return", "return (eval)"),
    ("env/return", "return"),
    ("eval/auc", "AUC"),
    ("eval/val_accuracy", "accuracy"),
];

/// How strongly a smooth curve forgets.
const FORGET: f64 = 0.15;
/// Fewer points than this need no smoothing.
const ENOUGH: usize = 30;

pub(super) fn show(body: &mut Html, experiments: &[Experiment]) {
    let truth = success(experiments);
    if !truth.series.is_empty() {
        body.heading("Success, by truth and by the model");
        body.paragraph("The simulator's truth never enters the reward. Where the model's opinion rises above it, the policy has learned to please the model.");
        body.charts([&truth]);
    }
    let terms = terms(experiments);
    if !terms.is_empty() {
        body.heading("What was paid").charts(&terms);
    }
    for (group, charts) in grouped(experiments) {
        body.heading(&format!("{group}/")).charts(&charts);
    }
}

/// Truth beside the model's opinion, in one chart.
fn success(experiments: &[Experiment]) -> Chart {
    let names = [
        ("eval/success_once", "truth (eval)"),
        ("eval/success_true", "truth (eval)"),
        ("env/success_true", "truth"),
        ("env/success_once", "truth (training)"),
        ("env/success_by_model", "by the model"),
        ("eval/success_by_model", "by the model (eval)"),
    ];
    let mut series = Vec::new();
    let mut look = 0;
    for experiment in experiments {
        for (metric, what) in names {
            let name =
                if experiments.len() > 1 { format!("{what}, {}", experiment.name) } else { what.into() };
            let found = experiment_series(experiment, metric, &name, look);
            look += usize::from(!found.is_empty());
            series.extend(found);
        }
    }
    let x_label = unit(experiments);
    Chart { title: "success".into(), x_label, y_range: Some((0.0, 1.0)), series, ..Chart::default() }
}

/// Each named term of the reward, one chart for each experiment.
fn terms(experiments: &[Experiment]) -> Vec<Chart> {
    let chart = |experiment: &Experiment| {
        let names = metric_names(std::slice::from_ref(experiment));
        let terms = names.iter().filter(|name| name.starts_with("reward/"));
        let series: Vec<Series> = terms
            .enumerate()
            .flat_map(|(look, name)| {
                experiment_series(experiment, name, name.trim_start_matches("reward/"), look)
            })
            .collect();
        let title = format!("reward terms, {}", experiment.name);
        Chart { title, x_label: experiment.runs[0].summary.unit.clone(), series, ..Chart::default() }
    };
    experiments.iter().map(chart).filter(|chart| !chart.series.is_empty()).collect()
}

/// Every metric in a chart of its own, under the part of its name before the slash.
fn grouped(experiments: &[Experiment]) -> Vec<(String, Vec<Chart>)> {
    let mut groups: Vec<(String, Vec<Chart>)> = Vec::new();
    for metric in metric_names(experiments) {
        let (group, name) = metric.split_once('/').unwrap_or(("other", &metric));
        let series: Vec<Series> = experiments
            .iter()
            .enumerate()
            .flat_map(|(look, experiment)| {
                let name = if experiments.len() > 1 { experiment.name.as_str() } else { "" };
                experiment_series(experiment, &metric, name, look)
            })
            .collect();
        let chart = Chart { title: name.into(), x_label: unit(experiments), series, ..Chart::default() };
        match groups.iter_mut().find(|(known, _)| known == group) {
            Some((_, charts)) => charts.push(chart),
            None => groups.push((group.into(), vec![chart])),
        }
    }
    groups
}

fn unit(experiments: &[Experiment]) -> String {
    experiments[0].runs[0].summary.unit.clone()
}

/// All metrics, in order of first appearance.
fn metric_names(experiments: &[Experiment]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in experiments.iter().flat_map(|experiment| &experiment.runs) {
        for name in run.summary.curves.keys() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// One run: its values faint and a smooth curve over them. Several: each faint, and their middle with its interval.
fn experiment_series(experiment: &Experiment, metric: &str, name: &str, look: usize) -> Vec<Series> {
    let curves: Vec<Vec<(f64, f64)>> = experiment
        .runs
        .iter()
        .filter_map(|run| run.summary.curves.get(metric))
        .map(|curve| curve.points.iter().map(|point| (point.step as f64, point.value)).collect())
        .collect();
    match &curves[..] {
        [] => Vec::new(),
        [points] if points.len() < ENOUGH => {
            vec![Series { name: name.into(), look, points: points.clone(), ..Series::default() }]
        }
        [points] => vec![
            Series { look, faint: true, points: points.clone(), ..Series::default() },
            Series { name: name.into(), look, points: smooth(points), ..Series::default() },
        ],
        _ => {
            let mut series: Vec<Series> = curves
                .iter()
                .map(|points| Series { look, faint: true, points: points.clone(), ..Series::default() })
                .collect();
            series.push(middle(&curves, name, look));
            series
        }
    }
}

/// The interquartile mean at each step that every seed reached.
fn middle(curves: &[Vec<(f64, f64)>], name: &str, look: usize) -> Series {
    let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (step, value) in curves.iter().flatten() {
        at.entry(*step as u64).or_default().push(*value);
    }
    let mut series = Series { name: name.into(), look, ..Series::default() };
    for (step, values) in at.into_iter().filter(|(_, values)| values.len() == curves.len()) {
        let found = seeds::interval(&values);
        series.points.push((step as f64, found.middle));
        series.band.push((step as f64, found.low, found.high));
    }
    series
}

/// An exponential mean that does not start at zero.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut held: Option<f64> = None;
    points
        .iter()
        .map(|&(x, y)| {
            let next = match held {
                _ if !y.is_finite() => return (x, y),
                None => y,
                Some(held) => held + FORGET * (y - held),
            };
            held = Some(next);
            (x, next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_starts_at_the_first_value_and_steps_over_gaps() {
        let smooth = smooth(&[(0.0, 10.0), (1.0, f64::NAN), (2.0, 20.0)]);
        assert_eq!(smooth[0], (0.0, 10.0));
        assert!(smooth[1].1.is_nan());
        assert_eq!(smooth[2], (2.0, 11.5));
    }

    #[test]
    fn the_middle_is_only_where_every_seed_has_been() {
        let curves = [vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 3.0)]];
        assert_eq!(middle(&curves, "x", 0).points, [(0.0, 2.0)]);
    }
}
