//! What happens while pages are open, told to all of them: server-sent events.

use std::sync::{Mutex, PoisonError};

use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

/// Events that may wait for one page. One that reads none of them loses its stream, and asks for a new one.
const WAITING: usize = 256;
/// Pages that listen at once.
const LISTENERS: usize = 32;

/// Everyone who listens.
#[derive(Default)]
pub(crate) struct Events {
    listeners: Mutex<Vec<mpsc::Sender<Bytes>>>,
}

impl Events {
    /// A new listener. Where there are too many, the oldest goes.
    pub(crate) fn listen(&self) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let _ = sender.try_send(Bytes::from_static(b"retry: 1000\n\n"));
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if listeners.len() >= LISTENERS {
            listeners.remove(0);
        }
        listeners.push(sender);
        receiver
    }

    /// Tells everyone.
    pub(crate) fn tell(&self, kind: &str, value: &Value) {
        self.send(&Bytes::from(format!("event: {kind}\ndata: {value}\n\n")));
    }

    /// Shows that the connection is alive, and finds out whose is not.
    pub(crate) fn keep_alive(&self) {
        self.send(&Bytes::from_static(b": \n\n"));
    }

    fn send(&self, bytes: &Bytes) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.try_send(bytes.clone()).is_ok());
    }

    /// Ends every stream.
    pub(crate) fn close(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_reads_nothing_holds_nothing_up() {
        let events = Events::default();
        let mut reader = events.listen();
        let idle = events.listen();
        for number in 0..2 * WAITING {
            events.tell("tick", &serde_json::json!(number));
            while reader.try_recv().is_ok() {}
        }
        assert_eq!(events.listeners.lock().unwrap().len(), 1, "the idle one was let go");
        drop((reader, idle));
        for _ in 0..3 * LISTENERS {
            std::mem::forget(events.listen());
        }
        assert!(events.listeners.lock().unwrap().len() <= LISTENERS);
    }
}
