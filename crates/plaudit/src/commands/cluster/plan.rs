//! `plaudit cluster plan`: who would run where.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use plaudit_cluster::dora::files;
use plaudit_cluster::plan::picture;
use plaudit_cluster::{Plan, dora};

use super::{absolute, plan_of};
use crate::cli::{ConfigArgs, Verbosity};
use crate::cluster::drive::Driver;
use crate::config::LoadedConfig;
use crate::failure::Failure;
use crate::output;
use crate::{console, load};

/// Show who would run where, and why
///
/// Nothing is started, and no machine is asked. A placement that cannot be is named with its line. The same plan can be
/// written as a script for a scheduler that owns the machines: it plans again, with the machines that it is given.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit cluster plan pickcube_ppo_resnet_reward
  plaudit cluster plan two_machines.yaml --json
  plaudit cluster plan two_machines.yaml --slurm job.sh && sbatch job.sh
  plaudit cluster plan two_machines.yaml --launcher ray > job.py")]
pub struct PlanCommand {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print it as JSON, as it is written into the run directory
    #[arg(long)]
    json: bool,
    /// The machines by rank, in place of cluster.nodes
    #[arg(long, value_name = "HOST,…", value_delimiter = ',')]
    hosts: Option<Vec<String>>,
    /// Write the plan, the config and dora's files into this run directory, for `join` and `run`
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Write a script for SLURM
    #[arg(long, value_name = "FILE")]
    slurm: Option<PathBuf>,
    /// Write a manifest for Kubernetes
    #[arg(long, value_name = "FILE")]
    kubernetes: Option<PathBuf>,
    /// Print a script by which another cluster manager starts the run
    #[arg(long, value_enum)]
    launcher: Option<Launcher>,
}

/// Who starts the daemons.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Launcher {
    /// A Ray cluster that is there already: a Python script
    Ray,
}

impl PlanCommand {
    pub(super) fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let loaded = load::for_cluster(&self.config, verbosity)?;
        let run_dir = self.run_dir(&loaded)?;
        let plan = plan_of(&loaded, self.hosts.as_deref(), &run_dir)?;
        let words = self.words()?;
        for (flag, path, text) in [
            ("--slurm", &self.slurm, dora::slurm(&plan, &words)),
            ("--kubernetes", &self.kubernetes, dora::kubernetes(&plan, &words)),
        ] {
            if let Some(path) = path {
                output::write(flag, path, text.as_bytes())?;
                console::eprintln(&format!("written to {}", path.display()));
            }
        }
        if self.write.is_some() {
            self.write_run(loaded, &plan)?;
        }
        match self.launcher {
            Some(Launcher::Ray) => console::print(&dora::ray(&plan, &words)),
            None if self.json => {
                console::print(&plan.to_json().map_err(|error| Failure::runtime(error, None))?)
            }
            None => console::print(&picture(&plan)),
        }
    }

    fn run_dir(&self, loaded: &LoadedConfig) -> Result<PathBuf, Failure> {
        let logged = loaded.config.runner.logger.log_path.as_ref().map(PathBuf::from);
        let unnamed = || Path::new("logs").join(crate::run::run_name(loaded));
        absolute(&self.write.clone().or(logged).unwrap_or_else(unnamed))
    }

    /// The words that ask for the same config from any folder.
    fn words(&self) -> Result<Vec<String>, Failure> {
        let mut words = self.config.command("plan").split_off(2);
        if let Some(first) = words.first_mut().filter(|word| Path::new(word).is_file()) {
            *first = absolute(Path::new(first.as_str()))?.display().to_string();
        }
        Ok(words)
    }

    /// A run directory that is new, or that has the same run already: a job that was submitted again.
    fn write_run(&self, loaded: LoadedConfig, plan: &Plan) -> Result<(), Failure> {
        let has_run = plan.run_dir.join("events.jsonl").exists();
        if !has_run {
            let run =
                plaudit_view::RunDir::at(&plan.run_dir).map_err(|error| Failure::runtime(error, None))?;
            let config = crate::config::yaml::to_yaml(&loaded.as_tree(), false);
            run.write_config(&config).map_err(|error| Failure::runtime(error, None))?;
        }
        let driver = Driver::new(plan.clone(), loaded);
        // Who joins waits for the coordinator's token, and must not find that of an earlier one.
        let _ = std::fs::remove_file(driver.folder().join(files::TOKEN));
        driver.write_plan()
    }
}
