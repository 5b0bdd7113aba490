//! Decoded frames, kept while there is room: in memory, and on disk where a folder is given.
//!
//! The bound is in bytes and one for all videos of a program, since memory is one. Whoever was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::decoding::Decoding;
use super::disk_cache::DiskCache;

/// Decoders that stay open where they stopped, so that the next frame of a row costs one.
const OPEN_DECODERS: usize = 16;
/// Groups of pictures that can be decoded side by side. A power of two.
const LOCKS: usize = 64;

/// What decoded frames may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameCacheLimits {
    /// Bytes of decoded frames in memory.
    pub memory_bytes: u64,
}

impl Default for FrameCacheLimits {
    fn default() -> Self {
        Self { memory_bytes: 512 << 20 }
    }
}

/// How often frames were found, and how often they had to be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCacheStats {
    /// Frames that a decoder gave, wanted or on the way to one that was.
    pub decoded: u64,
    /// Frames found in memory.
    pub in_memory: u64,
    /// Frames found on disk.
    pub on_disk: u64,
    /// Bytes in memory now.
    pub bytes: u64,
}

/// Which frame of which video.
pub(super) type FrameKey = (u64, usize);

/// Decoded frames of any number of videos.
#[derive(Debug, Default)]
pub struct FrameCache {
    frames: Mutex<Lru>,
    decoders: Mutex<Vec<(u64, Decoding)>>,
    groups: Groups,
    disk: Mutex<Disk>,
    decoded: AtomicU64,
    in_memory: AtomicU64,
    on_disk: AtomicU64,
}

/// The folder of decoded frames. It is made when there is the first frame to keep.
#[derive(Debug, Default)]
enum Disk {
    #[default]
    Off,
    Folder(PathBuf, u64),
    Open(Arc<DiskCache>),
}

/// One lock for each group of pictures, shared by some: whoever comes second finds what the first one decoded.
#[derive(Debug)]
struct Groups([Mutex<()>; LOCKS]);

impl Default for Groups {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

#[derive(Debug, Default)]
struct Lru {
    limits: FrameCacheLimits,
    bytes: u64,
    uses: u64,
    frames: HashMap<FrameKey, (Arc<[u8]>, u64)>,
    by_use: BTreeMap<u64, FrameKey>,
}

impl Lru {
    fn get(&mut self, key: FrameKey) -> Option<Arc<[u8]>> {
        let (pixels, used) = self.frames.get_mut(&key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(pixels.clone())
    }

    fn insert(&mut self, key: FrameKey, pixels: Arc<[u8]>) {
        let size = pixels.len() as u64;
        if size > self.limits.memory_bytes || self.frames.contains_key(&key) {
            return;
        }
        self.shrink(self.limits.memory_bytes - size);
        self.uses += 1;
        self.bytes += size;
        self.frames.insert(key, (pixels, self.uses));
        self.by_use.insert(self.uses, key);
    }

    fn shrink(&mut self, most: u64) {
        while self.bytes > most {
            let Some((_, key)) = self.by_use.pop_first() else { return };
            if let Some((pixels, _)) = self.frames.remove(&key) {
                self.bytes -= pixels.len() as u64;
            }
        }
    }
}

/// What a thread that panicked left behind is whole: every change above is of plain values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FrameCache {
    /// The one of this program, which datasets use unless they are given another.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<FrameCache>> = OnceLock::new();
        SHARED.get_or_init(Arc::default).clone()
    }

    /// One with limits of its own.
    #[must_use]
    pub fn new(limits: FrameCacheLimits) -> Self {
        let cache = Self::default();
        cache.set_limits(limits);
        cache
    }

    /// Other limits from now on.
    pub fn set_limits(&self, limits: FrameCacheLimits) {
        let mut frames = lock(&self.frames);
        frames.limits = limits;
        frames.shrink(limits.memory_bytes);
    }

