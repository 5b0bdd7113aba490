//! What a worker holds of its links: messages to and from peers by name, whole, in order, and once.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::stream::{Counts, Delivered, Stream};
use super::{Incoming, LinkError, LinkReceiver, LinkSender, Payload, StreamSettings};

/// Messages that wait for one peer at most; whoever sends more waits.
const MAX_QUEUED: usize = 64;
/// How often streams are looked after at least.
const TICK: Duration = Duration::from_millis(50);

/// Who a process is, and whom it talks to.
#[derive(Debug, Clone)]
pub struct Identity {
    /// What it runs: peers of another version are refused.
    pub version: Arc<str>,
    /// The names of its peers.
    pub peers: Vec<Arc<str>>,
    /// How messages are kept from getting lost.
    pub settings: StreamSettings,
}

/// What happened to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It sent a message.
    Message(Vec<u8>),
    /// It is there. Another incarnation than before is a process that was started again: whatever it was sent is forgotten.
    Up {
        /// Which of its processes.
        incarnation: u64,
    },
    /// It has been silent for too long, or was replaced. What was sent to it arrives when it is back, unless it was replaced.
    Down,
    /// It runs another version, or does not keep to the protocol; nothing more will come of it.
    Refused {
        /// What it runs.
        theirs: String,
    },
}

/// How a peer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCounts {
    /// Whether it counts as there.
    pub is_up: bool,
    /// Parts that it has not acknowledged.
    pub in_flight: usize,
    /// Messages that wait.
    pub queued: usize,
    /// What went over the stream.
    pub counts: Counts,
}

/// A process's end of its links. Clones share it.
#[derive(Clone)]
pub struct Endpoint {
    own: u64,
    shared: Arc<Shared>,
    _thread: Arc<ThreadGuard>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    sender: Box<dyn LinkSender>,
    peers: BTreeMap<Arc<str>, Peer>,
    stopped: Option<String>,
    /// No worker holds the endpoint any more.
    closed: bool,
}

struct Peer {
    stream: Stream,
    inbox: VecDeque<Event>,
}

/// Stops the thread when the last clone of an endpoint goes.
struct ThreadGuard {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        lock(&self.shared).closed = true;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Endpoint {
    /// Takes an engine over, on a thread of its own.
    pub fn start(
        identity: &Identity,
        sender: Box<dyn LinkSender>,
        receiver: Box<dyn LinkReceiver>,
    ) -> Result<Self, LinkError> {
        let own = new_incarnation();
        let peer = |name: &Arc<str>| {
            let stream = Stream::new(identity.settings, own, identity.version.clone());
            (name.clone(), Peer { stream, inbox: VecDeque::new() })
        };
        let peers = identity.peers.iter().map(peer).collect();
        let state = State { sender, peers, stopped: None, closed: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let serving = shared.clone();
        let thread = std::thread::Builder::new().name("link".into()).spawn(move || serving.serve(receiver));
        let thread = thread.map_err(|error| LinkError::Engine(error.to_string()))?;
        let guard = ThreadGuard { shared: shared.clone(), thread: Mutex::new(Some(thread)) };
        Ok(Self { own, shared, _thread: Arc::new(guard) })
    }

    /// Sends a message to a peer that is up. Waits while too many wait for it already.
    ///
    /// A message that was accepted arrives, unless the peer's process or this one ends.
    pub fn send(&self, peer: &str, payload: Arc<Payload>) -> Result<(), LinkError> {
        let mut state = lock(&self.shared);
        let mut incarnation = None;
        loop {
            state.check()?;
            let found = state.peer(peer)?;
            let now = found.stream.peer();
            if now.is_none() || *incarnation.get_or_insert(now) != now {
                return Err(LinkError::Down { peer: peer.into() });
            }
            if found.stream.queued() < MAX_QUEUED {
                break;
            }
            state = wait(&self.shared.changed, state, TICK);
        }
        state.peer(peer)?.stream.push(payload);
        let sent = state.transmit(peer, Instant::now());
        if let Err(error) = &sent {
            // An engine that fails is one that is going down: nothing that a worker says of it may reach anybody half.
            state.stopped = Some(error.to_string());
        }
        sent
    }

    /// What comes next from any of these peers; nothing within `timeout`.
    pub fn recv(
        &self,
        peers: &[Arc<str>],
        timeout: Duration,
    ) -> Result<Option<(Arc<str>, Event)>, LinkError> {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.shared);
        loop {
            for name in peers {
                if let Some(event) = state.peer(name)?.inbox.pop_front() {
                    return Ok(Some((name.clone(), event)));
                }
            }
            state.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = wait(&self.shared.changed, state, left);
        }
    }

