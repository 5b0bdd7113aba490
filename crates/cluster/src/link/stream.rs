//! One pair of processes: messages in parts, each delivered once and in order, over an engine that may lose or repeat them.
//!
//! Nothing here knows an engine, a thread or a clock: frames and the time are handed in, frames to send are handed out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::frame::{HEADER, Header, Kind};
use super::{LinkError, MAX_MESSAGE, MAX_PART, PROTOCOL, Payload, StreamSettings};

/// How often a process says that it is there.
pub(super) const HELLO_INTERVAL: Duration = Duration::from_millis(500);
/// The longest wait before a part is sent again.
const MAX_RESEND: Duration = Duration::from_secs(8);
/// Incarnations of a peer that are over: what of theirs still arrives is not taken for a new process.
const RETIRED: usize = 16;
/// Parts that are under way at most, whatever is asked for: as many as an acknowledgement has bits for.
const MAX_WINDOW: usize = 64;
/// The longest name of a version.
const MAX_VERSION: usize = 100;

/// What came of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    Message(Vec<u8>),
    /// The peer is there: a process that was not there before, or one that was silent.
    Up(u64),
    /// The peer's process is gone: another one took its place.
    Gone,
    Refused(String),
}

/// What writes a frame of so many bytes into an engine's buffer.
pub(super) type Emit<'a> = &'a mut dyn FnMut(usize, &mut dyn FnMut(&mut [u8])) -> Result<(), LinkError>;

/// A stream to and from one peer.
pub(super) struct Stream {
    settings: StreamSettings,
    /// This process.
    own: u64,
    version: Arc<str>,
    peer: Option<u64>,
    retired: VecDeque<u64>,
    refused: bool,
    out: Outgoing,
    into: Arriving,
    last_heard: Option<Instant>,
    last_hello: Option<Instant>,
    /// Whether the peer counts as there.
    pub(super) is_up: bool,
    pub(super) counts: Counts,
}

/// How much went over a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Parts that were sent again.
    pub resent: u64,
    /// Parts that arrived twice and were dropped.
    pub duplicates: u64,
    /// Times that the peer's process was another than before.
    pub restarts: u64,
    /// Bytes of messages sent.
    pub sent_bytes: u64,
    /// Bytes of messages received.
    pub received_bytes: u64,
}

#[derive(Default)]
struct Outgoing {
    /// Messages of which not all parts were sent; of the first, so many bytes were.
    queue: VecDeque<Arc<Payload>>,
    offset: usize,
    next: u64,
    unacked: VecDeque<Part>,
    round_trip: Option<Duration>,
}

struct Part {
    seq: u64,
    payload: Arc<Payload>,
    from: usize,
    len: usize,
    last: bool,
    sent: Instant,
    tries: u32,
    /// It arrived, and one before it did not.
    arrived: bool,
}

#[derive(Default)]
struct Arriving {
    expected: u64,
    early: BTreeMap<u64, (bool, Vec<u8>)>,
    assembling: Vec<u8>,
    owes_ack: bool,
}

impl Stream {
    pub(super) fn new(settings: StreamSettings, own: u64, version: Arc<str>) -> Self {
        Self {
            settings,
            own,
            version,
            peer: None,
            retired: VecDeque::new(),
            refused: false,
            out: Outgoing::default(),
            into: Arriving::default(),
            last_heard: None,
            last_hello: None,
            is_up: false,
            counts: Counts::default(),
        }
    }

    /// The peer's incarnation, once it was heard.
    pub(super) fn peer(&self) -> Option<u64> {
        self.peer
    }

    /// Messages that were not sent to their end.
    pub(super) fn queued(&self) -> usize {
        self.out.queue.len()
    }

    /// Parts that are not acknowledged.
    pub(super) fn in_flight(&self) -> usize {
        self.out.unacked.len()
    }

