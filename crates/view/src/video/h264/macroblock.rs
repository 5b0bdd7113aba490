//! Blocks of 16x16 pixels, one after the other (clause 7.3.5 of the standard).

use super::bits::Bits;
use super::cavlc::{self, Context};
use super::predict;
use super::transform::{Quantiser, ZIGZAG, averages, backward, forward, four_averages};
use super::yuv::{Plane, Yuv};

/// Where the 4x4 blocks of a 16x16 block lie, in the order they are written.
const ORDER: [(usize, usize); 16] = [
    (0, 0),
    (4, 0),
    (0, 4),
    (4, 4),
    (8, 0),
    (12, 0),
    (8, 4),
    (12, 4),
    (0, 8),
    (4, 8),
    (0, 12),
    (4, 12),
    (8, 8),
    (12, 8),
    (8, 12),
    (12, 12),
];
/// Which parts of a predicted block are coded, from the commonest choice to the rarest: four bits for the quarters of the
/// brightness, then 16 for the averages of colours, 32 for all of them.
const CODED: [u8; 48] = [
    0, 16, 1, 2, 4, 8, 32, 3, 5, 10, 12, 15, 47, 7, 11, 13, 14, 6, 9, 31, 35, 37, 42, 44, 33, 34, 36, 40, 39,
    43, 45, 46, 17, 18, 20, 24, 19, 21, 26, 28, 23, 27, 29, 30, 22, 25, 38, 41,
];

/// Encodes pictures block by block, and keeps what a decoder will show.
pub(super) struct Coder {
    blocks: (usize, usize),
    coarseness: usize,
    /// The picture as a decoder has it.
    known: Yuv,
    /// How many numbers each 4x4 block has that are not zero.
    luma_counts: Counts,
    chroma_counts: [Counts; 2],
}

/// Numbers per 4x4 block.
struct Counts {
    width: usize,
    counts: Vec<u8>,
}

impl Counts {
    fn new(width: usize, height: usize) -> Self {
        Self { width, counts: vec![0; width * height] }
    }

    /// What the blocks beside and above the one at pixel (`x`, `y`) lead to expect.
    fn context(&self, x: usize, y: usize) -> Context {
        let at = y / 4 * self.width + x / 4;
        let left = (x > 0).then(|| usize::from(self.counts[at - 1]));
        let above = (y > 0).then(|| usize::from(self.counts[at - self.width]));
        Context::Neighbours(match (left, above) {
            (Some(left), Some(above)) => (left + above).div_ceil(2),
            (one, other) => one.or(other).unwrap_or(0),
        })
    }

    fn set(&mut self, x: usize, y: usize, count: usize) {
        self.counts[y / 4 * self.width + x / 4] = count as u8;
    }

    /// Forgets all, as at the start of a picture.
    fn clear(&mut self) {
        self.counts.fill(0);
    }
}

/// The rounded numbers of one colour: four averages, and the rest of four blocks.
struct Chroma {
    averages: [i32; 4],
    blocks: [[i32; 16]; 4],
}

impl Coder {
    pub(super) fn new(size: (usize, usize), coarseness: usize) -> Self {
        let blocks = (size.0.div_ceil(16), size.1.div_ceil(16));
        let chroma = || Counts::new(blocks.0 * 2, blocks.1 * 2);
        Self {
            blocks,
            coarseness,
            known: Yuv::empty(size),
            luma_counts: Counts::new(blocks.0 * 4, blocks.1 * 4),
            chroma_counts: [chroma(), chroma()],
        }
    }

    /// Corners of all 16x16 blocks, row after row; starts a new picture.
    fn start(&mut self) -> impl Iterator<Item = (usize, usize)> + use<> {
        self.luma_counts.clear();
        self.chroma_counts.iter_mut().for_each(Counts::clear);
        let (across, down) = self.blocks;
        (0..down).flat_map(move |y| (0..across).map(move |x| (x * 16, y * 16)))
    }

    /// Writes a picture that stands alone.
    pub(super) fn intra(&mut self, source: &Yuv, bits: &mut Bits) {
        let quantiser = Quantiser::new(self.coarseness, 3);
        for (x, y) in self.start() {
            self.intra_block(source, bits, quantiser, x, y);
        }
    }

