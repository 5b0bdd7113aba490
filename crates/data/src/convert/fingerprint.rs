//! The fingerprint of an image: a hash of its bytes, a difference hash (dHash) of what it looks like, and a thumbnail.

/// The fingerprint of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Equal for equal bytes; for different ones equal once in 2^64.
    pub(crate) exact: u64,
    /// A difference hash: images that look alike differ in few of the 64 bits.
    pub(crate) dhash: u64,
    /// How bright each of 18 by 16 cells is.
    pub(crate) cells: [u8; CELLS],
}

/// The number of cells of a thumbnail.
pub(crate) const CELLS: usize = COLUMNS * ROWS;
/// Twice the fields of the difference hash, either way.
const COLUMNS: usize = 2 * FIELD_COLUMNS;
const ROWS: usize = 2 * FIELD_ROWS;
const FIELD_COLUMNS: usize = 9;
const FIELD_ROWS: usize = 8;

impl Default for Fingerprint {
    fn default() -> Self {
        Self { exact: 0, dhash: 0, cells: [0; CELLS] }
    }
}

impl Fingerprint {
    /// Of an image of height, width and channel.
    pub(crate) fn of(pixels: &[u8], shape: [usize; 3]) -> Self {
        let cells = Cells::of(pixels, shape);
        Self { exact: hash(pixels), dhash: cells.difference_hash(), cells: cells.means() }
    }
}

/// Sums over the cells of an image, and how many bytes each has.
struct Cells {
    sums: [[u64; COLUMNS]; ROWS],
    areas: [[u64; COLUMNS]; ROWS],
}

impl Cells {
    fn of(pixels: &[u8], [height, width, channels]: [usize; 3]) -> Self {
        let mut cells = Self { sums: [[0; COLUMNS]; ROWS], areas: [[0; COLUMNS]; ROWS] };
        let line = width * channels;
        let mut totals = vec![0u16; line];
        for row in 0..ROWS {
            let lines = cell_range(row, ROWS, height);
            // Lines first, since they are long and quick to add; 256 bytes of 255 fit 16 bits.
            for some in pixels[lines.start * line..lines.end * line].chunks(256 * line) {
                totals.fill(0);
                some.chunks_exact(line).for_each(|line| add(&mut totals, line));
                cells.add_lines(row, &totals, width, some.len() / line);
            }
        }
        cells
    }

    /// Adds the totals of some lines of a row of cells.
    fn add_lines(&mut self, row: usize, totals: &[u16], width: usize, lines: usize) {
        let channels = totals.len() / width;
        for column in 0..COLUMNS {
            let pixels = cell_range(column, COLUMNS, width);
            let totals = &totals[pixels.start * channels..pixels.end * channels];
            self.sums[row][column] += totals.iter().map(|total| u64::from(*total)).sum::<u64>();
            self.areas[row][column] += (totals.len() * lines) as u64;
        }
    }

    fn means(&self) -> [u8; CELLS] {
        let cell =
            |at: usize| self.sums[at / COLUMNS][at % COLUMNS] / self.areas[at / COLUMNS][at % COLUMNS].max(1);
        std::array::from_fn(|at| cell(at) as u8)
    }

    /// Fields of two by two cells; a bit says whether a field is darker than the one to its right.
    fn difference_hash(&self) -> u64 {
        let field = |of: &[[u64; COLUMNS]; ROWS], row: usize, column: usize| -> u64 {
            of[2 * row..2 * row + 2].iter().map(|line| line[2 * column] + line[2 * column + 1]).sum()
        };
        let mut hash = 0;
        for row in 0..FIELD_ROWS {
            for column in 0..FIELD_COLUMNS - 1 {
                let [sum, area] = [&self.sums, &self.areas].map(|of| field(of, row, column));
                let [next_sum, next_area] = [&self.sums, &self.areas].map(|of| field(of, row, column + 1));
                // Means compared without division: the fields need not be of one size.
                hash = hash << 1 | u64::from(sum * next_area < next_sum * area);
            }
        }
        hash
    }
}

