//! A caching allocator: it keeps large freed blocks for the next use.
//!
//! A training step asks for the same few hundred large blocks each time. The system's allocator gives each back to the
//! kernel at once and gets it again as pages that have to be cleared, which costs as much time as half of the step's arithmetic.
//! This one caches freed blocks in free lists by size class, up to a limit. A binary installs it:
//!
//! ```
//! #[global_allocator]
//! static MEMORY: plaudit_nn::alloc::CachingAllocator = plaudit_nn::alloc::CachingAllocator::new();
//! # fn main() {
//! MEMORY.set_cache_limit(1 << 30); // bytes; unlimited before
//! MEMORY.empty_cache(); // frees everything that is cached, when the work is done
//! # }
//! ```
#![allow(unsafe_code)] // An allocator deals in raw memory; each block says why.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Smaller blocks are left to the system, which keeps those by itself.
const SMALLEST: usize = 1 << SMALLEST_BITS;
const SMALLEST_BITS: u32 = 16;
/// Sizes of blocks between one power of two and the next: at most an eighth of a block is unused.
const STEPS: usize = 8;
/// Powers of two with size classes: blocks of up to 64 GiB.
const POWERS: usize = 20;
/// What vector instructions like best.
const ALIGNMENT: usize = 64;
/// A page that spares the CPU many TLB look-ups; blocks of this size and more are aligned to it.
const HUGE_PAGE: usize = 2 << 20;

/// Keeps freed blocks of 64 KiB and more for the next allocation of about their size.
pub struct CachingAllocator {
    free_lists: [Mutex<FreeList>; POWERS * STEPS],
    cached_bytes: AtomicUsize,
    limit: AtomicUsize,
}

/// Freed blocks of one size class, each holding the address of the next.
struct FreeList(Option<NonNull<FreeBlock>>);

struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

// SAFETY: the blocks in a free list belong to nobody else.
unsafe impl Send for FreeList {}

