//! CDR: how ROS 2 lays out a message. Numbers lie at multiples of their size, counted from behind the head of four bytes.

use std::ops::Range;

const HEAD: usize = 4;

/// A message that breaks off, or is none.
pub(super) const CUT: &str = "it is cut short";

/// A message, read from its front.
pub(super) struct Cdr<'a> {
    bytes: &'a [u8],
    at: usize,
    is_big: bool,
}

impl<'a> Cdr<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, String> {
        match bytes.get(..HEAD) {
            Some([0, order @ (0 | 1), _, _]) => Ok(Self { bytes, at: HEAD, is_big: *order == 0 }),
            Some(head) => Err(format!("it is of another kind of CDR ({:02x} {:02x})", head[0], head[1])),
            None => Err(CUT.into()),
        }
    }

    fn take<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], String> {
        let start = HEAD + (self.at - HEAD).next_multiple_of(COUNT);
        let found = self.bytes.get(start..start + COUNT).ok_or(CUT)?;
        self.at = start + COUNT;
        let mut found: [u8; COUNT] = found.try_into().map_err(|_| CUT)?;
        if self.is_big {
            found.reverse();
        }
        Ok(found)
    }

    pub(super) fn u8(&mut self) -> Result<u8, String> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, String> {
        self.take().map(i32::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, String> {
        self.take().map(i64::from_le_bytes)
    }

    pub(super) fn f32(&mut self) -> Result<f32, String> {
        self.take().map(f32::from_le_bytes)
    }

    pub(super) fn f64(&mut self) -> Result<f64, String> {
        self.take().map(f64::from_le_bytes)
    }

    /// A sequence of bytes: where it lies.
    pub(super) fn bytes(&mut self) -> Result<Range<usize>, String> {
        let length = self.u32()? as usize;
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or(CUT)?;
        let range = self.at..end;
        self.at = end;
        Ok(range)
    }

    pub(super) fn text(&mut self) -> Result<String, String> {
        let range = self.bytes()?;
        let text = std::str::from_utf8(&self.bytes[range]).map_err(|_| "a text is no UTF-8")?;
        Ok(text.trim_end_matches('\0').to_owned())
    }

    /// A sequence, item by item. Memory follows the bytes that are there.
    pub(super) fn list<T>(
        &mut self,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let count = self.u32()?;
        let mut found = Vec::new();
        for _ in 0..count {
            found.push(item(self)?);
        }
        Ok(found)
    }

    /// `std_msgs/Header`, which says nothing that the log does not.
    pub(super) fn header(&mut self) -> Result<(), String> {
        self.i32()?;
        self.u32()?;
        self.text().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_at_multiples_of_their_size_in_both_orders() {
        let little = [0, 1, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f];
        let mut cdr = Cdr::new(&little).unwrap();
        assert_eq!((cdr.u8(), cdr.u32(), cdr.f64()), (Ok(7), Ok(9), Ok(0.0)));
        let big = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6];
        let mut cdr = Cdr::new(&big).unwrap();
        assert_eq!(cdr.list(Cdr::u32), Ok(vec![5, 6]));
        assert!(cdr.u8().is_err());
        let mut bomb = Cdr::new(&[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 1]).unwrap();
        assert!(bomb.list(Cdr::f64).is_err() && Cdr::new(&[0, 7, 0, 0]).is_err() && Cdr::new(&[0]).is_err());
    }
}
