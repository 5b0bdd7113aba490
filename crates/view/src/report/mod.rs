//! A page about one run, or about several beside each other.
//!
//! Everything on it comes from run directories. It begins with the verdict in one sentence, then videos of the policy
//! before and after, then success by ground truth beside the reward model's; other metrics fold away.
//! Runs of one config are seeds of one experiment: their curves are drawn faintly, and over them the interquartile mean
//! with a bootstrap interval. Runs whose configs differ are never averaged.

mod curves;
mod groups;
mod meaning;
mod media;
mod outcome;
mod seeds;
mod series;
mod sweep;
mod times;
mod verdict;
mod videos;

use std::path::PathBuf;
use std::time::Duration;

use plaudit_core::{EndReason, Level};

use crate::page::{Chart, Finding, Html, Page, Tone};
use crate::video::TrackError;
use crate::{LogError, RunDir, Summary, format};

pub use seeds::{Interval, interquartile_mean};
pub use sweep::{MethodResult, SweepPage, SweepResult, SweptRun};

/// A run to report on.
#[derive(Debug, Clone)]
pub struct ReportedRun {
    /// Where it is.
    pub dir: RunDir,
    /// What its config says that tells experiments apart: keys with dots and their values. Runs that agree in all of it are
    /// seeds of one experiment, so that seeds and places are left out. Empty if the run has no config.
    pub config: Vec<(String, String)>,
    /// What it is evaluated on, if that is known.
    pub task: Option<String>,
    /// The reward it was trained on.
    pub reward: RewardUsed,
}

/// The reward of a run, as its config says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RewardUsed {
    /// Whether it comes from a learned model.
    pub is_learned: bool,
    /// Each term of the reward, by its name in the log, and its weight.
    pub weights: Vec<(String, f64)>,
}

impl RewardUsed {
    /// The weight of a term; `None` for one that is no part of the reward.
    fn weight(&self, term: &str) -> Option<f64> {
        // A model's bonus for true success goes by the model's weight.
        let term = term.strip_suffix("/true_success").unwrap_or(term);
        self.weights
            .iter()
            .find(|(name, _)| name == term)
            .map(|(_, weight)| *weight)
            .filter(|weight| *weight != 0.0)
    }
}

/// A run that was read.
struct Run {
    dir: RunDir,
    summary: Summary,
    config: Vec<(String, String)>,
    task: Option<String>,
    reward: RewardUsed,
}

/// Runs of one config.
struct Experiment {
    /// What it is called in legends.
    label: String,
    runs: Vec<Run>,
}

