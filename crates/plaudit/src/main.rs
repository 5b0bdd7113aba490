//! The command line of plaudit.

use std::process::ExitCode;

use clap::Parser;
use miette::{GraphicalReportHandler, GraphicalTheme};
use plaudit::cli::{Cli, Command};
use plaudit::failure::Failure;
use plaudit::say;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Config(command) => command.run(cli.volume),
        Command::Collect(command) => command.run(cli.volume),
        Command::Dataset(command) => command.run(cli.volume),
        Command::Train(command) => command.run(cli.volume),
        Command::Reward(command) => command.run(cli.volume),
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
