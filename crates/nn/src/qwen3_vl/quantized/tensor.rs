//! A matrix of few bits: codes, and scales of groups of them. Numbers are made of it when they are needed.

use std::ops::Range;

use rayon::prelude::*;

use crate::weights::Array;

/// Weights `[outputs, inputs]` of a linear layer: a number is the scale of its group times what its code stands for.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct QuantizedTensor {
    pub(super) shape: [usize; 2],
    pub(super) codes: Codes,
    /// `[rows / rows that share them, groups]`
    pub(super) scales: Vec<f32>,
    /// Rows that share scales.
    pub(super) shared_rows: usize,
    pub(super) groups: Groups,
}

/// What a number is before it is scaled.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Codes {
    /// Floats of eight bits (E4M3), `[outputs, inputs]`.
    Float8(Array),
    /// Whole numbers, less their zero point.
    Whole { stored: Array, layout: Layout, bits: u32, zeros: Zeros },
}

/// How whole numbers lie in their tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// A signed byte each, `[outputs, inputs]`.
    Bytes,
    /// Words of 32 bits `[outputs, words]`, one input after another: compressed-tensors.
    WordsOfInputs,
    /// Words `[words, outputs]`, one input after another: GPTQ.
    WordsOfInputsTransposed,
    /// Words `[inputs, words]`, of eight outputs in the order 0, 2, 4, 6, 1, 3, 5, 7: AWQ.
    WordsOfOutputs,
}

/// The whole number that stands for zero.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Zeros {
    /// The same everywhere.
    All(i16),
    /// Of each row and group, `[outputs, groups]`.
    OfGroups(Vec<i16>),
}

/// Which group an input belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Groups {
    /// So many inputs after one another are one.
    Blocks(usize),
    /// A list says it (activation order); of so many groups.
    Listed(Vec<u32>, usize),
}

/// Bits of a word, and the place of each of AWQ's eight outputs in it.
const WORD: u32 = 32;
pub(super) const AWQ_PLACES: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Rows that are unpacked together: words of AWQ and GPTQ run across rows.
const ROWS_AT_ONCE: usize = 16;

impl Groups {
    pub(super) fn count(&self, inputs: usize) -> usize {
        match self {
            Self::Blocks(size) => inputs.div_ceil(*size),
            Self::Listed(_, count) => *count,
        }
    }

    fn of(&self, input: usize) -> usize {
        match self {
            Self::Blocks(size) => input / size,
            Self::Listed(groups, _) => groups[input] as usize,
        }
    }
}

/// A matrix as a GPU keeps it: a byte for each number, and the scales of blocks.
pub(in super::super) struct PackedMatrix {
    pub(in super::super) kind: PackedKind,
    pub(in super::super) bytes: Vec<u8>,
    /// `[outputs, blocks]`
    pub(in super::super) scales: Vec<f32>,
    /// Inputs that share a scale.
    pub(in super::super) block: usize,
}

/// What a byte of a packed matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum PackedKind {
    /// A signed whole number.
    Int8,
    /// A float of eight bits (E4M3).
    Float8,
}

