//! The end of what a process printed.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const KEPT_BYTES: usize = 64 << 10;
/// How long to wait for the rest of what a dead process printed.
const REST: Duration = Duration::from_millis(300);

/// The end of what a process printed, filled by one thread and read by another.
#[derive(Debug, Default)]
pub(super) struct Output {
    tail: Mutex<OutputTail>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct OutputTail {
    bytes: VecDeque<u8>,
    count: u64,
    closed: bool,
}

impl Output {
    pub(super) fn add(&self, part: &[u8]) {
        let mut tail = self.lock();
        tail.count += part.len() as u64;
        tail.bytes.extend(part);
        let spare = tail.bytes.len().saturating_sub(KEPT_BYTES);
        tail.bytes.drain(..spare);
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.closed.notify_all();
    }

    /// Waits until nothing more will come, but not for long: a forgotten grandchild may hold it open.
    pub(super) fn settle(&self) {
        let _ = self.closed.wait_timeout_while(self.lock(), REST, |tail| !tail.closed);
    }

    /// Bytes printed in all.
    pub(super) fn count(&self) -> u64 {
        self.lock().count
    }

    /// What is kept, from the start of a line.
    pub(super) fn text(&self) -> String {
        let tail = self.lock();
        let cut = tail.count > tail.bytes.len() as u64;
        let bytes: Vec<u8> = tail.bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        match text.split_once('\n') {
            Some((_, whole)) if cut => whole.into(),
            _ => text.into_owned(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutputTail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept_from_the_start_of_a_line() {
        let output = Output::default();
        output.add(b"hello ");
        output.add(b"there\n");
        assert_eq!(output.text(), "hello there\n");
        for line in 0..20_000 {
            output.add(format!("line {line}\n").as_bytes());
        }
        let text = output.text();
        assert!(text.len() <= KEPT_BYTES && text.starts_with("line ") && text.ends_with("line 19999\n"));
    }
}
