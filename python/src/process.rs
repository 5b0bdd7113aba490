//! Long work: without the interpreter's lock, with Ctrl-C, and in forked processes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use rayon::ThreadPool;

use crate::error;

/// Freed bytes that are kept for the next call. A ResNet-18 needs some 200 MiB for a chunk of images.
pub(crate) const CACHE_BYTES: usize = 512 << 20;

/// The process that has the threads of the global pool; 0 before any work.
static FIRST: AtomicU32 = AtomicU32::new(0);
/// The threads of a process that was forked from it: threads are not forked along.
static FORKED: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Does work while other Python threads go on.
pub(crate) fn compute<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let done = py.detach(|| {
        let done = match own_threads() {
            None => catch_unwind(AssertUnwindSafe(work)),
            Some(Ok(threads)) => catch_unwind(AssertUnwindSafe(|| threads.install(work))),
            Some(Err(error)) => {
                return Err(error::failure(format!("no threads can be started: {error}"), None));
            }
        };
        done.map_err(|panic| error::of_panic(&*panic))
    })?;
    // Ctrl-C while it went on.
    py.check_signals()?;
    Ok(done)
}

/// In a process that was forked after work began, its own threads; those of the first process are not in it.
fn own_threads() -> Option<Result<Arc<ThreadPool>, rayon::ThreadPoolBuildError>> {
    let process = std::process::id();
    let first =
        FIRST.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|id| id);
    if first == 0 || first == process {
        return None;
    }
    let mut forked = FORKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((owner, threads)) = &*forked
        && *owner == process
    {
        return Some(Ok(threads.clone()));
    }
    let threads = rayon::ThreadPoolBuilder::new().build().map(Arc::new);
    if let Ok(threads) = &threads
        && let Some((_, others)) = forked.replace((process, threads.clone()))
    {
        std::mem::forget(others); // its threads are in another process, and nobody may wait for them here
    }
    Some(threads)
}

/// Refuses what a forked process does not get: a GPU, a connection.
pub(crate) fn refuse_forked(opened_in: u32, what: &str) -> PyResult<()> {
    let process = std::process::id();
    if process == opened_in {
        return Ok(());
    }
    let message =
        format!("{what} was opened in process {opened_in} and is used in process {process}, forked from it");
    Err(error::failure(message, Some("open it in the worker, or start workers with \"spawn\"".into())))
}
