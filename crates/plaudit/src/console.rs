//! Console output: the only place that writes to the terminal, apart from the live view.

use std::io::{ErrorKind, IsTerminal, Write};

use crate::cli::Verbosity;
use crate::config::Notice;
use crate::failure::Failure;

/// Results, for people and for pipes. A reader that went away (`| head`) is not an error; a full disk is.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::runtime(format!("cannot write the result: {error}"), None))
        }
        _ => Ok(()),
    }
}

/// A line on stderr, beside the result.
pub fn eprintln(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// A line on stderr that the next one replaces. Only for terminals: see [`shows_status`].
pub fn status(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\r\x1b[2K{text}").and_then(|()| out.flush());
}

/// A text on stderr that has the terminal to itself until the next one. Only for terminals.
pub fn screen(text: &str) {
    let mut out = std::io::stderr().lock();
    let _ = write!(out, "\x1b[2J\x1b[H{text}").and_then(|()| out.flush());
}

/// Whether there is a terminal to show a changing line on.
pub fn shows_status() -> bool {
    std::io::stderr().is_terminal()
}

/// Notices about a config: shortened, whole with `-v`, none with `-q`.
pub fn notices(notices: &[Notice], verbosity: Verbosity) {
    if verbosity.quiet {
        return;
    }
    for notice in notices {
        eprintln(&format!(
            "note: {}",
            if verbosity.verbose { notice.text.clone() } else { shortened(&notice.text) }
        ));
    }
}

/// Whether colours are welcome on stderr.
pub fn use_colour() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !dumb && !unwanted
}

const LINES: usize = 4;
const WIDTH: usize = 160;

/// The first lines of a list, each cut to a readable width.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut shown: Vec<String> = lines.iter().take(LINES + 1).map(|line| cut(line)).collect();
    if lines.len() > LINES + 1 {
        shown.push(format!("  … and {} more lines (-v shows all)", lines.len() - LINES - 1));
    }
    shown.join("\n")
}

fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.into();
    }
    let kept: String = line.chars().take(WIDTH - 1).collect();
    format!("{kept}…")
}
