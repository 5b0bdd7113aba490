//! `tf.train.Example`: a list of bytes, of floats or of integers for each name.

use std::collections::BTreeMap;
use std::ops::Range;

use plaudit_pyfiles::Buffer;

use super::error::RldsError;
use crate::protobuf::{Fields, Wire, varint};

/// An episode as it was recorded. Lists are read when they are asked for.
#[derive(Debug)]
pub(crate) struct Example {
    record: Buffer,
    lists: BTreeMap<String, Range<usize>>,
}

/// What a feature has for all steps together.
#[derive(Debug, PartialEq)]
pub(crate) enum Values {
    Bytes(Vec<Range<usize>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

impl Values {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Bytes(list) => format!("{} byte strings", list.len()),
            Self::Floats(list) => format!("{} floats", list.len()),
            Self::Ints(list) => format!("{} integers", list.len()),
        }
    }
}

impl Example {
    /// Finds the lists of an example: `features { feature { key, value } }`.
    pub(crate) fn of(record: Buffer) -> Result<Self, RldsError> {
        let mut lists = BTreeMap::new();
        for features in messages(&record, 0..record.len(), 1)? {
            for entry in messages(&record, features, 1)? {
                let name = messages(&record, entry.clone(), 1)?.pop().unwrap_or_default();
                let at = name.start;
                let name = std::str::from_utf8(&record[name]).map_err(|_| RldsError::Example { at })?;
                let value = messages(&record, entry, 2)?.pop();
                lists.extend(value.map(|value| (name.to_owned(), value)));
            }
        }
        Ok(Self { record, lists })
    }

    /// The list of a name; nothing where there is none or an empty one.
    pub(crate) fn values(&self, name: &str) -> Result<Option<Values>, RldsError> {
        let Some(feature) = self.lists.get(name) else { return Ok(None) };
        let mut found = None;
        for field in Fields::within(&self.record, feature.clone()) {
            let (number, Wire::Bytes(list)) = field? else { continue };
            found = match number {
                1 => Some(Values::Bytes(messages(&self.record, list, 1)?)),
                2 => Some(Values::Floats(floats(&self.record, list)?)),
                3 => Some(Values::Ints(integers(&self.record, list)?)),
                _ => found,
            };
        }
        Ok(found)
    }

    /// Bytes of the record.
    pub(crate) fn bytes(&self, range: &Range<usize>) -> Buffer {
        self.record.slice(range.clone()).unwrap_or_else(|| Vec::new().into())
    }
}

/// Where the messages or bytes of one field of a message lie.
fn messages(bytes: &[u8], within: Range<usize>, number: u64) -> Result<Vec<Range<usize>>, RldsError> {
    let mut found = Vec::new();
    for field in Fields::within(bytes, within) {
        if let (field, Wire::Bytes(range)) = field?
            && field == number
        {
            found.push(range);
        }
    }
    Ok(found)
}

/// Floats, packed or one by one.
fn floats(bytes: &[u8], within: Range<usize>) -> Result<Vec<f32>, RldsError> {
    let mut found = Vec::new();
    for field in Fields::within(bytes, within) {
        match field? {
            (1, Wire::Fixed32(number)) => found.push(f32::from_le_bytes(number)),
            (1, Wire::Bytes(packed)) => {
                let (numbers, rest) = bytes[packed.clone()].as_chunks::<4>();
                if !rest.is_empty() {
                    return Err(RldsError::Example { at: packed.start });
                }
                found.extend(numbers.iter().map(|number| f32::from_le_bytes(*number)));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Integers, packed or one by one. Negative ones are of 64 bits.
fn integers(bytes: &[u8], within: Range<usize>) -> Result<Vec<i64>, RldsError> {
    let mut found = Vec::new();
    for field in Fields::within(bytes, within) {
        match field? {
            (1, Wire::Varint(number)) => found.push(number.cast_signed()),
            (1, Wire::Bytes(packed)) => {
                let mut at = packed.start;
                while at < packed.end {
                    let number = varint(&bytes[..packed.end], &mut at).ok_or(RldsError::Example { at })?;
                    found.push(number.cast_signed());
                }
            }
            _ => {}
        }
    }
    Ok(found)
}
