//! The folder of a rank: `rank_R/id_N`, one dataset each, and what an unfinished run left beside them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::file_lock;
use crate::lerobot::error::{InFile, LeRobotError, Problem, Result};

/// The paths of a shard: while it grows, while it is completed, and when it is complete.
pub(super) struct ShardPaths {
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

impl RankFolder {
    /// Makes the folder if need be, and keeps others out.
    pub(super) fn lock(save_dir: &Path, rank: u64) -> Result<Self> {
        let path = save_dir.join(format!("rank_{rank}"));
        fs::create_dir_all(&path).in_file(&path)?;
        let lock = path.join(".lock");
        match file_lock::acquire(&lock).in_file(&lock)? {
            Some(file) => Ok(Self { path, _lock: file }),
            None => Err(LeRobotError::new(path, Problem::Busy)),
        }
    }

    /// The rank's folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where shard `id` is.
    pub(super) fn shard(&self, id: u64) -> ShardPaths {
        ShardPaths {
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
