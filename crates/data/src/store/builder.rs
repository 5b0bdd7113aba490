//! A store that is made in one go: it lies under a hidden name until all of it is on disk.
//!
//! Episodes come from many threads, and their images piece by piece, so that memory does not follow the length of an
//! episode. Files are flushed together at the end, which takes a fraction of the time of flushing each.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use plaudit_core::FrameShape;
use plaudit_pyfiles::atomic_file::{PARTIAL, sync_folder_of};
use rayon::prelude::*;
use serde_json::Value;

use super::encode::encode_with_images_later;
use super::error::{StoreError, reading, writing};
use super::folder::{EPISODES, MANIFEST, check_free, episode_path, make_folders};
use super::id::{EpisodeId, Hasher};
use super::manifest::{Entry, Line, Manifest, Origin};
use crate::episode::Episode;

/// A store in the making. Dropping it without [`finish`](Self::finish) leaves nothing behind.
pub(crate) struct StoreBuilder {
    target: PathBuf,
    staging: PathBuf,
    /// The lock shows other processes that this folder is in use.
    _lock: Option<File>,
    counter: AtomicU64,
}

impl StoreBuilder {
    /// Begins a store that will be at `target`, where nothing may be yet.
    pub(crate) fn create(target: &Path) -> Result<Self, StoreError> {
        check_free(target)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let staging = target.with_file_name(format!(".{name}.{}{PARTIAL}", std::process::id()));
        make_folders(&staging)?;
        let lock = File::open(&staging).ok().filter(|folder| folder.try_lock().is_ok());
        Ok(Self { target: target.into(), staging, _lock: lock, counter: AtomicU64::new(0) })
    }

    /// Begins an episode of one camera. Its images follow.
    pub(crate) fn begin<'a>(
        &'a self,
        episode: &'a Episode,
        camera: &str,
        shape: FrameShape,
    ) -> Result<OpenEpisode<'a>, StoreError> {
        let encoded = encode_with_images_later(episode, camera, shape)?;
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let path = self.staging.join(EPISODES).join(format!(".{number}{PARTIAL}"));
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(writing(&path))?;
        let mut open = OpenEpisode {
            builder: self,
            episode,
            bytes: encoded.bytes(),
            file: BufWriter::with_capacity(1 << 18, file),
            hasher: Hasher::default(),
            path,
        };
        encoded.parts().try_for_each(|part| open.push(part))?;
        Ok(open)
    }

    /// Flushes everything to disk and gives the store its name. Episodes are listed in the order given; of those that
    /// are the same to the byte, the first.
    pub(crate) fn finish(self, episodes: Vec<Entry>, about: Value) -> Result<(), StoreError> {
        let lines: Vec<Line> =
            std::iter::once(Line::About(about)).chain(episodes.into_iter().map(Line::Episode)).collect();
        Manifest::create(&self.staging.join(MANIFEST), None, &lines)?;
        let folder = self.staging.join(EPISODES);
        let files = fs::read_dir(&folder).map_err(reading(&folder))?;
        let files = files.collect::<Result<Vec<_>, _>>().map_err(reading(&folder))?;
        files.par_iter().try_for_each(|file| {
            let path = file.path();
            File::open(&path).and_then(|file| file.sync_all()).map_err(writing(&path))
        })?;
        sync_folder_of(&folder.join(MANIFEST));
        if self.target.exists() {
            fs::remove_dir(&self.target).map_err(writing(&self.target))?; // it is empty
        }
        fs::rename(&self.staging, &self.target).map_err(writing(&self.target))?;
        sync_folder_of(&self.target);
        Ok(())
    }
}

impl Drop for StoreBuilder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.staging).ok();
    }
}

/// An episode whose images are being written.
pub(crate) struct OpenEpisode<'a> {
    builder: &'a StoreBuilder,
    episode: &'a Episode,
    bytes: u64,
    file: BufWriter<File>,
    hasher: Hasher,
    path: PathBuf,
}

impl OpenEpisode<'_> {
    /// More of its images, in order.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(writing(&self.path))
    }

    /// Gives it its name, now that all of it is known.
    pub(crate) fn close(self, origin: &Origin) -> Result<Entry, StoreError> {
        let Self { builder, episode, bytes, file, hasher, path } = self;
        let file = file.into_inner().map_err(|error| writing(&path)(error.into_error()))?;
        let found = file.metadata().map_err(writing(&path))?.len();
        if found != bytes {
            let (what, found, expected) = ("its images".into(), format!("{found} bytes"), format!("{bytes}"));
            return Err(StoreError::Misfit { what, found, expected });
        }
        let id: EpisodeId = hasher.finish();
        fs::rename(&path, episode_path(&builder.staging, id)).map_err(writing(&path))?;
        Ok(Entry::new(id, bytes, episode, origin))
    }
}
