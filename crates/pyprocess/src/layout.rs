//! Where arrays lie in the memory that both sides share.

use std::ops::Range;

use serde_json::{Map, Value, json};

/// Every array starts on a cache line of its own.
const ALIGN: usize = 64;

/// One array in shared memory, by its place in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where it starts.
    pub offset: usize,
    /// Bytes of one row.
    pub row: usize,
    /// How many there are.
    pub rows: usize,
}

impl Region {
    /// All of it.
    #[must_use]
    pub fn all(self) -> Range<usize> {
        self.offset..self.offset + self.row * self.rows
    }

    /// Row `row` of it.
    #[must_use]
    pub fn row(self, row: usize) -> Range<usize> {
        let start = self.offset + self.row * row;
        start..start + self.row
    }
}

/// Lays out one array after the other.
#[derive(Debug, Default)]
pub struct LayoutBuilder {
    bytes: usize,
    for_python: Map<String, Value>,
}

impl LayoutBuilder {
    /// The next array, of type `f4`, `u4` or `u1`.
    pub fn add(&mut self, name: &str, dtype: &str, shape: &[usize]) -> Region {
        let size = if dtype == "u1" { 1 } else { 4 };
        let offset = self.bytes.next_multiple_of(ALIGN);
        let row = shape[1..].iter().product::<usize>() * size;
        self.bytes = offset + row * shape[0];
        self.for_python.insert(name.into(), json!([dtype, shape, offset]));
        Region { offset, row, rows: shape[0] }
    }

    /// The bytes of all of it, and the same for Python: `{name: [dtype, shape, offset]}`.
    #[must_use]
    pub fn finish(self) -> (usize, Value) {
        (self.bytes.max(1), Value::Object(self.for_python))
    }
}