    /// Keeps frames in this folder as well from now on, up to so many bytes (see [`DiskCache`]). It is made when there is a
    /// frame to keep; where it cannot be, frames are decoded again.
    pub fn set_disk(&self, folder: PathBuf, bytes: u64) {
        *lock(&self.disk) = Disk::Folder(folder, bytes);
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> FrameCacheStats {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FrameCacheStats {
            decoded: count(&self.decoded),
            in_memory: count(&self.in_memory),
            on_disk: count(&self.on_disk),
            bytes: lock(&self.frames).bytes,
        }
    }

    pub(super) fn disk(&self) -> Option<Arc<DiskCache>> {
        let mut disk = lock(&self.disk);
        if let Disk::Folder(folder, bytes) = &*disk {
            *disk = DiskCache::open(folder, *bytes).map_or(Disk::Off, |open| Disk::Open(Arc::new(open)));
        }
        match &*disk {
            Disk::Open(open) => Some(open.clone()),
            Disk::Off | Disk::Folder(..) => None,
        }
    }

    /// A frame that is in memory.
    pub(super) fn get(&self, key: FrameKey) -> Option<Arc<[u8]>> {
        let found = lock(&self.frames).get(key);
        self.in_memory.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        found
    }

    /// A frame that was on disk.
    pub(super) fn add_read(&self, key: FrameKey, pixels: Arc<[u8]>) {
        self.on_disk.fetch_add(1, Ordering::Relaxed);
        lock(&self.frames).insert(key, pixels);
    }

    /// A frame that was decoded.
    pub(super) fn add_decoded(&self, key: FrameKey, pixels: Arc<[u8]>) {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        lock(&self.frames).insert(key, pixels);
    }

    /// Held while a group of pictures is decoded.
    pub(super) fn group(&self, video: u64, key_sample: usize) -> MutexGuard<'_, ()> {
        let mixed = (video ^ (key_sample as u64) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lock(&self.groups.0[(mixed >> 32) as usize % LOCKS])
    }

    /// A decoder that is not used now, and its video: best one that stopped in a group of this video, before or at a sample.
    pub(super) fn decoder(&self, video: u64, key_sample: usize, sample: usize) -> Option<(u64, Decoding)> {
        let mut open = lock(&self.decoders);
        let goes_on = |decoding: &Decoding| (key_sample + 1..=sample).contains(&decoding.next);
        let of_it = |(of, _): &(u64, Decoding)| *of == video;
        let at = open.iter().position(|one| of_it(one) && goes_on(&one.1));
        // Any other of the same video can begin anew at a keyframe, and where there is no room for more, any at all.
        let at = at.or_else(|| open.iter().position(of_it));
        let at = at.or_else(|| (open.len() >= OPEN_DECODERS).then_some(0))?;
        Some(open.remove(at))
    }

    /// A decoder that is not used now.
    pub(super) fn put_back(&self, video: u64, decoding: Decoding) {
        let mut open = lock(&self.decoders);
        if open.len() >= OPEN_DECODERS {
            open.remove(0);
        }
        open.push((video, decoding));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first_and_bytes_stay_in_bounds() {
        let cache = FrameCache::new(FrameCacheLimits { memory_bytes: 30 });
        let frame = || Arc::from([0u8; 10]);
        (0..3).for_each(|at| cache.add_decoded((0, at), frame()));
        assert!(cache.get((0, 0)).is_some());
        cache.add_decoded((0, 3), frame());
        let there: Vec<bool> = (0..4).map(|at| cache.get((0, at)).is_some()).collect();
        assert_eq!((there, cache.stats().bytes), (vec![true, false, true, true], 30));
        cache.add_decoded((1, 0), Arc::from([0u8; 31]));
        assert!(cache.get((1, 0)).is_none(), "larger than all there is room for");
        cache.set_limits(FrameCacheLimits { memory_bytes: 10 });
        assert_eq!(cache.stats().bytes, 10);
    }
}
