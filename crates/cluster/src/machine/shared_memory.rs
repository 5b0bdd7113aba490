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
    let used = mapped();
    let orphans = segments.into_iter().filter(|(_, place)| !used.contains(place));
    orphans.filter(|(name, _)| fs::remove_file(Path::new(FOLDER).join(name)).is_ok()).count()
}

/// A file by its device, as the system writes it, and its number there.
type Inode = (String, u64);

fn segments() -> Vec<(String, Inode)> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let own = rustix::process::geteuid().as_raw();
    let entries = entries.flatten().filter_map(|entry| {
        let (name, meta) = (entry.file_name().into_string().ok()?, entry.metadata().ok()?);
        let device = format!("{:02x}:{:02x}", rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        (name.ends_with(ZENOH) && meta.uid() == own).then(|| (name, (device, meta.ino())))
    });
    entries.collect()
}

/// Everything that a process has mapped from there.
fn mapped() -> HashSet<Inode> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashSet::new() };
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let pids = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_process));
    let maps = pids.filter_map(|entry| fs::read_to_string(entry.path().join("maps")).ok());
    maps.flat_map(|text| {
        text.lines().filter(|line| line.contains(FOLDER)).filter_map(inode).collect::<Vec<_>>()
    })
    .collect()
}

/// `address perms offset DEVICE INODE path`.
fn inode(line: &str) -> Option<Inode> {
    let mut words = line.split_whitespace().skip(3);
    Some((words.next()?.to_string(), words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read() {
        let line = "7f3c0000-7f3c1000 rw-s 00000000 00:1b 42      /dev/shm/7.zenoh";
        assert_eq!(inode(line), Some(("00:1b".into(), 42)));
        assert_eq!(inode("7f3c0000-7f3c1000 rw-p"), None);
    }
}
