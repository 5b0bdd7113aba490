//! Where the time went.

use super::Experiment;
use crate::format;
use crate::page::Html;

/// What is timed apart from the steps of learning.
const APART: [&str; 3] = ["eval", "evaluate_secs", "save"];
/// The time of a whole step.
const WHOLE: [&str; 2] = ["step", "step_secs"];

/// Whether a metric among the times is no time.
pub(super) fn is_rate(name: &str) -> bool {
    name.ends_with("_per_second") || name.ends_with("_per_sec") || name.ends_with("_fps")
}

/// The mean of each time, its share of a step, and rates by themselves.
pub(super) fn show(body: &mut Html, experiments: &[Experiment]) {
    for experiment in experiments {
        let means = means(experiment);
        let Some((_, whole)) = means.iter().find(|(name, _)| WHOLE.contains(&name.as_str())) else {
            continue;
        };
        let of = if experiments.len() > 1 { format!(": {}", experiment.label) } else { String::new() };
        body.heading(&format!("Where the time goes{of}"));
        let parts: Vec<&(String, f64)> = means
            .iter()
            .filter(|(name, _)| {
                !is_rate(name) && !WHOLE.contains(&name.as_str()) && !APART.contains(&name.as_str())
            })
            .collect();
        let row = |name: &str, secs: f64, share: String| vec![name.to_string(), time(secs), share];
        let mut rows: Vec<Vec<String>> = parts
            .iter()
            .map(|(name, secs)| row(&name.replace('_', " "), *secs, format::percent(secs / whole)))
            .collect();
        rows.push(row("whole step", *whole, format::percent(1.0)));
        let apart = means.iter().filter(|(name, _)| APART.contains(&name.as_str()));
        rows.extend(
            apart.map(|(name, secs)| {
                row(&format!("{}, each", name.replace('_', " ")), *secs, "separate".into())
            }),
        );
        body.table(&["part", "mean time", "share of a step"], &rows);
        for (name, rate) in means.iter().filter(|(name, _)| is_rate(name)) {
            body.paragraph(&format!("{}: {}, on average.", name.replace('_', " "), format::number(*rate)));
        }
    }
}

fn time(secs: f64) -> String {
    match secs {
        _ if secs >= 1.0 => format!("{secs:.2} s"),
        _ => format!("{:.1} ms", 1e3 * secs),
    }
}

/// The mean of each `time/…` metric over all runs of an experiment.
fn means(experiment: &Experiment) -> Vec<(String, f64)> {
    let Some(first) = experiment.runs.first() else { return Vec::new() };
    let names = first.summary.curves.keys().filter_map(|name| name.strip_prefix("time/"));
    let mean = |name: &str| {
        let curves = experiment.runs.iter().filter_map(|run| run.summary.curves.get(&format!("time/{name}")));
        let values: Vec<f64> =
            curves.flat_map(|curve| curve.points.iter().map(|point| point.value)).collect();
        let sum: f64 = values.iter().sum();
        (!values.is_empty()).then(|| (name.to_string(), sum / values.len() as f64))
    };
    names.filter_map(mean).collect()
}
