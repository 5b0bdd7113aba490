//! Decoded frames on disk, for epochs after the first.
//!
//! A file for each video, named by a hash of the video's path, size and time of modification, so that a changed
//! video has another. Frames are slots of one size; each carries a checksum of its pixels. A slot that was never
//! written, or not to its end, fails its checksum and is decoded again: nothing needs to be in order on the disk, and
//! several processes may write at a time, since they write the same.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

/// What a change of the format, or of how frames are decoded, changes.
const VERSION: &str = "plaudit frames 1";
const ENDING: &str = "frames";
/// Before each frame's pixels: a mark and a checksum.
const SLOT_HEAD: usize = 8;
const MARK: [u8; 4] = *b"RGB1";
/// Of what is free on the disk, so much is left: one part in so many.
const LEFT_FREE: u64 = 4;

/// A folder for decoded frames.
#[derive(Debug)]
pub struct DiskCache {
    folder: PathBuf,
    /// What may still be written.
    left: Arc<AtomicU64>,
}

impl DiskCache {
    /// A folder, made if it is not there, that frames may fill up to `bytes`, and never beyond three quarters of what is free
    /// on its disk. Files of videos that were not used for longest go when there is no room.
    ///
    /// # Errors
    /// When the folder cannot be made or listed.
    pub fn open(folder: &Path, bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut files = cache_files(folder)?;
        files.sort_by_key(|(used, _, _)| *used);
        let mut taken: u64 = files.iter().map(|(_, size, _)| size).sum();
        let free = |folder: &Path| {
            rustix::fs::statvfs(folder).map(|found| found.f_bavail.saturating_mul(found.f_frsize))
        };
        let room = bytes.min(taken.saturating_add(free(folder)? / LEFT_FREE * (LEFT_FREE - 1)));
        for (_, size, path) in files {
            if taken <= room {
                break;
            }
            if fs::remove_file(path).is_ok() {
                taken -= size;
            }
        }
        Ok(Self { folder: folder.into(), left: Arc::new(AtomicU64::new(room.saturating_sub(taken))) })
    }

    /// The frames of a video; nothing where they cannot be kept, which costs time and nothing else.
    pub(super) fn frames_of(&self, video: &Path, frame_bytes: usize, frames: usize) -> Option<DiskFrames> {
        let name = name_of(video, frame_bytes, frames)?;
        let path = self.folder.join(format!("{name}.{ENDING}"));
        let frames_file = DiskFrames { path, frame_bytes, frames, left: self.left.clone() };
        // Marks it as used.
        let _ = frames_file.open().ok()?.set_modified(std::time::SystemTime::now());
        Some(frames_file)
    }
}

/// Each file of a cache: when it was used, what it takes on the disk, and its path.
fn cache_files(folder: &Path) -> io::Result<Vec<(std::time::SystemTime, u64, PathBuf)>> {
    use std::os::unix::fs::MetadataExt;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_file() && path.extension().is_some_and(|ending| ending == ENDING) {
            files.push((metadata.modified()?, metadata.blocks() * 512, path));
        }
    }
    Ok(files)
}

fn name_of(video: &Path, frame_bytes: usize, frames: usize) -> Option<String> {
    let (path, metadata) = (fs::canonicalize(video).ok()?, fs::metadata(video).ok()?);
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_nanos();
    let said = format!("{VERSION} {modified} {} {frame_bytes} {frames} {}", metadata.len(), path.display());
    let digest: [u8; 32] = Sha256::digest(said).into();
    Some(digest[..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The decoded frames of one video.
#[derive(Debug)]
pub(super) struct DiskFrames {
    /// Not held open: there are more videos than files that a process may have open.
    path: PathBuf,
    frame_bytes: usize,
    frames: usize,
    left: Arc<AtomicU64>,
}

impl DiskFrames {
    fn open(&self) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.path)
    }

    fn start(&self, at: usize) -> u64 {
        (at as u64) * (self.frame_bytes + SLOT_HEAD) as u64
    }

    /// A frame that is there, and whole.
    pub(super) fn read(&self, at: usize) -> Option<Vec<u8>> {
        let (file, mut head) = (self.open().ok()?, [0; SLOT_HEAD]);
        file.read_exact_at(&mut head, self.start(at)).ok()?;
        if head[..4] != MARK {
            return None;
        }
        let mut pixels = vec![0; self.frame_bytes];
        file.read_exact_at(&mut pixels, self.start(at) + SLOT_HEAD as u64).ok()?;
        (head[4..] == crc32fast::hash(&pixels).to_le_bytes()).then_some(pixels)
    }

    /// Keeps a frame, if there is room. A disk that is full is no reason to stop.
    pub(super) fn write(&self, at: usize, pixels: &[u8]) {
        if at >= self.frames || pixels.len() != self.frame_bytes {
            return;
        }
        // Only frames that were not found whole are decoded, so a mark is another process's, or of a torn slot.
        let need = (pixels.len() + SLOT_HEAD) as u64;
        let take = |left: u64| left.checked_sub(need);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return;
        }
        let mut slot = Vec::with_capacity(need as usize);
        slot.extend_from_slice(&MARK);
        slot.extend_from_slice(&crc32fast::hash(pixels).to_le_bytes());
        slot.extend_from_slice(pixels);
        if self.open().and_then(|file| file.write_all_at(&slot, self.start(at))).is_err() {
            self.left.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use super::*;

    #[test]
    fn frames_are_found_again_until_the_video_changes_and_torn_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (video, cache) = (folder.path().join("a.mp4"), folder.path().join("cache"));
        fs::write(&video, b"one").unwrap();
        let frames = |size| DiskCache::open(&cache, size).unwrap().frames_of(&video, 100, 3).unwrap();
        let first = frames(1 << 20);
        (0..3).for_each(|at| first.write(at, &[at as u8 + 1; 100]));
        assert_eq!(frames(1 << 20).read(2), Some(vec![3; 100]));
        first.open().unwrap().write_all_at(&[9], 50).unwrap();
        assert_eq!((frames(1 << 20).read(0), frames(1 << 20).read(1)), (None, Some(vec![2; 100])));
        fs::write(&video, b"other").unwrap();
        assert_eq!(frames(1 << 20).read(1), None);
    }

    #[test]
    fn nothing_is_written_beyond_the_bound_and_old_files_go() {
        let folder = tempfile::tempdir().unwrap();
        let video = folder.path().join("a.mp4");
        fs::write(&video, b"one").unwrap();
        let cache = folder.path().join("cache");
        let disk = DiskCache::open(&cache, 250).unwrap().frames_of(&video, 100, 3).unwrap();
        (0..3).for_each(|at| disk.write(at, &[7; 100]));
        let there: Vec<bool> = (0..3).map(|at| disk.read(at).is_some()).collect();
        assert_eq!(there, [true, true, false]);
        DiskCache::open(&cache, 10).unwrap();
        assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
    }
}
