//! Writing zip archives whose members lie at aligned places, so that readers can map them.

use std::io::{self, Seek, SeekFrom, Write};

use super::*;

/// What torch aligns its storages to.
const ALIGNMENT: u64 = 64;
/// torch's name for the extra field that pads, and its filler.
const EXTRA_PADDING: u16 = u16::from_le_bytes(*b"FB");
const FILLER: u8 = b'Z';
/// Sizes from here on do not fit the 32-bit fields.
const WIDE: u64 = 0xffff_ffff;
/// The length of a zip64 extra field with two sizes, without its head of four bytes.
const ZIP64_SIZES: usize = 16;
/// 1 January 1980: the same contents give the same file.
const DATE: u16 = 0x21;

/// Writes stored members one after another.
pub(crate) struct ZipWriter<W> {
    out: W,
    at: u64,
    done: Vec<Entry>,
    open: Option<Open>,
}

struct Entry {
    name: String,
    crc: u32,
    size: u64,
    header: u64,
}

/// A member whose size is not known yet.
struct Open {
    name: String,
    hasher: crc32fast::Hasher,
    size: u64,
    header: u64,
    extra_len: usize,
}

impl<W: Write + Seek> ZipWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, at: 0, done: Vec::new(), open: None }
    }

    /// Adds a member that is all there, in parts.
    pub(crate) fn add(&mut self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        self.end_member()?;
        let size = parts.iter().map(|part| part.len() as u64).sum();
        let mut hasher = crc32fast::Hasher::new();
        parts.iter().for_each(|part| hasher.update(part));
        let entry = Entry { name: name.into(), crc: hasher.finalize(), size, header: self.at };
        let extra_len = self.extra_len(name);
        let header = local_header(&entry, extra_len);
        self.write_all(&header)?;
        for part in parts {
            self.write_all(part)?;
        }
        self.done.push(entry);
        Ok(())
    }

    /// Begins a member that [`write`](Self::write) fills and whatever comes next ends.
    pub(crate) fn start_member(&mut self, name: &str) -> io::Result<()> {
        self.end_member()?;
        let header = self.at;
        let extra_len = self.extra_len(name);
        let entry = Entry { name: name.into(), crc: 0, size: 0, header };
        self.write_all(&local_header(&entry, extra_len))?;
        let hasher = crc32fast::Hasher::new();
        self.open = Some(Open { name: entry.name, hasher, size: 0, header, extra_len });
        Ok(())
    }

    /// More of the member that was begun last.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.open {
            Some(open) => {
                open.hasher.update(bytes);
                open.size += bytes.len() as u64;
            }
            None => return Err(io::Error::other("no zip member was begun")),
        }
        self.write_all(bytes)
    }

    /// Writes the header again, now that size and checksum are known.
    pub(crate) fn end_member(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let entry =
            Entry { name: open.name, crc: open.hasher.finalize(), size: open.size, header: open.header };
        self.out.seek(SeekFrom::Start(entry.header))?;
        self.out.write_all(&local_header(&entry, open.extra_len))?;
        self.out.seek(SeekFrom::Start(self.at))?;
        self.done.push(entry);
        Ok(())
    }

    /// Writes the directory and gives the file back.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.end_member()?;
        let start = self.at;
        for entry in std::mem::take(&mut self.done) {
            let header = central_header(&entry);
            self.write_all(&header)?;
            self.done.push(entry);
        }
        let end = end_records(self.done.len() as u64, start, self.at);
        self.write_all(&end)?;
        Ok(self.out)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// An extra field that brings the data to an aligned place, and has room for sizes of 64 bits.
    fn extra_len(&self, name: &str) -> usize {
        let least = 4 + ZIP64_SIZES + 4;
        let data = self.at + (LOCAL_LEN + name.len() + least) as u64;
        least + (data.next_multiple_of(ALIGNMENT) - data) as usize
    }
}

fn local_header(entry: &Entry, extra_len: usize) -> Vec<u8> {
    let wide = entry.size >= WIDE;
    let mut out = Vec::with_capacity(LOCAL_LEN + entry.name.len() + extra_len);
    push32(&mut out, LOCAL);
    push_common(&mut out, entry, wide, extra_len);
    out.extend_from_slice(entry.name.as_bytes());
    let mut padding = extra_len;
    if wide {
        push16(&mut out, EXTRA_ZIP64);
        push16(&mut out, ZIP64_SIZES as u16);
        out.extend_from_slice(&entry.size.to_le_bytes());
        out.extend_from_slice(&entry.size.to_le_bytes());
        padding -= 4 + ZIP64_SIZES;
    }
    push16(&mut out, EXTRA_PADDING);
    push16(&mut out, (padding - 4) as u16);
    out.resize(out.len() + padding - 4, FILLER);
    out
}

