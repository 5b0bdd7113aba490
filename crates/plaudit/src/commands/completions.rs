//! `plaudit completions`.

use std::io;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;

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
        clap_complete::generate(self.shell, &mut Cli::command(), "plaudit", &mut io::stdout().lock());
        Ok(())
    }
}
