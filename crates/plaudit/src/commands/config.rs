//! `plaudit config`: what a config says, before anything runs.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::{ConfigArgs, Verbosity};
use crate::config::{self, docs, recipes, yaml};
use crate::console;
use crate::failure::Failure;
use crate::load::RequestedConfig;
use crate::output;

/// Show, list and document configurations
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print what a config resolves to
    Show(Show),
    /// List the recipes, or the configs in a directory
    List(List),
    /// Write docs/config.md, the table of every key
    Docs(Docs),
}

/// Print what a config resolves to
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit config show maniskill_ppo_mlp
  plaudit config show RLinf/examples/embodiment/config/maniskill_ppo_mlp.yaml \\
      runner.max_epochs=10 --origins
  plaudit config show --config-path conf --config-name train \\
      optim.lr=1e-3 --composed --json")]
pub struct Show {
    /// Which config.
    #[command(flatten)]
    config: ConfigArgs,
    /// Print JSON instead of YAML
    #[arg(long)]
    json: bool,
    /// Print beside each value the file and line it comes from
    #[arg(long, alias = "source", conflicts_with = "json")]
    origins: bool,
    /// Print the composed and interpolated tree before plaudit reads it; any YAML of any project will do
    #[arg(long)]
    composed: bool,
}

/// List the recipes, or the configs in a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit config list
  plaudit config list --config-path RLinf/examples/embodiment/config")]
pub struct List {
    /// List the configs of this directory instead
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
}

/// Write docs/config.md, the table of every key
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit config docs
  plaudit config docs --output - | less")]
pub struct Docs {
    /// Where to; `-` prints it
    #[arg(long, value_name = "FILE", default_value = "docs/config.md")]
    output: PathBuf,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        match self {
            Self::Show(show) => show.run(verbosity),
            Self::List(list) => list.run(),
            Self::Docs(docs) => docs.run(),
        }
    }
}

impl Show {
    fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let asked = RequestedConfig::from_args(&self.config)?;
        let tree = if self.composed {
            config::composed(&asked.disk, &asked.request)?.1
        } else {
            let loaded = config::load(&asked.disk, &asked.request)?;
            console::notices(&loaded.notices, verbosity);
            loaded.as_tree()
        };
        console::print(&if self.json { yaml::to_json(&tree) } else { yaml::to_yaml(&tree, self.origins) })
    }
}

impl List {
    fn run(self) -> Result<(), Failure> {
        let Some(directory) = self.config_path else {
            let summaries = recipes::summaries();
            let width = summaries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            for (name, about) in summaries {
                console::print(&format!("{name:width$}  {about}\n"))?;
            }
            return Ok(());
        };
        let entries = std::fs::read_dir(&directory).map_err(|error| {
            let help = "give a directory that holds YAML files".to_string();
            Failure::usage(format!("cannot list {}: {error}", directory.display()), help)
        })?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".yaml").map(String::from))
            .collect();
        names.sort();
        for name in names {
            console::print(&format!("{name}\n"))?;
        }
        Ok(())
    }
}

impl Docs {
    fn run(self) -> Result<(), Failure> {
        let page = docs::page();
        if self.output.as_os_str() == "-" {
            return console::print(&page);
        }
        output::write("--output", &self.output, page.as_bytes())?;
        console::print(&format!("{}\n", self.output.display()))
    }
}
