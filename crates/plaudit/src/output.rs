//! Files and folders that a flag names: made, written, and named with their flag when that fails.

use std::io::{self, ErrorKind};
use std::path::Path;

use plaudit_view::{RunError, write_atomically};

use crate::failure::Failure;

/// Writes a file that `flag` names, or that lies in the folder it names. Its folder is made if need be.
pub fn write(flag: &str, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|error| cannot(flag, "make", parent, &error))?;
    }
    write_atomically(path, bytes).map_err(|error| cannot_write(flag, path, error))
}

/// Makes a folder that `flag` names, and makes sure that files can be written there. A place where they cannot is a wrong
/// use, which exits with 2; a file that fails later is work that failed.
pub fn make_folder(flag: &str, path: &Path) -> Result<(), Failure> {
    let refused = |act: &str, error: io::Error| {
        let (message, help) = describe(flag, act, path, &error);
        Failure::usage(message, help)
    };
    std::fs::create_dir_all(path).map_err(|error| refused("make", error))?;
    let probe = path.join(format!(".plaudit-{}.probe", std::process::id()));
    std::fs::write(&probe, b"").map_err(|error| refused("write to", error))?;
    std::fs::remove_file(&probe).map_err(|error| refused("write to", error))
}

/// An error of a file that was being written, with the flag that chooses its place.
pub fn cannot_write(flag: &str, path: &Path, error: RunError) -> Failure {
    match error {
        RunError::Write { source, .. } => cannot(flag, "write", path, &source),
        other => Failure::runtime(other, None),
    }
}

fn cannot(flag: &str, act: &str, path: &Path, error: &io::Error) -> Failure {
    let (message, help) = describe(flag, act, path, error);
    Failure::runtime(message, help)
}

/// What went wrong, and what to do about it.
fn describe(flag: &str, act: &str, path: &Path, error: &io::Error) -> (String, String) {
    let help = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            format!("give {flag} a place that you may write to")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            format!("free some space, or give {flag} a place on another disk")
        }
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            format!("a file is where a folder is needed; give {flag} another place")
        }
        ErrorKind::IsADirectory => format!("a folder is in the way; give {flag} another place"),
        _ => format!("give {flag} a place that can be written"),
    };
    (format!("{flag}: cannot {act} {}: {error}", path.display()), help)
}
