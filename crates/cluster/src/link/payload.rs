//! Messages as they are sent: small values written down, large arrays left where they lie until the engine's buffer is there.

use std::sync::Arc;

/// A message, in pieces.
#[derive(Debug, Default)]
pub struct Payload {
    pieces: Vec<Piece>,
    /// Where each piece begins.
    starts: Vec<usize>,
    len: usize,
}

#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
    SharedFloats(Arc<Vec<f32>>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Floats(values) => bytemuck::cast_slice(values),
            Self::SharedFloats(values) => bytemuck::cast_slice(values),
        }
    }
}

// Arrays travel as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"), "the links are for little-endian machines");

impl Payload {
    /// A message that begins with its kind.
    pub fn new(kind: u8) -> Self {
        let mut payload = Self::default();
        payload.small(&[kind]);
        payload
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies what stands at `from` on.
    ///
    /// # Panics
    /// If there is less than `into` asks for.
    pub fn copy(&self, from: usize, into: &mut [u8]) {
        let mut at = self.starts.partition_point(|start| *start <= from).saturating_sub(1);
        let (mut from, mut done) = (from, 0);
        while done < into.len() {
            let piece = &self.pieces[at].bytes()[from - self.starts[at]..];
            let length = piece.len().min(into.len() - done);
            into[done..done + length].copy_from_slice(&piece[..length]);
            (from, done, at) = (from + length, done + length, at + 1);
        }
    }

    /// All of it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy(0, &mut bytes);
        bytes
    }

    /// A number of 8 bits.
    pub fn u8(&mut self, value: u8) {
        self.small(&[value]);
    }

    /// A flag.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// A number of 64 bits.
    pub fn u64(&mut self, value: u64) {
        self.small(&value.to_le_bytes());
    }

    /// A float.
    pub fn f32(&mut self, value: f32) {
        self.small(&value.to_le_bytes());
    }

    /// A long float.
    pub fn f64(&mut self, value: f64) {
        self.small(&value.to_le_bytes());
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.small(text.as_bytes());
    }

    /// An array of bytes.
    pub fn bytes(&mut self, bytes: Vec<u8>) {
        self.u64(bytes.len() as u64);
        self.piece(Piece::Bytes(bytes));
    }

    /// An array of flags.
    pub fn bools(&mut self, flags: &[bool]) {
        self.bytes(flags.iter().map(|flag| u8::from(*flag)).collect());
    }

    /// An array of floats.
    pub fn floats(&mut self, values: Vec<f32>) {
        self.u64(values.len() as u64);
        self.piece(Piece::Floats(values));
    }

    /// An array of floats that others hold as well.
    pub fn shared_floats(&mut self, values: &Arc<Vec<f32>>) {
        self.u64(values.len() as u64);
        self.piece(Piece::SharedFloats(values.clone()));
    }

    /// Values that go into one piece with their neighbours.
    fn small(&mut self, bytes: &[u8]) {
        if !matches!(self.pieces.last(), Some(Piece::Bytes(last)) if last.len() < 1024) {
            self.piece(Piece::Bytes(Vec::new()));
        }
        if let Some(Piece::Bytes(last)) = self.pieces.last_mut() {
            last.extend_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn piece(&mut self, piece: Piece) {
        self.starts.push(self.len);
        self.len += piece.bytes().len();
        self.pieces.push(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_is_a_range_of_the_whole() {
        let mut payload = Payload::new(7);
        payload.text("env");
        payload.floats(vec![1.0, 2.5, -3.0]);
        payload.bytes(Vec::new());
        payload.shared_floats(&Arc::new(vec![4.0; 600]));
        payload.bools(&[true, false]);
        payload.f64(0.1);
        let whole = payload.to_vec();
        assert_eq!(whole.len(), payload.len());
        for from in (0..whole.len()).step_by(7) {
            for length in [0, 1, 5, 40, 1000] {
                let length = length.min(whole.len() - from);
                let mut part = vec![0; length];
                payload.copy(from, &mut part);
                assert_eq!(part, whole[from..from + length], "{from} {length}");
            }
        }
    }
}
