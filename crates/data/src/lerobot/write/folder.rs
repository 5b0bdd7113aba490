//! The folder of a rank: `rank_R/id_N`, one dataset each, and what an unfinished run left beside them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::lerobot::error::{InFile, LeRobotError, Problem, Result};

/// Where a shard is while it grows, while it is completed, and then.
pub(super) struct ShardPlace {
    pub(super) open: PathBuf,
    pub(super) partial: PathBuf,
    pub(super) done: PathBuf,
}

/// The folder of a rank, held for one process alone.
#[derive(Debug)]
pub(super) struct RankFolder {
    path: PathBuf,
    /// Its lock goes with the process, however that ends.
    _lock: File,
}

/// How long a lock may be held by nobody in particular.
const PATIENCE: Duration = Duration::from_millis(500);

impl RankFolder {
    /// Makes the folder if need be, and keeps others out.
    pub(super) fn lock(save_dir: &Path, rank: u64) -> Result<Self> {
        let path = save_dir.join(format!("rank_{rank}"));
        fs::create_dir_all(&path).in_file(&path)?;
        let lock = path.join(".lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&lock).in_file(&lock)?;
        let began = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { path, _lock: file }),
                // A process that is just being started holds every lock of its parent until it runs its own program.
                Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => thread::sleep(PATIENCE / 50),
                Err(TryLockError::WouldBlock) => return Err(LeRobotError::new(path, Problem::Busy)),
                Err(TryLockError::Error(error)) => return Err(error).in_file(&lock),
            }
        }
    }

    /// The rank's folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where shard `id` is.
    pub(super) fn shard(&self, id: u64) -> ShardPlace {
        ShardPlace {
            open: self.path.join(format!(".id_{id}.open")),
            partial: self.path.join(format!(".id_{id}.partial")),
            done: self.path.join(format!("id_{id}")),
        }
    }

    /// Ids of the complete shards, in order.
    pub(super) fn complete(&self) -> Result<Vec<u64>> {
        self.ids("id_", "")
    }

    /// Ids of shards that were begun and have no end.
    pub(super) fn begun(&self) -> Result<Vec<u64>> {
        self.ids(".id_", ".open")
    }

    fn ids(&self, before: &str, after: &str) -> Result<Vec<u64>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.path).in_file(&self.path)? {
            let name = entry.in_file(&self.path)?.file_name();
            let id = name
                .to_str()
                .and_then(|name| name.strip_prefix(before)?.strip_suffix(after)?.parse::<u64>().ok());
            ids.extend(id);
        }
        ids.sort_unstable();
        Ok(ids)
    }
}
