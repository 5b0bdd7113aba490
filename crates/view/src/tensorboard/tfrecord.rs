//! The frame around each record of an event file: length, record, and a checksum of each.

/// `length: u64, checksum(length), record, checksum(record)`, all little-endian.
pub(super) fn frame(record: &[u8]) -> Vec<u8> {
    let length = (record.len() as u64).to_le_bytes();
    let mut framed = Vec::with_capacity(record.len() + 16);
    framed.extend(length);
    framed.extend(masked(crc32c(&length)).to_le_bytes());
    framed.extend(record);
    framed.extend(masked(crc32c(record)).to_le_bytes());
    framed
}

/// TensorFlow masks checksums, because a checksum of data that contains checksums is weak.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, step)
}

/// The effect of each byte on the checksum, by the reflected polynomial.
static TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of the CRC catalogue, and the test vectors of RFC 3720, B.4.
    #[test]
    fn crc32c_known_answers() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&ascending), 0x46dd_794e);
    }
}
