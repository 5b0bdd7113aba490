//! Shared memory that killed processes left behind.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the system keeps shared memory.
const FOLDER: &str = "/dev/shm";

/// How zenoh, dora's data plane, ends the names of its segments.
const ZENOH: &str = ".zenoh";

/// Removes segments of the data plane that are this user's and that no process has open. Says how many.
pub(super) fn remove_orphans() -> usize {
    let segments = segments();
    if segments.is_empty() {
        return 0;
    }
    let used = mapped_inodes();
    let orphans = segments.into_iter().filter(|(_, inode)| !used.contains(inode));
    orphans.filter(|(name, _)| fs::remove_file(Path::new(FOLDER).join(name)).is_ok()).count()
}

fn segments() -> Vec<(String, u64)> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let own = rustix::process::geteuid().as_raw();
    let entries = entries.flatten().filter_map(|entry| {
        let (name, meta) = (entry.file_name().into_string().ok()?, entry.metadata().ok()?);
        (name.ends_with(ZENOH) && meta.uid() == own).then_some((name, meta.ino()))
    });
    entries.collect()
}

/// The inodes of everything that a process has mapped.
fn mapped_inodes() -> HashSet<u64> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashSet::new() };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let pids = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_process));
    let maps = pids.filter_map(|entry| fs::read_to_string(entry.path().join("maps")).ok());
    // address perms offset device INODE path
    maps.flat_map(|text| {
        let inodes = text.lines().filter(|line| line.contains(FOLDER));
        inodes.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect::<Vec<u64>>()
    })
    .collect()
}
