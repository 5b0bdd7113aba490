//! Whole numbers of more than 64 bits: kept, compared and shown, never computed with.

use std::fmt;
use std::sync::Arc;

/// Python itself refuses to turn longer texts into numbers.
const MAX_DIGITS: usize = 4300;

/// A whole number that does not fit 64 bits: its two's complement bytes, lowest first, as short as possible.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BigInt {
    bytes: Arc<[u8]>,
}

/// A Python `int` of any size.
pub(crate) enum AnyInt {
    Small(i64),
    Big(BigInt),
}

impl AnyInt {
    /// From two's complement bytes, lowest first, as pickle has them.
    pub(crate) fn from_le_bytes(bytes: &[u8]) -> Self {
        let negative = bytes.last().is_some_and(|last| last & 0x80 != 0);
        let fill = if negative { 0xff } else { 0 };
        let mut len = bytes.len();
        while len > 1 && bytes[len - 1] == fill && (bytes[len - 2] & 0x80 != 0) == negative {
            len -= 1;
        }
        if len <= 8 {
            let mut number = [fill; 8];
            number[..len].copy_from_slice(&bytes[..len]);
            return Self::Small(i64::from_le_bytes(number));
        }
        Self::Big(BigInt { bytes: bytes[..len].into() })
    }

    /// From decimal text, as the oldest pickles have it.
    pub(crate) fn from_decimal(text: &str) -> Option<Self> {
        if let Ok(small) = text.parse::<i64>() {
            return Some(Self::Small(small));
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.bytes().all(|d| d.is_ascii_digit()) {
            return None;
        }
        // One spare zero byte keeps the sign free.
        let mut magnitude = vec![0u8];
        for digit in digits.bytes() {
            let mut carry = u32::from(digit - b'0');
            for byte in &mut magnitude {
                let wide = u32::from(*byte) * 10 + carry;
                *byte = wide as u8;
                carry = wide >> 8;
            }
            if carry > 0 {
                magnitude.push(carry as u8);
            }
        }
        magnitude.push(0);
        if negative {
            negate(&mut magnitude);
        }
        Some(Self::from_le_bytes(&magnitude))
    }
}

fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes {
        let (flipped, overflow) = (!*byte).overflowing_add(u8::from(carry));
        *byte = flipped;
        carry = overflow;
    }
}

impl BigInt {
    /// Two's complement bytes, lowest first.
    #[must_use]
    pub fn le_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.bytes.last().is_some_and(|last| last & 0x80 != 0)
    }

    /// The nearest `f64` or so: the last bit may differ from Python's, and huge numbers become infinite.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let size = self.magnitude().iter().rev().fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte));
        if self.is_negative() { -size } else { size }
    }

    fn magnitude(&self) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        if self.is_negative() {
            negate(&mut bytes);
        }
        bytes
    }
}

impl fmt::Display for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.magnitude();
        if self.is_negative() {
            f.write_str("-")?;
        }
        // Decimal takes time by the square of the length.
        if bytes.len() > MAX_DIGITS / 3 {
            return write!(f, "a whole number of {} bytes", bytes.len());
        }
        let mut digits = Vec::new();
        while bytes.iter().any(|byte| *byte != 0) {
            let mut rest = 0u32;
            for byte in bytes.iter_mut().rev() {
                let wide = rest << 8 | u32::from(*byte);
                *byte = (wide / 10) as u8;
                rest = wide % 10;
            }
            digits.push(b'0' + rest as u8);
        }
        digits.reverse();
        f.write_str(&String::from_utf8_lossy(&digits))
    }
}

impl fmt::Debug for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BigInt({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: AnyInt) -> String {
        match number {
            AnyInt::Small(small) => format!("small {small}"),
            AnyInt::Big(big) => format!("big {big}"),
        }
    }

    #[test]
    fn decimal_and_bytes_agree() {
        for (decimal, bytes) in [
            ("1180591620717411303424", &[0u8, 0, 0, 0, 0, 0, 0, 0, 64][..]),
            ("-1180591620717411303424", &[0, 0, 0, 0, 0, 0, 0, 0, 192][..]),
            ("18446744073709551615", &[255, 255, 255, 255, 255, 255, 255, 255, 0][..]),
        ] {
            assert_eq!(text(AnyInt::from_decimal(decimal).unwrap()), format!("big {decimal}"));
            assert_eq!(text(AnyInt::from_le_bytes(bytes)), format!("big {decimal}"));
        }
    }

    #[test]
    fn what_fits_is_small() {
        assert_eq!(text(AnyInt::from_le_bytes(&[])), "small 0");
        assert_eq!(
            text(AnyInt::from_le_bytes(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 255])),
            "small -1"
        );
        assert_eq!(text(AnyInt::from_le_bytes(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0])), "small 5");
        assert_eq!(
            text(AnyInt::from_decimal("-9223372036854775808").unwrap()),
            format!("small {}", i64::MIN)
        );
    }

    #[test]
    fn nonsense_is_no_number() {
        for nonsense in ["", "-", "1e5", "0x10", "１"] {
            assert!(AnyInt::from_decimal(nonsense).is_none(), "{nonsense}");
        }
        assert!(AnyInt::from_decimal(&"9".repeat(5000)).is_none());
    }
}
