//! The words of the command line.

use clap::{Args, Parser, Subcommand};

use crate::commands::{
    check, collect, completions, config, dataset, demo, eval, report, reward, serve, train,
};

/// Learned rewards for robot learning: collect episodes, train a reward, audit it, use it.
#[derive(Debug, Parser)]
#[command(name = "plaudit", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  plaudit demo                                    the whole way once, in some minutes
  plaudit config list                             recipes that come with plaudit
  plaudit config show maniskill_ppo_mlp           what a recipe resolves to
  plaudit eval cartpole_random                    a run: episodes, metrics, TensorBoard files
  plaudit train cartpole_ppo                      a policy learns to balance a pole

Exit codes: 0 done, 1 failed or stopped before the end, 2 wrong use.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How much to say.
    #[command(flatten)]
    pub volume: Volume,
}

/// The commands, one file each.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// From episodes to a policy paid by a learned reward, in some minutes
    Demo(demo::Command),
    /// Show, list and document configurations
    #[command(subcommand)]
    Config(config::Command),
    /// Let a policy play and keep its episodes
    Collect(collect::Command),
    /// Turn episodes into training data
    #[command(subcommand)]
    Dataset(dataset::Command),
    /// Train a policy
    Train(train::Command),
    /// Train an image reward model, measure it, and find out whether it can be trusted
    #[command(subcommand)]
    Reward(reward::Command),
    /// Serve a reward model over HTTP
    Serve(Box<serve::Command>),
    /// Let a policy act and judge it by the environment's truth
    Eval(eval::Command),
    /// Find what is unwise in a reward config, without running it
    Check(check::Command),
    /// Write a page about a run, or about several beside each other
    Report(report::Command),
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

/// How much to say.
#[derive(Debug, Clone, Copy, Args)]
pub struct Volume {
    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say everything, such as every key of a config that has no effect
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// Which config, and what to change in it: the same words on every command.
#[derive(Debug, Clone, Args)]
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
}
