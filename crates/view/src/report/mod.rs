//! A page about one run, or about several beside each other.
//!
//! Everything on it comes from run directories. Runs of one name are taken for seeds of one experiment: their curves
//! are drawn faintly, and over them the interquartile mean with a bootstrap interval.

mod curves;
mod media;
mod seeds;

use std::path::PathBuf;
use std::time::Duration;

use plaudit_core::Level;

use crate::page::{Html, Page, Tone};
use crate::{LogError, RunDir, Status, Summary, format};

pub use seeds::{Interval, interquartile_mean};

/// A run that was read.
struct Run {
    dir: RunDir,
    summary: Summary,
}

/// Runs of one name.
struct Experiment {
    name: String,
    runs: Vec<Run>,
}

/// What an audit said of a model that paid runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedModel {
    /// Where the model is.
    pub model: String,
    /// Whether the audit advises to use it.
    pub passed: bool,
    /// What it found, each with what to do about it.
    pub findings: Vec<(String, String)>,
    /// What it measured, by name.
    pub numbers: Vec<(String, String)>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No run was given.
    #[error(
        "no run to report on; give the directory of a run, such as logs/20260801-12:34:56-reward_training"
    )]
    Nothing,
    /// The log of a run cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file of a run cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The page, as HTML; `audits` are of the models that paid the runs.
///
/// # Errors
/// [`ReportError`] when a run cannot be read.
pub fn report(dirs: &[RunDir], audits: &[AuditedModel]) -> Result<String, ReportError> {
    let experiments = gather(dirs)?;
    let (Some(first), false) = (experiments.first(), dirs.is_empty()) else {
        return Err(ReportError::Nothing);
    };
    let title = match &experiments[..] {
        [one] => one.name.clone(),
        several => several.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" · "),
    };
    let mut page = Page::new(title, subtitle(first, &experiments));
    let body = &mut page.body;
    body.tiles(&tiles(&experiments));
    runs_table(body, &experiments);
    curves::show(body, &experiments);
    for audit in audits {
        audited(body, audit);
    }
    times(body, &experiments);
    for run in experiments.iter().flat_map(|experiment| &experiment.runs) {
        media::show(body, run)?;
    }
    details(body, &experiments)?;
    Ok(page.render())
}

fn gather(dirs: &[RunDir]) -> Result<Vec<Experiment>, ReportError> {
    let mut experiments: Vec<Experiment> = Vec::new();
    for dir in dirs {
        let run = Run { dir: dir.clone(), summary: Summary::read(dir)? };
        match experiments.iter_mut().find(|experiment| experiment.name == run.summary.name) {
            Some(experiment) => experiment.runs.push(run),
            None => experiments.push(Experiment { name: run.summary.name.clone(), runs: vec![run] }),
        }
    }
    Ok(experiments)
}

fn subtitle(first: &Experiment, experiments: &[Experiment]) -> String {
    let runs: usize = experiments.iter().map(|experiment| experiment.runs.len()).sum();
    match (&first.runs[..], runs) {
        ([run], 1) => format!("{} · {}", run.summary.job, run.dir.path().display()),
        _ => format!("{runs} runs of {} experiments", experiments.len()),
    }
}

/// What a person asks first: how far, how long, and how well by the simulator's truth.
fn tiles(experiments: &[Experiment]) -> Vec<(String, String)> {
    let mut tiles = Vec::new();
    if let [Experiment { runs, .. }] = experiments
        && let [run] = &runs[..]
    {
        let summary = &run.summary;
        let ran = format::duration(Duration::try_from_secs_f64(summary.ran_secs).unwrap_or_default());
        tiles.push((status(&summary.status).to_string(), "status".into()));
        tiles.push((format::count(summary.step), summary.unit.clone()));
        tiles.push((ran, "running time".into()));
    }
    for (metric, what) in curves::HEADLINES {
        for experiment in experiments {
            let last = experiment.runs.iter().filter_map(|run| run.summary.curves.get(*metric)?.last());
            let last: Vec<f64> = last.collect();
            if last.is_empty() {
                continue;
            }
            let value = format::number(seeds::interquartile_mean(&last));
            let of =
                if experiments.len() > 1 { format!("{what}, {}", experiment.name) } else { (*what).into() };
            tiles.push((value, of));
        }
    }
    tiles
}

