//! Whole files appear at once or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::run_dir::RunError;

/// Writes a whole file so that a reader, a crash or a power cut sees the old file or the new one, never half.
///
/// The bytes go to a temporary file beside `path`, reach the disk, and are then renamed into place.
///
/// # Errors
/// [`RunError::Write`] when any of that fails; the old file is then untouched and no temporary file is left.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RunError> {
    let temporary = temporary_beside(path);
    let written = write_and_sync(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(RunError::Write { path: path.to_owned(), source });
    }
    sync_parent(path);
    Ok(())
}

fn write_and_sync(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name no other writer uses: hidden, and unique within and across processes.
pub(crate) fn temporary_beside(path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.{n}.tmp", std::process::id()))
}

/// Makes the rename itself durable. Not every file system lets a directory be synced; the file is whole anyway.
pub(crate) fn sync_parent(path: &Path) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(directory) = File::open(parent) {
        let _ = directory.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_file_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_names_the_file_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("taken");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("inside"), b"").unwrap();
        let error = write_atomically(&target, b"bytes").unwrap_err();
        assert!(error.to_string().contains("taken"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
