//! Folders that one collection at a time writes to, and which collection that was.
//!
//! Each folder gets a small hidden file. It is locked while episodes are written, and says whose the last of them are:
//! a resumed run finds the numbers it began with, and whether another run has written there since.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use plaudit_pyfiles::atomic_file::clear_leftovers_in;

use super::WriterError;
use crate::file_lock;

/// The hidden file.
pub(crate) const CLAIM: &str = ".plaudit-collect";
/// A longer one is not ours.
const MAX_BYTES: u64 = 4096;

/// Folders that nobody else writes episodes to.
#[derive(Debug)]
pub(crate) struct Claim {
    files: Vec<(PathBuf, File)>,
    run: Option<String>,
    begun: Option<Vec<u64>>,
    unfinished: u64,
}

/// Whose the last episodes are.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClaimRecord {
    /// The run that writes them.
    run: String,
    /// The first numbers it was free to use.
    first: Vec<u64>,
}

/// Removes what a collection that was killed left half-written in a folder, and in those by outcome below it. What lies
/// below a LeRobot rank stays: its hidden shard is taken up again. Returns how many files there were.
fn clear_half_written(folder: &Path) -> usize {
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| {
        !entry.file_name().to_string_lossy().starts_with("rank_")
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    clear_leftovers_in(folder) + below.map(|entry| clear_leftovers_in(&entry.path())).sum::<usize>()
}

impl Claim {
    /// Makes the folders and keeps other collections out. `run` names a collection that can be resumed.
    pub(crate) fn take(folders: &[PathBuf], run: Option<&str>) -> Result<Self, WriterError> {
        let mut files: Vec<(PathBuf, File)> = Vec::new();
        let mut notes = Vec::new();
        let mut unfinished = 0;
        for folder in folders {
            if files.iter().any(|(taken, _)| taken == folder) {
                continue;
            }
            let refused = |source| WriterError::Folder { folder: folder.clone(), source };
            std::fs::create_dir_all(folder).map_err(refused)?;
            let Some(mut file) = file_lock::acquire(&folder.join(CLAIM)).map_err(refused)? else {
                return Err(WriterError::Busy { folder: folder.clone() });
            };
            unfinished += clear_half_written(folder) as u64;
            notes.push(read(&mut file).map_err(refused)?);
            files.push((folder.clone(), file));
        }
        let same = notes.windows(2).all(|pair| pair[0] == pair[1]);
        let note = notes.into_iter().next().flatten().filter(|note| same && Some(&*note.run) == run);
        Ok(Self { files, run: run.map(String::from), begun: note.map(|note| note.first), unfinished })
    }

    /// The numbers this run began with, if nobody else has written here since.
    pub(crate) fn begun(&self) -> Option<&[u64]> {
        self.begun.as_deref()
    }

    /// Files that a killed collection had not finished, and that are removed.
    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished
    }

    /// Notes that the episodes from now on are this run's.
    pub(crate) fn begin(&mut self, first: &[u64]) -> Result<(), WriterError> {
        let note = self.run.as_ref().map(|run| ClaimRecord { run: run.clone(), first: first.to_vec() });
        let text = note.and_then(|note| serde_json::to_string(&note).ok()).unwrap_or_default();
        for (folder, file) in &mut self.files {
            let write = |file: &mut File| -> io::Result<()> {
                file.set_len(0)?;
                file.rewind()?;
                file.write_all(text.as_bytes())?;
                file.sync_data()
            };
            write(file).map_err(|source| WriterError::Folder { folder: folder.clone(), source })?;
        }
        Ok(())
    }
}

/// Anything but a note is no note: then the episodes are nobody's.
fn read(file: &mut File) -> io::Result<Option<ClaimRecord>> {
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

/// Whether a folder holds nothing but a claim to it.
pub(crate) fn is_free(folder: &Path) -> io::Result<bool> {
    for entry in std::fs::read_dir(folder)? {
        if entry?.file_name() != CLAIM {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_writer_and_records_it() {
        let folder = tempfile::tempdir().unwrap();
        let folders = [folder.path().join("a"), folder.path().join("b"), folder.path().join("a")];
        let mut claim = Claim::take(&folders, Some("one")).unwrap();
        assert_eq!(claim.begun(), None);
        claim.begin(&[3, 7]).unwrap();
        let busy = Claim::take(&folders[1..2], None).unwrap_err().to_string();
        assert!(busy.contains("another collection") && busy.contains('b'), "{busy}");
        drop(claim);

        let claim = Claim::take(&folders, Some("one")).unwrap();
        assert_eq!(claim.begun(), Some(&[3, 7][..]));
        drop(claim);
        assert_eq!(Claim::take(&folders, Some("two")).unwrap().begun(), None);
        // Another run in one of the folders is enough.
        Claim::take(&folders[1..2], Some("two")).unwrap().begin(&[9]).unwrap();
        assert_eq!(Claim::take(&folders, Some("one")).unwrap().begun(), None);

        assert!(is_free(&folders[0]).unwrap());
    }
}
