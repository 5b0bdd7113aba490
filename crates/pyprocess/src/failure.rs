//! What can go wrong with a Python process, as data: whoever runs one has the words.

use std::io;

use serde::Deserialize;

/// Why a Python process did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// There is no such interpreter.
    Interpreter(io::Error),
    /// Python says what is wrong; the process lives, unless it was starting.
    Reported(Box<PythonError>),
    /// The process ended.
    Died {
        /// How it ended, such as `exited with status 1`.
        how: String,
        /// The end of what it printed.
        output: String,
    },
    /// It did not answer in time and was killed.
    TimedOut {
        /// The end of what it printed, with the place where Python was.
        output: String,
    },
    /// It sent an invalid message and was killed.
    InvalidMessage {
        /// What is wrong with it.
        message: String,
        /// The end of what it printed.
        output: String,
    },
    /// The system refused something.
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// An error that Python reports.
#[derive(Debug, Deserialize)]
pub struct PythonError {
    /// `no_module`, `refused`, `raised`, or a word of the program's own.
    pub kind: String,
    /// The exception's type and message, or an explanation.
    pub error: String,
    /// Where it came from.
    pub traceback: String,
    /// The module that is missing.
    #[serde(default)]
    pub module: String,
    /// The interpreter that misses it.
    #[serde(default)]
    pub executable: String,
    /// Names like the one that is wrong.
    #[serde(default)]
    pub nearest: Vec<String>,
}

/// The last lines of an output, set apart.
#[must_use]
pub fn printed(output: &str) -> String {
    const LINES: usize = 30;
    let lines: Vec<&str> = output.trim_end().lines().collect();
    match lines.len() {
        0 => String::new(),
        count => format!("\nIt printed:\n{}", lines[count.saturating_sub(LINES)..].join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_long_output_is_shown() {
        let output: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let shown = printed(&output);
        assert!(shown.starts_with("\nIt printed:\nline 70\n") && shown.ends_with("line 99"), "{shown}");
        assert_eq!(printed(" \n"), "");
    }
}
