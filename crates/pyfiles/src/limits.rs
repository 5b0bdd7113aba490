//! What a file may cost. A few hostile bytes must not buy much time or memory.

use super::error::{Problem, ReadError, Result};

/// Bounds on what reading one file may take. The defaults let every honest file pass that we know of.
///
/// Memory never follows a number written in the file: it follows the bytes that are really there, up to these
/// limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How deep containers may be nested. Walking and dropping recurse this far, so keep it below 1,000.
    pub depth: usize,
    /// How many Python objects a file may build (numbers in arrays do not count). This many, or one for each
    /// [`object_bytes`](Self::object_bytes) of the file if that is more: a long episode has many, and the bytes for them.
    pub objects: u64,
    /// See [`objects`](Self::objects).
    pub object_bytes: u64,
    /// How many bytes may be made that are not in the file as such: inflated zip members, transposed or
    /// byte-swapped arrays, strided tensors. This many, and [`copy_ratio`](Self::copy_ratio) times the file's size.
    pub copy_bytes: u64,
    /// See [`copy_bytes`](Self::copy_bytes).
    pub copy_ratio: u64,
    /// How many values a walk over the result may meet, per byte of the file, where one list is held in many
    /// places. One million are always allowed.
    pub repeats: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 200,
            objects: 1 << 24,
            object_bytes: 4,
            copy_bytes: 256 << 20,
            copy_ratio: 32,
            repeats: 64,
        }
    }
}

/// Counts down what is left while one file is read, over all pickles and members in it.
pub(crate) struct Meter {
    pub(crate) limits: Limits,
    steps: u64,
    steps_left: u64,
    objects: u64,
    objects_left: u64,
    copies: u64,
    copies_left: u64,
    texts: u64,
    texts_left: u64,
    pub(crate) visits: u64,
}

impl Meter {
    pub(crate) fn new(limits: Limits, file_len: usize) -> Self {
        let len = file_len as u64;
        // An honest file runs each of its opcodes once; a stream hidden in a string may be run again.
        let steps = 4096 + len.saturating_mul(4);
        let copies = limits.copy_bytes.saturating_add(limits.copy_ratio.saturating_mul(len));
        // Honest files encode a text once, and seldom use long ones as keys.
        let texts = (8 << 20) + len.saturating_mul(16);
        // Object numbers are 32 bits wide.
        let objects = limits.objects.max(len / limits.object_bytes.max(1)).min(u64::from(u32::MAX) - 1);
        Self {
            limits,
            steps,
            steps_left: steps,
            objects,
            objects_left: objects,
            copies,
            copies_left: copies,
            texts,
            texts_left: texts,
            visits: limits.repeats.saturating_mul(len).max(1_000_000),
        }
    }

    /// One opcode of a pickle.
    pub(crate) fn step(&mut self, at: usize) -> Result<()> {
        match self.steps_left.checked_sub(1) {
            Some(left) => self.steps_left = left,
            None => {
                let hint = "the same stream is run over and over: the file is hostile or damaged";
                return Err(too_many(at, "opcodes", self.steps, hint));
            }
        }
        Ok(())
    }

    /// One Python object.
    pub(crate) fn object(&mut self, at: usize) -> Result<()> {
        match self.objects_left.checked_sub(1) {
            Some(left) => self.objects_left = left,
            None => {
                let hint = "save numbers as an array, not as a list of Python objects";
                return Err(too_many(at, "objects", self.objects, hint));
            }
        }
        Ok(())
    }

    /// Many Python objects at once.
    pub(crate) fn objects(&mut self, at: usize, count: usize) -> Result<()> {
        self.objects_left = self.objects_left.saturating_sub(count as u64);
        if self.objects_left == 0 { self.object(at) } else { Ok(()) }
    }

    /// Bytes that are about to be made. Call it before the allocation.
    pub(crate) fn copy(&mut self, at: usize, bytes: usize) -> Result<()> {
        match self.copies_left.checked_sub(bytes as u64) {
            Some(left) => self.copies_left = left,
            None => {
                let hint = "the file would unfold to far more than its size: save the arrays whole \
                            (`.contiguous()`, `np.ascontiguousarray`) or raise the limits";
                return Err(too_many(at, "bytes unfolded from this file", self.copies, hint));
            }
        }
        Ok(())
    }

    /// Bytes of text that are about to be hashed as a key or turned into bytes. Short ones are free.
    pub(crate) fn text(&mut self, at: usize, bytes: usize) -> Result<()> {
        if bytes <= 64 {
            return Ok(());
        }
        match self.texts_left.checked_sub(bytes as u64) {
            Some(left) => self.texts_left = left,
            None => {
                let hint = "the same long text is used over and over: the file is hostile or damaged";
                return Err(too_many(at, "bytes of text", self.texts, hint));
            }
        }
        Ok(())
    }
}

fn too_many(at: usize, what: &'static str, limit: u64, hint: &'static str) -> ReadError {
    ReadError::new(at, Problem::Limit { what, limit, hint })
}
