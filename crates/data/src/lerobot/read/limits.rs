//! What reading may cost.

/// Bounds on what reading a dataset may take. Memory follows the bytes that are there, up to these limits, and not
/// the numbers that a file claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one episode in memory, images decoded.
    pub episode_bytes: u64,
    /// Episodes in a dataset.
    pub episodes: u64,
    /// Bytes of `info.json`, and of each line of the `.jsonl` files.
    pub json_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { episode_bytes: 8 << 30, episodes: 1 << 22, json_bytes: 64 << 20 }
    }
}
