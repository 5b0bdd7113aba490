//! The frame around each record of an event file: length, record, and a checksum of each.

use plaudit_pyfiles::masked_crc32c;

/// `length: u64, checksum(length), record, checksum(record)`, all little-endian.
pub(super) fn frame(record: &[u8]) -> Vec<u8> {
    let length = (record.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(record.len() + 16);
    framed.extend(length);
    framed.extend(masked_crc32c(&length).to_le_bytes());
    framed.extend(record);
    framed.extend(masked_crc32c(record).to_le_bytes());
    framed
}
