//! `plaudit report`: a page about runs.

mod audited;
mod run_config;

use std::path::PathBuf;

use clap::Args;
use plaudit_view::{AuditedModel, ReportedRun, RunDir, report};

use crate::console;
use crate::failure::Failure;
use crate::output;

pub(crate) use audited::audit_beside;
pub use audited::audit_file;
pub(in crate::commands) use audited::audit_of;
pub(in crate::commands) use run_config::{RunConfig, words};

/// Write an HTML report about a run, or compare several
///
/// The page begins with the verdict in one sentence. A run that filmed its evaluations (`env.eval.video_cfg`, with
/// `format: mp4`) shows its policy before and after, with the reward curve in step with the films. Runs whose configs
/// differ in seeds alone are seeds of one experiment; others are shown beside each other, and never averaged.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit report logs/20260801-12:34:56-maniskill_ppo_mlp
  plaudit report logs/*-maniskill_ppo_mlp --output seeds.html
  plaudit report logs/*-env_reward logs/*-learned_reward")]
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
        let open = |path: &PathBuf| RunDir::open(path).map_err(|error| Failure::usage(error, help()));
        let dirs: Vec<RunDir> = self.runs.iter().map(open).collect::<Result<_, _>>()?;
        let configs: Vec<RunConfig> = dirs.iter().map(RunConfig::of).collect::<Result<_, _>>()?;
        let audits: Vec<AuditedModel> =
            models(&configs).iter().filter_map(|model| audited::audit_of(model)).collect();
        let runs: Vec<ReportedRun> = dirs
            .into_iter()
            .zip(configs)
            .map(|(dir, config)| ReportedRun {
                dir,
                config: config.flat(),
                task: config.task(),
                reward: config.reward(),
            })
            .collect();
        let page = report(&runs, &audits).map_err(|error| Failure::runtime(error, None))?;
        let place = self.output.unwrap_or_else(|| self.runs[0].join("report.html"));
        output::write("--output", &place, page.as_bytes())?;
        console::print(&format!("{}\n", place.display()))
    }
}

/// The reward models that rewarded runs, each once.
fn models(configs: &[RunConfig]) -> Vec<PathBuf> {
    let mut models = Vec::new();
    for model in configs.iter().filter_map(RunConfig::model) {
        if !models.contains(&model) {
            models.push(model);
        }
    }
    models
}
