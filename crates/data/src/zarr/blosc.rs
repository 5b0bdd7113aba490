//! Blosc's containers: blocks, each in a stream for each byte of a number, shuffled by byte or by bit, and compressed.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::decompress::{lz4_block, zstd};

const HEADER: usize = 16;
/// Only blocks of at least so many numbers, of at most so many bytes each, are in several streams.
const SPLIT: (usize, usize) = (128, 16);

/// What compresses the streams.
#[derive(Clone, Copy)]
enum Inner {
    BloscLz,
    Lz4,
    Zlib,
    Zstd,
}

struct Header {
    is_shuffled: bool,
    is_bitshuffled: bool,
    is_copied: bool,
    is_split: bool,
    inner: Inner,
    each: usize,
    length: usize,
    block: usize,
}

/// The bytes of a container, at most so many.
pub(super) fn decode(bytes: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let header = header(bytes)?;
    if header.length > most {
        return Err(format!("it claims {} bytes, and {most} were expected", header.length));
    }
    let cut = || "it is cut short".to_owned();
    if header.is_copied {
        let stored = bytes.get(HEADER..).and_then(|stored| stored.get(..header.length));
        return Ok(stored.ok_or_else(cut)?.to_vec());
    }
    let mut out = Vec::with_capacity(header.length);
    let mut at = 0;
    while out.len() < header.length {
        let start = number(bytes, HEADER + 4 * at).ok_or_else(cut)?;
        let length = header.block.min(header.length - out.len());
        let block = block(bytes, start, length, &header)?;
        match () {
            () if header.is_bitshuffled => bits_unshuffled(&block, header.each, &mut out),
            () if header.is_shuffled && header.each > 1 => bytes_unshuffled(&block, header.each, &mut out),
            () => out.extend_from_slice(&block),
        }
        at += 1;
    }
    Ok(out)
}

fn header(bytes: &[u8]) -> Result<Header, String> {
    let head = bytes.get(..HEADER).ok_or("it is cut short")?;
    let flags = head[2];
    let inner = match flags >> 5 {
        0 => Inner::BloscLz,
        1 => Inner::Lz4,
        3 => Inner::Zlib,
        4 => Inner::Zstd,
        2 => return Err("it is compressed by snappy, which is not read here".into()),
        _ => return Err("it is compressed by something unknown".into()),
    };
    if head[0] != 2 || flags & 8 != 0 {
        return Err(format!(
            "it is of version {} of Blosc's format with flags {flags:#x}, and 2 is read",
            head[0]
        ));
    }
    let [length, block, stored] = [4, 8, 12].map(|at| number(bytes, at).unwrap_or_default());
    if stored > bytes.len() {
        return Err("it is cut short".into());
    }
    let each = usize::from(head[3]);
    if each == 0 || block == 0 && length > 0 {
        return Err("its head is damaged".into());
    }
    let [is_shuffled, is_copied, is_bitshuffled] = [1, 2, 4].map(|flag| flags & flag != 0);
    Ok(Header {
        is_shuffled,
        is_bitshuffled,
        is_copied,
        is_split: flags & 16 == 0,
        inner,
        each,
        length,
        block,
    })
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(four)).ok()
}

/// A block as it was before it was compressed: one stream, or one for each byte of a number.
fn block(bytes: &[u8], start: usize, length: usize, header: &Header) -> Result<Vec<u8>, String> {
    let is_whole = length == header.block;
    let is_large = header.each <= SPLIT.1 && header.block / header.each >= SPLIT.0;
    let streams = if header.is_split && is_large && is_whole { header.each } else { 1 };
    let each = length / streams;
    let (mut out, mut at) = (Vec::with_capacity(length), start);
    for _ in 0..streams {
        let stored = number(bytes, at).ok_or("a block is cut short")?;
        at += 4;
        let end = at.checked_add(stored).filter(|end| *end <= bytes.len()).ok_or("a block is cut short")?;
        let stream = &bytes[at..end];
        at = end;
        if stored == each {
            out.extend_from_slice(stream);
            continue;
        }
        let found = match header.inner {
            Inner::BloscLz => blosclz(stream, each).ok_or("a block is damaged")?,
            Inner::Lz4 => lz4_block(stream, each)?,
            Inner::Zlib => {
                decompress_to_vec_zlib_with_limit(stream, each).map_err(|error| error.to_string())?
            }
            Inner::Zstd => zstd(stream, each)?,
        };
        if found.len() != each {
            return Err(format!("a block has {} bytes, and {each} were expected", found.len()));
        }
        out.extend(found);
    }
    match out.len() == length {
        true => Ok(out),
        false => Err("a block does not divide into its streams".into()),
    }
}

/// First bytes of all numbers, then second bytes, …; what is no whole number stays at the end.
fn bytes_unshuffled(block: &[u8], each: usize, out: &mut Vec<u8>) {
    let count = block.len() / each;
    let whole = count * each;
    for at in 0..count {
        out.extend((0..each).map(|byte| block[byte * count + at]));
    }
    out.extend_from_slice(&block[whole..]);
}

/// First bits of all numbers, then second bits, …; a block whose numbers are not a multiple of eight stays as it is.
fn bits_unshuffled(block: &[u8], each: usize, out: &mut Vec<u8>) {
    let count = block.len() / each;
    if !count.is_multiple_of(8) {
        out.extend_from_slice(block);
        return;
    }
    let (row, first) = (count / 8, out.len());
    out.resize(first + count * each, 0);
    let numbers = &mut out[first..];
    for bit in 0..each * 8 {
        for (at, packed) in block[bit * row..(bit + 1) * row].iter().enumerate() {
            for inner in 0..8 {
                numbers[(at * 8 + inner) * each + bit / 8] |= ((packed >> inner) & 1) << (bit % 8);
            }
        }
    }
    out.extend_from_slice(&block[count * each..]);
}

/// Blosc's own compressor: literals, and copies of what came before.
fn blosclz(stream: &[u8], length: usize) -> Option<Vec<u8>> {
    const FAR: usize = 8191;
    let mut out: Vec<u8> = Vec::with_capacity(length);
    let mut bytes = stream.iter().copied();
    let mut control = usize::from(bytes.next()? & 31);
    loop {
        if control < 32 {
            for _ in 0..=control {
                out.push(bytes.next()?);
            }
        } else {
            let (mut count, high) = ((control >> 5) + 2, (control & 31) << 8);
            if count == 9 {
                loop {
                    let more = bytes.next()?;
                    count += usize::from(more);
                    if more != 255 {
                        break;
                    }
                }
            }
            let low = usize::from(bytes.next()?);
            let mut back = high + low + 1;
            if low == 255 && high == 31 << 8 {
                back = (usize::from(bytes.next()?) << 8) + usize::from(bytes.next()?) + FAR + 1;
            }
            let from = out.len().checked_sub(back)?;
            if out.len() + count > length {
                return None;
            }
            (from..from + count).for_each(|at| out.push(out[at]));
        }
        if out.len() > length {
            return None;
        }
        match bytes.next() {
            Some(next) => control = usize::from(next),
            None => return Some(out),
        }
    }
}
