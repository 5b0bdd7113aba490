//! Looking over the pages of a column before they are decoded.
//!
//! The decoder reserves what a page's header asks for. A few hostile bytes must not buy gigabytes, so every header
//! is read first, and one that promises more than its bytes can hold is refused.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;

use crate::lerobot::error::{Problem, mismatch};

/// Snappy never shrinks more than 22 to 1.
const SNAPPY_RATIO: u64 = 32;
/// Longest page header: a few numbers, and statistics that may quote values.
const HEADER_BYTES: u64 = 1 << 20;

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;

/// Checks all pages of a column chunk that should hold `values` values; returns the bytes of the largest page.
pub(super) fn check(
    file: &File,
    file_len: u64,
    column: &ColumnChunkMetaData,
    values: u64,
) -> Result<u64, Problem> {
    let compressed = match column.compression() {
        Compression::UNCOMPRESSED => false,
        Compression::SNAPPY => true,
        other => {
            let hint = "write it with snappy compression, which is parquet's default";
            return Err(Problem::Unsupported { what: format!("compression {other}"), hint });
        }
    };
    let (start, len) = byte_range(column, file_len)?;
    let mut file = BufReader::with_capacity(4096, file);
    file.seek(SeekFrom::Start(start))?;
    let (mut at, mut found, mut largest) = (0, 0u64, 0);
    while at < len {
        let page = read_header(&mut file)?;
        at = at.saturating_add(page.header_bytes).saturating_add(page.stored);
        if at > len {
            return Err(mismatch("pages inside their column", "one that reaches past its end"));
        }
        check_page(&page, compressed)?;
        if matches!(page.kind, DATA_PAGE | DATA_PAGE_V2) {
            found = found.saturating_add(page.values);
        }
        largest = largest.max(page.unpacked);
        file.seek_relative(page.stored as i64)?;
    }
    if found != values || column.num_values() as u64 != values {
        return Err(mismatch(format!("{values} values"), format!("{found} in its pages")));
    }
    Ok(largest)
}

/// Where the column's bytes are, inside the file.
fn byte_range(column: &ColumnChunkMetaData, file_len: u64) -> Result<(u64, u64), Problem> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
    range
        .filter(|(start, len)| start.checked_add(*len).is_some_and(|end| end <= file_len))
        .ok_or_else(|| mismatch("a column inside the file", "one that reaches past its end: it is cut short"))
}

fn check_page(page: &Page, compressed: bool) -> Result<(), Problem> {
    let most = if compressed { page.stored.saturating_mul(SNAPPY_RATIO) + 64 } else { page.stored };
    if page.unpacked > most {
        let found = format!("a page of {} bytes that claims {}", page.stored, page.unpacked);
        return Err(mismatch("pages that hold what they claim", found));
    }
    // Four bytes are the least that a dictionary has for a value.
    if page.kind == DICTIONARY_PAGE && page.values > page.unpacked / 4 {
        return Err(mismatch("a dictionary that holds what it claims", format!("{} values", page.values)));
    }
    // PLAIN, and what dictionaries and booleans use; in dictionaries PLAIN_DICTIONARY means the same.
    if page.values > 0 && !matches!(page.encoding, 0 | 2 | 3 | 8) {
        let hint = "write it with parquet's default encodings";
        return Err(Problem::Unsupported { what: format!("encoding number {}", page.encoding), hint });
    }
    Ok(())
}

/// What a page header says that matters here.
#[derive(Default)]
struct Page {
    kind: i64,
    unpacked: u64,
    stored: u64,
    values: u64,
    encoding: i64,
    header_bytes: u64,
}

fn read_header(file: &mut impl Read) -> Result<Page, Problem> {
    let mut thrift = Thrift { from: file, used: 0 };
    let mut page = Page::default();
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match (id, kind) {
            (1, I32) => page.kind = thrift.zigzag()?,
            (2, I32) => page.unpacked = size(thrift.zigzag()?)?,
            (3, I32) => page.stored = size(thrift.zigzag()?)?,
            (5 | 7 | 8, STRUCT) => read_inner(&mut thrift, &mut page, id)?,
            _ => thrift.skip(kind, 0)?,
        }
    }
    page.header_bytes = thrift.used;
    Ok(page)
}

/// The header of the page's own kind: data pages, dictionaries, and data pages of the second version.
fn read_inner(thrift: &mut Thrift<'_, impl Read>, page: &mut Page, outer: i64) -> Result<(), Problem> {
    let encoding = if outer == 8 { 4 } else { 2 };
    let mut id = 0;
    while let Some(kind) = thrift.field(&mut id)? {
        match (id, kind) {
            (1, I32) => page.values = size(thrift.zigzag()?)?,
            (id, I32) if id == encoding => page.encoding = thrift.zigzag()?,
            _ => thrift.skip(kind, 0)?,
        }
    }
    Ok(())
}

fn size(number: i64) -> Result<u64, Problem> {
    u64::try_from(number).map_err(|_| mismatch("a size", number.to_string()))
}

const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Thrift's compact protocol, as far as skipping needs it.
struct Thrift<'a, R> {
    from: &'a mut R,
    used: u64,
}

impl<R: Read> Thrift<'_, R> {
    fn byte(&mut self) -> Result<u8, Problem> {
        self.used += 1;
        if self.used > HEADER_BYTES {
            return Err(mismatch("a page header", "something without end"));
        }
        let mut byte = [0];
        self.from.read_exact(&mut byte).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => mismatch("a page header", "the end of the file"),
            _ => Problem::Io(error),
        })?;
        Ok(byte[0])
    }

    fn varint(&mut self) -> Result<u64, Problem> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(mismatch("a number", "one of more than 64 bits"))
    }

    fn zigzag(&mut self) -> Result<i64, Problem> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The kind of the next field, its number in `id`; nothing at the end of the struct.
    fn field(&mut self, id: &mut i64) -> Result<Option<u8>, Problem> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *id = match i64::from(byte >> 4) {
            0 => self.zigzag()?,
            step => id.wrapping_add(step),
        };
        Ok(Some(byte & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), Problem> {
        match kind {
            1 | 2 => Ok(()),
            3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.skip_bytes(8),
            8 => {
                let len = self.varint()?;
                self.skip_bytes(len)
            }
            9 | 10 if depth < 8 => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                (0..len).try_for_each(|_| match head & 0x0f {
                    // In a list, booleans have a byte each.
                    1 | 2 => self.byte().map(drop),
                    element => self.skip(element, depth + 1),
                })
            }
            STRUCT if depth < 8 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(mismatch("a page header", format!("a field of kind {kind}"))),
        }
    }

    fn skip_bytes(&mut self, len: u64) -> Result<(), Problem> {
        (0..len).try_for_each(|_| self.byte().map(drop))
    }
}
