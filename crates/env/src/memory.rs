//! Whether a batch fits in memory, asked before it is allocated.

use crate::SettingsError;

/// What to believe of a machine that does not say how much memory it has free.
const UNKNOWN_MACHINE_BYTES: u64 = 64 << 30;

/// Refuses `num_envs` environments of `bytes_each` when the machine has not enough memory left.
pub(crate) fn check(num_envs: usize, bytes_each: u64) -> Result<(), SettingsError> {
    let free = free_bytes().unwrap_or(UNKNOWN_MACHINE_BYTES);
    if num_envs as u128 * u128::from(bytes_each) > u128::from(free) {
        return Err(SettingsError::Memory { num_envs, bytes_each, free });
    }
    Ok(())
}

/// Linux's own estimate of what can be allocated without swapping.
fn free_bytes() -> Option<u64> {
    let report = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = report.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A number of bytes as people say it.
pub(crate) fn human(bytes: impl Into<u128>) -> String {
    let bytes = bytes.into();
    let units = [(1u128 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", bytes as f64 / size as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_batches_are_refused_with_their_numbers() {
        assert_eq!(check(1000, 1000), Ok(()));
        let error = check(usize::MAX, 200).unwrap_err().to_string();
        assert!(
            error.starts_with("18446744073709551615 environments of about 200 bytes each need 33554"),
            "{error}"
        );
        assert_eq!(human(1536u64), "1.5 KiB");
    }
}
