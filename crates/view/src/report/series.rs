//! The values of one metric over the runs of an experiment, as lines of a chart.

use std::collections::BTreeMap;

use super::outcome::episodes_at;
use super::{Experiment, seeds};
use crate::page::Series;

/// Fewer points than this need no smoothing, and are marked one by one.
const ENOUGH: usize = 30;

/// Lines, and words about how they are drawn.
#[derive(Default)]
pub(super) struct MetricSeries {
    pub(super) series: Vec<Series>,
    pub(super) key: Option<String>,
}

/// One run: its values thin and a smooth curve over them. Several: each thin, and their middle with its interval.
/// `factor` is what values are multiplied with.
pub(super) fn metric_series(
    experiment: &Experiment,
    metric: &str,
    name: &str,
    look: usize,
    factor: f64,
) -> MetricSeries {
    let curves: Vec<Vec<(f64, f64)>> = experiment
        .runs
        .iter()
        .filter_map(|run| run.summary.curves.get(metric))
        .map(|curve| curve.points.iter().map(|point| (point.step as f64, factor * point.value)).collect())
        .collect();
    match &curves[..] {
        [] => MetricSeries::default(),
        [points] if points.len() < ENOUGH => {
            let dots = points.len() <= ENOUGH / 2;
            let series =
                Series { name: name.into(), look, dots, points: points.clone(), ..Series::default() };
            MetricSeries { series: vec![series], key: None }
        }
        [points] => {
            let window = (points.len() / 10).clamp(3, 100);
            MetricSeries {
                series: vec![
                    Series { look, faint: true, points: points.clone(), ..Series::default() },
                    Series { name: name.into(), look, points: smooth(points, window), ..Series::default() },
                ],
                key: Some(format!("thin: every step; thick: mean of the last {window}")),
            }
        }
        _ => {
            let one = |points: &Vec<(f64, f64)>| Series {
                look,
                faint: true,
                points: points.clone(),
                ..Series::default()
            };
            let mut series: Vec<Series> = curves.iter().map(one).collect();
            series.push(middle(&curves, name, look));
            let key = "thin: each seed; thick: interquartile mean; band: 95 % bootstrap interval".to_string();
            MetricSeries { series, key: Some(key) }
        }
    }
}

/// A share of episodes with what is known of it: the binomial interval at each evaluation of one run, else as [`metric_series`].
pub(super) fn share_series(experiment: &Experiment, metric: &str, name: &str, look: usize) -> MetricSeries {
    let mut lines = metric_series(experiment, metric, name, look, 1.0);
    let ([run], [series]) = (&experiment.runs[..], &mut lines.series[..]) else { return lines };
    let band = |&(step, share): &(f64, f64)| {
        let found = seeds::share_interval(share, episodes_at(run, step as u64)?);
        Some((step, found.low, found.high))
    };
    series.band = series.points.iter().filter_map(band).collect();
    if !series.band.is_empty() {
        lines.key = Some("band: 95 % interval over the episodes of each evaluation".into());
    }
    lines
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
    series.dots = series.points.len() <= ENOUGH / 2;
    series
}

/// The mean of up to `window` values, the present one last. A value that is no number stays one, and does not count.
fn smooth(points: &[(f64, f64)], window: usize) -> Vec<(f64, f64)> {
    let mean = |at: usize| {
        let (x, now) = points[at];
        let recent = points[(at + 1).saturating_sub(window)..=at].iter().map(|point| point.1);
        let recent: Vec<f64> = recent.filter(|value| value.is_finite()).collect();
        let value = if now.is_finite() { recent.iter().sum::<f64>() / recent.len() as f64 } else { now };
        (x, value)
    };
    (0..points.len()).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_a_mean_of_the_last_values_and_steps_over_gaps() {
        let smooth = smooth(&[(0.0, 10.0), (1.0, f64::NAN), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)], 3);
        assert_eq!(smooth[0], (0.0, 10.0));
        assert!(smooth[1].1.is_nan());
        assert_eq!(smooth[2..], [(2.0, 15.0), (3.0, 25.0), (4.0, 30.0)]);
    }

    #[test]
    fn the_middle_is_only_where_every_seed_has_been() {
        let curves = [vec![(0.0, 1.0), (1.0, 2.0)], vec![(0.0, 3.0)]];
        assert_eq!(middle(&curves, "x", 0).points, [(0.0, 2.0)]);
    }
}
