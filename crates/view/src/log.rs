//! Reading `events.jsonl` back.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::line::{Entry, read_line};
use crate::run_dir::RunDir;

/// The events of a run, one after the other, while or after it runs.
///
/// A last line that is not finished (the run is writing it now, or was killed) is no error: the log ends before it,
/// and [`EventLog::unfinished`] tells. Anything else that is no event is an error with its file and line.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    lines: BufReader<File>,
    line: u64,
    unfinished: Option<usize>,
}

impl EventLog {
    /// Opens the log of a run. Images stay on disk, under the name in [`Entry::file`].
    ///
    /// # Errors
    /// [`LogError::Read`] when the file cannot be opened.
    pub fn open(run: &RunDir) -> Result<Self, LogError> {
        let path = run.events();
        let file = File::open(&path).map_err(|source| LogError::Read { path: path.clone(), source })?;
        let lines = BufReader::new(file);
        Ok(Self { path, lines, line: 0, unfinished: None })
    }

    /// How many bytes of an unfinished line end the log. Known once every entry was read.
    #[must_use]
    pub fn unfinished(&self) -> Option<usize> {
        self.unfinished
    }

    fn read(&mut self) -> Result<Option<Entry>, LogError> {
        let mut line = Vec::new();
        let read = self.lines.read_until(b'\n', &mut line);
        read.map_err(|source| LogError::Read { path: self.path.clone(), source })?;
        if line.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        let whole = line.last() == Some(&b'\n');
        match read_line(&line) {
            Ok(entry) => Ok(Some(entry)),
            Err(_) if !whole => {
                self.unfinished = Some(line.len());
                Ok(None)
            }
            Err(source) => Err(LogError::Line { path: self.path.clone(), line: self.line, source }),
        }
    }
}

impl Iterator for EventLog {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// What can go wrong while reading a log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}; check that the path is the directory of a run", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is no event.
    #[error(
        "{}:{line}: not an event: {source}; a newer plaudit may have written it, or an editor changed it: remove the line to read the rest",
        .path.display()
    )]
    Line {
        /// The log.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
}

impl LogError {
    /// The file it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. } | Self::Line { path, .. } => path,
        }
    }
}
