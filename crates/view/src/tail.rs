//! Following `events.jsonl` while another process writes it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::line::{Entry, read_line};
use crate::log::LogError;
use crate::run_dir::RunDir;

/// A line that grows beyond this without an end is no event.
const LONGEST_LINE: u64 = 64 << 20;

/// The events of a run that another process writes: each call gives those that are new.
#[derive(Debug)]
pub struct EventTail {
    path: PathBuf,
    /// Bytes that were read, up to the end of a line.
    read: u64,
    line: u64,
}

impl EventTail {
    /// From the first event on, of the run in this folder. It need not be there yet.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self { path: RunDir::events_in(folder), read: 0, line: 0 }
    }

    /// The events since the last call. A line that is being written comes with the next one.
    ///
    /// # Errors
    /// [`LogError`] when the log cannot be read, or a line is no event.
    pub fn news(&mut self) -> Result<Vec<Entry>, LogError> {
        let unreadable = |source| LogError::Read { path: self.path.clone(), source };
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        // A run that goes on sets a half-written line aside, so that the log may have become shorter, but not
        // before `read`.
        file.seek(SeekFrom::Start(self.read)).map_err(unreadable)?;
        let mut bytes = Vec::new();
        file.take(LONGEST_LINE).read_to_end(&mut bytes).map_err(unreadable)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut entries = Vec::new();
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            self.line += 1;
            let entry = read_line(line).map_err(|source| LogError::Line {
                path: self.path.clone(),
                line: self.line,
                source,
            })?;
            entries.push(entry);
        }
        self.read += whole as u64;
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn half_a_line_comes_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::at(&dir.path().join("run")).unwrap();
        let mut tail = EventTail::of(run.path());
        assert!(tail.news().unwrap().is_empty());
        let line = r#"{"wall_secs":1,"elapsed_secs":0.5,"event":"progress","step":3}"#;
        let mut file = File::options().append(true).open(run.events()).unwrap();
        write!(file, "{line}\n{}", &line[..20]).unwrap();
        assert_eq!(tail.news().unwrap().len(), 1);
        assert!(tail.news().unwrap().is_empty());
        writeln!(file, "{}", &line[20..]).unwrap();
        assert_eq!(tail.news().unwrap().len(), 1);
        writeln!(file, "{{}}").unwrap();
        let error = tail.news().unwrap_err().to_string();
        assert!(error.contains("events.jsonl:3"), "{error}");
    }
}