/// The pixels of a side that belong to one cell; at least one.
fn cell_range(number: usize, parts: usize, side: usize) -> std::ops::Range<usize> {
    let start = (number * side / parts).min(side - 1);
    start..((number + 1) * side / parts).max(start + 1)
}

fn add(totals: &mut [u16], line: &[u8]) {
    for (total, byte) in totals.iter_mut().zip(line) {
        *total += u16::from(*byte);
    }
}

const SECRETS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// A hash by folded multiplication, four independent lanes wide. Not cryptographic.
fn hash(bytes: &[u8]) -> u64 {
    let mut lanes = SECRETS;
    let (blocks, rest) = bytes.as_chunks::<64>();
    for block in blocks {
        take(&mut lanes, block);
    }
    let mut last = [0; 64];
    last[..rest.len()].copy_from_slice(rest);
    take(&mut lanes, &last);
    let [a, b, c, d] = lanes;
    fold(
        fold(a ^ bytes.len() as u64, b ^ SECRETS[1]) ^ SECRETS[2],
        fold(c ^ SECRETS[3], d ^ SECRETS[0]) ^ SECRETS[1],
    )
}

fn take(lanes: &mut [u64; 4], block: &[u8; 64]) {
    let (words, _) = block.as_chunks::<8>();
    for (lane, state) in lanes.iter_mut().enumerate() {
        let [low, high] = [words[2 * lane], words[2 * lane + 1]].map(u64::from_le_bytes);
        // The state is added after the fold too, so that a factor of zero does not wipe it out.
        *state = fold(low ^ SECRETS[lane], high ^ *state).wrapping_add(state.rotate_left(23));
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A smooth scene with a square in it.
    fn scene(at: usize, light: i32) -> Vec<u8> {
        let mut pixels = Vec::new();
        for y in 0..64i32 {
            for x in 0..64i32 {
                let inside = (x - at as i32).abs() < 9 && (y - 30).abs() < 9;
                let grey = if inside { 230 } else { 60 + x + (y * x) % 23 };
                pixels.extend([(grey + light).clamp(0, 255) as u8; 3]);
            }
        }
        pixels
    }

    #[test]
    fn alike_is_near_and_other_is_far() {
        let shape = [64, 64, 3];
        let [one, lighter, moved] =
            [scene(20, 0), scene(20, 4), scene(44, 0)].map(|p| Fingerprint::of(&p, shape));
        assert_ne!(one.exact, lighter.exact);
        assert!((one.dhash ^ lighter.dhash).count_ones() <= 1);
        assert!((one.dhash ^ moved.dhash).count_ones() >= 8);
        let apart =
            |other: &Fingerprint| one.cells.iter().zip(&other.cells).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(apart(&lighter) <= Some(5) && apart(&moved) > Some(50));
    }

    #[test]
    fn the_smallest_images_have_a_fingerprint_too() {
        assert_eq!(Fingerprint::of(&[5], [1, 1, 1]).dhash, 0);
        let four = Fingerprint::of(&[0, 50, 100, 150], [1, 4, 1]);
        assert_ne!(four.dhash, 0);
        assert_eq!((four.cells[0], four.cells[CELLS - 1]), (0, 150));
        let tall = Fingerprint::of(&vec![255; 9000 * 2], [9000, 2, 1]);
        assert_eq!(tall.cells, [255; CELLS]);
    }

    proptest! {
        #[test]
        fn one_changed_byte_changes_the_hash(mut bytes in prop::collection::vec(any::<u8>(), 1..300), at: prop::sample::Index, by in 1u8..) {
            let before = hash(&bytes);
            let at = at.index(bytes.len());
            bytes[at] = bytes[at].wrapping_add(by);
            prop_assert_ne!(before, hash(&bytes));
        }

        #[test]
        fn length_counts(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
            prop_assert_ne!(hash(&bytes), hash(&longer));
        }
    }
}
