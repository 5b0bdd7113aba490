//! What can go wrong with a store: which file, what is wrong with it, what to do.

use std::io;
use std::path::{Path, PathBuf};

use super::id::EpisodeId;

/// Why a store did not do what it was asked. What was stored before is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system would not read it.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The operating system would not write it.
    #[error("cannot write {}: {source}; what was stored before is unchanged", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder is no store.
    #[error("{} is no store: it has no manifest.jsonl; create one there, or give the folder that has it", path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
    },
    /// There is a store already.
    #[error("{} is a store already; open it instead of creating it", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// Something else is there already.
    #[error("{} is not empty, and no store; give a new folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A newer plaudit wrote it.
    #[error("{} is of format version {found}, and this plaudit reads up to {}; use a newer plaudit", path.display(), super::VERSION)]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A line of the manifest makes no sense.
    #[error("{}, line {line}: {why}; remove the line, or restore the file from a copy", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Which line, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A file of an episode or of labels is not what it should be.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// No such episode.
    #[error("there is no episode {id} in {}; `episodes()` lists what is there", path.display())]
    Unknown {
        /// The store.
        path: PathBuf,
        /// The episode.
        id: EpisodeId,
    },
    /// The episode cannot be stored: its parts do not fit together.
    #[error("this episode cannot be stored: {what} has {found}, not {expected}")]
    Misfit {
        /// Which part.
        what: String,
        /// What it has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// A text that is no identifier.
    #[error("`{text}` is no episode's identifier: those are 64 hexadecimal digits")]
    Id {
        /// The text.
        text: String,
    },
    /// The files hold numbers in little-endian order, and are mapped as they are.
    #[error("stores are for little-endian machines, and this one is not")]
    BigEndian,
}

/// What is wrong with a file of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Fewer bytes than the header says.
    #[error(
        "cut short: {found} of {expected} bytes are there; add the episode again, or restore the file from a copy"
    )]
    CutShort {
        /// Bytes that are there.
        found: u64,
        /// Bytes that should be.
        expected: u64,
    },
    /// More bytes than the header says.
    #[error("{} bytes too long: the header describes {expected} bytes; restore the file from a copy", found - expected)]
    TooLong {
        /// Bytes that are there.
        found: u64,
        /// Bytes that should be.
        expected: u64,
    },
    /// The header is not one of ours.
    #[error("damaged header: {why}; restore the file from a copy")]
    Header {
        /// What is wrong.
        why: String,
    },
    /// A column is missing or of the wrong shape.
    #[error("column `{column}` {why}; restore the file from a copy")]
    Column {
        /// Which.
        column: String,
        /// What is wrong.
        why: String,
    },
    /// The bytes are not those the name promises.
    #[error(
        "its bytes have the hash {found}, not the one in its name: it was changed or damaged; restore it from a copy"
    )]
    Hash {
        /// The hash of the bytes that are there.
        found: EpisodeId,
    },
    /// The manifest says otherwise.
    #[error("its {field} is {found}, and the manifest says {expected}; one of the two was edited")]
    Manifest {
        /// Which fact.
        field: &'static str,
        /// In the file.
        found: String,
        /// In the manifest.
        expected: String,
    },
    /// Listed and not there.
    #[error("missing: the manifest lists it; restore it from a copy, or add the episode again")]
    Missing,
    /// There and not listed.
    #[error("in no line of the manifest; add the episode again, or remove the file")]
    Unlisted,
    /// A write that was interrupted.
    #[error("left behind by a write that was interrupted; remove it")]
    Leftover,
}

impl Damage {
    /// Names the file.
    pub(super) fn in_file(self, path: &Path) -> StoreError {
        StoreError::Damaged { path: path.into(), damage: self }
    }

    pub(super) fn header(why: impl Into<String>) -> Self {
        Self::Header { why: why.into() }
    }

    pub(super) fn column(column: &str, why: impl Into<String>) -> Self {
        Self::Column { column: column.into(), why: why.into() }
    }
}

/// Errors of reading, with the path.
pub(super) fn reading(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Read { path: path.into(), source }
}

/// Errors of writing, with the path.
pub(super) fn writing(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |source| StoreError::Write { path: path.into(), source }
}