    /// Writes what changed since the picture before.
    pub(super) fn inter(&mut self, source: &Yuv, bits: &mut Bits) {
        let quantiser = Quantiser::new(self.coarseness, 6);
        let mut skipped = 0;
        for (x, y) in self.start() {
            if !self.inter_block(source, bits, quantiser, (x, y), skipped) {
                skipped += 1;
            } else {
                skipped = 0;
            }
        }
        if skipped > 0 {
            bits.unsigned(skipped);
        }
    }

    fn intra_block(&mut self, source: &Yuv, bits: &mut Bits, quantiser: Quantiser, x: usize, y: usize) {
        let (mode, prediction) = predict::luma(&source.luma, &self.known.luma, x, y);
        let part = |dx: usize, dy: usize| -> [i32; 16] {
            std::array::from_fn(|n| prediction[(dy + n / 4) * 16 + dx + n % 4])
        };
        let patterns =
            ORDER.map(|(dx, dy)| forward(&difference(&source.luma.block(x + dx, y + dy), &part(dx, dy))));
        let mut means = [0; 16];
        for ((dx, dy), pattern) in ORDER.into_iter().zip(&patterns) {
            means[dy + dx / 4] = pattern[0];
        }
        let means =
            averages(&means).map(|value| quantiser.round_average((value + i32::from(value > 0)) >> 1));
        let levels = patterns.map(|pattern| without_average(quantiser.round_block(&pattern)));
        let detailed = levels.iter().any(any);

        let expected = [0, 1].map(|n| predict::chroma(&self.known.chroma[n], x / 2, y / 2));
        let colours = [0, 1].map(|n| {
            let parts = expected[n].map(|mean| [mean; 16]);
            round_chroma(&source.chroma[n], &parts, quantiser, x / 2, y / 2)
        });
        let colour_parts = colour_parts(&colours);

        bits.unsigned(1 + mode as u32 + 4 * colour_parts + if detailed { 12 } else { 0 });
        bits.unsigned(0); // colours by their means
        bits.signed(0); // no change of coarseness
        cavlc::write(bits, self.luma_counts.context(x, y), &ZIGZAG.map(|at| means[at]));
        if detailed {
            for ((dx, dy), levels) in ORDER.into_iter().zip(&levels) {
                let context = self.luma_counts.context(x + dx, y + dy);
                let count = cavlc::write(bits, context, &ZIGZAG.map(|at| levels[at])[1..]);
                self.luma_counts.set(x + dx, y + dy, count);
            }
        }
        self.write_chroma(bits, &colours, colour_parts, x / 2, y / 2);

        let means = averages(&means).map(|value| quantiser.restore_luma_average(value));
        for ((dx, dy), levels) in ORDER.into_iter().zip(&levels) {
            let mut pattern = quantiser.restore_block(levels);
            pattern[0] = means[dy + dx / 4];
            self.known.luma.set_block(x + dx, y + dy, &sum(&part(dx, dy), &backward(&pattern)));
        }
        for n in [0, 1] {
            let parts = expected[n].map(|mean| [mean; 16]);
            restore_chroma(&mut self.known.chroma[n], &parts, &colours[n], quantiser, x / 2, y / 2);
        }
    }

    /// Writes a block as a difference to the picture before, after the number of those skipped; or says that there is
    /// nothing to write.
    fn inter_block(
        &mut self,
        source: &Yuv,
        bits: &mut Bits,
        quantiser: Quantiser,
        (x, y): (usize, usize),
        skipped: u32,
    ) -> bool {
        let before = ORDER.map(|(dx, dy)| self.known.luma.block(x + dx, y + dy));
        let levels: [[i32; 16]; 16] = std::array::from_fn(|n| {
            let (dx, dy) = ORDER[n];
            quantiser.round_block(&forward(&difference(&source.luma.block(x + dx, y + dy), &before[n])))
        });
        let colours_before = [0, 1].map(|n| quarters(&self.known.chroma[n], x / 2, y / 2));
        let colours: [Chroma; 2] = std::array::from_fn(|n| {
            round_chroma(&source.chroma[n], &colours_before[n], quantiser, x / 2, y / 2)
        });
        let quarter = |n: usize| levels[n * 4..n * 4 + 4].iter().any(any);
        let luma_parts: u32 = (0..4).filter(|n| quarter(*n)).map(|n| 1 << n).sum();
        let colour_parts = colour_parts(&colours);
        let parts = luma_parts + 16 * colour_parts;
        if parts == 0 {
            return false;
        }
        bits.unsigned(skipped);
        bits.unsigned(0); // one 16x16 block, from the picture before
        bits.signed(0); // that did not move across
        bits.signed(0); // nor down
        bits.unsigned(CODED.iter().position(|coded| u32::from(*coded) == parts).unwrap_or(0) as u32);
        bits.signed(0); // no change of coarseness
        for (n, (dx, dy)) in ORDER.into_iter().enumerate().filter(|(n, _)| luma_parts >> (n / 4) & 1 == 1) {
            let context = self.luma_counts.context(x + dx, y + dy);
            let count = cavlc::write(bits, context, &ZIGZAG.map(|at| levels[n][at]));
            self.luma_counts.set(x + dx, y + dy, count);
            let restored = backward(&quantiser.restore_block(&levels[n]));
            self.known.luma.set_block(x + dx, y + dy, &sum(&before[n], &restored));
        }
        self.write_chroma(bits, &colours, colour_parts, x / 2, y / 2);
        for n in [0, 1] {
            restore_chroma(
                &mut self.known.chroma[n],
                &colours_before[n],
                &colours[n],
                quantiser,
                x / 2,
                y / 2,
            );
        }
        true
    }

