//! H.264 by rusty_h264, in Rust alone.

use rusty_h264_decoder::{Decoder, Sps};

use super::colour::{Matrix, Yuv};
use super::{Decode, MOST_PIXELS};

pub(super) const NAME: &str = "rusty_h264";

/// Between units of a stream.
const START: [u8; 4] = [0, 0, 0, 1];
/// The type of unit that says how large frames are.
const SPS: u8 = 7;

/// A decoder of samples as MP4 has them: units after their lengths.
pub(super) struct H264 {
    decoder: Decoder,
    length_bytes: usize,
    /// Parameter sets, before the first sample.
    config: Vec<u8>,
    colour: (Matrix, bool),
}

impl H264 {
    /// `config` is what `avcC` holds: how long lengths are, and the parameter sets.
    pub(super) fn new(config: &[u8], colour: (Matrix, bool)) -> Result<Self, String> {
        let short = || "`avcC` is cut short".to_string();
        let length_bytes = usize::from(config.get(4).ok_or_else(short)? & 3) + 1;
        let mut stream = Vec::new();
        let mut rest = config.get(5..).ok_or_else(short)?;
        for mask in [0x1f, 0xff] {
            let (count, mut after) = rest.split_first().ok_or_else(short)?;
            for _ in 0..count & mask {
                let size = after.get(..2).map(|size| usize::from(size[0]) << 8 | usize::from(size[1]));
                let unit = size.and_then(|size| after.get(2..2 + size)).ok_or_else(short)?;
                append(unit, &mut stream)?;
                after = &after[2 + unit.len()..];
            }
            rest = after;
        }
        Ok(Self { decoder: Decoder::new(), length_bytes, config: stream, colour })
    }
}

impl Decode for H264 {
    /// Parameter sets and colours are this video's own.
    fn restart(&mut self, _: &[u8; 4], _: &[u8]) -> bool {
        false
    }

    fn decode(&mut self, sample: usize, bytes: &[u8]) -> Result<Vec<(usize, Yuv)>, String> {
        let mut stream = std::mem::take(&mut self.config);
        let mut rest = bytes;
        while !rest.is_empty() {
            let head = rest.get(..self.length_bytes).ok_or("a unit without its length")?;
            let size = head.iter().fold(0, |size, byte| size << 8 | usize::from(*byte));
            let unit = rest[self.length_bytes..].get(..size);
            append(unit.ok_or("a unit that is longer than its frame")?, &mut stream)?;
            rest = &rest[self.length_bytes + size..];
        }
        let Some(frame) = self.decoder.decode(&stream).map_err(|error| error.to_string())? else {
            return Ok(Vec::new());
        };
        let (matrix, is_full_range) = self.colour;
        let planes = Yuv {
            width: frame.width,
            height: frame.height,
            y: (frame.y, frame.width),
            chroma: Some([(frame.u, frame.width / 2), (frame.v, frame.width / 2)]),
            matrix,
            is_full_range,
        };
        Ok(vec![(sample, planes)])
    }
}

/// Adds a unit to a stream. One that makes frames too large is refused before memory follows it.
fn append(unit: &[u8], stream: &mut Vec<u8>) -> Result<(), String> {
    if unit.first().is_some_and(|head| head & 0x1f == SPS) {
        let sps = Sps::parse(&unescaped(&unit[1..])).map_err(|error| error.to_string())?;
        let pixels = sps.pic_width_in_mbs.saturating_mul(sps.pic_height_in_mbs).saturating_mul(256);
        if pixels as u64 > MOST_PIXELS {
            return Err(format!("frames of {pixels} pixels, where {MOST_PIXELS} are allowed"));
        }
    }
    stream.extend_from_slice(&START);
    stream.extend_from_slice(unit);
    Ok(())
}

/// Without the bytes that keep a unit from looking like the beginning of another.
fn unescaped(unit: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(unit.len());
    let mut zeros = 0;
    for &byte in unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        bytes.push(byte);
    }
    bytes
}
