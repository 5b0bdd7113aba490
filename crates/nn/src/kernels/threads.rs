//! Dividing work among the threads of the pool.

use std::ops::Range;

use super::spin_pool::{self, Parallelism, parallel_for_slice};

/// Calls `work` once for each number below `count`, on all threads.
pub(crate) fn for_each(count: usize, work: impl Fn(usize) + Sync) {
    spin_pool::parallel_for(Parallelism::AllThreads, count, work);
}

/// Numbers one thread takes at a time: some microseconds of work.
pub(crate) const RUN: usize = 1 << 14;

/// The `index`-th run of so many numbers.
pub(crate) fn run_range(len: usize, index: usize) -> Range<usize> {
    index * RUN..((index + 1) * RUN).min(len)
}

/// Whether so many numbers are worth more than one thread.
pub(crate) fn parallelism(len: usize) -> Parallelism {
    if len < 2 * RUN { Parallelism::OneThread } else { Parallelism::AllThreads }
}

/// Calls `work(row, numbers)` once for each row of `width` numbers, on all threads.
pub(crate) fn for_each_row(rows: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    let (len, at_once) = (rows.len(), RUN.div_ceil(width.max(1)));
    let count = len / width.max(1);
    let range = |part: usize| part * at_once * width..((part + 1) * at_once).min(count) * width;
    parallel_for_slice(parallelism(len), rows, count.div_ceil(at_once), range, |part, rows| {
        let numbered = rows.chunks_exact_mut(width).enumerate();
        numbered.for_each(|(row, numbers)| work(part * at_once + row, numbers));
    });
}

/// Pieces to cut `items` into so that `size` of them is about a piece, and threads get equally many.
pub(crate) fn pieces(items: usize, size: usize) -> usize {
    let threads = rayon::current_num_threads();
    let pieces = items.div_ceil(size);
    pieces.next_multiple_of(threads).min(items)
}

/// Where the `piece`-th of `pieces` equal parts of `items` begins.
pub(crate) fn part_start(items: usize, pieces: usize, piece: usize) -> usize {
    items / pieces * piece + (items % pieces).min(piece)
}

/// A pointer that threads share because each of them writes its own part.
#[derive(Debug)]
pub(crate) struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: it is only a number; who dereferences it says why no other thread writes there.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    pub(crate) fn of(slice: &mut [T]) -> Self {
        Self(slice.as_mut_ptr())
    }

    /// The pointer `count` items on.
    ///
    /// # Safety
    /// That place is inside the allocation, or right after it.
    pub(crate) unsafe fn at(self, count: usize) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(count) }
    }
}
