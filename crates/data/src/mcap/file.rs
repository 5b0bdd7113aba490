//! The records of a file: schemas, channels, and messages, in chunks or not.

use std::collections::BTreeMap;
use std::path::Path;

use plaudit_pyfiles::{Access, Buffer};

use super::error::McapError;
use crate::decompress::{lz4_frame, zstd};
use crate::recording::FileProblem;

const MAGIC: &[u8] = b"\x89MCAP0\r\n";
/// Bytes of a chunk that need no proof, and what a byte of a compressed one becomes at most beyond them.
const FREE_BYTES: u64 = 1 << 26;
const MOST_EXPANSION: u64 = 1 << 12;
/// Bytes of all chunks of the largest file that is read.
const MOST_BYTES: u64 = 1 << 35;

/// What a channel carries.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    pub(crate) topic: String,
    /// The name of what its messages are; empty where nothing is said.
    pub(crate) schema: String,
    pub(crate) encoding: String,
}

/// A message, as a view of the file or of its chunk.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// When it was logged, in nanoseconds.
    pub(crate) time: u64,
    pub(crate) data: Buffer,
}

/// Everything that was recorded, by channel.
#[derive(Debug, Default)]
pub(crate) struct McapFile {
    schemas: BTreeMap<u16, String>,
    channels: BTreeMap<u16, Channel>,
    messages: BTreeMap<u16, Vec<Message>>,
    unpacked: u64,
}

impl McapFile {
    pub(crate) fn open(path: &Path) -> Result<Self, FileProblem> {
        Ok(Self::of(&Buffer::open(path, Access::Map)?)?)
    }

    pub(crate) fn of(bytes: &Buffer) -> Result<Self, McapError> {
        if !bytes.starts_with(MAGIC) {
            return Err(damaged(0, "it does not begin as MCAP does"));
        }
        let end = bytes.len() - MAGIC.len();
        if end < MAGIC.len() || !bytes.ends_with(MAGIC) {
            return Err(damaged(bytes.len(), "it is cut short: it does not end as MCAP does"));
        }
        let mut file = Self::default();
        let records = bytes.slice(MAGIC.len()..end).ok_or_else(|| damaged(end, "it is cut short"))?;
        file.records(&records, MAGIC.len(), false)?;
        file.merge()?;
        Ok(file)
    }

    /// Each topic with its messages, by name.
    pub(crate) fn topics(&self) -> Vec<(&Channel, &[Message])> {
        let with = |(id, channel)| Some((channel, self.messages.get(id)?.as_slice()));
        let mut found: Vec<(&Channel, &[Message])> = self.channels.iter().filter_map(with).collect();
        found.sort_by(|a, b| a.0.topic.cmp(&b.0.topic));
        found
    }

    /// Makes one channel of all that are of one topic: whoever published it.
    fn merge(&mut self) -> Result<(), McapError> {
        let mut of: BTreeMap<String, u16> = BTreeMap::new();
        for (id, channel) in &self.channels {
            let Some(first) = of.get(&channel.topic).copied() else {
                of.insert(channel.topic.clone(), *id);
                continue;
            };
            let other = &self.channels[&first];
            if (&other.schema, &other.encoding) != (&channel.schema, &channel.encoding) {
                let (topic, encoding) = (channel.topic.clone(), channel.encoding.clone());
                let schema = format!("{} and {}", other.schema, channel.schema);
                return Err(McapError::Unsupported { topic, schema, encoding });
            }
            let messages = self.messages.remove(id).unwrap_or_default();
            let all = self.messages.entry(first).or_default();
            all.extend(messages);
            all.sort_by_key(|message| message.time);
        }
        Ok(())
    }