/// The audit of a reward model that runs used.
#[derive(Debug, Clone)]
pub struct AuditedModel {
    /// Where the model is.
    pub model: String,
    /// Whether the audit advises to use it.
    pub passed: bool,
    /// What it guarantees, in a sentence.
    pub guarantee: Option<String>,
    /// What it found, each with what to do about it.
    pub findings: Vec<Finding>,
    /// What it measured, by name.
    pub numbers: Vec<(String, String)>,
    /// What it saw.
    pub charts: Vec<Chart>,
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
    /// The curves under a video cannot be read.
    #[error(transparent)]
    Track(#[from] TrackError),
    /// No finished run has the metric that runs are to be compared by.
    #[error("no finished run has the metric `{metric}`; they have {}", names(.known))]
    NoMetric {
        /// The metric.
        metric: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// A file of a run cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn names(known: &[String]) -> String {
    if known.is_empty() { "none".into() } else { known.join(", ") }
}

/// The page, as HTML; `audits` are of the reward models that the runs used.
///
/// # Errors
/// [`ReportError`] when a run cannot be read.
pub fn report(runs: &[ReportedRun], audits: &[AuditedModel]) -> Result<String, ReportError> {
    if runs.is_empty() {
        return Err(ReportError::Nothing);
    }
    let read = |run: &ReportedRun| {
        let ReportedRun { dir, config, task, reward } = run.clone();
        Ok(Run { summary: Summary::read(&dir)?, dir, config, task, reward })
    };
    let runs = runs.iter().map(read).collect::<Result<Vec<Run>, ReportError>>()?;
    let experiments = groups::gather(runs);
    let mut page =
        Page::new("report", title(&experiments), subtitle(&experiments), verdict::of(&experiments));
    let body = &mut page.body;
    body.findings(&verdict::findings(&experiments));
    let shown = videos::show(body, &experiments)?;
    curves::headline(body, &experiments);
    compared(body, &experiments);
    curves::folded(body, &experiments);
    for audit in audits {
        audited(body, audit);
    }
    times::show(body, &experiments);
    media::show(body, &experiments, &shown)?;
    details(body, &experiments)?;
    Ok(page.render())
}

/// All runs.
fn all(experiments: &[Experiment]) -> impl Iterator<Item = &Run> {
    experiments.iter().flat_map(|experiment| &experiment.runs)
}

fn title(experiments: &[Experiment]) -> String {
    let mut names: Vec<&str> = all(experiments).map(|run| run.summary.name.as_str()).collect();
    names.dedup();
    match names.join(" · ") {
        none if none.is_empty() => all(experiments).map(folder).collect::<Vec<_>>().join(" · "),
        names => names,
    }
}

fn subtitle(experiments: &[Experiment]) -> String {
    let runs: Vec<&Run> = all(experiments).collect();
    let [run] = &runs[..] else {
        let seeds: usize = runs.len();
        return match experiments.len() {
            1 => format!("{seeds} runs of one config with different seeds"),
            configs => format!("{seeds} runs of {configs} configs, never averaged over configs"),
        };
    };
    let summary = &run.summary;
    let ran = format::duration(Duration::try_from_secs_f64(summary.ran_secs).unwrap_or_default());
    let of = summary
        .steps
        .filter(|steps| *steps > summary.step)
        .map_or(String::new(), |steps| format!(" of {}", format::count(steps)));
    let unit = if summary.unit.is_empty() { "steps" } else { &summary.unit };
    let job = if summary.job.is_empty() { "run" } else { &summary.job };
    format!(
        "{job} · {} · {}{of} {unit} in {ran} · {}",
        status(summary.end.as_ref()),
        format::count(summary.step),
        run.dir.path().display()
    )
}

fn status(end: Option<&EndReason>) -> &'static str {
    match end {
        Some(EndReason::Done) => "done",
        Some(EndReason::Interrupted) => "interrupted",
        Some(EndReason::Failed { .. }) => "failed",
        None => "unfinished",
    }
}

/// Keys of configs beside each other; more are in the configs themselves.
const KEYS_SHOWN: usize = 20;

/// Runs beside each other: what they are, what came of each, and in which keys their configs differ.
fn compared(body: &mut Html, experiments: &[Experiment]) {
    if all(experiments).count() < 2 {
        return;
    }
    body.heading("All runs");
    let shown: Vec<_> = outcome::MEASURES
        .iter()
        .filter(|measure| all(experiments).any(|run| run.summary.curves.contains_key(measure.metric)))
        .collect();
    let head: Vec<&str> = ["run", "config", "status", "steps", "time"]
        .into_iter()
        .chain(shown.iter().map(|measure| measure.short))
        .collect();
    let rows: Vec<Vec<String>> = experiments
        .iter()
        .flat_map(|experiment| experiment.runs.iter().map(move |run| (experiment, run)))
        .map(|(experiment, run)| {
            let summary = &run.summary;
            let time = format::duration(Duration::try_from_secs_f64(summary.ran_secs).unwrap_or_default());
            let last = |measure: &outcome::Measure| {
                let value = summary.curves.get(measure.metric).and_then(|curve| curve.last());
                value.map_or("–".into(), |value| measure.words(value))
            };
            [
                folder(run),
                experiment.label.clone(),
                status(summary.end.as_ref()).into(),
                format::count(summary.step),
                time,
            ]
            .into_iter()
            .chain(shown.iter().map(|measure| last(measure)))
            .collect()
        })
        .collect();
    body.table(&head, &rows);
    let keys = groups::differences(experiments);
    if keys.is_empty() {
        return;
    }
    body.subheading("Config differences");
    let head: Vec<&str> =
        ["key"].into_iter().chain(experiments.iter().map(|one| one.label.as_str())).collect();
    let row = |key: &String| -> Vec<String> {
        let values = experiments.iter().map(|one| groups::value(one, key).to_string());
        [key.clone()].into_iter().chain(values).collect()
    };
    body.table(&head, &keys.iter().take(KEYS_SHOWN).map(row).collect::<Vec<_>>());
    if keys.len() > KEYS_SHOWN {
        body.paragraph(&format!("{} more keys differ: see the configs below.", keys.len() - KEYS_SHOWN));
    }
}

fn folder(run: &Run) -> String {
    run.dir.path().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Whether the reward model can be trusted.
fn audited(body: &mut Html, audit: &AuditedModel) {
    body.heading("Audit of the reward model");
    let (tone, word) = match audit.passed {
        true => (Tone::Good, "The reward model passed its audit"),
        false => (Tone::Bad, "The reward model did not pass its audit"),
    };
    body.callout(tone, word, audit.guarantee.as_deref().unwrap_or("The audit gives no guarantee."));
    body.findings(&audit.findings);
    body.charts(&audit.charts);
    let rows: Vec<Vec<&str>> = audit.numbers.iter().map(|(name, value)| vec![&**name, &**value]).collect();
    body.table(&["measured on held-out episodes", "value"], &rows);
    body.paragraph(&format!("The model: {}", audit.model));
}

fn details(body: &mut Html, experiments: &[Experiment]) -> Result<(), ReportError> {
    body.heading("Details");
    for run in all(experiments) {
        let mut inside = Html::default();
        if let Some(EndReason::Failed { error }) = &run.summary.end {
            inside.paragraph(&format!("Error: {error}"));
        }
        for (level, text) in &run.summary.notices {
            inside
                .paragraph(&format!("{}: {text}", if *level == Level::Warning { "warning" } else { "note" }));
        }
        if let Some((step, path)) = &run.summary.saved {
            inside.paragraph(&format!("Last saved at {} {step}: {path}", run.summary.unit));
        }
        match std::fs::read_to_string(run.dir.config()) {
            Ok(config) => {
                inside.fold("config.yaml", &config);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(ReportError::Read { path: run.dir.config(), source }),
        }
        body.folded(&folder(run), "notices and config", &inside);
    }
    Ok(())
}
