//! How much memory something needs at its peak.

use std::fs;

/// What `work` gives, and how many bytes the process held at most during it beyond what it held before. `None` where
/// the system does not report it (Linux does).
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, Option<u64>) {
    // 5 forgets the highest value so far; see proc(5).
    let forgotten = fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = held("VmRSS:").filter(|_| forgotten);
    let result = work();
    let peak = before.and_then(|before| Some(held("VmHWM:")?.saturating_sub(before)));
    (result, peak)
}

/// The most bytes the process has held so far, where the system reports it.
pub fn peak() -> Option<u64> {
    held("VmHWM:")
}

fn held(entry: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(entry))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_touched_is_counted() {
        let (sum, peak) = peak_of(|| vec![1u8; 256 << 20].iter().map(|byte| u64::from(*byte)).sum::<u64>());
        assert_eq!(sum, 256 << 20);
        // Other tests run beside it and may give tens of megabytes back meanwhile.
        assert!(peak.is_none_or(|peak| peak > 64 << 20), "{peak:?}");
    }
}