    pub(super) fn push(&mut self, payload: Arc<Payload>) {
        self.counts.sent += 1;
        self.counts.sent_bytes += payload.len() as u64;
        self.out.queue.push_back(payload);
    }

    /// Takes a frame in.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Instant) -> Vec<Delivered> {
        let mut delivered = Vec::new();
        let Some((header, body)) = Header::read(bytes) else { return delivered };
        if self.refused || self.retired.contains(&header.from) {
            return delivered;
        }
        if header.kind == Kind::Hello && !self.greet(&header, body, &mut delivered) {
            return delivered;
        }
        if self.peer != Some(header.from) {
            return delivered; // its hello has not arrived
        }
        self.last_heard = Some(now);
        if !self.is_up {
            self.is_up = true;
            delivered.push(Delivered::Up(header.from));
        }
        if header.to == self.own {
            match header.kind {
                Kind::Hello => {}
                Kind::Part { last } => self.take_part(header.seq, last, body, &mut delivered),
                Kind::Ack => self.take_ack(&header, now),
            }
        }
        delivered
    }

    /// Whether the peer may be talked to.
    fn greet(&mut self, header: &Header, body: &[u8], delivered: &mut Vec<Delivered>) -> bool {
        let theirs = String::from_utf8_lossy(&body[..body.len().min(MAX_VERSION)]).into_owned();
        if header.protocol != PROTOCOL || theirs != *self.version {
            self.refused = true;
            let theirs = match header.protocol == PROTOCOL {
                true => theirs,
                false => format!("{theirs} (protocol {})", header.protocol),
            };
            delivered.push(Delivered::Refused(theirs));
            return false;
        }
        if self.peer != Some(header.from) {
            if let Some(before) = self.peer.replace(header.from) {
                self.retired.push_back(before);
                if self.retired.len() > RETIRED {
                    self.retired.pop_front();
                }
                self.counts.restarts += 1;
                delivered.push(Delivered::Gone);
            }
            (self.out, self.into, self.is_up) = (Outgoing::default(), Arriving::default(), false);
            self.last_hello = None; // it may not know this process yet
        }
        true
    }

    fn take_part(&mut self, seq: u64, last: bool, body: &[u8], delivered: &mut Vec<Delivered>) {
        let into = &mut self.into;
        into.owes_ack = true;
        // A sender keeps to its window; what lies far beyond is damaged.
        let far = into.expected.saturating_add(MAX_WINDOW as u64);
        if seq < into.expected || into.early.contains_key(&seq) || seq > far || body.len() > MAX_PART {
            self.counts.duplicates += 1;
            return;
        }
        if seq > into.expected {
            into.early.insert(seq, (last, body.to_vec()));
            return;
        }
        self.append(last, body, delivered);
        while let Some((last, body)) = self.into.early.remove(&self.into.expected) {
            self.append(last, &body, delivered);
        }
    }

    fn append(&mut self, last: bool, body: &[u8], delivered: &mut Vec<Delivered>) {
        let into = &mut self.into;
        into.expected += 1;
        if into.assembling.len() + body.len() > MAX_MESSAGE {
            self.refused = true;
            delivered.push(Delivered::Refused(LinkError::TooLong { limit: MAX_MESSAGE }.to_string()));
            return;
        }
        into.assembling.extend_from_slice(body);
        if last {
            let message = std::mem::take(&mut into.assembling);
            self.counts.received += 1;
            self.counts.received_bytes += message.len() as u64;
            delivered.push(Delivered::Message(message));
        }
    }

    fn take_ack(&mut self, header: &Header, now: Instant) {
        let out = &mut self.out;
        while let Some(part) = out.unacked.front().filter(|part| part.seq < header.seq) {
            if part.tries == 1 {
                let took = now.duration_since(part.sent);
                out.round_trip = Some(out.round_trip.map_or(took, |known| (known * 7 + took) / 8));
            }
            out.unacked.pop_front();
        }
        for part in &mut out.unacked {
            let bit = part.seq.checked_sub(header.seq.saturating_add(1)).filter(|bit| *bit < 64);
            part.arrived |= bit.is_some_and(|bit| header.early >> bit & 1 == 1);
        }
    }

    /// Marks a peer that was silent for too long as down; says whether it was up.
    pub(super) fn check_silence(&mut self, now: Instant) -> bool {
        let silent =
            self.last_heard.is_some_and(|heard| now.duration_since(heard) > self.settings.dead_after);
        silent && std::mem::take(&mut self.is_up)
    }

    /// Sends what is due: a hello, an acknowledgement, new parts as far as the window goes, parts that seem lost.
    pub(super) fn transmit(&mut self, now: Instant, emit: Emit<'_>) -> Result<(), LinkError> {
        if self.last_hello.is_none_or(|last| now.duration_since(last) >= HELLO_INTERVAL) {
            self.last_hello = Some(now);
            self.send_hello(emit)?;
        }
        let Some(peer) = self.peer.filter(|_| !self.refused) else { return Ok(()) };
        if std::mem::take(&mut self.into.owes_ack) {
            self.send_ack(peer, emit)?;
        }
        self.resend(peer, now, emit)?;
        while self.out.unacked.len() < self.settings.window.clamp(1, MAX_WINDOW) {
            let Some(part) = self.out.next_part(now) else { break };
            send_part(&part, self.own, peer, emit)?;
            self.out.unacked.push_back(part);
        }
        Ok(())
    }

    fn send_hello(&self, emit: Emit<'_>) -> Result<(), LinkError> {
        let header = self.header(Kind::Hello, self.peer.unwrap_or(0), 0, 0);
        let version = self.version.as_bytes();
        emit(HEADER + version.len(), &mut |into| {
            header.write(into);
            into[HEADER..].copy_from_slice(version);
        })
    }

    fn send_ack(&self, peer: u64, emit: Emit<'_>) -> Result<(), LinkError> {
        let expected = self.into.expected;
        let bits = self.into.early.keys().filter_map(|seq| seq.checked_sub(expected + 1));
        let early = bits.filter(|bit| *bit < 64).fold(0, |early, bit| early | 1 << bit);
        let header = self.header(Kind::Ack, peer, expected, early);
        emit(HEADER, &mut |into| header.write(into))
    }

    /// Of the parts that are late, the first alone is sent again: it shows whether anything gets through. Parts before one
    /// that arrived are lost, and all sent again.
    fn resend(&mut self, peer: u64, now: Instant, emit: Emit<'_>) -> Result<(), LinkError> {
        let round_trip = self.out.round_trip.unwrap_or(self.settings.resend_after);
        let wait = self.settings.resend_after.max(round_trip * 3);
        let newest_arrived = self.out.unacked.iter().rev().find(|part| part.arrived).map(|part| part.seq);
        for (at, part) in self.out.unacked.iter_mut().enumerate().filter(|(_, part)| !part.arrived) {
            let waited = now.duration_since(part.sent);
            let is_overtaken = newest_arrived.is_some_and(|arrived| arrived > part.seq);
            let patience =
                (wait * 2u32.saturating_pow(part.tries.saturating_sub(1))).min(MAX_RESEND.max(wait));
            let is_due = match is_overtaken {
                true => waited > (round_trip * 2 * part.tries).min(patience),
                false => at == 0 && waited > patience,
            };
            if is_due {
                send_part(part, self.own, peer, emit)?;
                (part.sent, part.tries) = (now, part.tries + 1);
                self.counts.resent += 1;
            }
        }
        Ok(())
    }

    fn header(&self, kind: Kind, to: u64, seq: u64, early: u64) -> Header {
        Header { protocol: PROTOCOL, kind, from: self.own, to, seq, early }
    }
}

