//! Memory that two processes see.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file that lives in memory, has no name and is gone with the last process that holds it.
pub(super) fn memory_file() -> io::Result<OwnedFd> {
    Ok(memfd_create("plaudit-bridge", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)
}

/// A number that any bytes are.
pub trait Plain: Copy {}
impl Plain for u8 {}
impl Plain for u32 {}
impl Plain for f32 {}

/// A memory file, mapped. The other process may write at any time, so nothing here is ever lent out:
/// everything is copied in and out.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value alone unmaps it.
#[allow(unsafe_code)]
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Gives `file` its size for good (the other process cannot cut it under our feet, which would end us
    /// with SIGBUS) and maps it.
    pub fn map(file: &File, bytes: usize) -> io::Result<Self> {
        ftruncate(file, bytes as u64)?;
        fcntl_add_seals(file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // SAFETY: a new mapping at an address that the system chooses touches no memory of ours.
        #[allow(unsafe_code)]
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0)?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at null"))?;
        Ok(Self { start, bytes })
    }

    /// A copy of `range`, which must be within the mapping and hold whole numbers.
    pub fn read<T: Plain>(&self, range: Range<usize>) -> Vec<T> {
        let count = self.count::<T>(&range);
        let mut values = Vec::with_capacity(count);
        // SAFETY: `count` checked that the source lies in the mapping and is aligned; the vector has room
        // for `count` values, of a type that any bytes are. The two do not overlap, since the vector is new.
        // Python may write while we read only if it breaks the protocol; then the numbers are wrong, but
        // still numbers.
        #[allow(unsafe_code)]
        unsafe {
            let source = self.start.as_ptr().add(range.start).cast::<T>();
            std::ptr::copy_nonoverlapping(source, values.as_mut_ptr(), count);
            values.set_len(count);
        }
        values
    }

    /// Copies `values` to the place `range`, which must be within the mapping and have their size.
    pub fn write<T: Plain>(&mut self, range: Range<usize>, values: &[T]) {
        assert_eq!(self.count::<T>(&range), values.len(), "values that do not fit their place");
        // SAFETY: as in `read`, with source and target exchanged; `values` is ours alone to read.
        #[allow(unsafe_code)]
        unsafe {
            let target = self.start.as_ptr().add(range.start).cast::<T>();
            std::ptr::copy_nonoverlapping(values.as_ptr(), target, values.len());
        }
    }

    /// Values of `T` in `range`.
    fn count<T: Plain>(&self, range: &Range<usize>) -> usize {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {} bytes", self.bytes);
        assert!(range.start.is_multiple_of(align_of::<T>()) && range.len().is_multiple_of(size_of::<T>()));
        range.len() / size_of::<T>()
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this address and size, and no reference into it exists.
        #[allow(unsafe_code)]
        let _ = unsafe { munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_file_see_the_same_and_it_cannot_be_cut() {
        let file = File::from(memory_file().unwrap());
        let mut ours = SharedMemory::map(&file, 1000).unwrap();
        ours.write(128..136, &[1.5f32, -2.0]);
        assert_eq!(ours.read::<f32>(128..136), [1.5, -2.0]);
        assert_eq!(ours.read::<u8>(0..4), [0; 4], "fresh memory is zero");
        assert!(file.set_len(10).is_err(), "the size is sealed");
        assert_eq!(file.metadata().unwrap().len(), 1000);
    }

    #[test]
    #[should_panic(expected = "990..1004 of 1000 bytes")]
    fn nothing_outside_is_read() {
        let file = File::from(memory_file().unwrap());
        SharedMemory::map(&file, 1000).unwrap().read::<u8>(990..1004);
    }
}
