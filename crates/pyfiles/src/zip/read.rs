//! Reading zip archives that may be hostile.
//!
//! The central directory is authoritative, and the local header of a member must agree with it. Names that occur
//! twice or lead out of the archive, members that overlap, encryption and split archives are refused.

use std::collections::HashMap;
use std::fmt;

use super::*;
use crate::buffer::Buffer;
use crate::error::{ReadError, Result};
use crate::limits::{Limits, Meter};

/// A zip archive in memory or mapped.
pub struct Archive {
    bytes: Buffer,
    members: Vec<Member>,
    places: HashMap<Box<str>, usize>,
}

/// One entry of the central directory.
struct Member {
    name: Box<str>,
    method: u16,
    crc: u32,
    packed: usize,
    size: usize,
    /// Where its local header begins, and where the next one does.
    header: usize,
    limit: usize,
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("members", &self.members.len()).finish_non_exhaustive()
    }
}

impl Archive {
    /// Reads the directory of an archive, and no member.
    ///
    /// # Errors
    /// When it is no archive, or one that is not read here.
    pub fn open(bytes: &Buffer) -> Result<Self> {
        let directory = Directory::find(bytes)?;
        let mut members = directory.members(bytes)?;
        set_limits(&mut members, directory.start);
        let mut places = HashMap::with_capacity(members.len());
        for (place, member) in members.iter().enumerate() {
            if places.insert(member.name.clone(), place).is_some() {
                let found = format!("two of `{}`", shown(&member.name));
                return Err(ReadError::malformed(member.header, "one member of each name", found));
            }
        }
        Ok(Self { bytes: bytes.clone(), members, places })
    }

    /// The names of its members.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The bytes of a member by its name, if there is one: a view where it is stored as it is, else inflated. They are compared
    /// with their checksum.
    ///
    /// # Errors
    /// When it is damaged, or compressed in another way.
    pub fn member(&self, name: &str) -> Result<Option<Buffer>> {
        let mut meter = Meter::new(Limits::default(), self.bytes.len());
        self.find(name).map(|place| self.unpacked(place, &mut meter)).transpose()
    }

    /// The bytes of a member that is stored as it is, as a view.
    pub(crate) fn stored(&self, place: usize) -> Result<Buffer> {
        let member = &self.members[place];
        if member.method != STORED {
            let hint = "torch stores its files without compression; zip it again without";
            return Err(ReadError::unsupported(member.header, "a compressed member of a torch file", hint));
        }
        self.packed(member)
    }

    /// The bytes of a member, inflated if need be, and checked against their CRC.
    pub(crate) fn unpacked(&self, place: usize, meter: &mut Meter) -> Result<Buffer> {
        let member = &self.members[place];
        let packed = self.packed(member)?;
        let bytes = match member.method {
            STORED => packed,
            DEFLATED => inflate(member, &packed, meter)?.into(),
            other => {
                let what = format!("zip compression method {other}");
                return Err(ReadError::unsupported(
                    member.header,
                    what,
                    "use `np.savez` or `np.savez_compressed`",
                ));
            }
        };
        if crc32fast::hash(&bytes) != member.crc {
            let expected = "contents that match their CRC";
            return Err(ReadError::malformed(member.header, expected, "others: the file is damaged"));
        }
        Ok(bytes)
    }

    fn packed(&self, member: &Member) -> Result<Buffer> {
        let at = member.header;
        let header = Fields::new(&self.bytes, at, LOCAL_LEN)?;
        if header.u32(0) != LOCAL {
            return Err(ReadError::malformed(at, "the header of a zip member", "other bytes"));
        }
        let (name_len, extra_len) = (usize::from(header.u16(26)), usize::from(header.u16(28)));
        let name_at = at + LOCAL_LEN;
        let name = self.bytes.get(name_at..name_at + name_len).unwrap_or_default();
        if name != member.name.as_bytes() {
            let found = shown(&String::from_utf8_lossy(name));
            return Err(ReadError::malformed(at, "the same name as in the directory of the archive", found));
        }
        let start = name_at + name_len + extra_len;
        match start.checked_add(member.packed) {
            Some(end) if end <= member.limit => {
                self.bytes.slice(start..end).ok_or_else(|| ReadError::ends(at, end as u64, self.bytes.len()))
            }
            _ => {
                let left = member.limit.saturating_sub(start);
                Err(ReadError::ends(at, member.packed as u64, left))
            }
        }
    }
}

