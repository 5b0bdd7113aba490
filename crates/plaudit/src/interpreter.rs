//! Which Python runs reward functions, where nobody says it.

use std::path::PathBuf;
use std::sync::OnceLock;

/// The Python that this program is a package of.
static OWN: OnceLock<PathBuf> = OnceLock::new();

/// Says that this program is a package of this Python.
pub fn set(python: PathBuf) {
    let _ = OWN.set(python); // the first one counts: there is one interpreter in a process
}

/// The Python that this program is a package of, or else the first `python3` on the path.
#[must_use]
pub fn default() -> PathBuf {
    OWN.get().cloned().unwrap_or_else(|| "python3".into())
}
