//! A small H.264 encoder: constrained baseline, which every browser and player decodes.
//!
//! The first picture is predicted from its own edges (16x16 blocks), every later one from the picture before it, in
//! place. What the prediction lacks is transformed, rounded, and written with the standard's variable-length codes.
//! Blocks that lack nothing are skipped: a scene before a fixed camera costs what moves in it. There is no search for
//! motion and no smoothing of block edges; at the fineness used here ([`QUALITY`]) none is seen.

mod bits;
mod cavlc;
mod macroblock;
mod predict;
mod transform;
mod yuv;

use bits::Bits;
use macroblock::Coder;
use yuv::Yuv;

use plaudit_draw::Canvas;

/// How coarsely numbers are rounded, 0 (not at all) to 51.
const QUALITY: usize = 22;
/// Every so many pictures one stands alone, so that players can jump.
const KEY_EVERY: u32 = 250;
/// Bits that number the pictures since the last key picture.
const NUMBER_BITS: u32 = 8;

/// One encoded picture.
pub(super) struct Encoded {
    /// Its NAL unit, without a length before it.
    pub(super) unit: Vec<u8>,
    /// Whether it stands alone.
    pub(super) key: bool,
}

/// Encodes pictures of one size.
pub(super) struct H264 {
    size: (usize, usize),
    coder: Coder,
    /// Pictures since the last key picture.
    number: u32,
    /// Tells neighbouring key pictures apart.
    key_number: u32,
}

impl H264 {
    /// For pictures of a size in pixels.
    pub(super) fn new(size: (usize, usize)) -> Self {
        Self { size, coder: Coder::new(size, QUALITY), number: 0, key_number: 0 }
    }

    /// Width and height as they are shown: even, since two pixels share a colour.
    pub(super) fn shown(&self) -> (usize, usize) {
        (self.size.0.next_multiple_of(2), self.size.1.next_multiple_of(2))
    }

    /// Encodes the next picture.
    pub(super) fn encode(&mut self, picture: &Canvas) -> Encoded {
        let key = self.number.is_multiple_of(KEY_EVERY);
        let source = Yuv::of(picture);
        let mut bits = self.slice_header(key);
        if key {
            self.coder.intra(&source, &mut bits);
        } else {
            self.coder.inter(&source, &mut bits);
        }
        bits.end();
        self.number = if self.number + 1 == KEY_EVERY { 0 } else { self.number + 1 };
        self.key_number += u32::from(key);
        let header = if key { 0x65 } else { 0x61 };
        Encoded { unit: bits.unit(header), key }
    }

    fn slice_header(&self, key: bool) -> Bits {
        let mut bits = Bits::default();
        bits.unsigned(0); // first block
        bits.unsigned(if key { 7 } else { 5 }); // all slices intra, or all predicted
        bits.unsigned(0); // picture parameters
        bits.put(self.number % (1 << NUMBER_BITS), NUMBER_BITS);
        if key {
            bits.unsigned(self.key_number % 2);
            bits.put(0, 2); // nothing is kept from before
        } else {
            bits.put(0, 3); // one reference, the picture before; nothing is marked
        }
        bits.signed(QUALITY as i32 - 26);
        bits.unsigned(1); // no smoothing of edges
        bits
    }

    /// The sequence parameter set: what all pictures share.
    pub(super) fn sequence_parameters(&self) -> Vec<u8> {
        let (across, down) = (self.size.0.div_ceil(16), self.size.1.div_ceil(16));
        let mut bits = Bits::default();
        bits.put(66, 8); // baseline
        bits.put(0xc0, 8); // constrained
        bits.put(level(across, down), 8);
        bits.unsigned(0); // its number
        bits.unsigned(NUMBER_BITS - 4);
        bits.unsigned(2); // shown in the order they are written
        bits.unsigned(1); // one reference
        bits.put(0, 1);
        bits.unsigned(across as u32 - 1);
        bits.unsigned(down as u32 - 1);
        bits.put(0b11, 2); // whole frames
        let crop = [(across * 16 - self.shown().0) / 2, (down * 16 - self.shown().1) / 2];
        bits.put(1, 1);
        for side in [0, crop[0], 0, crop[1]] {
            bits.unsigned(side as u32);
        }
        self.colours(&mut bits);
        bits.end();
        bits.unit(0x67)
    }

    /// Says that colours are BT.601 in its narrow range.
    fn colours(&self, bits: &mut Bits) {
        bits.put(1, 1); // there is more to say
        bits.put(0b00, 2); // no aspect ratio, no overscan
        bits.put(1, 1); // a signal type:
        bits.put(5, 3); // no particular system
        bits.put(0, 1); // narrow range
        bits.put(1, 1); // and colours:
        bits.put(1, 8); // primaries as BT.709 and sRGB
        bits.put(13, 8); // transfer as sRGB
        bits.put(6, 8); // matrix of BT.601
        bits.put(0, 5); // nothing on chroma place, timing, buffers or picture structure
        bits.put(1, 1); // limits on the stream:
        bits.put(1, 1);
        for limit in [0, 0, 16, 16, 0, 1] {
            bits.unsigned(limit); // no reordering, one picture kept
        }
    }

    /// The picture parameter set.
    pub(super) fn picture_parameters(&self) -> Vec<u8> {
        let mut bits = Bits::default();
        bits.unsigned(0); // its number
        bits.unsigned(0); // of the sequence
        bits.put(0, 2); // variable-length codes
        bits.unsigned(0); // one slice group
        bits.unsigned(0); // one reference
        bits.unsigned(0);
        bits.put(0, 3); // no weights
        bits.signed(0);
        bits.signed(0);
        bits.signed(0);
        bits.put(0b100, 3); // slices say whether edges are smoothed
        bits.end();
        bits.unit(0x68)
    }
}

/// The lowest level that allows so many blocks across and down.
fn level(across: usize, down: usize) -> u32 {
    const LEVELS: [(u32, usize); 4] = [(30, 1620), (31, 3600), (40, 8192), (51, 36_864)];
    let fits = |most: usize| across * down <= most && across.max(down).pow(2) <= 8 * most;
    LEVELS.into_iter().find(|(_, most)| fits(*most)).map_or(62, |(level, _)| level)
}