fn central_header(entry: &Entry) -> Vec<u8> {
    let (wide, far) = (entry.size >= WIDE, entry.header >= WIDE);
    let mut numbers = Vec::new();
    if wide {
        numbers.extend([entry.size, entry.size]);
    }
    if far {
        numbers.push(entry.header);
    }
    let extra_len = if numbers.is_empty() { 0 } else { 4 + 8 * numbers.len() };
    let mut out = Vec::with_capacity(CENTRAL_LEN + entry.name.len() + extra_len);
    push32(&mut out, CENTRAL);
    push16(&mut out, 45); // made by a writer that knows zip64
    push_common(&mut out, entry, wide, extra_len);
    push16(&mut out, 0); // comment
    push16(&mut out, 0); // disk
    push16(&mut out, 0); // internal attributes
    push32(&mut out, 0); // external attributes
    push32(&mut out, if far { u32::MAX } else { entry.header as u32 });
    out.extend_from_slice(entry.name.as_bytes());
    if extra_len > 0 {
        push16(&mut out, EXTRA_ZIP64);
        push16(&mut out, (extra_len - 4) as u16);
        numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    }
    out
}

/// The fields that local and central headers share.
fn push_common(out: &mut Vec<u8>, entry: &Entry, wide: bool, extra_len: usize) {
    let size = if wide { u32::MAX } else { entry.size as u32 };
    push16(out, if wide { 45 } else { 20 });
    push16(out, FLAG_UTF8);
    push16(out, STORED);
    push16(out, 0); // time
    push16(out, DATE);
    push32(out, entry.crc);
    push32(out, size);
    push32(out, size);
    push16(out, entry.name.len() as u16);
    push16(out, extra_len as u16);
}

fn end_records(count: u64, start: u64, end: u64) -> Vec<u8> {
    let len = end - start;
    let mut out = Vec::new();
    if count >= 0xffff || len >= WIDE || start >= WIDE {
        push32(&mut out, END64);
        out.extend_from_slice(&(END64_LEN as u64 - 12).to_le_bytes());
        push16(&mut out, 45);
        push16(&mut out, 45);
        push32(&mut out, 0);
        push32(&mut out, 0);
        for number in [count, count, len, start] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        push32(&mut out, END64_LOCATOR);
        push32(&mut out, 0);
        out.extend_from_slice(&end.to_le_bytes());
        push32(&mut out, 1);
    }
    let count = count.min(0xffff) as u16;
    push32(&mut out, END);
    push16(&mut out, 0);
    push16(&mut out, 0);
    push16(&mut out, count);
    push16(&mut out, count);
    push32(&mut out, len.min(WIDE) as u32);
    push32(&mut out, start.min(WIDE) as u32);
    push16(&mut out, 0);
    out
}

fn push16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn push32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::buffer::Buffer;
    use crate::limits::{Limits, Meter};

    #[test]
    fn what_is_written_is_read_and_aligned() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.add("a/first", &[b"one", b"two"]).unwrap();
        zip.start_member("a/second").unwrap();
        zip.write(&[7; 100]).unwrap();
        zip.write(&[8; 5]).unwrap();
        zip.add("a/third", &[]).unwrap();
        let bytes = Buffer::from(zip.finish().unwrap().into_inner());
        let archive = Archive::open(&bytes).unwrap();
        assert_eq!(archive.names().collect::<Vec<_>>(), ["a/first", "a/second", "a/third"]);
        let mut meter = Meter::new(Limits::default(), bytes.len());
        assert_eq!(&*archive.unpacked(0, &mut meter).unwrap(), b"onetwo");
        let second = archive.unpacked(1, &mut meter).unwrap();
        assert_eq!((second.len(), second[99], second[104]), (105, 7, 8));
        assert_eq!((second.as_ptr() as usize - bytes.as_ptr() as usize) % 64, 0);
        assert!(archive.unpacked(2, &mut meter).unwrap().is_empty());
    }

    #[test]
    fn many_members_need_the_wide_directory() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for i in 0..70_000 {
            zip.add(&format!("{i}"), &[]).unwrap();
        }
        let bytes = Buffer::from(zip.finish().unwrap().into_inner());
        assert_eq!(Archive::open(&bytes).unwrap().names().count(), 70_000);
    }
}
