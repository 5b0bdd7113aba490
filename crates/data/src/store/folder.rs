//! The store itself: a folder, its manifest, and the files beside it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use plaudit_pyfiles::atomic_file::{AtomicFile, clear_leftovers_in};

use super::columns::ColumnFile;
use super::encode::{Encoded, encode};
use super::error::{StoreError, reading, writing};
use super::id::EpisodeId;
use super::labels::{self, Labels, StoredLabels};
use super::manifest::{Entry, LabelEntry, Line, Manifest, Origin};
use super::stored::StoredEpisode;
use crate::episode::{Episode, claim};

pub(super) const MANIFEST: &str = "manifest.jsonl";
pub(super) const EPISODES: &str = "episodes";
pub(super) const LABELS: &str = "labels";
pub(super) const EXTENSION: &str = "safetensors";

/// A folder of episodes, named by their contents. See the [module](super).
///
/// Several processes may add to one store at a time, and others may read: what one adds, the others see when they
/// open it again or add something themselves.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    manifest: Manifest,
    /// Files whose hashes were found right since the store was opened.
    checked: Mutex<HashSet<EpisodeId>>,
}

impl Store {
    /// Makes a new store in a folder that is empty or not there yet. `licence` holds for all episodes that name no
    /// other.
    ///
    /// # Errors
    /// When something is there already, or nothing can be written there.
    pub fn create(path: impl AsRef<Path>, licence: Option<&str>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        // Whoever collects holds the folder before it is a store.
        if is_store(path) || !(path.is_dir() && claim::is_free(path).map_err(reading(path))?) {
            check_free(path)?;
        }
        make_folders(path)?;
        let manifest = Manifest::create(&path.join(MANIFEST), licence, &[])?;
        Ok(Self { path: path.into(), manifest, checked: Mutex::default() })
    }

    /// Opens a store. Episodes are opened, and checked, one by one.
    ///
    /// # Errors
    /// When there is none, or its manifest is damaged or of a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref();
        if !is_store(path) {
            return Err(StoreError::NoStore { path: path.into() });
        }
        let manifest = Manifest::open(&path.join(MANIFEST))?;
        Ok(Self { path: path.into(), manifest, checked: Mutex::default() })
    }

    /// Whether a folder looks like a store.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        is_store(path.as_ref())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The licence of all episodes that name no other.
    pub fn licence(&self) -> Option<&str> {
        self.manifest.licence.as_deref()
    }

    /// What the store as a whole is: of a dataset made by [`convert_images`](crate::convert::convert_images) its
    /// metadata, with the leakage between training and validation.
    pub fn about(&self) -> Option<&serde_json::Value> {
        self.manifest.about.as_ref()
    }

    /// What is known of every episode, in the order in which they were added.
    pub fn episodes(&self) -> &[Entry] {
        &self.manifest.entries
    }

    /// Adds an episode, unless it is there already. When this returns, it is on disk.
    ///
    /// # Errors
    /// When its parts do not fit together, or it cannot be written.
    pub fn add(&mut self, episode: &Episode, origin: &Origin) -> Result<EpisodeId, StoreError> {
        let encoded = encode(episode)?;
        let id = encoded.id();
        self.write(&self.episode_path(id), &encoded)?;
        if self.manifest.entry(id).is_none() {
            let entry = Entry::new(id, encoded.bytes(), episode, origin);
            self.manifest.append(&Line::Episode(entry), |manifest| manifest.entry(id).is_some())?;
        }
        Ok(id)
    }

    /// Adds labels to an episode, in a file of their own. Those of the same name are replaced.
    ///
    /// # Errors
    /// When there is no such episode, when there is not one number per entry, or when they cannot be written.
    pub fn add_labels(&mut self, id: EpisodeId, labels: &Labels) -> Result<(), StoreError> {
        let encoded = labels::encode(labels, id, self.entry(id)?.entries)?;
        let file = encoded.id();
        self.write(&self.labels_path(file), &encoded)?;
        let entry = LabelEntry { episode: id, name: labels.name.clone(), file, by: labels.by.clone() };
        let known =
            |manifest: &Manifest| manifest.entry(id).is_some_and(|episode| episode.labels.contains(&entry));
        self.manifest.append(&Line::Labels(entry.clone()), known)
    }

    /// Opens an episode with its labels. Everything is checked the first time: its header, its size, and the hash of
    /// all its bytes.
    ///
    /// # Errors
    /// When there is no such episode, or its file is missing, cut short, changed or damaged.
    pub fn episode(&self, id: EpisodeId) -> Result<StoredEpisode, StoreError> {
        let entry = self.entry(id)?;
        let episode = StoredEpisode::open(&self.episode_path(id), id, entry.batch_position)?;
        let open = |labels: &LabelEntry| {
            StoredLabels::open(&self.labels_path(labels.file), &labels.name, id, episode.entries())
        };
        let labels = entry.labels.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        self.check_once(id, episode.file(), || self.episode_path(id))?;
        for (labels, entry) in labels.iter().zip(&entry.labels) {
            self.check_once(entry.file, labels.file(), || self.labels_path(entry.file))?;
        }
        Ok(episode.with_labels(labels))
    }

    /// Reads all of a file and compares its hash with its name, unless that was done before.
    fn check_once(
        &self,
        id: EpisodeId,
        file: &ColumnFile,
        path: impl Fn() -> PathBuf,
    ) -> Result<(), StoreError> {
        // Whoever panicked with this in hand left it whole: an entry is added or not.
        let known = || self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if !known().contains(&id) {
            file.check_hash(id).map_err(|damage| damage.in_file(&path()))?;
            known().insert(id);
        }
        Ok(())
    }

    /// Removes what writers that were killed left unfinished. Returns how many files.
    pub fn clear_leftovers(&self) -> usize {
        [EPISODES, LABELS].iter().map(|folder| clear_leftovers_in(&self.path.join(folder))).sum()
    }

    pub(super) fn episode_path(&self, id: EpisodeId) -> PathBuf {
        episode_path(&self.path, id)
    }

    pub(super) fn labels_path(&self, id: EpisodeId) -> PathBuf {
        self.path.join(LABELS).join(format!("{id}.{EXTENSION}"))
    }

    fn entry(&self, id: EpisodeId) -> Result<&Entry, StoreError> {
        self.manifest.entry(id).ok_or_else(|| StoreError::Unknown { path: self.path.clone(), id })
    }

    /// Writes a file unless it is there. One of another size is damaged, and is replaced.
    fn write(&self, path: &Path, encoded: &Encoded<'_>) -> Result<(), StoreError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.len() == encoded.bytes() => Ok(()),
            _ => AtomicFile::write(path, encoded.parts()).map_err(writing(path)),
        }
    }
}

/// Where an episode of the store at `store` lies.
pub(super) fn episode_path(store: &Path, id: EpisodeId) -> PathBuf {
    store.join(EPISODES).join(format!("{id}.{EXTENSION}"))
}

/// An error if a store or anything else is at `path` already.
pub(super) fn check_free(path: &Path) -> Result<(), StoreError> {
    if is_store(path) {
        return Err(StoreError::Exists { path: path.into() });
    }
    if path.exists() && fs::read_dir(path).map_err(reading(path))?.next().is_some() {
        return Err(StoreError::NotEmpty { path: path.into() });
    }
    Ok(())
}

/// The folders of a store.
pub(super) fn make_folders(path: &Path) -> Result<(), StoreError> {
    [EPISODES, LABELS]
        .iter()
        .try_for_each(|folder| fs::create_dir_all(path.join(folder)))
        .map_err(writing(path))
}

fn is_store(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}
