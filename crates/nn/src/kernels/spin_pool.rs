//! A spin pool: threads that spin from one parallel step to the next instead of sleeping.
//!
//! An update of a small network is a dozen parallel steps of some hundred microseconds, with a few microseconds of other
//! work between them. Threads of a pool fall asleep in such gaps, and waking one takes as long as a tenth of a step. So
//! [`with_spinning_threads`] borrows them from the pool for a whole update; they wait for steps without sleeping. A thread that never
//! comes, because the pool is busy, is not waited for.
//!
//! A part of a step that has parallel steps of its own does those alone.
//!
//! Of each step a thread first takes the parts that are its own by their index, then what others have left: what it
//! wrote in one step it mostly finds in its own cache in the next.

#![allow(unsafe_code)] // threads that share a step

use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Runs `work` while the threads of the current pool spin between the parallel steps of the networks in it.
///
/// Wrap everything that one update of networks does. Parallel work of any other kind inside of it,
/// convolutions among them, would find the pool's threads taken.
pub fn with_spinning_threads<R>(work: impl FnOnce() -> R) -> R {
    let _spinning = keep_spinning();
    work()
}

/// Keeps the threads of the current pool spinning, as [`with_spinning_threads`] does, until the guard is dropped.
#[must_use]
pub(crate) fn keep_spinning() -> SpinGuard {
    let helpers = rayon::current_num_threads().saturating_sub(1);
    if helpers == 0 || SPIN_POOL.get().is_some() || IN_A_STEP.get() {
        return SpinGuard(None);
    }
    // Spin pools of several threads could take every thread of the pool and wait for each other through it.
    if taken().swap(true, Ordering::AcqRel) {
        return SpinGuard(None);
    }
    let pool = Arc::new(SpinPool::of(1 + helpers));
    for place in 1..=helpers {
        let pool = pool.clone();
        rayon::spawn(move || pool.help(place));
    }
    SPIN_POOL.set(Some(Arc::as_ptr(&pool)));
    SpinGuard(Some(pool))
}

/// Whether a spin pool is running on the global pool: there is one at a time, and whoever finds it taken works alone.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The same of the pool that this thread belongs to.
fn taken() -> &'static AtomicBool {
    OWN_TAKEN.get().unwrap_or(&TAKEN)
}

/// Runs `work` on so many threads of its own: what is parallel in it uses these alone, beside others that do the same.
///
/// # Errors
/// When the system has no more threads.
pub fn with_own_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> std::io::Result<R> {
    // Lives as long as the threads might; there are as many of them as ranks in a process.
    let taken: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .start_handler(move |_| OWN_TAKEN.set(Some(taken)))
        .build()
        .map_err(std::io::Error::other)?;
    Ok(pool.install(work))
}

/// While it lives, the spin pool works for this thread; then its threads go back to rayon.
pub(crate) struct SpinGuard(Option<Arc<SpinPool>>);

impl Drop for SpinGuard {
    fn drop(&mut self) {
        if let Some(pool) = &self.0 {
            SPIN_POOL.set(None);
            pool.over.store(true, Ordering::Release);
            taken().store(false, Ordering::Release);
        }
    }
}

/// Whether a step is large enough for more than one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parallelism {
    OneThread,
    AllThreads,
}

/// Cuts slices into parts and calls `work(index, parts)` for each index, on all threads. Of each slice, the parts must
/// follow each other.
pub(crate) fn parallel_for_slices<const N: usize>(
    parallelism: Parallelism,
    slices: [&mut [f32]; N],
    count: usize,
    places: impl Fn(usize) -> [Range<usize>; N] + Sync,
    work: impl Fn(usize, [&mut [f32]; N]) + Sync,
) {
    let mut which = 0..N;
    let slices = slices.map(|slice| {
        let which = which.next().unwrap_or_default();
        DisjointSlices::new(slice, count, |index| places(index)[which].clone())
    });
    parallel_for(parallelism, count, |index| {
        let mut slices = slices.iter();
        let parts = places(index).map(|range| match slices.next() {
            // SAFETY: each index is taken once, and its ranges overlap with those of no other.
            Some(slice) => unsafe { slice.part(range) },
            None => &mut [],
        });
        work(index, parts);
    });
}

/// As [`parallel_for_slices`], for one slice.
pub(crate) fn parallel_for_slice(
    parallelism: Parallelism,
    slice: &mut [f32],
    count: usize,
    place: impl Fn(usize) -> Range<usize> + Sync,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    parallel_for_slices(
        parallelism,
        [slice],
        count,
        |index| [place(index)],
        |index, [part]| work(index, part),
    );
}

