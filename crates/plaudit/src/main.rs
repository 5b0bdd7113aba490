//! The command line of plaudit.

use std::process::ExitCode;

use clap::Parser;
use miette::{GraphicalReportHandler, GraphicalTheme};
use plaudit::cli::{Cli, Command};
use plaudit::failure::Failure;
use plaudit::say;
use plaudit_nn::alloc::Reusing;

/// Keeps what a step of training frees for the next step.
#[global_allocator]
static MEMORY: Reusing = Reusing::new();

/// Freed bytes that commands which run networks may keep: a step of ResNet-18 on 64 pictures needs some 1.5 GiB.
const KEPT_BY_NETWORKS: usize = 2 << 30;

fn main() -> ExitCode {
    let cli = Cli::parse();
    MEMORY.keep_at_most(kept_by(&cli.command));
    let done = match cli.command {
        Command::Demo(command) => command.run(cli.volume),
        Command::Config(command) => command.run(cli.volume),
        Command::Collect(command) => command.run(cli.volume),
        Command::Dataset(command) => command.run(cli.volume),
        Command::Train(command) => command.run(cli.volume),
        Command::Reward(command) => command.run(cli.volume),
        Command::Serve(command) => command.run(cli.volume),
        Command::Eval(command) => command.run(cli.volume),
        Command::Check(command) => command.run(cli.volume),
        Command::Report(command) => command.run(),
        Command::Completions(command) => command.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Other commands use large blocks once, and give them back at once.
fn kept_by(command: &Command) -> usize {
    match command {
        Command::Train(_) | Command::Reward(_) | Command::Serve(_) => KEPT_BY_NETWORKS,
        _ => 0,
    }
}

fn report(failure: &Failure) {
    if failure.is_told() {
        return;
    }
    let theme = if say::colour() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_width(110).with_context_lines(1);
    if handler.render_report(&mut text, failure).is_err() {
        text = failure.to_string();
    }
    say::aside(&text);
}