    fn records(&mut self, bytes: &Buffer, base: usize, is_in_chunk: bool) -> Result<(), McapError> {
        let mut at = 0;
        while at < bytes.len() {
            let cut = || damaged(base + at, "a record is cut short");
            let head: [u8; 9] =
                bytes.get(at..at + 9).and_then(|head| head.try_into().ok()).ok_or_else(cut)?;
            let [operation, length @ ..] = head;
            let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| cut())?;
            let start = at + 9;
            let end = start.checked_add(length).filter(|end| *end <= bytes.len()).ok_or_else(cut)?;
            let mut record = Record { bytes, at: start, end, base };
            match operation {
                0x03 => {
                    let (id, name) = (record.u16()?, record.text()?);
                    self.schemas.insert(id, name);
                }
                0x04 => self.channel(&mut record)?,
                0x05 => {
                    let (id, _, time, _) = (record.u16()?, record.u32()?, record.u64()?, record.u64()?);
                    if !self.channels.contains_key(&id) {
                        return Err(damaged(
                            base + at,
                            format!("a message of a channel {id} that was not said"),
                        ));
                    }
                    let data = bytes.slice(record.at..end).ok_or_else(cut)?;
                    self.messages.entry(id).or_default().push(Message { time, data });
                }
                0x06 if !is_in_chunk => self.chunk(&mut record)?,
                0x06 => return Err(damaged(base + at, "a chunk within a chunk")),
                // After the end of the data nothing is new.
                0x0f => return Ok(()),
                _ => {}
            }
            at = end;
        }
        Ok(())
    }

    fn channel(&mut self, record: &mut Record<'_>) -> Result<(), McapError> {
        let (id, schema) = (record.u16()?, record.u16()?);
        let (topic, encoding) = (record.text()?, record.text()?);
        let schema = match schema {
            0 => String::new(),
            number => self.schemas.get(&number).cloned().ok_or_else(|| {
                damaged(
                    record.base + record.at,
                    format!("`{topic}` is of a schema {number} that was not said"),
                )
            })?,
        };
        self.channels.insert(id, Channel { topic, schema, encoding });
        Ok(())
    }

    fn chunk(&mut self, record: &mut Record<'_>) -> Result<(), McapError> {
        let at = record.base + record.at;
        let (_, _, size, check) = (record.u64()?, record.u64()?, record.u64()?, record.u32()?);
        let (compression, packed) = (record.text()?, record.u64()?);
        let packed = usize::try_from(packed).ok().and_then(|length| record.at.checked_add(length));
        let packed = packed.filter(|end| *end <= record.end).map(|end| record.at..end);
        let packed = packed
            .and_then(|range| record.bytes.slice(range))
            .ok_or_else(|| damaged(at, "a chunk is cut short"))?;
        self.unpacked = self.unpacked.saturating_add(size);
        let most = FREE_BYTES.saturating_add((packed.len() as u64).saturating_mul(MOST_EXPANSION));
        if size > most || self.unpacked > MOST_BYTES {
            return Err(damaged(at, format!("a chunk of {} bytes claims {size}", packed.len())));
        }
        let length =
            usize::try_from(size).map_err(|_| damaged(at, format!("a chunk claims {size} bytes")))?;
        let unpacked: Buffer = match compression.as_str() {
            "" => packed,
            "zstd" => zstd(&packed, length).map_err(|what| damaged(at, what))?.into(),
            "lz4" => lz4_frame(&packed, length).map_err(|what| damaged(at, what))?.into(),
            other => {
                return Err(damaged(
                    at,
                    format!("a chunk is compressed with `{other}`, which is not read here"),
                ));
            }
        };
        if unpacked.len() != length {
            return Err(damaged(at, format!("a chunk has {} bytes, and says {length}", unpacked.len())));
        }
        if check != 0 && crc32fast::hash(&unpacked) != check {
            return Err(damaged(at, "the checksum of a chunk is of other bytes"));
        }
        self.records(&unpacked, 0, true)
    }
}

fn damaged(at: usize, what: impl Into<String>) -> McapError {
    McapError::Damaged { at, what: what.into() }
}

/// One record, read from its front.
struct Record<'a> {
    bytes: &'a Buffer,
    at: usize,
    end: usize,
    base: usize,
}

impl Record<'_> {
    fn take<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], McapError> {
        let cut = || damaged(self.base + self.at, "a record is cut short");
        let end = self.at.checked_add(COUNT).filter(|end| *end <= self.end).ok_or_else(cut)?;
        let taken = self.bytes[self.at..end].try_into().map_err(|_| cut())?;
        self.at = end;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, McapError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, McapError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, McapError> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, McapError> {
        let length = self.u32()? as usize;
        let wrong = || damaged(self.base + self.at, "a text is cut short, or no UTF-8");
        let end = self.at.checked_add(length).filter(|end| *end <= self.end).ok_or_else(wrong)?;
        let text = std::str::from_utf8(&self.bytes[self.at..end]).map_err(|_| wrong())?.to_owned();
        self.at = end;
        Ok(text)
    }
}