/// A slice that was found to fall into parts which do not overlap.
struct DisjointSlices {
    start: *mut f32,
    len: usize,
}

// SAFETY: threads get parts of it, each another one.
unsafe impl Sync for DisjointSlices {}

impl DisjointSlices {
    fn new(data: &mut [f32], count: usize, place: impl Fn(usize) -> Range<usize>) -> Self {
        let mut end = 0;
        for range in (0..count).map(place) {
            assert!(end <= range.start && range.start <= range.end, "parts must follow each other");
            end = range.end;
        }
        assert!(end <= data.len(), "parts must be inside");
        Self { start: data.as_mut_ptr(), len: data.len() }
    }

    /// # Safety
    /// No two calls at a time for ranges that overlap.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, range: Range<usize>) -> &mut [f32] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: inside of the slice, and nobody else's for now.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Calls `work` once for each index, on all threads.
pub(crate) fn parallel_for(parallelism: Parallelism, count: usize, work: impl Fn(usize) + Sync) {
    if parallelism == Parallelism::OneThread
        || count <= 1
        || IN_A_STEP.get()
        || rayon::current_num_threads() == 1
    {
        return (0..count).for_each(work);
    }
    with_spinning_threads(|| match SPIN_POOL.get() {
        // SAFETY: `SpinGuard` keeps it alive, and takes it away when dropped.
        Some(pool) => unsafe { &*pool }.share(count, &work),
        None => (0..count).for_each(&work),
    });
}

thread_local! {
    /// The spin pool that works for this thread.
    static SPIN_POOL: Cell<Option<*const SpinPool>> = const { Cell::new(None) };
    /// For a thread of a pool of its own: whether a spin pool is running there.
    static OWN_TAKEN: Cell<Option<&'static AtomicBool>> = const { Cell::new(None) };
    /// Whether this thread is at work on a part of a step.
    static IN_A_STEP: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread is in a step.
struct InStep;

impl InStep {
    fn enter() -> Self {
        IN_A_STEP.set(true);
        Self
    }
}

impl Drop for InStep {
    fn drop(&mut self) {
        IN_A_STEP.set(false);
    }
}

/// What a thread and its helpers share.
pub(crate) struct SpinPool {
    /// Odd while a step is open to helpers; another number for each step.
    step: AtomicU64,
    /// Helpers that may be looking at the step.
    inside: AtomicUsize,
    /// The step: read only by helpers that are inside while it is open.
    work: UnsafeCell<Option<Step>>,
    /// For each thread, the next of its own parts that nobody has taken.
    next: Box<[Counter]>,
    over: AtomicBool,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
}

// SAFETY: `work` is written by the owner while no helper is inside, and read by helpers while a step is open.
unsafe impl Sync for SpinPool {}
// SAFETY: the work it points to can be called by any thread, and is over before its owner goes on.
unsafe impl Send for SpinPool {}

/// On a line of the cache of its own, as threads count at the same time.
#[repr(align(64))]
struct Counter(AtomicUsize);

#[derive(Clone, Copy)]
struct Step {
    work: *const (dyn Fn(usize) + Sync),
    count: usize,
}

impl SpinPool {
    fn of(threads: usize) -> Self {
        Self {
            step: AtomicU64::new(0),
            inside: AtomicUsize::new(0),
            work: UnsafeCell::new(None),
            next: (0..threads).map(|_| Counter(AtomicUsize::new(0))).collect(),
            over: AtomicBool::new(false),
            panic: Mutex::new(None),
        }
    }

    /// The parts of a thread.
    fn own(&self, thread: usize, count: usize) -> Range<usize> {
        let threads = self.next.len();
        thread * count / threads..(thread + 1) * count / threads
    }

    /// One step, from opening to the last helper's leaving.
    fn share(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        // SAFETY: only the lifetime is forgotten; `Close` below waits for all helpers before `work` can end.
        let work: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(work) };
        // SAFETY: no step is open, so no helper reads this.
        unsafe { *self.work.get() = Some(Step { work, count }) };
        for (thread, next) in self.next.iter().enumerate() {
            next.0.store(self.own(thread, count).start, Ordering::Relaxed);
        }
        self.step.fetch_add(1, Ordering::SeqCst);
        {
            let _close = Close(self);
            self.take_parts(0, count, work);
        }
        let panic = self.panic.lock().ok().and_then(|mut panic| panic.take());
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn take_parts(&self, thread: usize, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let _in_step = InStep::enter();
        let threads = self.next.len();
        for whose in (thread..threads).chain(0..thread) {
            let end = self.own(whose, count).end;
            loop {
                let index = self.next[whose].0.fetch_add(1, Ordering::Relaxed);
                if index >= end {
                    break;
                }
                work(index);
            }
        }
    }

    /// What a helper does until the spin pool ends.
    fn help(&self, thread: usize) {
        let mut waited = 0;
        while !self.over.load(Ordering::Acquire) {
            let step = self.step.load(Ordering::SeqCst);
            if step % 2 == 1 {
                self.inside.fetch_add(1, Ordering::SeqCst);
                // Either this sees that the step was closed, or who closes it sees this helper and waits.
                if self.step.load(Ordering::SeqCst) == step {
                    self.help_with_step(thread);
                }
                self.inside.fetch_sub(1, Ordering::SeqCst);
                self.wait_for_other(step);
                waited = 0;
            }
            pause(&mut waited);
        }
    }

    fn help_with_step(&self, thread: usize) {
        // SAFETY: the step is open and this helper inside, so it is neither written nor over.
        let Some(Step { work, count }) = (unsafe { *self.work.get() }) else { return };
        // SAFETY: as above: `work` outlives the step.
        let help = AssertUnwindSafe(|| self.take_parts(thread, count, unsafe { &*work }));
        if let Err(panic) = catch_unwind(help)
            && let Ok(mut place) = self.panic.lock()
        {
            *place = Some(panic);
        }
    }

    /// Stays away from a step that has no parts left.
    fn wait_for_other(&self, step: u64) {
        let mut waited = 0;
        while self.step.load(Ordering::Acquire) == step && !self.over.load(Ordering::Acquire) {
            pause(&mut waited);
        }
    }
}

/// Closes a step, however it ends, and waits for the helpers that are inside.
struct Close<'a>(&'a SpinPool);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.step.fetch_add(1, Ordering::SeqCst);
        let mut waited = 0;
        while self.0.inside.load(Ordering::SeqCst) > 0 {
            pause(&mut waited);
        }
    }
}

