//! Which process a run is, so that it can be asked to stop later, and never another one.
//!
//! Numbers of processes are given again. A run writes, beside its log, what tells it apart from every other process that has had or will
//! have its number: when it started, which start of the machine that was, and in which space of numbers. Linux says all of it; elsewhere
//! nothing is written, and nobody is taken for the run.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::run_dir::{RunError, write_atomically};

/// The process of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProcess {
    /// Its number.
    pub id: u32,
    /// When it started, in ticks since the machine did.
    started_ticks: u64,
    /// Which start of the machine that was.
    boot: String,
    /// The space of numbers that it lives in: each container has one of its own.
    namespace: String,
}

impl RunProcess {
    /// This process; nothing where the system does not say enough.
    #[must_use]
    pub fn this() -> Option<Self> {
        let id = std::process::id();
        Some(Self { id, started_ticks: started_ticks(id)?, boot: boot()?, namespace: namespace()? })
    }

    /// The process that a run directory names.
    #[must_use]
    pub fn of(run: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file_in(run)).ok()?).ok()
    }

    /// Writes it into a run directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, run: &Path) -> Result<(), RunError> {
        write_atomically(&file_in(run), serde_json::to_string(self).unwrap_or_default().as_bytes())
    }

    /// Whether it is this very process that lives under its number now.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        boot().as_ref() == Some(&self.boot)
            && namespace().as_ref() == Some(&self.namespace)
            && started_ticks(self.id) == Some(self.started_ticks)
    }
}

fn file_in(run: &Path) -> PathBuf {
    run.join("process.json")
}

/// When a process started; nothing of one that is not there, or has ended and was not looked after.
fn started_ticks(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may hold blanks and brackets, and ends with the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

fn boot() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().into())
}

fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/pid").ok()?.display().to_string())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_told_apart_from_a_later_one_of_its_number() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(RunProcess::of(folder.path()), None);
        let this = RunProcess::this().unwrap();
        this.write(folder.path()).unwrap();
        assert_eq!(RunProcess::of(folder.path()), Some(this.clone()));
        assert!(this.is_alive());
        for other in [
            RunProcess { started_ticks: this.started_ticks + 1, ..this.clone() },
            RunProcess { boot: "another start of the machine".into(), ..this.clone() },
            RunProcess { namespace: "pid:[1]".into(), ..this.clone() },
            RunProcess { id: u32::MAX, ..this },
        ] {
            assert!(!other.is_alive(), "{other:?}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive() {
        let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        let this = RunProcess::this().unwrap();
        let started_ticks = started_ticks(child.id()).unwrap();
        let process = RunProcess { id: child.id(), started_ticks, ..this };
        assert!(process.is_alive());
        child.kill().unwrap();
        let ended = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !process.is_alive()
        });
        assert!(ended, "it was killed, and is nobody's to wait for yet");
        child.wait().unwrap();
        assert!(!process.is_alive());
    }
}
