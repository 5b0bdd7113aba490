//! What decoded frames of videos may take, as the user's environment says; see docs/collecting.md.

use std::path::PathBuf;
use std::str::FromStr;

use plaudit_data::video::{FrameCache, FrameCacheLimits};

/// MiB of decoded frames in memory.
const MEMORY: &str = "PLAUDIT_FRAME_MEMORY_MIB";
/// The folder of decoded frames.
const FOLDER: &str = "PLAUDIT_FRAME_CACHE";
/// GiB that it may take; 0 keeps nothing on disk.
const FOLDER_SIZE: &str = "PLAUDIT_FRAME_CACHE_GIB";
/// What that is where nothing is said.
const FOLDER_GIB: u64 = 16;

/// Sets the bound on memory, for every command.
pub fn set_memory() {
    if let Some(mib) = number::<u64>(MEMORY) {
        FrameCache::shared().set_limits(FrameCacheLimits { memory_bytes: mib << 20 });
    }
}

/// Keeps decoded frames on disk, for commands that read them more than once.
pub fn keep_on_disk() {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let folder = variable(FOLDER).or_else(|| cache().map(|cache| cache.join("plaudit").join("frames")));
    let gib = number(FOLDER_SIZE).unwrap_or(FOLDER_GIB);
    if let Some(folder) = folder.filter(|_| gib > 0) {
        FrameCache::shared().set_disk(folder, gib << 30);
    }
}

fn number<T: FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.trim().parse().ok()
}
