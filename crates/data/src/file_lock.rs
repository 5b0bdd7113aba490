//! A file that one process holds at a time. The lock goes with the process, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a lock may be held by nobody in particular.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Opens the file, which is made if it is not there, and holds it. Nothing, if another process does.
pub(crate) fn acquire(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            // A process that is just being started holds every lock of its parent until it runs its own program.
            Err(TryLockError::WouldBlock) if began.elapsed() < TIMEOUT => thread::sleep(TIMEOUT / 50),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
