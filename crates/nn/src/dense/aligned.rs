//! Memory that starts where vectors like to start.

use std::ops::{Deref, DerefMut};

/// Floats in a line of the cache, which is also the widest vector.
pub(super) const LINE: usize = 16;

/// Floats that begin at a line of the cache. A vector across two lines costs two loads; where most loads are such, a
/// product takes a seventh longer.
#[derive(Debug, Default)]
pub(super) struct AlignedBuffer {
    memory: Vec<f32>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// Makes room. What was there stays there, so that batches of changing size cost nothing; new memory is zero.
    pub(super) fn fit(&mut self, len: usize) {
        if self.len < len {
            let mut memory = vec![0.0; len + LINE];
            let start = memory.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
            memory[start..start + self.len].copy_from_slice(self);
            *self = Self { memory, start, len };
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// A copy begins at a line of its own.
impl Clone for AlignedBuffer {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.fit(self.len);
        copy.copy_from_slice(self);
        copy
    }
}