impl Outgoing {
    /// The next part of what is queued.
    fn next_part(&mut self, now: Instant) -> Option<Part> {
        let payload = self.queue.front()?.clone();
        let (from, seq) = (self.offset, self.next);
        let len = (payload.len() - from).min(MAX_PART);
        let last = from + len == payload.len();
        if last {
            self.queue.pop_front();
        }
        (self.offset, self.next) = (if last { 0 } else { from + len }, seq + 1);
        Some(Part { seq, payload, from, len, last, sent: now, tries: 1, arrived: false })
    }
}

fn send_part(part: &Part, own: u64, peer: u64, emit: Emit<'_>) -> Result<(), LinkError> {
    let kind = Kind::Part { last: part.last };
    let header = Header { protocol: PROTOCOL, kind, from: own, to: peer, seq: part.seq, early: 0 };
    emit(HEADER + part.len, &mut |into| {
        header.write(into);
        part.payload.copy(part.from, &mut into[HEADER..]);
    })
}

#[cfg(test)]
mod tests {
    use plaudit_core::{Rng, Seed};
    use proptest::prelude::*;

    use super::*;

    /// Two processes and what is between them, in a time of its own.
    struct Pair {
        ends: [Stream; 2],
        /// Frames on the way: when they arrive, to whom.
        frames: Vec<(Instant, usize, Vec<u8>)>,
        now: Instant,
        rng: Rng,
        loss: f64,
        received: [Vec<Vec<u8>>; 2],
        events: [Vec<Delivered>; 2],
    }

