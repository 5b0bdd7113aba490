//! Why a studio cannot start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a studio cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudioError {
    /// The folder is not there, or is none.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The address is in use, or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing random to make a token of.
    #[error("the system gives no random bytes for a token")]
    NoRandom,
    /// The system has no more threads or files.
    #[error("cannot serve: {0}")]
    System(#[from] io::Error),
}