/// Waits a moment; lets others run where it takes long.
fn pause(waited: &mut u32) {
    const BEFORE_YIELDING: u32 = 5_000;
    *waited += 1;
    if *waited < BEFORE_YIELDING {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    fn squares(count: usize) -> Vec<f32> {
        let mut data = vec![0.0; count];
        parallel_for_slice(
            Parallelism::AllThreads,
            &mut data,
            count,
            |i| i..i + 1,
            |i, part| part[0] += (i * i) as f32,
        );
        data
    }

    #[test]
    fn every_part_is_done_once() {
        let expected: Vec<f32> = (0..1000).map(|i| (i * i) as f32).collect();
        for threads in [1, 2, 4] {
            pool(threads).install(|| {
                assert_eq!(squares(1000), expected);
                with_spinning_threads(|| (0..200).for_each(|_| assert_eq!(squares(1000), expected)));
            });
        }
        assert_eq!(with_spinning_threads(|| squares(1000)), expected, "outside of any pool");
    }

    #[test]
    fn a_busy_pool_is_not_waited_for() {
        pool(2).install(|| {
            let (a, b) = rayon::join(
                || with_spinning_threads(|| squares(100)),
                || with_spinning_threads(|| squares(100)),
            );
            assert_eq!(a, b);
        });
    }

    #[test]
    fn steps_inside_of_steps_are_done_alone() {
        pool(3).install(|| {
            let mut sums = [0.0; 50];
            parallel_for_slice(
                Parallelism::AllThreads,
                &mut sums,
                50,
                |i| i..i + 1,
                |i, part| part[0] = squares(i + 1)[i],
            );
            assert_eq!(sums.to_vec(), squares(50));
        });
    }

    #[test]
    fn a_panic_of_a_part_comes_back() {
        for threads in [1, 3] {
            let caught = catch_unwind(|| {
                pool(threads).install(|| {
                    let mut data = [0.0; 64];
                    parallel_for_slice(
                        Parallelism::AllThreads,
                        &mut data,
                        64,
                        |i| i..i + 1,
                        |i, _| assert!(i < 40, "part {i}"),
                    );
                });
            });
            assert!(caught.is_err());
        }
        assert_eq!(pool(2).install(|| squares(10))[3], 9.0, "and the next step is as ever");
    }

    #[test]
    #[should_panic(expected = "parts must follow each other")]
    fn parts_that_overlap_are_refused() {
        parallel_for_slice(Parallelism::AllThreads, &mut [0.0; 4], 2, |i| i..i + 2, |_, _| {});
    }
}