fn inflate(member: &Member, packed: &[u8], meter: &mut Meter) -> Result<Vec<u8>> {
    // Deflate cannot do better than 1 to 1032: a larger claim is a lie.
    if member.size / 1033 > packed.len() {
        let found = format!("{} bytes said to come from {}", member.size, packed.len());
        return Err(ReadError::malformed(member.header, "a size that deflate can reach", found));
    }
    meter.copy(member.header, member.size)?;
    match miniz_oxide::inflate::decompress_to_vec_with_limit(packed, member.size) {
        Ok(bytes) if bytes.len() == member.size => Ok(bytes),
        Ok(bytes) => {
            let found = format!("{} bytes, not {}", bytes.len(), member.size);
            Err(ReadError::malformed(member.header, "as many bytes as the directory says", found))
        }
        Err(error) => {
            let found = format!("{:?} after {} bytes", error.status, error.output.len());
            Err(ReadError::malformed(
                member.header,
                "deflated bytes of the size that the directory says",
                found,
            ))
        }
    }
}

/// Where the central directory is, and how many members it claims.
struct Directory {
    start: usize,
    len: usize,
    count: u64,
}

impl Directory {
    fn find(bytes: &Buffer) -> Result<Self> {
        let end = find_end(bytes)?;
        let record = Fields::new(bytes, end, END_LEN)?;
        let (disk, first_disk) = (record.u16(4), record.u16(6));
        let (mut count, mut len, mut start) =
            (u64::from(record.u16(10)), u64::from(record.u32(12)), u64::from(record.u32(16)));
        let mut limit = end;
        if count == 0xffff || len == 0xffff_ffff || start == 0xffff_ffff {
            let at = find_end64(bytes, end)?;
            let wide = Fields::new(bytes, at, END64_LEN)?;
            (count, len, start) = (wide.u64(32), wide.u64(40), wide.u64(48));
            limit = at;
        } else if disk != 0 || first_disk != 0 {
            return Err(ReadError::unsupported(end, "a zip archive in several parts", "join the parts"));
        }
        match start.checked_add(len) {
            Some(stop) if stop <= limit as u64 => {
                Ok(Self { start: start as usize, len: len as usize, count })
            }
            _ => Err(ReadError::malformed(
                end,
                "a directory inside the archive",
                format!("{len} bytes at {start}"),
            )),
        }
    }

    fn members(&self, bytes: &Buffer) -> Result<Vec<Member>> {
        // Memory follows the bytes of the directory, not the number that it claims.
        let mut members = Vec::with_capacity(self.len / CENTRAL_LEN);
        let stop = self.start + self.len;
        let mut at = self.start;
        while at < stop {
            let header = Fields::new(bytes, at, CENTRAL_LEN)?;
            if header.u32(0) != CENTRAL {
                return Err(ReadError::malformed(at, "an entry of the zip directory", "other bytes"));
            }
            let lens = [header.u16(28), header.u16(30), header.u16(32)].map(usize::from);
            let next = at + CENTRAL_LEN + lens.iter().sum::<usize>();
            if next > stop {
                return Err(ReadError::ends(at, (next - at) as u64, stop - at));
            }
            members.push(self.member(bytes, at, &header, lens[0], lens[1])?);
            at = next;
        }
        if members.len() as u64 != self.count {
            let found = format!("{} of {}", members.len(), self.count);
            return Err(ReadError::malformed(self.start, "all members of the zip directory", found));
        }
        Ok(members)
    }

    fn member(
        &self,
        bytes: &Buffer,
        at: usize,
        header: &Fields<'_>,
        name_len: usize,
        extra_len: usize,
    ) -> Result<Member> {
        let name_at = at + CENTRAL_LEN;
        let name = safe_name(&bytes[name_at..name_at + name_len], at)?;
        if header.u16(8) & FLAG_ENCRYPTED != 0 {
            return Err(ReadError::unsupported(at, "an encrypted zip member", "save without a password"));
        }
        let extra = &bytes[name_at + name_len..name_at + name_len + extra_len];
        let mut wide = Wide { extra: zip64_extra(extra), at };
        let size = wide.or_64(header.u32(24))?;
        let packed = wide.or_64(header.u32(20))?;
        let offset = wide.or_64(header.u32(42))?;
        if offset >= self.start as u64 || packed > self.start as u64 || size > isize::MAX as u64 {
            let found = format!("{packed} bytes at {offset}, unpacked {size}");
            return Err(ReadError::malformed(at, "a member that lies in the archive", found));
        }
        Ok(Member {
            name,
            method: header.u16(10),
            crc: header.u32(16),
            packed: packed as usize,
            size: size as usize,
            header: offset as usize,
            limit: 0,
        })
    }
}

