//! How much memory runs take and how much is left, so that no more are started than fit.

use std::collections::HashMap;
use std::fs;

/// A run is assumed to need this much more than it was seen to use.
const MARGIN: f64 = 1.2;
/// A part of all memory that is left alone.
const RESERVE: u64 = 20;

/// Memory of this machine, or of the container that this runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) available: u64,
}

impl Memory {
    /// Now; nothing where the system does not say.
    pub(super) fn now() -> Option<Self> {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let machine = Self { total: kib(&text, "MemTotal:")?, available: kib(&text, "MemAvailable:")? };
        let number = |name: &str| {
            fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok()
        };
        match (number("memory.max"), number("memory.current")) {
            (Some(total), Some(used)) if total < machine.total => {
                Some(Self { total, available: machine.available.min(total.saturating_sub(used)) })
            }
            _ => Some(machine),
        }
    }

    /// Whether another run fits, when those that run have so many bytes each and one needs `needed`.
    pub(super) fn has_room(self, running: &[u64], needed: u64) -> bool {
        let needed = (needed as f64 * MARGIN) as u64;
        // Those that run may still grow to what a run needs.
        let growth: u64 = running.iter().map(|used| needed.saturating_sub(*used)).sum();
        let left = self.available.saturating_sub(growth).saturating_sub(self.total / RESERVE);
        left >= needed
    }
}

fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes in memory of each of these processes, with all that they started.
pub(super) fn used_by(roots: &[u32]) -> Vec<u64> {
    let mut parents: HashMap<u32, u32> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        if let Some(parent) = parent.and_then(|parent| parent.trim().parse().ok()) {
            parents.insert(id, parent);
        }
    }
    let belongs = |mut id: u32, root: u32| {
        // A chain of parents is short; a process that ends meanwhile may break it.
        for _ in 0..64 {
            match parents.get(&id) {
                _ if id == root => return true,
                Some(parent) => id = *parent,
                None => return false,
            }
        }
        false
    };
    let of = |root: &u32| parents.keys().filter(|id| belongs(**id, *root)).map(|id| resident(*id)).sum();
    roots.iter().map(of).collect()
}

fn resident(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    kib(&status, "VmRSS:").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_started_only_where_it_fits() {
        let gib = |count: u64| count << 30;
        let memory = Memory { total: gib(20), available: gib(10) };
        for (running, needed, fits) in [
            (&[][..], gib(7), true),
            (&[], gib(8), false),
            (&[gib(2)], gib(4), true),
            (&[gib(1), gib(1)], gib(4), false),
            (&[gib(9)], gib(3), true),
        ] {
            assert_eq!(memory.has_room(running, needed), fits, "{running:?} {needed}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_and_this_process_are_measured() {
        let memory = Memory::now().unwrap();
        assert!(memory.available > 0 && memory.available <= memory.total);
        let used = used_by(&[std::process::id(), u32::MAX]);
        assert!(used[0] > 1 << 20 && used[1] == 0, "{used:?}");
    }
}
