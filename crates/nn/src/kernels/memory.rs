//! Memory that kernels write before they read it, so that nobody clears it first.

use super::threads::{Shared, for_each};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// A vector to be filled by a kernel, with whatever was in its memory before.
///
/// Every kernel here writes the whole of its output before anybody reads it; clearing outputs first would cost about
/// a tenth of a training step.
#[must_use]
pub fn unfilled(len: usize) -> Vec<f32> {
    let mut memory = Vec::<f32>::with_capacity(len);
    let place = memory.as_mut_ptr();
    // SAFETY: the assembly is empty, but the compiler must assume that it has written to all memory it could reach
    // through its operand; so from here on the numbers are initialised, with values nobody knows. The CPU has
    // no other notion of memory than this, and every pattern of bits is an `f32`.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: `len` numbers fit into the capacity.
    unsafe {
        place.write_bytes(0, len);
    }
    // SAFETY: the capacity is `len`, and the numbers are initialised, see above.
    unsafe { memory.set_len(len) };
    memory
}

/// Copies on all threads.
///
/// # Panics
/// When the slices differ in length.
pub fn copy(from: &[f32], to: &mut [f32]) {
    const RUN: usize = 1 << 16;
    assert_eq!(from.len(), to.len(), "as many numbers as there is room for");
    let target = Shared::of(to);
    for_each(from.len().div_ceil(RUN), |run| {
        let here = &from[run * RUN..from.len().min((run + 1) * RUN)];
        // SAFETY: inside `to`, and each run has its own part.
        unsafe { target.at(run * RUN).copy_from_nonoverlapping(here.as_ptr(), here.len()) };
    });
}

/// Floats in a line of the cache, which is also the widest vector.
pub(crate) const LINE: usize = 16;

/// What a cache line holds; also the alignment that vectors like best.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
struct Line([f32; LINE]);

/// Floats that begin at a line of the cache. A vector across two lines costs two loads; where most loads are such, a
/// product takes a seventh longer.
#[derive(Debug, Default, Clone)]
pub(crate) struct AlignedBuffer {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBuffer {
    /// Makes room. What was there stays there, so that batches of changing size cost nothing; new memory is zero.
    pub(crate) fn fit(&mut self, len: usize) {
        if self.len < len {
            self.lines.resize(len.div_ceil(LINE), Line([0.0; LINE]));
            self.len = len;
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: a line is sixteen floats and nothing else, and `fit` made lines for `len` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// Aligned memory that grows when asked and is never cleared.
#[derive(Default)]
pub(crate) struct Workspace(Vec<MaybeUninit<Line>>);

impl Workspace {
    /// Memory for `bytes` bytes, aligned to a cache line. Contents are unknown.
    pub(crate) fn need(&mut self, bytes: usize) -> *mut u8 {
        let lines = bytes.div_ceil(size_of::<Line>());
        if self.0.len() < lines {
            // Free the old lines first: their contents are not wanted.
            self.0 = Vec::new();
            self.0.reserve_exact(lines);
            // SAFETY: the capacity is there, and `MaybeUninit` needs no initialisation.
            unsafe { self.0.set_len(lines) };
        }
        self.0.as_mut_ptr().cast()
    }

    /// New memory for `bytes` bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        let mut workspace = Self::default();
        workspace.need(bytes);
        workspace
    }

    /// Where it begins, for reading.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Where it begins, for writing.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Lends the thread's own memory of `bytes` bytes. The work must not divide itself among threads: a thread that waits
/// there could be given other work that wants the same memory.
pub(crate) fn with_workspace<R>(bytes: usize, work: impl FnOnce(*mut u8) -> R) -> R {
    WORKSPACE.with_borrow_mut(|workspace| work(workspace.need(bytes)))
}