fn status(status: &Status) -> &'static str {
    match status {
        Status::Done => "done",
        Status::Interrupted => "interrupted",
        Status::Failed { .. } => "failed",
        Status::Unfinished => "unfinished",
    }
}

fn runs_table(body: &mut Html, experiments: &[Experiment]) {
    let runs: Vec<&Run> = experiments.iter().flat_map(|experiment| &experiment.runs).collect();
    if runs.len() < 2 {
        return;
    }
    let shown: Vec<_> = curves::HEADLINES
        .iter()
        .filter(|(metric, _)| runs.iter().any(|run| run.summary.curves.contains_key(*metric)))
        .collect();
    let head: Vec<&str> =
        ["run", "status", "steps", "time"].into_iter().chain(shown.iter().map(|(_, what)| *what)).collect();
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            let summary = &run.summary;
            let time = format::duration(Duration::try_from_secs_f64(summary.ran_secs).unwrap_or_default());
            let last = |metric: &str| {
                summary.curves.get(metric).and_then(|curve| curve.last()).map_or("–".into(), format::number)
            };
            [folder(run), status(&summary.status).into(), format::count(summary.step), time]
                .into_iter()
                .chain(shown.iter().map(|(metric, _)| last(metric)))
                .collect()
        })
        .collect();
    body.heading("Every run").table(&head, &rows);
}

fn folder(run: &Run) -> String {
    run.dir.path().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Whether the model that paid can be trusted.
fn audited(body: &mut Html, audit: &AuditedModel) {
    let (tone, word) = if audit.passed { (Tone::Good, "passed") } else { (Tone::Bad, "did not pass") };
    body.heading("The model that paid, as it was audited");
    body.verdict(tone, &format!("{} {word} its audit", audit.model), &audit.findings);
    let rows: Vec<Vec<&str>> = audit.numbers.iter().map(|(name, value)| vec![&**name, &**value]).collect();
    body.table(&["measured on held-out episodes", "value"], &rows);
}

/// Where the time went: the mean of each `time/…` metric, and its share of `time/step`.
fn times(body: &mut Html, experiments: &[Experiment]) {
    for experiment in experiments {
        let means: Vec<(&str, f64)> = mean_times(experiment);
        let Some(step) = means.iter().find(|(name, _)| *name == "step").map(|(_, secs)| *secs) else {
            continue;
        };
        let rows: Vec<Vec<String>> = means
            .iter()
            .map(|(name, secs)| {
                let share = if step > 0.0 { 100.0 * secs / step } else { 0.0 };
                vec![(*name).into(), format!("{:.1} ms", 1e3 * secs), format!("{share:.0} %")]
            })
            .collect();
        body.heading(&format!("Where the time goes: {}", experiment.name));
        body.table(&["part", "mean", "share of a step"], &rows);
    }
}

fn mean_times(experiment: &Experiment) -> Vec<(&str, f64)> {
    let Some(first) = experiment.runs.first() else { return Vec::new() };
    let times =
        first.summary.curves.iter().filter_map(|(name, curve)| Some((name.strip_prefix("time/")?, curve)));
    times
        .filter(|(_, curve)| !curve.points.is_empty())
        .map(|(name, curve)| {
            let sum: f64 = curve.points.iter().map(|point| point.value).sum();
            (name, sum / curve.points.len() as f64)
        })
        .collect()
}

fn details(body: &mut Html, experiments: &[Experiment]) -> Result<(), ReportError> {
    body.heading("Details");
    for run in experiments.iter().flat_map(|experiment| &experiment.runs) {
        body.subheading(&folder(run));
        if let Status::Failed { error } = &run.summary.status {
            body.paragraph(&format!("It failed: {error}"));
        }
        for (level, text) in &run.summary.notices {
            body.paragraph(&format!("{}: {text}", if *level == Level::Warning { "warning" } else { "note" }));
        }
        if let Some((step, path)) = &run.summary.saved {
            body.paragraph(&format!("Last saved at {} {step}: {path}", run.summary.unit));
        }
        match std::fs::read_to_string(run.dir.config()) {
            Ok(config) => {
                body.fold("config.yaml", &config);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ReportError::Read { path: run.dir.config(), source }),
        }
    }
    Ok(())
}