    /// Waits until a peer has acknowledged everything, or is gone, or time is up; says whether it has.
    pub fn flush(&self, peer: &str, timeout: Duration) -> Result<bool, LinkError> {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.shared);
        loop {
            let stream = &state.peer(peer)?.stream;
            if stream.queued() == 0 && stream.in_flight() == 0 {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.stopped.is_some() {
                return Ok(false);
            }
            state = wait(&self.shared.changed, state, left.min(TICK));
        }
    }

    /// Whether the engine was stopped: whoever supervises the run ends its processes, to start them again or not.
    pub fn is_stopped(&self) -> bool {
        lock(&self.shared).stopped.is_some()
    }

    /// Which process this is: a number that no other has.
    pub fn own_incarnation(&self) -> u64 {
        self.own
    }

    /// Which process a peer is now, if it was ever there.
    pub fn incarnation(&self, peer: &str) -> Option<u64> {
        lock(&self.shared).peers.get(peer)?.stream.peer()
    }

    /// How all peers are doing.
    pub fn counts(&self) -> BTreeMap<Arc<str>, PeerCounts> {
        let of = |(name, peer): (&Arc<str>, &Peer)| {
            let stream = &peer.stream;
            let (in_flight, queued) = (stream.in_flight(), stream.queued());
            let counts = PeerCounts { is_up: stream.is_up, in_flight, queued, counts: stream.counts };
            (name.clone(), counts)
        };
        lock(&self.shared).peers.iter().map(of).collect()
    }
}

impl Shared {
    /// Receives, acknowledges, sends again, until nobody needs it.
    fn serve(&self, mut receiver: Box<dyn LinkReceiver>) {
        loop {
            let mut on_bytes = |from: &str, bytes: &[u8]| self.take(from, bytes);
            let incoming = receiver.recv(TICK, &mut on_bytes);
            let mut state = lock(self);
            if state.closed {
                return;
            }
            if let Incoming::Stop(why) = incoming {
                state.stopped = Some(why);
                self.changed.notify_all();
                return;
            }
            if let Err(error) = state.look_after() {
                state.stopped = Some(error.to_string());
            }
            self.changed.notify_all();
        }
    }

    fn take(&self, from: &str, bytes: &[u8]) {
        let (mut state, now) = (lock(self), Instant::now());
        let Some(peer) = state.peers.get_mut(from) else { return };
        let delivered = peer.stream.receive(bytes, now);
        if delivered.contains(&Delivered::Gone) {
            // What a process that is gone still wanted is void; its successor asks for what it needs.
            peer.inbox.retain(|event| !matches!(event, Event::Message(_)));
        }
        let events = delivered.into_iter().map(|delivered| match delivered {
            Delivered::Message(message) => Event::Message(message),
            Delivered::Up(incarnation) => Event::Up { incarnation },
            Delivered::Gone => Event::Down,
            Delivered::Refused(theirs) => Event::Refused { theirs },
        });
        peer.inbox.extend(events);
        if let Err(error) = state.transmit(from, now) {
            state.stopped = Some(error.to_string());
        }
        self.changed.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<(), LinkError> {
        self.stopped.as_ref().map_or(Ok(()), |why| Err(LinkError::Stopped(why.clone())))
    }

    fn peer(&mut self, name: &str) -> Result<&mut Peer, LinkError> {
        self.peers.get_mut(name).ok_or_else(|| LinkError::NoPeer { peer: name.into() })
    }

    fn transmit(&mut self, name: &str, now: Instant) -> Result<(), LinkError> {
        let Some((name, peer)) =
            self.peers.get_key_value(name).map(|(name, _)| name.clone()).and_then(|name| {
                let peer = self.peers.get_mut(&name)?;
                Some((name, peer))
            })
        else {
            return Err(LinkError::NoPeer { peer: name.into() });
        };
        let sender = &mut self.sender;
        peer.stream.transmit(now, &mut |len, fill| sender.send(&name, len, fill))
    }

    /// Everything that is due by the clock.
    fn look_after(&mut self) -> Result<(), LinkError> {
        let now = Instant::now();
        let State { sender, peers, .. } = self;
        for (name, peer) in peers.iter_mut() {
            if peer.stream.check_silence(now) {
                peer.inbox.push_back(Event::Down);
            }
            peer.stream.transmit(now, &mut |len, fill| sender.send(name, len, fill))?;
        }
        Ok(())
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>, timeout: Duration) -> MutexGuard<'a, State> {
    changed.wait_timeout(state, timeout).unwrap_or_else(PoisonError::into_inner).0
}

/// A number that no other process has, but 0.
fn new_incarnation() -> u64 {
    RandomState::new().hash_one(std::process::id()).max(1)
}