impl QuantizedTensor {
    /// Outputs and inputs.
    pub(in super::super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// All numbers, `[outputs, inputs]`. Products of codes and scales are those of single precision.
    pub(in super::super) fn to_f32(&self) -> Vec<f32> {
        let [outputs, inputs] = self.shape;
        let mut numbers = vec![0.0; outputs * inputs];
        let tiles = numbers.par_chunks_mut(ROWS_AT_ONCE * inputs).enumerate();
        tiles.for_each(|(tile, numbers)| {
            let first = tile * ROWS_AT_ONCE;
            let rows = first..(first + ROWS_AT_ONCE).min(outputs);
            self.for_each_value(rows, |row, input, value| {
                numbers[(row - first) * inputs + input] = value * self.scale(row, input);
            });
        });
        numbers
    }

    /// The same numbers in a byte each, if a GPU can keep them so: groups of whole multiples of eight inputs that lie after one
    /// another, and whole numbers that fit.
    pub(in super::super) fn packed(&self) -> Option<PackedMatrix> {
        let [outputs, inputs] = self.shape;
        let Groups::Blocks(block) = self.groups else { return None };
        if !block.is_multiple_of(8) && block < inputs {
            return None;
        }
        let block = block.min(inputs);
        let (kind, bytes) = match &self.codes {
            Codes::Float8(stored) => (PackedKind::Float8, stored.bytes().to_vec()),
            Codes::Whole { .. } => (PackedKind::Int8, self.signed_bytes()?),
        };
        let blocks = inputs.div_ceil(block);
        let scales = (0..outputs).flat_map(|row| (0..blocks).map(move |i| self.scale(row, i * block)));
        Some(PackedMatrix { kind, bytes, scales: scales.collect(), block })
    }

    /// Whole numbers less their zero points, if all of them fit into a signed byte.
    fn signed_bytes(&self) -> Option<Vec<u8>> {
        let [outputs, inputs] = self.shape;
        let mut bytes = vec![0u8; outputs * inputs];
        let tiles = bytes.par_chunks_mut(ROWS_AT_ONCE * inputs).enumerate();
        let fits = tiles.map(|(tile, bytes)| {
            let first = tile * ROWS_AT_ONCE;
            let rows = first..(first + ROWS_AT_ONCE).min(outputs);
            let mut fits = true;
            self.for_each_value(rows, |row, input, value| {
                let byte = value as i8;
                fits &= f32::from(byte) == value;
                bytes[(row - first) * inputs + input] = byte as u8;
            });
            fits
        });
        fits.reduce(|| true, |one, other| one && other).then_some(bytes)
    }

    fn scale(&self, row: usize, input: usize) -> f32 {
        let groups = self.groups.count(self.shape[1]);
        self.scales[row / self.shared_rows * groups + self.groups.of(input)]
    }

    /// What the codes of some rows stand for, before they are scaled.
    fn for_each_value(&self, rows: Range<usize>, mut take: impl FnMut(usize, usize, f32)) {
        let [outputs, inputs] = self.shape;
        match &self.codes {
            Codes::Float8(stored) => {
                let bytes = stored.bytes();
                for row in rows {
                    let row_bytes = &bytes[row * inputs..][..inputs];
                    row_bytes.iter().enumerate().for_each(|(input, byte)| take(row, input, float8(*byte)));
                }
            }
            Codes::Whole { stored, layout, bits, zeros } => {
                let mut take = |row: usize, input: usize, code: i16| {
                    let zero = match zeros {
                        Zeros::All(zero) => *zero,
                        Zeros::OfGroups(zeros) => {
                            zeros[row * self.groups.count(inputs) + self.groups.of(input)]
                        }
                    };
                    take(row, input, f32::from(code - zero));
                };
                let code = |word: usize, place: usize| word_code(stored.bytes(), word, place, *bits);
                let each = (WORD / bits) as usize;
                match layout {
                    Layout::Bytes => {
                        let bytes = stored.bytes();
                        for (row, input) in rows.flat_map(|row| (0..inputs).map(move |input| (row, input))) {
                            take(row, input, i16::from(bytes[row * inputs + input] as i8));
                        }
                    }
                    Layout::WordsOfInputs => {
                        let words = inputs.div_ceil(each);
                        for (row, input) in rows.flat_map(|row| (0..inputs).map(move |input| (row, input))) {
                            take(row, input, code(row * words + input / each, input % each));
                        }
                    }
                    Layout::WordsOfInputsTransposed => {
                        for input in 0..inputs {
                            for row in rows.clone() {
                                take(row, input, code(input / each * outputs + row, input % each));
                            }
                        }
                    }
                    Layout::WordsOfOutputs => {
                        let words = outputs.div_ceil(each);
                        for input in 0..inputs {
                            for row in rows.clone() {
                                take(row, input, code(input * words + row / each, AWQ_PLACES[row % each]));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The code at a place of a word, from the lowest bits on.
pub(super) fn word_code(words: &[u8], word: usize, place: usize, bits: u32) -> i16 {
    // Places of four and eight bits never cross a byte.
    let bit = place * bits as usize;
    let byte = words[word * 4 + bit / 8] >> (bit % 8);
    i16::from(byte & ((1u16 << bits) - 1) as u8)
}

/// A float of eight bits (E4M3, no infinities) as one of 32.
pub(super) fn float8(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let size = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa * 2f32.powi(-9),
        _ => (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7),
    };
    if byte & 0x80 == 0 { size } else { -size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::DType;

    #[test]
    fn floats_of_eight_bits_are_those_of_torch() {
        // torch: `torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()`
        for (byte, expected) in [
            (0x00, 0.0),
            (0x01, 0.001_953_125),
            (0x07, 0.013_671_875),
            (0x08, 0.015_625),
            (0x38, 1.0),
            (0x3c, 1.5),
            (0x7e, 448.0),
            (0xc1, -2.25),
            (0xfe, -448.0),
        ] {
            assert_eq!(float8(byte), expected, "{byte:#x}");
        }
        assert!(float8(0x7f).is_nan() && float8(0xff).is_nan());
    }

    /// Two rows of sixteen codes: one after another from -8 on, and the other way round.
    fn words_of_inputs() -> QuantizedTensor {
        let row: u64 = 0xfedc_ba98_7654_3210;
        let turned: u64 = 0x0123_4567_89ab_cdef;
        let bytes = [row.to_le_bytes(), turned.to_le_bytes()].concat();
        QuantizedTensor {
            shape: [2, 16],
            codes: Codes::Whole {
                stored: Array::new(DType::I32, &[2, 2], bytes).unwrap(),
                layout: Layout::WordsOfInputs,
                bits: 4,
                zeros: Zeros::All(8),
            },
            scales: vec![1.0, 2.0, 0.5, 0.25],
            shared_rows: 1,
            groups: Groups::Blocks(8),
        }
    }

    #[test]
    fn packed_bytes_and_scales_give_the_same_numbers() {
        let tensor = words_of_inputs();
        let numbers = tensor.to_f32();
        assert_eq!(numbers[..3], [-8.0, -7.0, -6.0]);
        assert_eq!(numbers[8..10], [0.0, 2.0]);
        assert_eq!(numbers[16..18], [3.5, 3.0]);
        let packed = tensor.packed().unwrap();
        assert_eq!((packed.kind, packed.block), (PackedKind::Int8, 8));
        for (i, number) in numbers.iter().enumerate() {
            let scale = packed.scales[i / 16 * 2 + i % 16 / 8];
            assert_eq!(f32::from(packed.bytes[i] as i8) * scale, *number, "{i}");
        }
        let listed = QuantizedTensor { groups: Groups::Listed(vec![1; 16], 2), ..tensor };
        assert!(listed.packed().is_none(), "activation order has no blocks");
        assert_eq!(listed.to_f32()[..2], [-16.0, -14.0]);
    }
}
