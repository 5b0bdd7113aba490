//! Variable-length codes for blocks of numbers (clause 9.2 of the standard).

use super::bits::Bits;

/// Lengths and codes, side by side.
type Codes = (&'static [u8], &'static [u8]);

/// For how many numbers are not zero (rows) and how many ones trail (0 to 3), by what the neighbours have: 0-1, 2-3, 4-7.
const COUNT: [Codes; 3] = [
    (
        &[
            1, 0, 0, 0, 6, 2, 0, 0, 8, 6, 3, 0, 9, 8, 7, 5, 10, 9, 8, 6, 11, 10, 9, 7, 13, 11, 10, 8, 13, 13,
            11, 9, 13, 13, 13, 10, 14, 14, 13, 11, 14, 14, 14, 13, 15, 15, 14, 14, 15, 15, 15, 14, 16, 15,
            15, 15, 16, 16, 16, 15, 16, 16, 16, 16, 16, 16, 16, 16,
        ],
        &[
            1, 0, 0, 0, 5, 1, 0, 0, 7, 4, 1, 0, 7, 6, 5, 3, 7, 6, 5, 3, 7, 6, 5, 4, 15, 6, 5, 4, 11, 14, 5,
            4, 8, 10, 13, 4, 15, 14, 9, 4, 11, 10, 13, 12, 15, 14, 9, 12, 11, 10, 13, 8, 15, 1, 9, 12, 11,
            14, 13, 8, 7, 10, 9, 12, 4, 6, 5, 8,
        ],
    ),
    (
        &[
            2, 0, 0, 0, 6, 2, 0, 0, 6, 5, 3, 0, 7, 6, 6, 4, 8, 6, 6, 4, 8, 7, 7, 5, 9, 8, 8, 6, 11, 9, 9, 6,
            11, 11, 11, 7, 12, 11, 11, 9, 12, 12, 12, 11, 12, 12, 12, 11, 13, 13, 13, 12, 13, 13, 13, 13, 13,
            14, 13, 13, 14, 14, 14, 13, 14, 14, 14, 14,
        ],
        &[
            3, 0, 0, 0, 11, 2, 0, 0, 7, 7, 3, 0, 7, 10, 9, 5, 7, 6, 5, 4, 4, 6, 5, 6, 7, 6, 5, 8, 15, 6, 5,
            4, 11, 14, 13, 4, 15, 10, 9, 4, 11, 14, 13, 12, 8, 10, 9, 8, 15, 14, 13, 12, 11, 10, 9, 12, 7,
            11, 6, 8, 9, 8, 10, 1, 7, 6, 5, 4,
        ],
    ),
    (
        &[
            4, 0, 0, 0, 6, 4, 0, 0, 6, 5, 4, 0, 6, 5, 5, 4, 7, 5, 5, 4, 7, 5, 5, 4, 7, 6, 6, 4, 7, 6, 6, 4,
            8, 7, 7, 5, 8, 8, 7, 6, 9, 8, 8, 7, 9, 9, 8, 8, 9, 9, 9, 8, 10, 9, 9, 9, 10, 10, 10, 10, 10, 10,
            10, 10, 10, 10, 10, 10,
        ],
        &[
            15, 0, 0, 0, 15, 14, 0, 0, 11, 15, 13, 0, 8, 12, 14, 12, 15, 10, 11, 11, 11, 8, 9, 10, 9, 14, 13,
            9, 8, 10, 9, 8, 15, 14, 13, 13, 11, 14, 10, 12, 15, 10, 13, 12, 11, 14, 9, 12, 8, 10, 13, 8, 13,
            7, 9, 12, 9, 12, 11, 10, 5, 8, 7, 6, 1, 4, 3, 2,
        ],
    ),
];
/// The same for the four averages of a colour.
const COUNT_AVERAGES: Codes = (
    &[2, 0, 0, 0, 6, 1, 0, 0, 6, 6, 3, 0, 6, 7, 7, 6, 6, 8, 8, 7],
    &[1, 0, 0, 0, 7, 1, 0, 0, 4, 6, 1, 0, 3, 3, 2, 5, 2, 3, 2, 0],
);
/// For how many zeros come before the last number, by how many numbers there are.
const ZEROS: [Codes; 15] = [
    (&[1, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 9], &[1, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 1]),
    (&[3, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 6, 6, 6], &[7, 6, 5, 4, 3, 5, 4, 3, 2, 3, 2, 3, 2, 1, 0]),
    (&[4, 3, 3, 3, 4, 4, 3, 3, 4, 5, 5, 6, 5, 6], &[5, 7, 6, 5, 4, 3, 4, 3, 2, 3, 2, 1, 1, 0]),
    (&[5, 3, 4, 4, 3, 3, 3, 4, 3, 4, 5, 5, 5], &[3, 7, 5, 4, 6, 5, 4, 3, 3, 2, 2, 1, 0]),
    (&[4, 4, 4, 3, 3, 3, 3, 3, 4, 5, 4, 5], &[5, 4, 3, 7, 6, 5, 4, 3, 2, 1, 1, 0]),
    (&[6, 5, 3, 3, 3, 3, 3, 3, 4, 3, 6], &[1, 1, 7, 6, 5, 4, 3, 2, 1, 1, 0]),
    (&[6, 5, 3, 3, 3, 2, 3, 4, 3, 6], &[1, 1, 5, 4, 3, 3, 2, 1, 1, 0]),
    (&[6, 4, 5, 3, 2, 2, 3, 3, 6], &[1, 1, 1, 3, 3, 2, 2, 1, 0]),
    (&[6, 6, 4, 2, 2, 3, 2, 5], &[1, 0, 1, 3, 2, 1, 1, 1]),
    (&[5, 5, 3, 2, 2, 2, 4], &[1, 0, 1, 3, 2, 1, 1]),
    (&[4, 4, 3, 3, 1, 3], &[0, 1, 1, 2, 1, 3]),
    (&[4, 4, 2, 1, 3], &[0, 1, 1, 1, 1]),
    (&[3, 3, 1, 2], &[0, 1, 1, 1]),
    (&[2, 2, 1], &[0, 1, 1]),
    (&[1, 1], &[0, 1]),
];
/// The same for the four averages of a colour.
const ZEROS_AVERAGES: [Codes; 3] =
    [(&[1, 2, 3, 3], &[1, 1, 1, 0]), (&[1, 2, 2], &[1, 1, 0]), (&[1, 1], &[1, 0])];
