//! `plaudit completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::say;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plaudit completions bash > ~/.local/share/bash-completion/completions/plaudit
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
        clap_complete::generate(self.shell, &mut Cli::command(), "plaudit", &mut script);
        say::out(&String::from_utf8_lossy(&script))
    }
}