    impl Pair {
        fn new(seed: u64, loss: f64) -> Self {
            Self {
                ends: [end(1, "1.0"), end(2, "1.0")],
                frames: Vec::new(),
                now: Instant::now(),
                rng: Seed::new(seed).rng(),
                loss,
                received: Default::default(),
                events: Default::default(),
            }
        }

        /// Passes until all that was sent is acknowledged, ten minutes at most: chance alone may lose a part or its
        /// acknowledgement ten times in a row, and the last waits are of eight seconds.
        fn settle(&mut self, from: usize) {
            for _ in 0..600 {
                if self.ends[from].in_flight() + self.ends[from].queued() == 0 {
                    break;
                }
                self.pass(100);
            }
        }

        /// A while passes.
        fn pass(&mut self, rounds: usize) {
            for _ in 0..rounds {
                self.now += Duration::from_millis(10);
                for at in 0..2 {
                    let (now, loss, rng, frames) = (self.now, self.loss, &mut self.rng, &mut self.frames);
                    let mut emit = |len: usize, fill: &mut dyn FnMut(&mut [u8])| {
                        let mut bytes = vec![0; len];
                        fill(&mut bytes);
                        for _ in 0..1 + usize::from(rng.unit() < loss) {
                            if rng.unit() >= loss {
                                let arrives = now + Duration::from_millis(rng.below(50) as u64);
                                frames.push((arrives, 1 - at, bytes.clone()));
                            }
                        }
                        Ok(())
                    };
                    self.ends[at].transmit(now, &mut emit).unwrap();
                }
                let now = self.now;
                let (due, later) =
                    std::mem::take(&mut self.frames).into_iter().partition(|(at, ..)| *at <= now);
                self.frames = later;
                let due: Vec<(Instant, usize, Vec<u8>)> = due;
                for (_, to, bytes) in due {
                    for delivered in self.ends[to].receive(&bytes, now) {
                        match delivered {
                            Delivered::Message(message) => self.received[to].push(message),
                            other => self.events[to].push(other),
                        }
                    }
                }
            }
        }
    }

    fn end(own: u64, version: &str) -> Stream {
        let settings = StreamSettings { window: 4, ..StreamSettings::default() };
        Stream::new(settings, own, version.into())
    }

