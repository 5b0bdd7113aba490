//! TFRecord files: `length: u64, checksum(length): u32, record, checksum(record): u32`, one after the other.

use std::ops::Range;
use std::path::Path;

use plaudit_pyfiles::{Access, Buffer, masked_crc32c};

use super::error::RldsError;
use crate::recording::FileProblem;

/// Bytes around a record: its length and the checksum of that, and the record's checksum.
const HEAD: usize = 12;
const TAIL: usize = 4;

/// A mapped file, and where its records lie.
#[derive(Debug)]
pub(crate) struct Records {
    bytes: Buffer,
    records: Vec<Range<usize>>,
    /// Where the file stops being one.
    pub(crate) damaged: Option<RldsError>,
}

impl Records {
    /// Finds the records of a file. Their own bytes are not looked at.
    pub(crate) fn open(path: &Path) -> Result<Self, FileProblem> {
        Ok(Self::of(Buffer::open(path, Access::Map)?))
    }

    pub(crate) fn of(bytes: Buffer) -> Self {
        let (mut records, mut at, mut damaged) = (Vec::new(), 0, None);
        while at < bytes.len() && damaged.is_none() {
            match record_at(&bytes, at) {
                Ok(record) => {
                    at = record.end + TAIL;
                    records.push(record);
                }
                Err(what) => damaged = Some(RldsError::Record { at, what }),
            }
        }
        Self { bytes, records, damaged }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// One record, if it is what was written.
    pub(crate) fn get(&self, at: usize) -> Result<Buffer, RldsError> {
        let wrong = |at: usize, what| RldsError::Record { at, what };
        let range = self.records.get(at).cloned().ok_or_else(|| wrong(self.bytes.len(), "there is none"))?;
        let (start, end) = (range.start - HEAD, range.end);
        let record = self.bytes.slice(range).ok_or_else(|| wrong(start, "it is cut short"))?;
        match four(&self.bytes, end) == Some(masked_crc32c(&record)) {
            true => Ok(record),
            false => Err(wrong(start, "its checksum is of other bytes")),
        }
    }
}

fn record_at(bytes: &[u8], at: usize) -> Result<Range<usize>, &'static str> {
    let cut = "it is cut short";
    let length = bytes.get(at..at + 8).ok_or(cut)?;
    let check = four(bytes, at + 8).ok_or(cut)?;
    if check != masked_crc32c(length) {
        return Err("the checksum of its length is of other bytes");
    }
    let length =
        length.try_into().map(u64::from_le_bytes).ok().and_then(|length| usize::try_from(length).ok());
    let start = at + HEAD;
    let end = length.and_then(|length| start.checked_add(length)).ok_or(cut)?;
    let is_there = end.checked_add(TAIL).is_some_and(|end| end <= bytes.len());
    is_there.then_some(start..end).ok_or(cut)
}

fn four(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}
