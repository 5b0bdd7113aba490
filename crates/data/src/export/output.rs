//! A folder that appears whole or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use plaudit_pyfiles::atomic_file::sync_folder_of;

use super::ExportError;

/// A folder in the making, under a hidden name beside the one it gets. It goes when it is dropped without that.
pub(super) struct OutputFolder {
    target: PathBuf,
    work: PathBuf,
}

impl OutputFolder {
    /// Begins a folder that is not there yet.
    pub(super) fn create(target: &Path) -> Result<Self, ExportError> {
        if target.symlink_metadata().is_ok() {
            return Err(ExportError::Exists { path: target.into() });
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let work = target.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        fs::create_dir_all(&work).map_err(ExportError::write(&work))?;
        Ok(Self { target: target.into(), work })
    }

    /// Where files are written until all are there.
    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// Gives the folder `made`, which is the one worked in or lies in it, its name.
    pub(super) fn commit(&self, made: Option<&Path>) -> Result<(), ExportError> {
        let Some(made) = made else { return Err(ExportError::NothingLeft { skipped: 0 }) };
        if self.target.symlink_metadata().is_ok() {
            return Err(ExportError::Exists { path: self.target.clone() });
        }
        fs::rename(made, &self.target).map_err(ExportError::write(&self.target))?;
        sync_folder_of(&self.target);
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        // Nobody is there to hear of it; a hidden folder that stays does no harm.
        let _ = fs::remove_dir_all(&self.work);
    }
}
