//! The transform of 4x4 blocks, and rounding (clause 8.5 of the standard).

/// Positions of a block from the smoothest to the finest pattern.
pub(super) const ZIGZAG: [usize; 16] = [0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15];
/// What a rounded number stands for, by coarseness modulo 6: corners, centres, others.
const STEP: [[i32; 3]; 6] =
    [[10, 16, 13], [11, 18, 14], [13, 20, 16], [14, 23, 18], [16, 25, 20], [18, 29, 23]];
/// Its inverse, in 2^15ths, with the transform's own scale taken out.
const INVERSE_STEP: [[i32; 3]; 6] = [
    [13_107, 5243, 8066],
    [11_916, 4660, 7490],
    [10_082, 4194, 6554],
    [9362, 3647, 5825],
    [8192, 3355, 5243],
    [7282, 2893, 4559],
];

/// Which of the three scales a position has.
fn class(position: usize) -> usize {
    match (position / 4 % 2, position % 2) {
        (0, 0) => 0,
        (1, 1) => 1,
        _ => 2,
    }
}

/// How numbers are rounded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantiser {
    coarseness: usize,
    /// Which part of a step is still rounded down, as a divisor: 3 for pictures alone, 6 for differences.
    pub(super) caution: i64,
}

impl Quantiser {
    pub(super) fn new(coarseness: usize, caution: i64) -> Self {
        Self { coarseness, caution }
    }

    /// The same for colours, which are rounded a little less when all is coarse.
    pub(super) fn for_chroma(self) -> Self {
        const COARSE: [usize; 22] =
            [29, 30, 31, 32, 32, 33, 34, 34, 35, 35, 36, 36, 37, 37, 37, 38, 38, 38, 39, 39, 39, 39];
        let coarseness = self.coarseness.checked_sub(30).map_or(self.coarseness, |at| COARSE[at]);
        Self { coarseness, ..self }
    }

    /// Rounds a pattern's weight; `extra` bits of scale are taken out as well.
    fn round(self, value: i32, class: usize, extra: u32) -> i32 {
        let shift = 15 + self.coarseness as u32 / 6 + extra;
        let scaled = i64::from(value.abs()) * i64::from(INVERSE_STEP[self.coarseness % 6][class]);
        let rounded = ((scaled + (1 << shift) / self.caution) >> shift) as i32;
        rounded * value.signum()
    }

    /// Rounds a transformed block.
    pub(super) fn round_block(self, block: &[i32; 16]) -> [i32; 16] {
        std::array::from_fn(|n| self.round(block[n], class(n), 0))
    }

    /// Rounds one of the averages that were transformed once more.
    pub(super) fn round_average(self, value: i32) -> i32 {
        self.round(value, 0, 1)
    }

    /// What a rounded block stands for.
    pub(super) fn restore_block(self, levels: &[i32; 16]) -> [i32; 16] {
        let step = STEP[self.coarseness % 6];
        std::array::from_fn(|n| (levels[n] * step[class(n)]) << (self.coarseness / 6))
    }

    /// What a rounded average of a 16x16 block stands for, once transformed back.
    pub(super) fn restore_luma_average(self, value: i32) -> i32 {
        let (scaled, sixths) = (value * STEP[self.coarseness % 6][0], self.coarseness / 6);
        if sixths >= 2 { scaled << (sixths - 2) } else { (scaled + (1 << (1 - sixths))) >> (2 - sixths) }
    }

    /// What a rounded average of a colour block stands for, once transformed back.
    pub(super) fn restore_chroma_average(self, value: i32) -> i32 {
        ((value * STEP[self.coarseness % 6][0]) << (self.coarseness / 6)) >> 1
    }
}

/// Applies a transform of four numbers to the rows, then to the columns.
fn rows_then_columns(block: &[i32; 16], four: impl Fn([i32; 4]) -> [i32; 4]) -> [i32; 16] {
    let mut half = [0; 16];
    for row in 0..4 {
        let out = four(std::array::from_fn(|n| block[row * 4 + n]));
        half[row * 4..row * 4 + 4].copy_from_slice(&out);
    }
    let mut whole = [0; 16];
    for column in 0..4 {
        let out = four(std::array::from_fn(|n| half[n * 4 + column]));
        for (n, value) in out.into_iter().enumerate() {
            whole[n * 4 + column] = value;
        }
    }
    whole
}

/// Values to patterns.
pub(super) fn forward(block: &[i32; 16]) -> [i32; 16] {
    rows_then_columns(block, |[a, b, c, d]| {
        let (outer, inner) = (a + d, b + c);
        let (wide, narrow) = (a - d, b - c);
        [outer + inner, 2 * wide + narrow, outer - inner, wide - 2 * narrow]
    })
}

/// Patterns to values.
pub(super) fn backward(block: &[i32; 16]) -> [i32; 16] {
    let values = rows_then_columns(block, |[a, b, c, d]| {
        let (even, odd) = (a + c, a - c);
        let (low, high) = ((b >> 1) - d, b + (d >> 1));
        [even + high, odd + low, odd - low, even - high]
    });
    values.map(|value| (value + 32) >> 6)
}

/// The transform of 16 averages, which is its own inverse but for the scale.
pub(super) fn averages(block: &[i32; 16]) -> [i32; 16] {
    rows_then_columns(block, |[a, b, c, d]| [a + b + c + d, a + b - c - d, a - b - c + d, a - b + c - d])
}

/// The transform of 4 averages, which is its own inverse but for the scale.
pub(super) fn four_averages([a, b, c, d]: [i32; 4]) -> [i32; 4] {
    [a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_survives_but_for_the_rounding() {
        for coarseness in [0, 12, 22, 30] {
            let quantiser = Quantiser::new(coarseness, 3);
            let block: [i32; 16] = std::array::from_fn(|n| (n as i32 * 37) % 200 - 100);
            let restored = backward(&quantiser.restore_block(&quantiser.round_block(&forward(&block))));
            let worst = block.iter().zip(restored).map(|(a, b)| (a - b).abs()).max().unwrap();
            let step = 0.625 * 2_f64.powf(coarseness as f64 / 6.0);
            assert!(f64::from(worst) <= step + 1.0, "{coarseness}: {worst} off, at steps of {step}");
        }
    }
}
