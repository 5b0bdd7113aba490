//! A thread that holds the arm when nobody acts any more, or somebody wants to stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Guard, Watched};
use crate::{Clock, StopToken};

/// How often the watchdog looks: a stop is a hold within a few of these.
const LOOKS_EVERY: Duration = Duration::from_millis(10);

/// A guard that several threads may use, one at a time.
pub struct SharedGuard<G = Guard>(Arc<Mutex<G>>);

impl<G> Clone for SharedGuard<G> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G> SharedGuard<G> {
    /// Shares a guard.
    pub fn new(guard: G) -> Self {
        Self(Arc::new(Mutex::new(guard)))
    }

    /// Waits for the guard. One whose user panicked is still a guard: what it sends is checked as ever.
    pub fn lock(&self) -> MutexGuard<'_, G> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks after a guard until it is dropped, and then holds.
pub struct Watchdog<G: Watched = Guard> {
    guard: SharedGuard<G>,
    ended: StopToken,
    thread: Option<JoinHandle<()>>,
}

impl<G: Watched> Watchdog<G> {
    /// Begins to look. `stop` holds the arm for good.
    pub fn start(guard: SharedGuard<G>, clock: Arc<dyn Clock>, stop: StopToken) -> std::io::Result<Self> {
        let (ended, watched) = (StopToken::new(), guard.clone());
        let has_ended = ended.clone();
        let look = move || {
            let mut is_stopped = false;
            while !has_ended.is_raised() {
                if stop.is_raised() && !is_stopped {
                    watched.lock().stop();
                    is_stopped = true;
                }
                watched.lock().tick();
                // In the machine's time: a stop is as quick on a clock that runs fast.
                std::thread::sleep(clock.in_wall_time(LOOKS_EVERY).min(LOOKS_EVERY));
            }
        };
        let thread = std::thread::Builder::new().name("robot-watchdog".into()).spawn(look)?;
        Ok(Self { guard, ended, thread: Some(thread) })
    }
}

impl<G: Watched> Drop for Watchdog<G> {
    fn drop(&mut self) {
        self.ended.raise();
        if let Some(thread) = self.thread.take() {
            // It only looks, and cannot have anything to say.
            let _ = thread.join();
        }
        self.guard.lock().stop();
    }
}
