//! Bytes that many values share: a mapped file or memory, and a range of it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::plain_file;

/// Files below this many bytes are read, not mapped: a map costs more than it saves.
const SMALL: u64 = 64 * 1024;

/// How the bytes of a file come into the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Large files are mapped: arrays are views, nothing is copied, and pages are read when touched.
    ///
    /// Do not use it for files that another program may cut short while they are read: touching a page that
    /// is gone ends the process. Writers that replace a file by renaming a new one over it, as all of
    /// plaudit's do, are safe.
    #[default]
    Map,
    /// The file is read into memory once; arrays are views of that memory.
    Copy,
}

/// A range of shared, read-only bytes. Cloning and slicing copy nothing.
#[derive(Clone)]
pub struct Buffer {
    backing: Backing,
    range: Range<usize>,
}

#[derive(Clone)]
enum Backing {
    Map(Arc<Mmap>),
    Heap(Arc<Vec<u8>>),
}

impl Buffer {
    /// Opens a file as `access` says.
    ///
    /// # Errors
    /// When the file cannot be opened, is not a plain file, or cannot be read.
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        let mut file = plain_file::open(path)?;
        let metadata = file.metadata()?;
        if access == Access::Map && metadata.len() >= SMALL {
            return map(&file);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        file.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    /// A part of these bytes, or nothing when it reaches past their end.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        let start = self.range.start + range.start;
        Some(Self { backing: self.backing.clone(), range: start..start + (range.end - range.start) })
    }

    /// Whether these bytes are a view of a mapped file.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.backing, Backing::Map(_))
    }
}

/// Maps a whole file for reading.
#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<Buffer> {
    // SAFETY: the map is read-only and private to this process, and is only handed out as `&[u8]` whose
    // lifetime is tied to the `Arc` that keeps it. What the compiler cannot rule out is another process that
    // changes the file meanwhile: nothing here keeps an invariant over mapped bytes across calls (headers and
    // pickles are checked as they are read, numbers of any bits are valid numbers), so a change gives wrong
    // values, never a wrong reference. Cutting the file short ends the process; `Access` documents it.
    let map = unsafe { Mmap::map(file)? };
    let range = 0..map.len();
    Ok(Buffer { backing: Backing::Map(Arc::new(map)), range })
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.backing {
            Backing::Map(map) => map,
            Backing::Heap(bytes) => bytes,
        };
        &all[self.range.clone()]
    }
}

impl From<Arc<Vec<u8>>> for Buffer {
    fn from(bytes: Arc<Vec<u8>>) -> Self {
        let range = 0..bytes.len();
        Self { backing: Backing::Heap(bytes), range }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Arc::new(bytes).into()
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        bytes.to_vec().into()
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_stay_inside() {
        let all = Buffer::from(&b"abcdef"[..]);
        let part = all.slice(1..4).unwrap();
        assert_eq!(&*part, b"bcd");
        assert_eq!(&*part.slice(1..3).unwrap(), b"cd");
        assert!(part.slice(1..4).is_none());
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = part.slice(3..1);
        assert!(backwards.is_none());
        assert!(part.slice(3..3).unwrap().is_empty());
    }

    #[test]
    fn large_files_are_mapped_and_small_ones_read() {
        let dir = tempfile::tempdir().unwrap();
        let (large, small) = (dir.path().join("large"), dir.path().join("small"));
        std::fs::write(&large, vec![7; 100_000]).unwrap();
        std::fs::write(&small, b"x").unwrap();
        assert!(Buffer::open(&large, Access::Map).unwrap().is_mapped());
        assert!(!Buffer::open(&large, Access::Copy).unwrap().is_mapped());
        assert!(!Buffer::open(&small, Access::Map).unwrap().is_mapped());
        assert!(Buffer::open(dir.path(), Access::Map).is_err());
    }
}
