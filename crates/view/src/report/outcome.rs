//! What came of runs: the one number that people ask for, at the first and at the last evaluation, and how sure it is.

use super::seeds::{self, Interval};
use super::{Experiment, Run, all};
use crate::format;
use crate::page::Unit;

/// A number that says how well a run went.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Measure {
    /// Its name in the log.
    pub(super) metric: &'static str,
    /// In the head of a table.
    pub(super) short: &'static str,
    /// In a sentence: "went from … to … success".
    pub(super) noun: &'static str,
    /// Who says so.
    pub(super) source: &'static str,
    pub(super) unit: Unit,
    /// Whether it is a share of `eval/num_trajectories` episodes.
    is_share_of_episodes: bool,
}

/// Fewer seeds than these say nothing about others.
const ENOUGH_SEEDS: usize = 3;
/// The metric that counts the episodes of an evaluation.
const EPISODES: &str = "eval/num_trajectories";

/// What people look for, the most telling first.
pub(super) const MEASURES: &[Measure] = &[
    Measure {
        metric: "eval/success_once",
        short: "success (evaluation)",
        noun: "success",
        source: "simulator ground truth",
        unit: Unit::Percent,
        is_share_of_episodes: true,
    },
    Measure {
        metric: "env/success_once",
        short: "success (training)",
        noun: "success",
        source: "simulator ground truth, in training",
        unit: Unit::Percent,
        is_share_of_episodes: false,
    },
    plain("eval/return", "return (evaluation)", "return", "the environment's own reward"),
    plain("env/return", "return (training)", "return", "the environment's own reward, in training"),
    plain("eval/auc", "AUC", "AUC", "held-out frames"),
    plain("eval/balanced_accuracy", "balanced accuracy", "balanced accuracy", "held-out windows"),
    plain("eval/val_accuracy", "accuracy", "accuracy", "held-out frames"),
    plain("train/loss", "loss", "loss", "training data"),
];

const fn plain(
    metric: &'static str,
    short: &'static str,
    noun: &'static str,
    source: &'static str,
) -> Measure {
    Measure { metric, short, noun, source, unit: Unit::Number, is_share_of_episodes: false }
}

impl Measure {
    /// What runs are compared by: the first measure they have. Success that nobody ever has is no measure where there is
    /// another: many environments know none.
    pub(super) fn of(experiments: &[Experiment]) -> Option<&'static Self> {
        let values = |measure: &Self| -> Vec<f64> {
            let curves = all(experiments).filter_map(|run| run.summary.curves.get(measure.metric));
            curves.flat_map(|curve| curve.points.iter().map(|point| point.value)).collect()
        };
        let says_something = |measure: &&Self| {
            let values = values(measure);
            !values.is_empty() && (measure.unit != Unit::Percent || values.iter().any(|value| *value > 0.0))
        };
        let has_any = |measure: &&Self| !values(measure).is_empty();
        MEASURES.iter().find(says_something).or_else(|| MEASURES.iter().find(has_any))
    }

    /// A value in words.
    pub(super) fn words(&self, value: f64) -> String {
        match self.unit {
            Unit::Percent => format::percent(value),
            _ => format::number(value),
        }
    }
}

/// Which evaluation of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// The first, if there are at least two.
    First,
    Last,
}

/// What an experiment reached.
pub(super) struct Reached {
    pub(super) interval: Interval,
    /// Whether the interval says anything: one run's return has none.
    pub(super) is_known: bool,
    /// On how much it rests: `128 episodes`, `5 seeds`.
    pub(super) rests_on: String,
}

/// What an experiment reached at its first or last evaluation.
pub(super) fn reached(experiment: &Experiment, measure: &Measure, when: When) -> Option<Reached> {
    let values: Vec<(f64, Option<f64>)> =
        experiment.runs.iter().filter_map(|run| value(run, measure, when)).collect();
    match values[..] {
        [] => None,
        [(value, Some(episodes))] => Some(Reached {
            interval: seeds::share_interval(value, episodes),
            is_known: true,
            rests_on: format!("{episodes:.0} episodes"),
        }),
        [(value, None)] => Some(Reached {
            interval: Interval { middle: value, low: value, high: value },
            is_known: false,
            rests_on: "one run".into(),
        }),
        _ => {
            let values: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
            let is_known = values.len() >= ENOUGH_SEEDS;
            let few = if is_known { "" } else { ", too few for an interval" };
            let rests_on = format!("interquartile mean of {} seeds{few}", values.len());
            Some(Reached { interval: seeds::interval(&values), is_known, rests_on })
        }
    }
}

/// The value, and the number of episodes that it is a share of.
fn value(run: &Run, measure: &Measure, when: When) -> Option<(f64, Option<f64>)> {
    let points = &run.summary.curves.get(measure.metric)?.points;
    let point = match when {
        When::First if points.len() < 2 => None,
        When::First => points.first(),
        When::Last => points.last(),
    }?;
    let episodes = measure.is_share_of_episodes.then(|| episodes_at(run, point.step)).flatten();
    Some((point.value, episodes))
}

/// How many episodes an evaluation had.
pub(super) fn episodes_at(run: &Run, step: u64) -> Option<f64> {
    let points = &run.summary.curves.get(EPISODES)?.points;
    points.iter().rfind(|point| point.step == step).map(|point| point.value)
}
