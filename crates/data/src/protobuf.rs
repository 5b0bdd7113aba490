//! Messages of protocol buffers, field by field: as much as record files and logs of robots need. Nothing is copied.

use std::ops::Range;

/// A message that breaks off or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the message is damaged")]
pub(crate) struct WireError {
    pub(crate) at: usize,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wire {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    /// Bytes, text, a message or packed numbers: where they lie.
    Bytes(Range<usize>),
}

/// The fields of a message, in their order: a number and what it holds.
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// The fields of what lies in a range of some bytes; ranges in it are ranges of those bytes.
    pub(crate) fn within(bytes: &'a [u8], range: Range<usize>) -> Self {
        Self { bytes, at: range.start, end: range.end.min(bytes.len()) }
    }

    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self::within(bytes, 0..bytes.len())
    }

    fn take<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], WireError> {
        let damaged = WireError { at: self.at };
        let end = self.at.checked_add(COUNT).filter(|end| *end <= self.end).ok_or(damaged)?;
        let taken = self.bytes[self.at..end].try_into().map_err(|_| damaged)?;
        self.at = end;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u64, Wire), WireError> {
        let damaged = WireError { at: self.at };
        let key = varint(&self.bytes[..self.end], &mut self.at).ok_or(damaged)?;
        let wire = match key & 7 {
            0 => Wire::Varint(varint(&self.bytes[..self.end], &mut self.at).ok_or(damaged)?),
            1 => Wire::Fixed64(self.take()?),
            2 => {
                let length = varint(&self.bytes[..self.end], &mut self.at).ok_or(damaged)?;
                let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
                let end = end.filter(|end| *end <= self.end).ok_or(damaged)?;
                let range = self.at..end;
                self.at = end;
                Wire::Bytes(range)
            }
            5 => Wire::Fixed32(self.take()?),
            _ => return Err(damaged),
        };
        Ok((key >> 3, wire))
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<(u64, Wire), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.end;
        }
        Some(field)
    }
}

/// A number of seven bits a byte, the lowest first.
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_field_is_read_and_what_breaks_off_is_an_error() {
        let whole =
            [0x08, 0x96, 0x01, 0x12, 2, b'o', b'k', 0x1d, 0, 0, 0x80, 0x3f, 0x21, 1, 0, 0, 0, 0, 0, 0, 0];
        let found: Vec<_> = Fields::of(&whole).collect::<Result<_, _>>().unwrap();
        let one = Wire::Fixed32(1.0_f32.to_le_bytes());
        let last = Wire::Fixed64(1_u64.to_le_bytes());
        assert_eq!(found, [(1, Wire::Varint(150)), (2, Wire::Bytes(5..7)), (3, one), (4, last)]);
        for cut in [1, 2, 4, 6, 9, 15] {
            assert!(Fields::of(&whole[..cut]).any(|field| field.is_err()), "{cut}");
        }
        for damaged in
            [&[0x0b][..], &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], &[0xff; 11]]
        {
            assert!(Fields::of(damaged).any(|field| field.is_err()), "{damaged:?}");
        }
    }
}
