//! `plaudit report`: a page about runs.

use std::path::{Path, PathBuf};

use clap::Args;
use plaudit_view::{RunDir, report, write_atomically};

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
        let page = report(&runs).map_err(|error| Failure::work(error, None))?;
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
