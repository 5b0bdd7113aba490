//! What travels between two processes: a header of fixed size, then some bytes.

use super::PROTOCOL;

/// Bytes of a header.
pub(super) const HEADER: usize = 48;
const MAGIC: u32 = u32::from_le_bytes(*b"PLDT");

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// I am there, and this is what I run (the body). Also a sign of life.
    Hello,
    /// A part of a message (the body); `seq` is its number.
    Part {
        /// Whether it is the last part of its message.
        last: bool,
    },
    /// All parts before `seq` have arrived, and those after it that `early` has a bit for.
    Ack,
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) protocol: u16,
    pub(super) kind: Kind,
    /// The sender's incarnation.
    pub(super) from: u64,
    /// The receiver's, as the sender knows it; 0 for one it has not heard yet.
    pub(super) to: u64,
    pub(super) seq: u64,
    /// Acknowledgement: bit `i` is for part `seq + 1 + i`.
    pub(super) early: u64,
}

impl Header {
    pub(super) fn write(&self, into: &mut [u8]) {
        let (kind, last) = match self.kind {
            Kind::Hello => (1, 0),
            Kind::Part { last } => (2, u8::from(last)),
            Kind::Ack => (3, 0),
        };
        into[..HEADER].fill(0);
        into[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        into[4..6].copy_from_slice(&self.protocol.to_le_bytes());
        (into[6], into[7]) = (kind, last);
        into[8..16].copy_from_slice(&self.from.to_le_bytes());
        into[16..24].copy_from_slice(&self.to.to_le_bytes());
        into[24..32].copy_from_slice(&self.seq.to_le_bytes());
        into[32..40].copy_from_slice(&self.early.to_le_bytes());
    }

    /// Nothing for bytes that are no frame of any plaudit. A frame of another protocol is read as a hello, which is what
    /// will be refused.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, body) = bytes.split_at_checked(HEADER)?;
        let word = |at: usize| header[at..at + 8].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        if header[0..4] != MAGIC.to_le_bytes() {
            return None;
        }
        let protocol = u16::from_le_bytes([header[4], header[5]]);
        let kind = match header[6] {
            _ if protocol != PROTOCOL => Kind::Hello,
            1 => Kind::Hello,
            2 => Kind::Part { last: header[7] == 1 },
            3 => Kind::Ack,
            _ => return None,
        };
        let header = Self { protocol, kind, from: word(8)?, to: word(16)?, seq: word(24)?, early: word(32)? };
        Some((header, body))
    }
}
