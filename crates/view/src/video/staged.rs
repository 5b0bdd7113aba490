//! A file that takes its name when it is complete.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::atomic::{sync_parent, temporary_beside};

/// A file under a temporary name. Dropped before it is complete, it is removed.
#[derive(Debug)]
pub(super) struct Staged {
    path: PathBuf,
    temporary: PathBuf,
}

impl Staged {
    /// Starts a file, and the directories on its way.
    pub(super) fn create(path: &Path) -> io::Result<(Self, File)> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let temporary = temporary_beside(path);
        let file = File::create_new(&temporary)?;
        Ok((Self { path: path.to_owned(), temporary }, file))
    }

    /// The name it will have.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name, once its bytes are on the disk.
    pub(super) fn complete(self, file: &File) -> io::Result<()> {
        file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        sync_parent(&self.path);
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        let _ = fs::remove_file(&self.temporary);
    }
}