impl CachingAllocator {
    /// An allocator that caches nothing yet, without a limit.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            free_lists: [const { Mutex::new(FreeList(None)) }; POWERS * STEPS],
            cached_bytes: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
        }
    }

    /// Bytes that are cached for later.
    #[must_use]
    pub fn cached_bytes(&self) -> usize {
        self.cached_bytes.load(Ordering::Relaxed)
    }

    /// From now on caches no more than `bytes`. What is cached already stays until it is used or freed.
    pub fn set_cache_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Frees everything that is cached.
    pub fn empty_cache(&self) {
        for class in 0..self.free_lists.len() {
            while let Some(block) = self.take(class) {
                // SAFETY: blocks in a free list were allocated with its class's layout.
                unsafe { System.dealloc(block.as_ptr().cast(), class_layout(class)) };
            }
        }
    }

    fn free_list(&self, class: usize) -> std::sync::MutexGuard<'_, FreeList> {
        self.free_lists[class].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, class: usize) -> Option<NonNull<FreeBlock>> {
        let mut guard = self.free_list(class);
        let block = guard.0?;
        // SAFETY: a block in a free list holds the address of the next, and nobody else has it.
        guard.0 = unsafe { block.as_ref().next };
        self.cached_bytes.fetch_sub(class_layout(class).size(), Ordering::Relaxed);
        Some(block)
    }

    /// Puts a block into its free list unless too much is cached already; returns whether it did.
    ///
    /// # Safety
    /// The block was allocated with the layout of the size class, and its owner is done with it.
    unsafe fn put(&self, class: usize, block: NonNull<FreeBlock>) -> bool {
        let size = class_layout(class).size();
        if self.cached_bytes().saturating_add(size) > self.limit.load(Ordering::Relaxed) {
            return false;
        }
        let mut guard = self.free_list(class);
        // SAFETY: the block is large enough and ours.
        unsafe { block.write(FreeBlock { next: guard.0 }) };
        guard.0 = Some(block);
        self.cached_bytes.fetch_add(size, Ordering::Relaxed);
        true
    }

    /// Asks for huge pages in a new block. Without them the kernel clears and the CPU looks up 512 times as many.
    /// Where nothing is cached, blocks are used once, and a page that is hardly touched would only cost memory.
    fn prefer_huge_pages(&self, block: *mut u8, size: usize) {
        #[cfg(target_os = "linux")]
        if !block.is_null() && size >= HUGE_PAGE && self.limit.load(Ordering::Relaxed) > 0 {
            // SAFETY: the block is ours, and the advice changes nothing of what is in it. A refusal does no harm.
            let _ = unsafe { rustix::mm::madvise(block.cast(), size, rustix::mm::Advice::LinuxHugepage) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (block, size);
    }
}

impl Default for CachingAllocator {
    fn default() -> Self {
        Self::new()
    }
}

/// The size class of a block, unless it is too small, too large, or strangely aligned.
fn size_class_of(layout: Layout) -> Option<usize> {
    if layout.size() < SMALLEST || layout.align() > ALIGNMENT {
        return None;
    }
    // Sizes from `power` on, in steps of an eighth of it, rounded up.
    let bits = layout.size().ilog2();
    let step = 1usize << (bits - STEPS.ilog2());
    let class = (bits - SMALLEST_BITS) as usize * STEPS + (layout.size() - (1 << bits)).div_ceil(step);
    (class < POWERS * STEPS).then_some(class)
}

/// What blocks of a size class are allocated with.
fn class_layout(class: usize) -> Layout {
    let power = SMALLEST << (class / STEPS);
    let size = power + power / STEPS * (class % STEPS);
    let alignment = if size >= HUGE_PAGE { HUGE_PAGE } else { ALIGNMENT };
    // SAFETY: both alignments are powers of two, and the largest size class is far below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(size, alignment) }
}

// SAFETY: blocks come from the system's allocator with a layout that depends on the asked size alone and is never smaller; between
// a `dealloc` and the next `alloc` they are in one free list.
unsafe impl GlobalAlloc for CachingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = size_class_of(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        if let Some(block) = self.take(class) {
            return block.as_ptr().cast();
        }
        let layout = class_layout(class);
        // SAFETY: the size of a class is not zero.
        let block = unsafe { System.alloc(layout) };
        self.prefer_huge_pages(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = size_class_of(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        };
        if let Some(block) = self.take(class) {
            let block: *mut u8 = block.as_ptr().cast();
            // SAFETY: the block is at least this large.
            unsafe { block.write_bytes(0, layout.size()) };
            return block;
        }
        let layout = class_layout(class);
        // SAFETY: the size of a class is not zero.
        let block = unsafe { System.alloc_zeroed(layout) };
        self.prefer_huge_pages(block, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = size_class_of(layout) else {
            // SAFETY: the caller's promise; `alloc` left this layout to the system as well.
            return unsafe { System.dealloc(block, layout) };
        };
        // SAFETY: `alloc` gave out this block for this size class, and never a null one to free.
        unsafe {
            if !self.put(class, NonNull::new_unchecked(block.cast())) {
                System.dealloc(block, class_layout(class));
            }
        }
    }

    // SAFETY: the caller's promise, as `GlobalAlloc` has it.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size makes a layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let (old_class, new_class) = (size_class_of(layout), size_class_of(new_layout));
        match (old_class, new_class) {
            // SAFETY: the system's block, and still the system's.
            (None, None) => unsafe { System.realloc(block, layout, new_size) },
            (Some(old), Some(new)) if old == new => block,
            _ => {
                // SAFETY: a new block of the new size, and the smaller of both sizes is copied.
                unsafe {
                    let new_block = self.alloc(new_layout);
                    if new_block.is_null() {
                        return null_mut();
                    }
                    new_block.copy_from_nonoverlapping(block, layout.size().min(new_size));
                    self.dealloc(block, layout);
                    new_block
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_holds_every_size_that_is_sent_to_it() {
        let sizes = (16..35).flat_map(|bits| {
            let power = 1usize << bits;
            [power, power + 1, power + power / 8, power + power / 8 + 1, power + power / 2, 2 * power - 1]
        });
        for size in sizes {
            let layout = Layout::from_size_align(size, 4).unwrap();
            let class = class_layout(size_class_of(layout).unwrap());
            assert!(class.size() >= size, "{size} in a class of {}", class.size());
            assert!(class.size() <= size + size / 8 + 1, "{size} in a class of {}", class.size());
        }
        assert_eq!(size_class_of(Layout::from_size_align(SMALLEST - 1, 4).unwrap()), None);
        assert_eq!(size_class_of(Layout::from_size_align(1 << 40, 4).unwrap()), None);
        assert_eq!(size_class_of(Layout::from_size_align(1 << 20, 4096).unwrap()), None);
    }

    #[test]
    fn freed_blocks_are_used_again_zeroed_when_asked_and_given_back() {
        let memory = CachingAllocator::new();
        let layout = Layout::from_size_align(3_000_000, 4).unwrap();
        let class = class_layout(size_class_of(layout).unwrap()).size();
        // SAFETY: every block is used within its size and freed once.
        unsafe {
            let first = memory.alloc(layout);
            first.write_bytes(7, layout.size());
            memory.dealloc(first, layout);
            assert_eq!(memory.cached_bytes(), class);
            let second = memory.alloc_zeroed(layout);
            assert_eq!(second, first);
            assert!(std::slice::from_raw_parts(second, layout.size()).iter().all(|&byte| byte == 0));
            assert_eq!(memory.cached_bytes(), 0);
            memory.dealloc(second, layout);
        }
        memory.empty_cache();
        assert_eq!(memory.cached_bytes(), 0);
    }

    #[test]
    fn no_more_is_cached_than_was_allowed() {
        let memory = CachingAllocator::new();
        memory.set_cache_limit(1 << 20);
        let layout = Layout::from_size_align(600_000, 4).unwrap();
        // SAFETY: every block is freed once.
        unsafe {
            let blocks = [memory.alloc(layout), memory.alloc(layout)];
            for block in blocks {
                memory.dealloc(block, layout);
            }
        }
        assert!(memory.cached_bytes() > 0 && memory.cached_bytes() <= 1 << 20);
        memory.empty_cache();
    }

    #[test]
    fn a_block_that_grows_keeps_its_contents() {
        let memory = CachingAllocator::new();
        // SAFETY: every block is used within its size and freed once.
        unsafe {
            let layout = |size| Layout::from_size_align(size, 8).unwrap();
            let mut size = 1000;
            let mut block = memory.alloc(layout(size));
            block.write_bytes(3, size);
            for new_size in [70_000, 70_500, 5_000_000, 100_000, 10] {
                block = memory.realloc(block, layout(size), new_size);
                let contents = std::slice::from_raw_parts(block, size.min(new_size).min(1000));
                assert!(contents.iter().all(|&byte| byte == 3));
                size = new_size;
            }
            memory.dealloc(block, layout(size));
        }
        memory.empty_cache();
    }
}
