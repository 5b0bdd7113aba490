//! The words of the command line.

use clap::{Args, Parser, Subcommand};

#[cfg(unix)]
use crate::commands::cluster;
use crate::commands::{
    check, collect, completions, config, dataset, demo, device, eval, init, report, reward, robot, serve,
    studio, sweep, train,
};

/// Learned rewards for robot learning: collect episodes, train a reward, audit it, use it.
#[derive(Debug, Parser)]
#[command(name = "plaudit", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  plaudit demo                            the whole pipeline once, in minutes
  plaudit config list                     recipes that come with plaudit
  plaudit config show maniskill_ppo_mlp   what a recipe resolves to
  plaudit eval cartpole_random            a run: episodes, metrics, TensorBoard
  plaudit train cartpole_ppo              a policy learns to balance a pole

Exit codes: 0 done, 1 failed or stopped before the end, 2 wrong use,
3 a reward model did not pass its audit.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How much to print.
    #[command(flatten)]
    pub verbosity: Verbosity,
}

/// The commands, one file each.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// From episodes to a policy trained with a learned reward, in minutes
    Demo(demo::Command),
    /// Write a small project to begin with
    Init(init::Command),
    /// Show, list and document configurations
    #[command(subcommand)]
    Config(config::Command),
    /// Run a policy and record its episodes
    Collect(collect::Command),
    /// Turn episodes into training data
    #[command(subcommand)]
    Dataset(dataset::Command),
    /// Train a policy
    Train(train::Command),
    /// Train a policy for each choice of keys and each seed, and compare the choices
    Sweep(sweep::Command),
    /// Train an image reward model, measure it, and find out whether it can be trusted
    #[command(subcommand)]
    Reward(reward::Command),
    /// Serve a reward model over HTTP
    Serve(Box<serve::Command>),
    /// Look at episodes, rewards and models in the browser, and label them
    Studio(studio::Command),
    /// Robot arms, real and simulated
    #[command(subcommand)]
    Robot(robot::Command),
    /// Training in several processes, on one machine or many
    #[cfg(unix)]
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Evaluate a policy by the environment's ground truth
    Eval(eval::Command),
    /// Lint a reward config without running it
    Check(check::Command),
    /// Write an HTML report about a run, or compare several
    Report(report::Command),
    /// Show what models can compute on: the CPU, GPUs, CUDA's libraries
    Device(device::Command),
    /// Print completions for a shell
    Completions(completions::Command),
}

impl ConfigArgs {
    /// The command that would ask for the same config.
    pub fn command(&self, name: &str) -> Vec<String> {
        let flag = |flag: &str, value: &Option<String>| value.clone().map(|value| [flag.to_string(), value]);
        let path = flag("--config-path", &self.config_path).into_iter().flatten();
        let config = flag("--config-name", &self.config_name).into_iter().flatten();
        ["plaudit".into(), name.into()]
            .into_iter()
            .chain(path)
            .chain(config)
            .chain(self.words.clone())
            .collect()
    }
}

/// How much to print.
#[derive(Debug, Clone, Copy, Args)]
pub struct Verbosity {
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print everything, such as every key of a config that has no effect
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// Which config to run, and where.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Which config.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Run everything on this machine, also what the config places on others
    #[arg(long)]
    pub local: bool,
}

impl RunArgs {
    /// The command that would ask for the same run.
    pub fn command(&self, name: &str) -> Vec<String> {
        let mut command = self.config.command(name);
        command.extend(self.local.then(|| "--local".into()));
        command
    }
}

/// Which config, and what to change in it: the same words on every command.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// A recipe's name or a YAML file, then overrides: `key=value`, `+key=value`, `++key=value`, `~key`
    #[arg(value_name = "CONFIG|KEY=VALUE")]
    pub words: Vec<String>,
    /// Look for the config in this directory
    #[arg(long, value_name = "DIR")]
    pub config_path: Option<String>,
    /// The config's name; every other word is then an override
    #[arg(long, value_name = "NAME")]
    pub config_name: Option<String>,
    /// Hydra's sweep flag, recognised only to explain the alternative
    #[arg(short = 'm', long, hide = true)]
    pub multirun: bool,
}
