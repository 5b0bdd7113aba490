//! Workers as threads of one process: channels carry their bytes.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Incoming, LinkError, LinkReceiver, LinkSender};

/// Frames that wait at a receiver at most; beyond, they are lost, and sent again.
const QUEUE: usize = 1024;

/// The channels between the workers of one process. A worker that is started again takes the place of its predecessor.
#[derive(Clone, Default)]
pub struct Switchboard {
    queues: Arc<Mutex<BTreeMap<Arc<str>, SyncSender<Frame>>>>,
}

type Frame = (Arc<str>, Vec<u8>);

impl Switchboard {
    /// Both halves of a worker's link.
    pub fn connect(&self, name: &str) -> (Box<dyn LinkSender>, Box<dyn LinkReceiver>) {
        let (send, queue) = sync_channel(QUEUE);
        let name: Arc<str> = name.into();
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), send);
        (Box::new(ThreadSender { name, board: self.clone() }), Box::new(ThreadReceiver { queue }))
    }
}

struct ThreadSender {
    name: Arc<str>,
    board: Switchboard,
}

impl LinkSender for ThreadSender {
    fn send(
        &mut self,
        peer: &Arc<str>,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LinkError> {
        let queue = self.board.queues.lock().unwrap_or_else(PoisonError::into_inner).get(peer).cloned();
        let Some(queue) = queue else { return Ok(()) }; // it was not started yet
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        match queue.try_send((self.name.clone(), bytes)) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Ok(()),
        }
    }
}

struct ThreadReceiver {
    queue: Receiver<Frame>,
}

impl LinkReceiver for ThreadReceiver {
    fn recv(&mut self, timeout: Duration, on_bytes: &mut dyn FnMut(&str, &[u8])) -> Incoming {
        match self.queue.recv_timeout(timeout) {
            Ok((from, bytes)) => {
                on_bytes(&from, &bytes);
                Incoming::Bytes
            }
            Err(RecvTimeoutError::Timeout) => Incoming::Timeout,
            Err(RecvTimeoutError::Disconnected) => Incoming::Stop("another worker took its name".into()),
        }
    }
}
