//! The ledger of a run, as a file: which segments its learner took in, one line each.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plaudit_cluster::worker::LedgerLine;

/// The ledger in a run directory.
#[derive(Debug, Clone)]
pub(crate) struct LedgerFile(PathBuf);

impl LedgerFile {
    pub(crate) fn in_run(run_dir: &Path) -> Self {
        Self(run_dir.join("ledger.jsonl"))
    }

    /// What learners of this run recorded; a line that was cut off by a kill or a full disk is none.
    pub(crate) fn lines(&self) -> io::Result<Vec<LedgerLine>> {
        match std::fs::read_to_string(&self.0) {
            Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The file to go on writing in: a line that was cut off is ended, so that it spoils no other.
    pub(crate) fn open(&self) -> io::Result<File> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(&self.0)?;
        if file.metadata()?.len() > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_spoils_no_other() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let ledger = LedgerFile::in_run(folder.path());
        assert_eq!(ledger.lines()?, []);
        ledger.open()?.write_all(b"{\"event\":\"start\",\"next\":[0]}\n{\"event\":\"seg")?;
        ledger.open()?.write_all(b"{\"event\":\"start\",\"next\":[0]}\n")?;
        ledger.open()?;
        assert_eq!(ledger.lines()?, vec![LedgerLine::Start { next: vec![0] }; 2]);
        Ok(())
    }
}
