//! CRC-32C (Castagnoli), the checksum of TensorFlow's record files and of zarr.

/// CRC-32C of some bytes.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut words = bytes.chunks_exact(8);
    let mut crc = !0_u32;
    for word in &mut words {
        let low = crc ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let ahead = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
        crc = ahead(7, low as u8)
            ^ ahead(6, (low >> 8) as u8)
            ^ ahead(5, (low >> 16) as u8)
            ^ ahead(4, (low >> 24) as u8)
            ^ ahead(3, word[4])
            ^ ahead(2, word[5])
            ^ ahead(1, word[6])
            ^ ahead(0, word[7]);
    }
    let step = |crc: u32, &byte: &u8| (crc >> 8) ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    !words.remainder().iter().fold(crc, step)
}

/// TensorFlow masks checksums, because a checksum of data that contains checksums is weak.
#[must_use]
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The effect of each byte on the checksum, with 0 to 7 bytes after it, by the reflected polynomial.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut after = 1;
    while after < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc: u32 = tables[after - 1][byte];
            tables[after][byte] = (crc >> 8) ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        after += 1;
    }
    tables
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
