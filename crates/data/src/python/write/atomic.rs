//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file under a temporary name in the same folder. [`commit`](Self::commit) flushes it to disk and gives it
/// its name; dropping it without that removes it.
pub struct AtomicFile {
    target: PathBuf,
    temporary: PathBuf,
    file: BufWriter<File>,
    committed: bool,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl AtomicFile {
    /// Begins a file that will be called `target`.
    ///
    /// # Errors
    /// When no file can be made in that folder.
    pub fn create(target: &Path) -> io::Result<Self> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.partial", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { target: target.to_owned(), temporary, file, committed: false })
    }

    /// Gives the file its name, once all of it is on disk.
    ///
    /// # Errors
    /// When the system refuses; nothing changed under the name then.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.target)?;
        self.committed = true;
        // The new name is on disk once its folder is. A folder that cannot be opened was no reason to fail.
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            folder.sync_all().ok();
        }
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            fs::remove_file(&self.temporary).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.pt");
        fs::write(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["train.pt"]);
    }

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("train.pt");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(&[0; 1 << 20]).unwrap();
        assert_eq!(names(dir.path()).len(), 1);
        drop(file);
        assert!(names(dir.path()).is_empty());
    }
}