    fn message(number: u8, length: usize) -> Arc<Payload> {
        let mut payload = Payload::new(number);
        payload.bytes(vec![number; length]);
        Arc::new(payload)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// A fifth of all frames lost, a fifth repeated, all delayed at random: messages arrive once and in order.
        #[test]
        fn messages_arrive_once_and_in_order(seed: u64, lengths in prop::collection::vec(0usize..9_000_000, 1..6)) {
            let mut pair = Pair::new(seed, 0.2);
            pair.pass(200);
            let sent: Vec<_> = lengths.iter().enumerate().map(|(at, length)| message(at as u8, *length)).collect();
            sent.iter().for_each(|payload| pair.ends[0].push(payload.clone()));
            pair.settle(0);
            prop_assert_eq!(pair.received[1].len(), sent.len());
            prop_assert!(pair.received[1].iter().zip(&sent).all(|(got, sent)| *got == sent.to_vec()));
            prop_assert_eq!(pair.ends[0].in_flight() + pair.ends[0].queued(), 0);
        }
    }

    #[test]
    fn a_process_that_was_started_again_is_another_and_the_old_one_does_not_come_back() {
        let mut pair = Pair::new(1, 0.0);
        pair.pass(100);
        assert_eq!(pair.events[0], [Delivered::Up(2)]);
        let mut late = Vec::new();
        let mut keep = |len: usize, fill: &mut dyn FnMut(&mut [u8])| {
            let mut bytes = vec![0; len];
            fill(&mut bytes);
            late.push(bytes);
            Ok(())
        };
        pair.ends[1].last_hello = None;
        pair.ends[1].transmit(pair.now, &mut keep).unwrap();
        pair.ends[1] = end(3, "1.0");
        pair.ends[0].push(message(1, 10));
        pair.pass(100);
        assert_eq!(pair.events[0][1..], [Delivered::Gone, Delivered::Up(3)]);
        assert!(pair.ends[0].receive(&late[0], pair.now).is_empty(), "a hello of the process that is gone");
        assert_eq!(pair.ends[0].counts.restarts, 1);
        // What was meant for the old process is not told to the new one.
        assert!(pair.received[1].is_empty());
        pair.ends[0].push(message(2, 10));
        pair.pass(100);
        assert_eq!(pair.received[1].len(), 1);
    }

    #[test]
    fn versions_that_differ_refuse_each_other_by_name() {
        let mut pair = Pair::new(1, 0.0);
        pair.ends[1] = end(2, "2.0");
        pair.pass(100);
        assert_eq!(pair.events[0], [Delivered::Refused("2.0".into())]);
        assert_eq!(pair.events[1], [Delivered::Refused("1.0".into())]);
    }

    #[test]
    fn silence_is_noticed_and_forgiven() {
        let mut pair = Pair::new(1, 0.0);
        pair.pass(100);
        pair.loss = 1.1; // the cable is out
        pair.ends[0].push(message(1, 10));
        pair.pass(600);
        assert!(pair.ends[0].check_silence(pair.now));
        assert!(!pair.ends[0].check_silence(pair.now), "once");
        pair.loss = 0.0;
        pair.pass(1500);
        assert_eq!(pair.events[0].last(), Some(&Delivered::Up(2)), "the same process is back");
        assert_eq!(pair.received[1].len(), 1, "and what was sent meanwhile arrived");
    }

    proptest! {
        /// Frames that are damaged, or of somebody else, do no harm.
        #[test]
        fn noise_does_no_harm(noise in prop::collection::vec(any::<u8>(), 0..120), at in 0usize..48, value: u8) {
            let mut stream = end(1, "1.0");
            let now = Instant::now();
            stream.receive(&noise, now);
            let mut frame = vec![0; HEADER + 4];
            Header { protocol: PROTOCOL, kind: Kind::Part { last: true }, from: 7, to: 1, seq: 0, early: 0 }
                .write(&mut frame);
            frame[at] = value;
            stream.receive(&frame, now);
            stream.transmit(now, &mut |_, _| Ok(())).unwrap();
        }
    }
}
