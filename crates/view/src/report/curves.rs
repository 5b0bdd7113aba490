//! The curves of runs: what matters first and large, then every metric, in groups that fold.

use super::outcome::Measure;
use super::series::{MetricSeries, metric_series, share_series};
use super::verdict::truth_and_model;
use super::{Experiment, all, meaning, times};
use crate::format;
use crate::page::{Chart, Html, Series, Size, Unit};

/// Success rates of reward model and ground truth that differ by more than this disagree.
const APART: f64 = 0.1;

/// What people look for first, and the reward terms.
pub(super) fn headline(body: &mut Html, experiments: &[Experiment]) {
    let success = success(experiments);
    if success.series.iter().any(|series| series.points.iter().any(|point| point.1 > 0.0)) {
        body.heading("Success").charts([&success]);
        body.charts(&model_charts(experiments));
    } else if let Some(measure) = Measure::of(experiments) {
        body.heading(&format::capitalised(measure.noun)).charts([&of_measure(experiments, measure)]);
    }
    let rewards = rewards(experiments);
    if !rewards.is_empty() {
        body.heading("Reward terms").charts(&rewards);
    }
}

/// A chart of these lines, each line style explained once.
fn chart(lines: Vec<MetricSeries>, chart: Chart) -> Chart {
    let mut key: Vec<String> = Vec::new();
    let mut series: Vec<Series> = Vec::new();
    for one in lines {
        series.extend(one.series);
        if let Some(words) = one.key.filter(|words| !key.contains(words)) {
            key.push(words);
        }
    }
    Chart { series, key, ..chart }
}

/// Ground truth, with the reward model's success rate beside it where there is one experiment.
fn success(experiments: &[Experiment]) -> Chart {
    let lines = match experiments {
        [one] => truth_beside_model(one),
        several => several.iter().enumerate().map(|(look, one)| truth(one, &one.label, look)).collect(),
    };
    let frame = Chart {
        caption: success_caption(experiments),
        x_label: unit(experiments),
        x_unit: Unit::Whole,
        y_range: Some((0.0, 1.0)),
        y_unit: Unit::Percent,
        size: Size::Large,
        ..Chart::default()
    };
    let mut chart = chart(lines, frame);
    chart.title = "Success rate".into();
    chart
}

/// Success by ground truth: in evaluations, or in training where there are none.
fn truth(experiment: &Experiment, name: &str, look: usize) -> MetricSeries {
    let evaluated = share_series(experiment, "eval/success_once", name, look);
    match evaluated.series.is_empty() {
        true => metric_series(experiment, "env/success_once", name, look, 1.0),
        false => evaluated,
    }
}

fn truth_beside_model(experiment: &Experiment) -> Vec<MetricSeries> {
    vec![
        share_series(experiment, "eval/success_once", "evaluation (ground truth)", 0),
        metric_series(experiment, "env/success_once", "training (ground truth)", 2, 1.0),
        metric_series(experiment, "env/success_by_model", "training (reward model)", 1, 1.0),
    ]
}

fn success_caption(experiments: &[Experiment]) -> String {
    let [one] = experiments else {
        return "Success rate (simulator ground truth), one line per config. Where bands overlap, the difference is not \
                significant."
            .into();
    };
    let learned = "The ground truth is not part of the reward.";
    match truth_and_model(one).map(|(truth, model)| (truth, model, model - truth)) {
        None => "Success is simulator ground truth. Evaluation takes the most likely action, training samples actions.".into(),
        Some((truth, model, over)) if over > APART => format!(
            "{learned} The reward model reports a higher training success rate ({}) than the ground truth ({}): the policy may be \
             hacking the reward.",
            format::percent(model),
            format::percent(truth)
        ),
        Some((truth, model, over)) if over < -APART => format!(
            "{learned} The reward model reports a lower training success rate ({}) than the ground truth ({}): it misses successes, \
             but is not being hacked.",
            format::percent(model),
            format::percent(truth)
        ),
        Some(_) => format!("{learned} The reward model agrees with it: no sign of reward hacking."),
    }
}

/// Ground truth beside the reward model, one small chart for each of several experiments.
fn model_charts(experiments: &[Experiment]) -> Vec<Chart> {
    if experiments.len() < 2 {
        return Vec::new();
    }
    let scored = experiments.iter().filter(|one| truth_and_model(one).is_some());
    let of_one = |one: &Experiment| {
        let lines = vec![
            metric_series(one, "env/success_true", "training (ground truth)", 2, 1.0),
            metric_series(one, "env/success_by_model", "training (reward model)", 1, 1.0),
        ];
        let frame = Chart {
            title: one.label.clone(),
            caption: "Where the reward model rises above the ground truth, the policy is hacking the reward."
                .into(),
            x_label: unit(experiments),
            x_unit: Unit::Whole,
            y_range: Some((0.0, 1.0)),
            y_unit: Unit::Percent,
            ..Chart::default()
        };
        chart(lines, frame)
    };
    scored.map(of_one).collect()
}

