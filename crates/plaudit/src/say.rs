//! The only place that writes to the terminal, apart from the live view.

use std::io::{IsTerminal, Write};

use crate::cli::Volume;
use crate::config::Notice;

/// Results, for people and for pipes. A reader that went away (`| head`) is not an error.
pub fn out(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// A remark beside the result.
pub fn aside(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Notices about a config: shortened, whole with `-v`, none with `-q`.
pub fn notices(notices: &[Notice], volume: Volume) {
    if volume.quiet {
        return;
    }
    for notice in notices {
        aside(&format!(
            "note: {}",
            if volume.verbose { notice.text.clone() } else { shortened(&notice.text) }
        ));
    }
}

/// Whether colours are welcome on stderr.
pub fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
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
