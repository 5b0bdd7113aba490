//! Files that are complete or absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::encode::Encoded;
use super::error::{StoreError, writing};

/// How hidden files end that are not yet whole.
pub(super) const PARTIAL: &str = ".partial";

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Writes a file under a hidden name, flushes it to disk, and gives it its name.
pub(super) fn write_whole(path: &Path, content: &Encoded<'_>) -> Result<(), StoreError> {
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}-{number}{PARTIAL}", std::process::id()));
    let written = write_and_rename(&temporary, path, content);
    if written.is_err() {
        fs::remove_file(&temporary).ok();
    }
    written.map_err(writing(path))
}

fn write_and_rename(temporary: &Path, path: &Path, content: &Encoded<'_>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(temporary)?;
    for part in content.parts() {
        file.write_all(part)?;
    }
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, path)?;
    sync_folder(path);
    Ok(())
}

/// A name is on disk once its folder is. Systems that cannot flush folders do without.
pub(super) fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
        folder.sync_all().ok();
    }
}