/// Each member ends before the next one begins: no byte belongs to two.
fn set_limits(members: &mut [Member], directory: usize) {
    let mut starts: Vec<usize> = members.iter().map(|member| member.header).collect();
    starts.sort_unstable();
    for member in members {
        let later = starts.partition_point(|start| *start <= member.header);
        member.limit = starts.get(later).copied().unwrap_or(directory);
    }
}

/// The record that ends the archive; a comment of up to 64 KiB may follow it.
fn find_end(bytes: &Buffer) -> Result<usize> {
    let cut_short = || {
        let found = "none: the file is cut short, or is no zip archive";
        ReadError::malformed(bytes.len(), "the record that ends a zip archive", found)
    };
    let last = bytes.len().checked_sub(END_LEN).ok_or_else(cut_short)?;
    let first = last.saturating_sub(0xffff);
    for at in (first..=last).rev() {
        let record = Fields::new(bytes, at, END_LEN)?;
        if record.u32(0) == END && at + END_LEN + usize::from(record.u16(20)) == bytes.len() {
            return Ok(at);
        }
    }
    Err(cut_short())
}

fn find_end64(bytes: &Buffer, end: usize) -> Result<usize> {
    let missing = || ReadError::malformed(end, "the record of a large zip archive", "none");
    let locator_at = end.checked_sub(END64_LOCATOR_LEN).ok_or_else(missing)?;
    let locator = Fields::new(bytes, locator_at, END64_LOCATOR_LEN)?;
    let at = usize::try_from(locator.u64(8)).map_err(|_| missing())?;
    if locator.u32(0) != END64_LOCATOR || at > locator_at {
        return Err(missing());
    }
    if Fields::new(bytes, at, END64_LEN)?.u32(0) != END64 {
        return Err(missing());
    }
    Ok(at)
}

/// Names are relative paths that stay inside.
fn safe_name(bytes: &[u8], at: usize) -> Result<Box<str>> {
    let bad = |found: String| ReadError::malformed(at, "a member name that stays inside the archive", found);
    let name = String::from_utf8(bytes.to_vec()).map_err(|_| bad("bytes that are not UTF-8".into()))?;
    let escapes = name.split('/').any(|part| part == ".." || part == ".")
        || name.starts_with('/')
        || name.contains(['\\', '\0', ':'])
        || name.is_empty();
    if escapes { Err(bad(format!("`{}`", shown(&name)))) } else { Ok(name.into()) }
}

fn zip64_extra(mut extra: &[u8]) -> &[u8] {
    while let [id0, id1, len0, len1, rest @ ..] = extra {
        let len = usize::from(u16::from_le_bytes([*len0, *len1]));
        let Some(field) = rest.get(..len) else { return &[] };
        if u16::from_le_bytes([*id0, *id1]) == EXTRA_ZIP64 {
            return field;
        }
        extra = &rest[len..];
    }
    &[]
}

/// Sizes that did not fit 32 bits, in the order of the fields that they replace.
struct Wide<'a> {
    extra: &'a [u8],
    at: usize,
}

impl Wide<'_> {
    fn or_64(&mut self, narrow: u32) -> Result<u64> {
        if narrow != u32::MAX {
            return Ok(u64::from(narrow));
        }
        match self.extra.split_first_chunk::<8>() {
            Some((number, rest)) => {
                self.extra = rest;
                Ok(u64::from_le_bytes(*number))
            }
            None => Err(ReadError::malformed(self.at, "a size of 64 bits", "none")),
        }
    }
}

/// Numbers at fixed places of a record whose length was checked.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn new(bytes: &'a Buffer, at: usize, len: usize) -> Result<Self> {
        match at.checked_add(len).and_then(|end| bytes.get(at..end)) {
            Some(record) => Ok(Self(record)),
            None => Err(ReadError::ends(at, len as u64, bytes.len().saturating_sub(at))),
        }
    }

    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.number(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.number(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.number(at))
    }
}

fn shown(name: &str) -> String {
    name.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect()
}
