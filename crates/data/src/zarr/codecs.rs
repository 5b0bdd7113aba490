//! What a chunk goes through on its way to a file, undone.

use miniz_oxide::inflate::{decompress_to_vec_with_limit, decompress_to_vec_zlib_with_limit};
use plaudit_pyfiles::crc32c;

use super::blosc;
use crate::decompress::{lz4_block, zstd};

/// Something that bytes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Blosc,
    Zstd,
    Zlib,
    Gzip,
    /// A length of four bytes, and a block.
    Lz4,
    /// Four bytes at the end.
    Crc32c,
}

/// All of them: how axes lie, how bytes of a number lie, and what makes them fewer, in the order of writing.
#[derive(Clone, Debug)]
pub(super) struct Codecs {
    /// Which axis of the array comes first, second, … in the chunk.
    pub(super) order: Vec<usize>,
    pub(super) is_swapped: bool,
    pub(super) codecs: Vec<Codec>,
}

impl Codecs {
    /// The numbers of a chunk in the order in which they lie, which take so many bytes.
    pub(super) fn decode(&self, stored: &[u8], expected: usize, each: usize) -> Result<Vec<u8>, String> {
        let mut bytes: Option<Vec<u8>> = None;
        for (at, codec) in self.codecs.iter().enumerate().rev() {
            // What is not the last to be undone may be a little more: a codec may make bytes more.
            let room = if at == 0 { 0 } else { expected / 8 + (1 << 16) };
            bytes = Some(codec.decode(bytes.as_deref().unwrap_or(stored), expected.saturating_add(room))?);
        }
        let mut bytes = bytes.unwrap_or_else(|| stored.to_vec());
        if bytes.len() != expected {
            return Err(format!("it has {} bytes, and {expected} were expected", bytes.len()));
        }
        if self.is_swapped {
            bytes.chunks_exact_mut(each).for_each(<[u8]>::reverse);
        }
        Ok(bytes)
    }
}

impl Codec {
    fn decode(self, bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
        match self {
            Self::Blosc => blosc::decode(bytes, most),
            Self::Zstd => zstd(bytes, most),
            Self::Zlib => decompress_to_vec_zlib_with_limit(bytes, most).map_err(|error| error.to_string()),
            Self::Gzip => gzip(bytes, most),
            Self::Lz4 => {
                let (length, block) = bytes.split_first_chunk::<4>().ok_or("it is cut short")?;
                let length = u32::from_le_bytes(*length) as usize;
                if length > most {
                    return Err(format!("it claims {length} bytes, and {most} were expected"));
                }
                lz4_block(block, length)
            }
            Self::Crc32c => {
                let (bytes, check) = bytes.split_last_chunk::<4>().ok_or("it is cut short")?;
                match crc32c(bytes) == u32::from_le_bytes(*check) {
                    true => Ok(bytes.to_vec()),
                    false => Err("its checksum is of other bytes".into()),
                }
            }
        }
    }
}

fn gzip(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
    let cut = || "it is cut short".to_owned();
    let header = bytes.get(..10).ok_or_else(cut)?;
    // Names and comments are not written by what writes chunks.
    if header[..3] != MAGIC || header[3] != 0 {
        return Err("it does not begin as gzip does".into());
    }
    let end = bytes.len().checked_sub(8).filter(|end| *end >= 10).ok_or_else(cut)?;
    let out = decompress_to_vec_with_limit(&bytes[10..end], most).map_err(|error| error.to_string())?;
    let check = bytes[end..end + 4].try_into().map(u32::from_le_bytes).unwrap_or_default();
    match crc32fast::hash(&out) == check {
        true => Ok(out),
        false => Err("its checksum is of other bytes".into()),
    }
}
