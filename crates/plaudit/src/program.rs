//! The program: from the words of a command line to what is done, shown and returned. The binary is this, and so is the
//! `plaudit` command of the Python package.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::Parser;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use plaudit_nn::alloc::CachingAllocator;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::{console, device, frame_cache, other_flags};

/// Freed bytes that work with networks may keep: a step of ResNet-18 on 64 images needs some 1.5 GiB.
pub const NETWORK_CACHE_BYTES: usize = 2 << 30;

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The exit code.
    pub code: u8,
    /// Why it did not do what it was asked; nothing where it did, or where the user stopped it.
    pub failure: Option<FailureText>,
}

/// A failure in words, as it was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureText {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl FailureText {
    /// The words of a failure.
    #[must_use]
    pub fn of(failure: &Failure) -> Self {
        Self { message: failure.to_string(), hint: failure.help().map(|hint| hint.to_string()) }
    }
}

/// Runs a command line, whose first word is the program's name. `memory` is the allocator of this program.
pub fn run(words: &[OsString], memory: &CachingAllocator) -> Outcome {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return not_understood(words, &error),
    };
    device::set_places();
    frame_cache::set_memory();
    memory.set_cache_limit(cache_bytes(&cli.command));
    match run_command(cli) {
        Ok(()) => Outcome { code: 0, failure: None },
        Err(failure) => {
            report(&failure);
            let shown = (!failure.is_reported()).then(|| FailureText::of(&failure));
            Outcome { code: failure.exit_code(), failure: shown }
        }
    }
}

fn run_command(cli: Cli) -> Result<(), Failure> {
    let verbosity = cli.verbosity;
    match cli.command {
        Command::Demo(command) => command.run(verbosity),
        Command::Init(command) => command.run(),
        Command::Config(command) => command.run(verbosity),
        Command::Collect(command) => command.run(verbosity),
        Command::Dataset(command) => command.run(verbosity),
        Command::Train(command) => command.run(verbosity),
        Command::Sweep(command) => command.run(verbosity),
        Command::Reward(command) => command.run(verbosity),
        Command::Serve(command) => command.run(verbosity),
        Command::Studio(command) => command.run(verbosity),
        Command::Robot(command) => command.run(verbosity),
        #[cfg(unix)]
        Command::Cluster(command) => command.run(verbosity),
        Command::Eval(command) => command.run(verbosity),
        Command::Check(command) => command.run(verbosity),
        Command::Report(command) => command.run(),
        Command::Device(command) => command.run(),
        Command::Completions(command) => command.run(),
    }
}

/// What clap says about words that are no command: help and the version are among it.
fn not_understood(words: &[OsString], error: &clap::Error) -> Outcome {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let _ = error.print();
    let advice = other_flags::advice(error, &words);
    if let Some(advice) = &advice {
        console::eprintln(&format!("\n  help: {advice}"));
    }
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    let text = || FailureText { message: error.to_string().trim().into(), hint: advice };
    Outcome { code, failure: (code != 0).then(text) }
}

/// Other commands use large blocks once, and give them back at once.
fn cache_bytes(command: &Command) -> usize {
    match command {
        Command::Train(_) | Command::Reward(_) | Command::Serve(_) | Command::Studio(_) => {
            NETWORK_CACHE_BYTES
        }
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

static PATH: OnceLock<PathBuf> = OnceLock::new();

/// Says where the program lies, where that is not the running executable: an interpreter that loaded it, say.
pub fn set_path(path: &Path) {
    let _ = PATH.set(path.to_owned());
}

/// Where the program lies, for commands that start it again.
pub(crate) fn path() -> io::Result<PathBuf> {
    PATH.get().map_or_else(std::env::current_exe, |path| Ok(path.clone()))
}
