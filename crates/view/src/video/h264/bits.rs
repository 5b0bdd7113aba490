//! Bits, most significant first.

/// A string of bits that grows.
#[derive(Debug, Default)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet, and how many.
    rest: u64,
    count: u32,
}

impl Bits {
    /// Adds the lowest `count` bits of `value`, at most 32.
    pub(super) fn put(&mut self, value: u32, count: u32) {
        self.rest = self.rest << count | u64::from(value) & ((1 << count) - 1);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.bytes.push((self.rest >> self.count) as u8);
        }
    }

    /// Adds a number of unknown size: as many zeros as it has bits after the first, then the number (Exp-Golomb).
    pub(super) fn unsigned(&mut self, value: u32) {
        let length = 32 - (value + 1).leading_zeros();
        self.put(0, length - 1);
        self.put(value + 1, length);
    }

    /// As [`Bits::unsigned`], in the order 0, 1, -1, 2, -2.
    pub(super) fn signed(&mut self, value: i32) {
        let twice = value.unsigned_abs() * 2;
        self.unsigned(if value > 0 { twice - 1 } else { twice });
    }

    /// Ends with a one and zeros up to a whole byte.
    pub(super) fn end(&mut self) {
        self.put(1, 1);
        self.put(0, (8 - self.count % 8) % 8);
    }

    /// The bytes as a NAL unit: after its header, with a 3 wherever two zeros would read as a start code.
    pub(super) fn unit(self, header: u8) -> Vec<u8> {
        let mut unit = Vec::with_capacity(self.bytes.len() + self.bytes.len() / 64 + 1);
        unit.push(header);
        let mut zeros = 0;
        for byte in self.bytes {
            if zeros == 2 && byte <= 3 {
                unit.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            unit.push(byte);
        }
        unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exp_golomb_and_zeros_are_escaped() {
        let mut bits = Bits::default();
        [0, 1, 2, 6].into_iter().for_each(|value| bits.unsigned(value)); // 1 010 011 00111
        [0, 1, -1].into_iter().for_each(|value| bits.signed(value)); // 1 010 011
        bits.end();
        assert_eq!(bits.bytes, [0b1010_0110, 0b0111_1010, 0b0111_0000]);
        let mut bits = Bits::default();
        [0, 0, 0, 0, 0, 1, 9].into_iter().for_each(|byte| bits.put(byte, 8));
        assert_eq!(bits.unit(0x65), [0x65, 0, 0, 3, 0, 0, 3, 0, 1, 9]);
    }
}
