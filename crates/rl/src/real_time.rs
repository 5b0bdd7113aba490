//! Threads that must not be late, and threads that let them go first.
//!
//! A robot acts ten times a second while its learner keeps every core busy. Two things make it late: its policy waits for
//! threads of a pool that are at work for the learner, and the scheduler gives the learner its whole turn. So the robot's thread
//! works alone, and the learner's threads ask for less.

use rayon::{ThreadPool, ThreadPoolBuilder};

/// How much lower a learner's threads stand than the robot's, in `nice` values: a tenth of the time if both want to run, and the
/// robot's thread runs as soon as it wakes.
#[cfg(target_os = "linux")]
const LEARNER_NICENESS: i32 = 10;

/// Parallel work of this thread is done by itself alone for as long as the result lives. Numbers do not depend on that. A thread
/// that belongs to a pool already goes on as it is.
pub(crate) fn work_alone() -> Option<ThreadPool> {
    ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().ok()
}

/// Lowers the priority of this thread and of the pool it computes on, for good: an unprivileged process cannot raise it again.
/// Threads that exist already keep theirs.
pub(crate) fn let_others_first() {
    lower_this_thread();
    rayon::broadcast(|_| lower_this_thread());
}

/// A refusal costs punctuality, and nothing else.
#[cfg(target_os = "linux")]
fn lower_this_thread() {
    // On Linux this is of one thread, not of its process.
    let _ = rustix::process::setpriority_process(None, LEARNER_NICENESS);
}

#[cfg(not(target_os = "linux"))]
fn lower_this_thread() {}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;

    #[test]
    fn a_thread_that_works_alone_waits_for_no_pool() {
        let busy = std::sync::atomic::AtomicBool::new(true);
        let is_busy = || busy.load(std::sync::atomic::Ordering::Relaxed);
        rayon::in_place_scope(|scope| {
            for _ in 0..rayon::current_num_threads() {
                scope.spawn(|_| {
                    while is_busy() {
                        std::thread::yield_now()
                    }
                });
            }
            let alone = std::thread::scope(|threads| {
                let work = || {
                    let _alone = work_alone().unwrap();
                    let here = std::thread::current().id();
                    (0..1000).into_par_iter().all(|_| std::thread::current().id() == here)
                };
                threads.spawn(work).join().unwrap()
            });
            busy.store(false, std::sync::atomic::Ordering::Relaxed);
            assert!(alone, "other threads took part");
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_the_threads_that_ask_for_it_are_lowered() {
        let before = rustix::process::getpriority_process(None).unwrap();
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let lowered = pool.install(|| {
            let_others_first();
            rayon::broadcast(|_| nice())
        });
        assert_eq!(lowered, [LEARNER_NICENESS.max(before); 2]);
        assert_eq!(nice(), before, "this thread asked for nothing");
    }
}
