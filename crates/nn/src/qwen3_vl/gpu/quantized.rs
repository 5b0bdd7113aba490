//! Weights of eight bits: a byte for each number, and a scale for each block of a row. Those of a quantised folder come with their own scales and
//! are kept as they are (whole numbers of four bits in eight, without loss); others are quantised here.
//!
//! They are unpacked to bf16 before each product, layer by layer, into memory that all layers share: half the memory for the weights, for
//! a few milliseconds a pass. Any GPU does this. Activations stay bf16.

use rayon::prelude::*;

use super::super::quantized::{PackedKind, PackedMatrix};

/// Numbers of a row that share a scale, if they are quantised here.
const BLOCK: usize = 128;

/// Rows of `width` numbers in eight bits, each rounded to a 127th of the largest of its block.
pub(super) fn quantize(numbers: &[f32], width: usize) -> PackedMatrix {
    let blocks = width.div_ceil(BLOCK);
    let mut bytes = vec![0u8; numbers.len()];
    let mut scales = vec![0f32; numbers.len() / width * blocks];
    let rows = numbers.par_chunks_exact(width).zip(bytes.par_chunks_exact_mut(width));
    rows.zip(scales.par_chunks_exact_mut(blocks)).for_each(|((row, to), scales)| {
        for ((block, to), scale) in row.chunks(BLOCK).zip(to.chunks_mut(BLOCK)).zip(scales) {
            let largest = block.iter().fold(0f32, |largest, number| largest.max(number.abs()));
            *scale = largest / 127.0;
            let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            block.iter().zip(to).for_each(|(number, to)| *to = (number * factor).round() as i8 as u8);
        }
    });
    PackedMatrix { kind: PackedKind::Int8, bytes, scales, block: BLOCK }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_off_by_half_a_step_of_their_block_at_most() {
        let width = 3 * BLOCK / 2;
        let number =
            |i: usize| ((i * 7919 % 1000) as f32 - 500.0) * if i % width < BLOCK { 1e-3 } else { 10.0 };
        let numbers: Vec<f32> = (0..4 * width).map(number).collect();
        let PackedMatrix { bytes: found, scales, .. } = quantize(&numbers, width);
        assert_eq!(scales.len(), 4 * 2);
        for (i, number) in numbers.iter().enumerate() {
            let scale = scales[i / width * 2 + i % width / BLOCK];
            assert!((f32::from(found[i] as i8) * scale - number).abs() <= 0.5001 * scale, "{i}");
        }
        let zeros = quantize(&[0.0; 16], 16);
        assert!(zeros.bytes.iter().all(|byte| *byte == 0) && zeros.scales == [0.0]);
    }
}
