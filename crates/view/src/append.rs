//! A file that only grows, by whole pieces.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::run_dir::RunError;

/// A file that grows by whole pieces: each is handed to the system in one go, and a piece that did not fit
/// (disk full) is taken back, so that what follows never continues a broken one.
#[derive(Debug)]
pub(crate) struct Append {
    path: PathBuf,
    file: File,
    /// The length up to the last whole piece.
    whole: u64,
}

/// How long a lock may be held by nobody in particular.
const PATIENCE: Duration = Duration::from_millis(500);

impl Append {
    /// Opens the file at its end, creating it if needed.
    pub(crate) fn open(path: &Path) -> Result<Self, RunError> {
        let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = opened.map_err(|source| RunError::Write { path: path.to_owned(), source })?;
        let whole = file.metadata().map_or(0, |data| data.len());
        Ok(Self { path: path.to_owned(), file, whole })
    }

    /// Makes sure that no other process appends here. The system lets go when this process ends, however it ends.
    pub(crate) fn claim(&self) -> Result<(), RunError> {
        let began = Instant::now();
        loop {
            match self.file.try_lock() {
                // A process that is just being started holds every lock of its parent until it runs its own program.
                Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => thread::sleep(PATIENCE / 50),
                Err(TryLockError::WouldBlock) => return Err(RunError::Busy { path: self.path.clone() }),
                // Some network file systems know no locks; that is no reason to refuse a run.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
            }
        }
    }

    /// Adds one piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), RunError> {
        let pushed = self.file.write_all(piece);
        if let Err(source) = pushed {
            let _ = self.file.set_len(self.whole);
            return Err(RunError::Write { path: self.path.clone(), source });
        }
        self.whole += piece.len() as u64;
        Ok(())
    }

    /// What follows the last newline: the piece a crash cut off, if the pieces are lines.
    pub(crate) fn unfinished_line(&mut self) -> Result<Vec<u8>, RunError> {
        read_unfinished_line(&mut self.file, self.whole)
            .map_err(|source| RunError::Read { path: self.path.clone(), source })
    }

    /// Forgets the last `bytes` bytes.
    pub(crate) fn cut(&mut self, bytes: usize) -> Result<(), RunError> {
        self.whole = self.whole.saturating_sub(bytes as u64);
        let cut = self.file.set_len(self.whole);
        cut.map_err(|source| RunError::Write { path: self.path.clone(), source })
    }
}

/// Reads backwards in blocks until a newline turns up.
fn read_unfinished_line(file: &mut File, length: u64) -> io::Result<Vec<u8>> {
    const BLOCK: u64 = 4096;
    let mut tail = Vec::new();
    let mut start = length;
    while start > 0 {
        let end = start;
        start = end.saturating_sub(BLOCK);
        let mut block = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut block)?;
        let newline = block.iter().rposition(|&byte| byte == b'\n');
        let mut front = block.split_off(newline.map_or(0, |at| at + 1));
        front.append(&mut tail);
        tail = front;
        if newline.is_some() {
            break;
        }
    }
    Ok(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfinished(contents: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, contents).unwrap();
        Append::open(&path).unwrap().unfinished_line().unwrap()
    }

    #[test]
    fn finds_the_unfinished_line_whatever_its_length() {
        assert_eq!(unfinished(b""), b"");
        assert_eq!(unfinished(b"one\n"), b"");
        assert_eq!(unfinished(b"one\ntw"), b"tw");
        assert_eq!(unfinished(b"on"), b"on");
        for length in [4095, 4096, 4097, 10_000] {
            let mut contents = b"one\n".to_vec();
            contents.extend(vec![b'x'; length]);
            assert_eq!(unfinished(&contents).len(), length);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_with_a_hint() {
        let error = Append::open(Path::new("/dev/full")).unwrap().push(b"piece").unwrap_err();
        assert!(error.to_string().contains("free some space"), "{error}");
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let first = Append::open(&path).unwrap();
        first.claim().unwrap();
        let second = Append::open(&path).unwrap();
        assert!(matches!(second.claim(), Err(RunError::Busy { .. })));
        drop(first);
        second.claim().unwrap();
    }
}
