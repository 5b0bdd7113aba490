//! Files of lines that are only ever appended to: what a person said is on the disk before the next question is asked.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of one kind of line.
pub(crate) struct LineFile {
    path: PathBuf,
    /// One line at a time.
    writing: Mutex<()>,
}

impl LineFile {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, writing: Mutex::new(()) }
    }

    /// Appends a line; when this returns, it is on the disk.
    pub(crate) fn append(&self, value: &impl Serialize) -> io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map(fs::create_dir_all).transpose()?;
        let is_new = !self.path.exists();
        let mut file = File::options().create(true).append(true).read(true).open(&self.path)?;
        let mut line = Vec::new();
        // What a process was writing when it was killed stays a line of its own.
        if file.seek(SeekFrom::End(-1)).is_ok() {
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                line.push(b'\n');
            }
        }
        serde_json::to_writer(&mut line, value)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_all()?;
        match folder.filter(|_| is_new) {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }

    /// All lines. One that makes no sense, such as one that was being written when the machine stopped, is left out.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> io::Result<Vec<T>> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        Ok(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_costs_that_line_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/lines.jsonl");
        let lines = LineFile::at(path.clone());
        assert_eq!(lines.read::<[u8; 3]>().unwrap(), [[0; 3]; 0]);
        lines.append(&[1, 2, 3]).unwrap();
        fs::write(&path, [&fs::read(&path).unwrap()[..], b"[4, 5"].concat()).unwrap();
        lines.append(&[7, 8, 9]).unwrap();
        assert_eq!(lines.read::<[u8; 3]>().unwrap(), [[1, 2, 3], [7, 8, 9]]);
    }
}
