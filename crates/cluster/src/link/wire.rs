//! Reading what another process wrote, which may be damaged or hostile: lengths are checked before anything is allocated.

use thiserror::Error;

/// A message that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a message of {length} bytes is broken at byte {at}: {problem}")]
pub struct WireError {
    /// Its length.
    pub length: usize,
    /// Where.
    pub at: usize,
    /// What.
    pub problem: String,
}

/// Reads a message from its first byte to its last.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// What is wrong here.
    pub fn problem(&self, problem: impl Into<String>) -> WireError {
        WireError { length: self.bytes.len(), at: self.at, problem: problem.into() }
    }

    /// Says that nothing should be left.
    pub fn finish(self) -> Result<(), WireError> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(self.problem(format!("{left} bytes are left over"))),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            let left = self.bytes.len() - self.at;
            return Err(self.problem(format!("{length} bytes are announced, and {left} are left")));
        };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A number of 8 bits.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// A flag.
    pub fn bool(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.problem(format!("{other} is no flag"))),
        }
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number that indexes or counts something in memory.
    pub fn count(&mut self, most: usize) -> Result<usize, WireError> {
        let count = self.u64()?;
        self.at_most(count, most)
    }

    fn at_most(&self, count: u64, most: usize) -> Result<usize, WireError> {
        let checked = usize::try_from(count).ok().filter(|count| *count <= most);
        checked.ok_or_else(|| self.problem(format!("{count} is more than {most}")))
    }

    /// How many things follow that take at least `bytes_each` bytes: never more than there is room for.
    pub fn items(&mut self, bytes_each: usize) -> Result<usize, WireError> {
        let count = self.u64()?;
        let left = self.bytes.len() - self.at;
        self.at_most(count, left / bytes_each.max(1))
    }

    /// A float.
    pub fn f32(&mut self) -> Result<f32, WireError> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    /// A long float.
    pub fn f64(&mut self) -> Result<f64, WireError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A text.
    pub fn text(&mut self) -> Result<&'a str, WireError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|error| self.problem(error.to_string()))
    }

    /// An array of bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.items(1)?;
        self.take(length)
    }

    /// An array of flags.
    pub fn bools(&mut self) -> Result<Vec<bool>, WireError> {
        let bytes = self.bytes()?;
        match bytes.iter().find(|byte| **byte > 1) {
            Some(other) => Err(self.problem(format!("{other} is no flag"))),
            None => Ok(bytes.iter().map(|byte| *byte == 1).collect()),
        }
    }

    /// An array of floats.
    pub fn floats(&mut self) -> Result<Vec<f32>, WireError> {
        let count = self.items(size_of::<f32>())?;
        let bytes = self.take(count * size_of::<f32>())?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_cannot_be_are_refused_before_they_are_allocated() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 16]);
        let error = Reader::new(&bytes).floats().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("a message of 24 bytes is broken at byte 8: {} is more than 4", u64::MAX)
        );
        assert!(Reader::new(&bytes).bytes().is_err());
        assert!(Reader::new(&bytes).text().is_err());
        assert!(Reader::new(&[2]).bool().is_err());
        assert_eq!(Reader::new(&[1, 2]).finish().unwrap_err().at, 0);
    }
}