fn of_measure(experiments: &[Experiment], measure: &Measure) -> Chart {
    let name =
        |one: &Experiment| if experiments.len() > 1 { one.label.clone() } else { measure.short.to_string() };
    let lines = experiments
        .iter()
        .enumerate()
        .map(|(look, one)| metric_series(one, measure.metric, &name(one), look, 1.0))
        .collect();
    let frame = Chart {
        title: format::capitalised(measure.short),
        caption: format!("{}: {}.", format::capitalised(measure.noun), measure.source),
        x_label: unit(experiments),
        x_unit: Unit::Whole,
        y_unit: measure.unit,
        size: Size::Large,
        ..Chart::default()
    };
    chart(lines, frame)
}

/// The weighted terms of the reward, one chart for each experiment.
fn rewards(experiments: &[Experiment]) -> Vec<Chart> {
    let of_one = |one: &Experiment| {
        let reward = &one.runs[0].reward;
        let names: Vec<String> = metric_names(std::slice::from_ref(one));
        let terms: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("reward/")).collect();
        let weighted = terms.iter().filter_map(|term| Some((*term, reward.weight(term)?)));
        let lines: Vec<MetricSeries> = weighted
            .enumerate()
            .map(|(look, (term, weight))| {
                let name = format!("{term} × {}", format::number(weight));
                metric_series(one, &format!("reward/{term}"), &name, look, weight)
            })
            .collect();
        let zero: Vec<&str> = reward
            .weights
            .iter()
            .filter(|(_, weight)| *weight == 0.0)
            .map(|(name, _)| name.as_str())
            .collect();
        let left_out = match zero.is_empty() {
            true => String::new(),
            false => format!(" Not part of the reward (weight 0): {}.", zero.join(", ")),
        };
        let title = match experiments.len() {
            1 => "Mean reward per step, by term".to_string(),
            _ => format!("Mean reward per step, {}", one.label),
        };
        let frame = Chart {
            title,
            caption: format!("Each term times its weight: the reward that the policy received.{left_out}"),
            x_label: unit(experiments),
            x_unit: Unit::Whole,
            size: if experiments.len() == 1 { Size::Wide } else { Size::Small },
            ..Chart::default()
        };
        chart(lines, frame)
    };
    experiments.iter().map(of_one).filter(|chart| !chart.series.is_empty()).collect()
}

/// Every metric in a chart of its own, under the part of its name before the slash.
pub(super) fn folded(body: &mut Html, experiments: &[Experiment]) {
    let mut groups: Vec<(&'static str, String, Vec<Chart>)> = Vec::new();
    for metric in metric_names(experiments) {
        let (prefix, name) = metric.split_once('/').unwrap_or(("", &metric));
        let (title, order) = match prefix {
            "time" if times::is_rate(name) => ("Speed", "rates"),
            prefix => (meaning::group(prefix), prefix),
        };
        let chart = of_metric(experiments, &metric, name);
        match groups.iter_mut().find(|(_, known, _)| known == order) {
            Some((_, _, charts)) => charts.push(chart),
            None => groups.push((title, order.into(), vec![chart])),
        }
    }
    if groups.is_empty() {
        return;
    }
    groups.sort_by_key(|(_, prefix, _)| meaning::place(prefix));
    body.heading("All metrics");
    for (title, prefix, charts) in &groups {
        let mut inside = Html::default();
        inside.charts(charts);
        let word = if charts.len() == 1 { "curve" } else { "curves" };
        let title = if title.is_empty() { format!("{prefix}/") } else { (*title).to_string() };
        body.folded(&title, &format!("{} {word}", charts.len()), &inside);
    }
}

fn of_metric(experiments: &[Experiment], metric: &str, name: &str) -> Chart {
    let label = |one: &Experiment| if experiments.len() > 1 { one.label.clone() } else { String::new() };
    let lines: Vec<MetricSeries> = experiments
        .iter()
        .enumerate()
        .map(|(look, one)| metric_series(one, metric, &label(one), look, 1.0))
        .collect();
    let caption = [meaning::of(metric).map(String::from), course(experiments, metric)].into_iter().flatten();
    let frame = Chart {
        title: name.into(),
        caption: caption.collect::<Vec<_>>().join(" "),
        x_label: unit(experiments),
        x_unit: Unit::Whole,
        ..Chart::default()
    };
    chart(lines, frame)
}

/// How a metric went, in words, where that is one line.
fn course(experiments: &[Experiment], metric: &str) -> Option<String> {
    let curves: Vec<_> = all(experiments).filter_map(|run| run.summary.curves.get(metric)).collect();
    let [curve] = curves[..] else { return Some("One line per config; thin lines are single seeds.".into()) };
    let finite = || curve.points.iter().filter(|point| point.value.is_finite());
    let (first, last) = (finite().next()?, finite().next_back()?);
    let missing = curve.points.len() - finite().count();
    let gaps = if missing > 0 { format!(" {missing} values are not finite.") } else { String::new() };
    let (from, to) = (format::number(first.value), format::number(last.value));
    Some(match from == to {
        true => format!("{from} at the start and at the end.{gaps}"),
        false => format!("From {from} to {to}.{gaps}"),
    })
}

fn unit(experiments: &[Experiment]) -> String {
    match experiments[0].runs[0].summary.unit.as_str() {
        "" => "steps".into(),
        unit => unit.into(),
    }
}

/// All metrics, in order of first appearance.
fn metric_names(experiments: &[Experiment]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in all(experiments) {
        for name in run.summary.curves.keys() {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}
