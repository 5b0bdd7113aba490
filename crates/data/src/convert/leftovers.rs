//! What a conversion that was killed left behind.

use plaudit_pyfiles::atomic_file::clear_leftovers_of;
use std::path::PathBuf;

/// Removes hidden leftovers of what was to be called so. Gives what a person should know about it.
pub(super) fn clear(targets: &[PathBuf]) -> Option<String> {
    let cleared: usize = targets.iter().map(|target| clear_leftovers_of(target)).sum();
    (cleared > 0).then(|| format!("{cleared} hidden leftover(s) of a conversion that was killed are removed"))
}
