//! The command line of plaudit.

use std::process::ExitCode;

use clap::Parser;
use miette::{GraphicalReportHandler, GraphicalTheme};
use plaudit::cli::{Cli, Command};
use plaudit::failure::Failure;
use plaudit::{console, other_flags};
use plaudit_nn::alloc::CachingAllocator;

/// Caches what a training step frees for the next step.
#[global_allocator]
static MEMORY: CachingAllocator = CachingAllocator::new();

/// Freed bytes that commands which run networks may keep: a step of ResNet-18 on 64 images needs some 1.5 GiB.
const NETWORK_CACHE_BYTES: usize = 2 << 30;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let words: Vec<String> =
                std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
            let _ = error.print();
            if let Some(advice) = other_flags::advice(&error, &words) {
                console::eprintln(&format!("\n  help: {advice}"));
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    plaudit::device::set_places();
    MEMORY.set_cache_limit(cache_bytes(&cli.command));
    let done = match cli.command {
        Command::Demo(command) => command.run(cli.verbosity),
        Command::Config(command) => command.run(cli.verbosity),
        Command::Collect(command) => command.run(cli.verbosity),
        Command::Dataset(command) => command.run(cli.verbosity),
        Command::Train(command) => command.run(cli.verbosity),
        Command::Reward(command) => command.run(cli.verbosity),
        Command::Serve(command) => command.run(cli.verbosity),
        Command::Robot(command) => command.run(cli.verbosity),
        #[cfg(unix)]
        Command::Cluster(command) => command.run(cli.verbosity),
        Command::Eval(command) => command.run(cli.verbosity),
        Command::Check(command) => command.run(cli.verbosity),
        Command::Report(command) => command.run(),
        Command::Device(command) => command.run(),
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
fn cache_bytes(command: &Command) -> usize {
    match command {
        Command::Train(_) | Command::Reward(_) | Command::Serve(_) => NETWORK_CACHE_BYTES,
        _ => 0,
    }
}

fn report(failure: &Failure) {
    if failure.is_reported() {
        return;
    }
    let theme =
        if console::use_colour() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_width(110).with_context_lines(1);
    if handler.render_report(&mut text, failure).is_err() {
        text = failure.to_string();
    }
    console::eprintln(&text);
}
