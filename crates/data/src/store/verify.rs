//! Reading everything, and checking every hash.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use plaudit_pyfiles::atomic_file::PARTIAL;

use super::error::{Damage, StoreError, reading};
use super::folder::{EPISODES, LABELS, Store};
use super::labels::StoredLabels;
use super::manifest::Entry;
use super::stored::StoredEpisode;

/// What a check of a whole store found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Episodes that are whole.
    pub episodes: usize,
    /// Columns of labels that are whole.
    pub labels: usize,
    /// Everything that is not, each with its file.
    pub problems: Vec<StoreError>,
}

impl Verified {
    /// Whether everything is as it was stored.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

/// So many episodes of so many are checked. Called from many threads.
pub type VerifyProgress<'a> = dyn Fn(usize, usize) + Sync + 'a;

impl Store {
    /// Reads every file, checks its hash and what the manifest says of it, and looks for files that no line lists.
    ///
    /// # Errors
    /// When the folder itself cannot be listed. Damaged files are in the result.
    pub fn verify(&self, progress: &VerifyProgress<'_>) -> Result<Verified, StoreError> {
        let (done, total) = (AtomicUsize::new(0), self.episodes().len());
        let check = |entry: &Entry| {
            let checked = self.verify_episode(entry);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            checked
        };
        let checked: Vec<Vec<Result<Kind, StoreError>>> = self.episodes().par_iter().map(check).collect();
        let mut verified = Verified::default();
        for one in checked.into_iter().flatten() {
            match one {
                Ok(Kind::Episode) => verified.episodes += 1,
                Ok(Kind::Labels) => verified.labels += 1,
                Err(problem) => verified.problems.push(problem),
            }
        }
        verified.problems.extend(self.unlisted_files()?);
        Ok(verified)
    }

    fn verify_episode(&self, entry: &Entry) -> Vec<Result<Kind, StoreError>> {
        let path = self.episode_path(entry.id);
        let episode = StoredEpisode::open(&path, entry.id, entry.batch_position).and_then(|episode| {
            episode.file().check_hash(entry.id).map_err(|damage| damage.in_file(&path))?;
            check_entry(&episode, entry).map_err(|damage| damage.in_file(&path))?;
            Ok(Kind::Episode)
        });
        let labels = entry.labels.iter().map(|labels| {
            let path = self.labels_path(labels.file);
            let stored = StoredLabels::open(&path, &labels.name, entry.id, entry.entries)?;
            stored.file().check_hash(labels.file).map_err(|damage| damage.in_file(&path))?;
            Ok(Kind::Labels)
        });
        std::iter::once(episode).chain(labels).collect()
    }

    /// Files that are there and should not be. Labels that were replaced may stay.
    fn unlisted_files(&self) -> Result<Vec<StoreError>, StoreError> {
        let listed: HashSet<PathBuf> =
            self.episodes().iter().map(|entry| self.episode_path(entry.id)).collect();
        let mut problems = Vec::new();
        for folder in [EPISODES, LABELS] {
            for path in list(&self.path().join(folder))? {
                if path.to_string_lossy().ends_with(PARTIAL) {
                    problems.push(Damage::Leftover.in_file(&path));
                } else if folder == EPISODES && !listed.contains(&path) {
                    problems.push(Damage::Unlisted.in_file(&path));
                }
            }
        }
        Ok(problems)
    }
}

enum Kind {
    Episode,
    Labels,
}

fn check_entry(episode: &StoredEpisode, entry: &Entry) -> Result<(), Damage> {
    let differs = |field, found: String, expected: String| Damage::Manifest { field, found, expected };
    if episode.entries() != entry.entries {
        return Err(differs("length", episode.entries().to_string(), entry.entries.to_string()));
    }
    if episode.success() != entry.success {
        return Err(differs("success", episode.success().to_string(), entry.success.to_string()));
    }
    Ok(())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = fs::read_dir(folder).map_err(reading(folder))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()).map_err(reading(folder)))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}
