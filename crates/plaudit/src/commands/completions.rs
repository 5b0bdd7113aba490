//! `plaudit completions`.

use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::config::recipes;
use crate::console;
use crate::failure::Failure;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit completions bash > \\
      ~/.local/share/bash-completion/completions/plaudit
  plaudit completions zsh > ~/.zfunc/_plaudit
  plaudit completions fish > ~/.config/fish/completions/plaudit.fish")]
pub struct Command {
    /// The shell
    shell: Shell,
}

impl Command {
    /// Prints the script.
    pub fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut offering_recipes(Cli::command()), "plaudit", &mut script);
        console::print(&String::from_utf8_lossy(&script))
    }
}

/// Every command that takes a config, with the recipes' names to choose from. For scripts only: any file is taken too.
fn offering_recipes(mut command: clap::Command) -> clap::Command {
    let below: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_string()).collect();
    for name in below {
        command = command.mut_subcommand(name, offering_recipes);
    }
    if command.get_arguments().any(|argument| argument.get_id() == "words") {
        let names = recipes::summaries().into_iter().map(|(name, _)| name);
        command = command.mut_arg("words", |words| words.value_parser(PossibleValuesParser::new(names)));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_and_zsh_offer_recipes() {
        for shell in [Shell::Bash, Shell::Zsh] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut offering_recipes(Cli::command()), "plaudit", &mut script);
            assert!(String::from_utf8_lossy(&script).contains("pickcube_scripted"), "{shell}");
        }
    }
}
