//! What a machine is: its versions, its GPUs, its shared memory.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::MachineError;

/// What a machine says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The version of plaudit there.
    pub plaudit: String,
    /// Whether that plaudit can talk over dora.
    pub has_dora_links: bool,
    /// The version of dora there, or why there is none.
    pub dora: Result<String, String>,
    /// How many GPUs it has.
    pub gpus: usize,
    /// The size of its shared memory, in bytes.
    pub shared_memory_bytes: u64,
}

/// Asks this machine. `plaudit` is the version of the program that asks.
pub fn probe(plaudit: &str, has_dora_links: bool, dora: &Path) -> Probe {
    Probe {
        plaudit: plaudit.into(),
        has_dora_links,
        dora: dora_version(dora).map_err(|error| error.to_string()),
        gpus: gpus(),
        shared_memory_bytes: shared_memory_bytes(),
    }
}

/// The version of dora's command line.
pub fn dora_version(dora: &Path) -> Result<String, MachineError> {
    let name = dora.display().to_string();
    let output = Command::new(dora).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| MachineError::Start { program: name.clone(), error })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_whitespace().last() {
        Some(version) if output.status.success() => Ok(version.to_string()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
            Err(MachineError::Refused { machine: name, said })
        }
    }
}

/// GPUs that the driver shows: `/dev/nvidia0`, `/dev/nvidia1`, …
pub fn gpus() -> usize {
    let Ok(entries) = std::fs::read_dir("/dev") else { return 0 };
    let is_gpu = |name: &str| {
        let number = name.strip_prefix("nvidia");
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_gpu)).count()
}

fn shared_memory_bytes() -> u64 {
    rustix::fs::statvfs("/dev/shm").map_or(0, |stats| stats.f_blocks.saturating_mul(stats.f_frsize))
}