    /// Writes both colours of the 8x8 block at (`x`, `y`): `parts` is 0 for nothing, 1 for averages, 2 for all.
    fn write_chroma(&mut self, bits: &mut Bits, colours: &[Chroma; 2], parts: u32, x: usize, y: usize) {
        if parts == 0 {
            return;
        }
        for colour in colours {
            cavlc::write(bits, Context::Averages, &colour.averages);
        }
        if parts == 1 {
            return;
        }
        for (colour, counts) in colours.iter().zip(&mut self.chroma_counts) {
            for (n, levels) in colour.blocks.iter().enumerate() {
                let (x, y) = (x + n % 2 * 4, y + n / 2 * 4);
                let count = cavlc::write(bits, counts.context(x, y), &ZIGZAG.map(|at| levels[at])[1..]);
                counts.set(x, y, count);
            }
        }
    }
}

/// The four 4x4 parts of the 8x8 block at (`x`, `y`).
fn quarters(plane: &Plane, x: usize, y: usize) -> [[i32; 16]; 4] {
    std::array::from_fn(|n| plane.block(x + n % 2 * 4, y + n / 2 * 4))
}

/// What a prediction lacks of the 8x8 block at (`x`, `y`).
fn round_chroma(
    source: &Plane,
    prediction: &[[i32; 16]; 4],
    quantiser: Quantiser,
    x: usize,
    y: usize,
) -> Chroma {
    let quantiser = quantiser.for_chroma();
    let source = quarters(source, x, y);
    let patterns: [[i32; 16]; 4] = std::array::from_fn(|n| forward(&difference(&source[n], &prediction[n])));
    let averages = four_averages(patterns.map(|pattern| pattern[0]));
    Chroma {
        averages: averages.map(|value| quantiser.round_average(value)),
        blocks: patterns.map(|pattern| without_average(quantiser.round_block(&pattern))),
    }
}

/// Puts the 8x8 block at (`x`, `y`) as a decoder will have it.
fn restore_chroma(
    known: &mut Plane,
    prediction: &[[i32; 16]; 4],
    colour: &Chroma,
    quantiser: Quantiser,
    x: usize,
    y: usize,
) {
    let quantiser = quantiser.for_chroma();
    let averages = four_averages(colour.averages).map(|value| quantiser.restore_chroma_average(value));
    for n in 0..4 {
        let mut pattern = quantiser.restore_block(&colour.blocks[n]);
        pattern[0] = averages[n];
        let block = sum(&prediction[n], &backward(&pattern));
        known.set_block(x + n % 2 * 4, y + n / 2 * 4, &block);
    }
}

/// How much of the colours has to be written.
fn colour_parts(colours: &[Chroma; 2]) -> u32 {
    if colours.iter().flat_map(|colour| &colour.blocks).any(any) {
        2
    } else {
        u32::from(colours.iter().flat_map(|colour| colour.averages).any(|value| value != 0))
    }
}

fn any(levels: &[i32; 16]) -> bool {
    levels.iter().any(|level| *level != 0)
}

fn without_average(mut levels: [i32; 16]) -> [i32; 16] {
    levels[0] = 0;
    levels
}

fn difference(a: &[i32; 16], b: &[i32; 16]) -> [i32; 16] {
    std::array::from_fn(|n| a[n] - b[n])
}

fn sum(a: &[i32; 16], b: &[i32; 16]) -> [i32; 16] {
    std::array::from_fn(|n| a[n] + b[n])
}
