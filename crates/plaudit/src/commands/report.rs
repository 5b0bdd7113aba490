//! `plaudit report`: a page about runs.

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_nn::Weights;
use plaudit_reward::trend::{JudgeCard, JudgeFolder};
use plaudit_view::{AuditedModel, RunDir, report, write_atomically};
use serde_json::Value;

use crate::failure::Failure;
use crate::say;

/// Write a page about a run, or about several beside each other
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit report logs/20260801-12:34:56-maniskill_ppo_mlp
  plaudit report logs/*-maniskill_ppo_mlp --output seeds.html     runs of one name are seeds of one experiment
  plaudit report logs/*-env_reward logs/*-learned_reward           two experiments beside each other")]
pub struct Command {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The page. Not given: report.html in the first run's directory
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Command {
    /// Does it.
    pub fn run(self) -> Result<(), Failure> {
        let help = || Some("give the directory that a run printed when it started".to_string());
        let open = |path: &PathBuf| RunDir::open(path).map_err(|error| Failure::use_of(error, help()));
        let runs: Vec<RunDir> = self.runs.iter().map(open).collect::<Result<_, _>>()?;
        let audits: Vec<AuditedModel> = models(&runs).iter().filter_map(|model| audit_of(model)).collect();
        let page = report(&runs, &audits).map_err(|error| Failure::work(error, None))?;
        let output = self.output.unwrap_or_else(|| self.runs[0].join("report.html"));
        make_parent(&output)?;
        write_atomically(&output, page.as_bytes()).map_err(|error| Failure::work(error, None))?;
        say::out(&format!("{}\n", output.display()))
    }
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(parent)
        .map_err(|error| Failure::work(format!("cannot make {}: {error}", parent.display()), None))
}

/// The reward models that runs were paid by, each once.
fn models(runs: &[RunDir]) -> Vec<PathBuf> {
    let mut models = Vec::new();
    for run in runs {
        let Some(model) = model_of(run).filter(|model| !models.contains(model)) else { continue };
        models.push(model);
    }
    models
}

/// The reward model that a run's config names.
fn model_of(run: &RunDir) -> Option<PathBuf> {
    let text = std::fs::read_to_string(run.config()).ok()?;
    let config = plaudit_compose::parse_yaml("config.yaml", &text).ok()?;
    let path = config.get("reward.model.model_path")?.as_str()?;
    config.get("reward.use_reward_model")?.as_bool()?.then(|| PathBuf::from(path))
}

/// What `reward audit` left beside a model, if it was audited.
fn audit_of(model: &Path) -> Option<AuditedModel> {
    let text = match JudgeFolder::find(model).ok()? {
        Some(judge) => std::fs::read_to_string(beside(&JudgeCard::file_in(judge.own()))).ok()?,
        None => std::fs::read_to_string(beside(&Weights::locate(model).ok()?)).ok()?,
    };
    let audit: Value = serde_json::from_str(&text).ok()?;
    let text = |of: &Value, key: &str| of[key].as_str().map(String::from);
    let findings = audit["verdict"]["findings"].as_array()?.iter();
    let findings = findings.filter_map(|found| Some((text(found, "what")?, text(found, "hint")?))).collect();
    let number = |name: &str, value: &Value| Some((name.to_string(), format!("{:.3}", value.as_f64()?)));
    let interval = |name: &str, of: &Value| {
        let [value, low, high] = ["value", "low", "high"].map(|key| of[key].as_f64());
        Some((name.to_string(), format!("{:.3} ({:.3} to {:.3})", value?, low?, high?)))
    };
    let numbers = [
        interval("balanced accuracy", &audit["balanced_accuracy"]),
        interval("rank correlation with progress", &audit["agreement"]["rank"]),
        interval("AUC", &audit["auc"]),
        interval("average precision", &audit["average_precision"]),
        number("threshold", &audit["operating"]["threshold"]),
        number("temperature", &audit["calibration"]["temperature"]),
        number("false alarms per episode, at most", &audit["operating"]["alarms"]["bound"]),
        number("calibration error", &audit["calibration"]["after"]["ece"]),
        audit["episodes"].as_u64().map(|episodes| ("episodes".into(), episodes.to_string())),
    ];
    Some(AuditedModel {
        model: model.display().to_string(),
        passed: audit["passed"].as_bool()?,
        findings,
        numbers: numbers.into_iter().flatten().collect(),
    })
}

/// Where the audit of a model is kept, next to it.
pub fn beside(model: &Path) -> PathBuf {
    model.with_extension("audit.json")
}
