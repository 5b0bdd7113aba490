//! `plaudit check`: lints a config, and runs nothing.

use clap::Args;

use crate::cli::{ConfigArgs, Verbosity};
use crate::config;
use crate::console;
use crate::failure::Failure;
use crate::lint::{Examined, Finding, Severity, examine};
use crate::load::RequestedConfig;

/// Lint a reward config without running it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit check maniskill_ppo_mlp_resnet_reward \\
      reward.model.model_path=logs/my_run/checkpoints/best_model
  plaudit check RLinf/examples/embodiment/config/maniskill_ppo_mlp.yaml
  plaudit check my.yaml --json --allow unused-key

Exit codes: 0 nothing worse than a note, 1 a warning or an error was found,
2 the config cannot be read.
docs/check.md explains every code.")]
pub struct Command {
    /// Which config.
    #[command(flatten)]
    config: ConfigArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Leave out findings with this code (repeat it for several)
    #[arg(long, value_name = "CODE")]
    allow: Vec<String>,
}

impl Command {
    /// Does it.
    pub fn run(self, verbosity: Verbosity) -> Result<(), Failure> {
        let asked = RequestedConfig::from_args(&self.config)?;
        let loaded = config::load(&asked.disk, &asked.request)?;
        let mut examined = examine(&loaded);
        examined.findings.retain(|finding| !self.allow.iter().any(|code| code == finding.code));
        let worst = examined.findings.iter().map(|finding| finding.severity).max();
        if self.json {
            let text =
                serde_json::to_string_pretty(&examined).map_err(|error| Failure::runtime(error, None))?;
            console::print(&format!("{text}\n"))?;
        } else {
            console::print(&page(&examined, verbosity))?;
        }
        match worst {
            Some(Severity::Warning | Severity::Error) => Err(Failure::FoundProblems),
            _ => Ok(()),
        }
    }
}

/// What each policy would earn, the findings, and how many of each kind. With `-q`, what is worse than a note.
fn page(examined: &Examined, verbosity: Verbosity) -> String {
    let found: &[Finding] = &examined.findings;
    let mut page = String::new();
    if let Some(earnings) = examined.earnings.as_ref().filter(|_| !verbosity.quiet) {
        page.push_str(&earnings.text());
        page.push('\n');
    }
    for finding in found.iter().filter(|finding| !verbosity.quiet || finding.severity > Severity::Note) {
        page.push_str(&finding.text());
        page.push('\n');
    }
    let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
    let kinds = [Severity::Error, Severity::Warning, Severity::Note];
    let counts = kinds.map(|kind| (count(kind), kind.word()));
    let counts: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| plural(*n, word)).collect();
    match counts.is_empty() {
        true => page.push_str("nothing found\n"),
        false => page.push_str(&format!("{}\n", counts.join(", "))),
    }
    page
}

fn plural(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}