/// For how many zeros come right before a number, by how many are left.
const RUN: [Codes; 7] = [
    (&[1, 1], &[1, 0]),
    (&[1, 2, 2], &[1, 1, 0]),
    (&[2, 2, 2, 2], &[3, 2, 1, 0]),
    (&[2, 2, 2, 3, 3], &[3, 2, 1, 1, 0]),
    (&[2, 2, 3, 3, 3, 3], &[3, 2, 3, 2, 1, 0]),
    (&[2, 3, 3, 3, 3, 3, 3], &[3, 0, 1, 3, 2, 5, 4]),
    (&[3, 3, 3, 3, 3, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11], &[7, 6, 5, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
];

/// What decides the code of a block's first part.
#[derive(Debug, Clone, Copy)]
pub(super) enum Context {
    /// How many numbers the blocks beside and above have.
    Neighbours(usize),
    /// The four averages of a colour.
    Averages,
}

/// Writes a block, smoothest pattern first, and says how many of its numbers are not zero.
pub(super) fn write(bits: &mut Bits, context: Context, block: &[i32]) -> usize {
    // From the finest pattern back.
    let places: Vec<usize> = (0..block.len()).rev().filter(|at| block[*at] != 0).collect();
    let ones = places.iter().take(3).take_while(|at| block[**at].abs() == 1).count();
    write_count(bits, context, places.len(), ones);
    let Some(last) = places.first() else { return 0 };
    for at in &places[..ones] {
        bits.put(u32::from(block[*at] < 0), 1);
    }
    write_levels(bits, places[ones..].iter().map(|at| block[*at]), places.len(), ones);
    let mut zeros = last + 1 - places.len();
    if places.len() < block.len() {
        let table = match context {
            Context::Neighbours(_) => ZEROS[places.len() - 1],
            Context::Averages => ZEROS_AVERAGES[places.len() - 1],
        };
        put(bits, table, zeros);
    }
    for pair in places.windows(2) {
        if zeros == 0 {
            break;
        }
        let run = pair[0] - pair[1] - 1;
        put(bits, RUN[zeros.min(RUN.len()) - 1], run);
        zeros -= run;
    }
    places.len()
}

fn put(bits: &mut Bits, (lengths, codes): Codes, at: usize) {
    bits.put(u32::from(codes[at]), u32::from(lengths[at]));
}

fn write_count(bits: &mut Bits, context: Context, count: usize, ones: usize) {
    let at = count * 4 + ones;
    match context {
        Context::Averages => put(bits, COUNT_AVERAGES, at),
        Context::Neighbours(0..2) => put(bits, COUNT[0], at),
        Context::Neighbours(2..4) => put(bits, COUNT[1], at),
        Context::Neighbours(4..8) => put(bits, COUNT[2], at),
        Context::Neighbours(_) => bits.put(if count == 0 { 3 } else { at as u32 - 4 }, 6),
    }
}

/// Writes the numbers that are not trailing ones. The larger they get, the more bits are spent on each up front.
fn write_levels(bits: &mut Bits, levels: impl Iterator<Item = i32>, count: usize, ones: usize) {
    let mut suffix = u32::from(count > 10 && ones < 3);
    for (n, level) in levels.enumerate() {
        let mut code = 2 * level.unsigned_abs() - if level > 0 { 2 } else { 1 };
        if n == 0 && ones < 3 {
            code -= 2; // it cannot be a one
        }
        match suffix {
            0 if code < 14 => bits.put(1, code + 1),
            0 if code < 30 => {
                bits.put(1, 15);
                bits.put(code - 14, 4);
            }
            _ if suffix > 0 && code < 15 << suffix => {
                bits.put(1, (code >> suffix) + 1);
                bits.put(code, suffix);
            }
            _ => {
                bits.put(1, 16);
                bits.put(code - (15 << suffix.max(1)), 12);
            }
        }
        suffix = suffix.max(1);
        if level.abs() > 3 << (suffix - 1) && suffix < 6 {
            suffix += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes tell each other apart, and (unless `spare`) leave none unused.
    fn check(name: &str, (lengths, codes): Codes, spare: bool) {
        assert_eq!(lengths.len(), codes.len(), "{name}");
        let used: Vec<(u8, u8)> =
            lengths.iter().copied().zip(codes.iter().copied()).filter(|(length, _)| *length > 0).collect();
        for (n, (length, code)) in used.iter().enumerate() {
            for (other, longer) in
                used.iter().enumerate().filter(|(other, code)| *other != n && code.0 >= *length)
            {
                assert_ne!(
                    longer.1 as u32 >> (longer.0 - length),
                    u32::from(*code),
                    "{name}: {n} begins {other}"
                );
            }
        }
        let share: f64 = used.iter().map(|(length, _)| 0.5_f64.powi(i32::from(*length))).sum();
        assert!(share <= 1.0 && (spare || share == 1.0), "{name}: {share}");
    }

    #[test]
    fn codes_are_free_of_prefixes() {
        COUNT.into_iter().enumerate().for_each(|(n, codes)| check(&format!("count {n}"), codes, true));
        check("count of averages", COUNT_AVERAGES, true);
        ZEROS.into_iter().enumerate().for_each(|(n, codes)| check(&format!("zeros {n}"), codes, n == 0));
        ZEROS_AVERAGES.into_iter().for_each(|codes| check("zeros of averages", codes, false));
        RUN.into_iter().enumerate().for_each(|(n, codes)| check(&format!("run {n}"), codes, n == 6));
    }
}
