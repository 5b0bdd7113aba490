//! The memory of tensors: shared, and copied on write.

use std::ops::Deref;
use std::sync::Arc;

use crate::kernels::{copy, elementwise, unfilled};

/// Some numbers of a buffer that others may hold too.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    buffer: Arc<Vec<f32>>,
    start: usize,
    len: usize,
}

impl From<Vec<f32>> for Numbers {
    fn from(numbers: Vec<f32>) -> Self {
        let len = numbers.len();
        Self { buffer: Arc::new(numbers), start: 0, len }
    }
}

impl Deref for Numbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.buffer[self.start..][..self.len]
    }
}

impl Numbers {
    /// A part, in the same buffer.
    pub(super) fn part(&self, start: usize, len: usize) -> Self {
        assert!(start + len <= self.len, "a part of {len} numbers from {start}, of {}", self.len);
        Self { buffer: self.buffer.clone(), start: self.start + start, len }
    }

    /// Whether nobody else holds the buffer.
    pub(super) fn is_unshared(&self) -> bool {
        Arc::strong_count(&self.buffer) == 1
    }

    /// The numbers, to be changed: in place if nobody else holds them, else those of a copy.
    pub(crate) fn make_mut(&mut self) -> &mut [f32] {
        if Arc::get_mut(&mut self.buffer).is_none() {
            *self = copied(self).into();
        }
        match Arc::get_mut(&mut self.buffer) {
            Some(buffer) => &mut buffer[self.start..][..self.len],
            None => unreachable!("nobody has seen the copy"),
        }
    }

    /// The numbers as a vector, without a copy if nobody else holds them.
    pub(super) fn into_vec(self) -> Vec<f32> {
        if self.len < self.buffer.len() {
            return copied(&self);
        }
        Arc::try_unwrap(self.buffer).unwrap_or_else(|shared| copied(&shared))
    }

    /// The sum, in the memory of one of both if it can be.
    pub(super) fn plus(self, other: Self) -> Self {
        let (mut sum, other) = if self.is_unshared() { (self, other) } else { (other, self) };
        elementwise::add(sum.make_mut(), &other);
        sum
    }
}

fn copied(numbers: &[f32]) -> Vec<f32> {
    let mut copied = unfilled(numbers.len());
    copy(numbers, &mut copied);
    copied
}
