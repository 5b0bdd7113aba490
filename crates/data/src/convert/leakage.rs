//! Leakage: what the validation split shares with the training split.
//!
//! A number measured on images that are also in the training split is worth nothing, and it does not show. So every
//! conversion counts three things and writes them into its metadata: episodes that are on both sides, images that
//! are equal to the byte, and images that look alike.
//!
//! Images look alike if their difference hashes differ in at most [`NEAR_BITS`] of 64 bits, and no cell of their 18 by
//! 16 thumbnails by more than [`NEAR_LEVELS`] of 255 levels. The hash alone would call most frames of a fixed camera
//! alike: table and wall fill the image, and the arm and the object it moves only a corner of it.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use serde::Serialize;

use super::fingerprint::{CELLS, Fingerprint};

/// The difference hashes of near duplicates differ in at most this many of 64 bits.
pub const NEAR_BITS: u32 = 3;

/// No cell of the thumbnails of near duplicates differs by more than this many of 255 levels.
pub const NEAR_LEVELS: u8 = 6;

/// What the validation split shares with the training split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leakage {
    /// Validation episodes that are in the training split too: the same file, or every image of it.
    pub shared_episodes: usize,
    /// Validation images that are in the training split, byte for byte.
    pub exact_duplicates: usize,
    /// Those of them that have another label there.
    pub exact_duplicates_with_other_label: usize,
    /// Validation images that look like one in the training split, exact ones included.
    pub near_duplicates: usize,
    /// How many of the 64 bits of their difference hashes may differ.
    pub near_bits: u32,
    /// How many of 255 levels a cell of their thumbnails may differ.
    pub near_levels: u8,
    /// Validation images that were compared.
    pub val_images: usize,
    /// Training images that they were compared with.
    pub train_images: usize,
}

/// One image of a split: its episode, label and fingerprint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FingerprintedImage {
    pub(crate) episode: usize,
    pub(crate) label: u8,
    pub(crate) fingerprint: Fingerprint,
}

impl Leakage {
    /// Compares two splits. `same_file` are validation episodes whose file is on both sides.
    pub(crate) fn between(
        train: &[FingerprintedImage],
        val: &[FingerprintedImage],
        same_file: &HashSet<usize>,
    ) -> Self {
        let mut labels: HashMap<u64, u8> = HashMap::with_capacity(train.len());
        for image in train {
            *labels.entry(image.fingerprint.exact).or_default() |= 1 << image.label.min(7);
        }
        let mut found = Self {
            near_bits: NEAR_BITS,
            near_levels: NEAR_LEVELS,
            val_images: val.len(),
            train_images: train.len(),
            ..Self::default()
        };
        let mut whole: HashMap<usize, bool> = HashMap::new();
        for image in val {
            let known = labels.get(&image.fingerprint.exact);
            found.exact_duplicates += usize::from(known.is_some());
            let other = known.is_some_and(|known| known & !(1 << image.label.min(7)) != 0);
            found.exact_duplicates_with_other_label += usize::from(other);
            *whole.entry(image.episode).or_insert(true) &= known.is_some();
        }
        let shared = whole.iter().filter(|(episode, whole)| **whole || same_file.contains(*episode));
        found.shared_episodes = shared.count();
        found.near_duplicates = near_duplicates(train, val);
        found
    }

    /// What a person should know about it, if anything.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if self.shared_episodes == 0 && self.exact_duplicates == 0 {
            return None;
        }
        Some(format!(
            "{} of {} validation images are in the training split too ({} with another label), {} validation episode(s) \
             entirely: validation will look better than it is",
            self.exact_duplicates,
            self.val_images,
            self.exact_duplicates_with_other_label,
            self.shared_episodes
        ))
    }
}

fn near_duplicates(train: &[FingerprintedImage], val: &[FingerprintedImage]) -> usize {
    let index = Index::of(train);
    val.par_iter().filter(|image| index.has_near(&image.fingerprint)).count()
}

fn are_near(one: &Fingerprint, other: &Fingerprint) -> bool {
    let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= NEAR_LEVELS;
    (one.dhash ^ other.dhash).count_ones() <= NEAR_BITS && one.cells.iter().zip(&other.cells).all(near)
}

/// Images by the brightness of the three cells in which they differ most.
struct Index<'a> {
    cells: [usize; 3],
    buckets: HashMap<[u8; 3], Vec<&'a Fingerprint>>,
}

/// So wide that what is near lies in the same bucket or in a neighbour.
const BUCKET: u8 = 2 * NEAR_LEVELS + 1;

impl<'a> Index<'a> {
    fn of(train: &'a [FingerprintedImage]) -> Self {
        let cells = most_varied(train);
        let mut buckets: HashMap<[u8; 3], Vec<&Fingerprint>> = HashMap::new();
        for image in train {
            buckets
                .entry(cells.map(|cell| image.fingerprint.cells[cell] / BUCKET))
                .or_default()
                .push(&image.fingerprint);
        }
        Self { cells, buckets }
    }

    fn has_near(&self, fingerprint: &Fingerprint) -> bool {
        let ranges = self.cells.map(|cell| {
            let level = fingerprint.cells[cell];
            level.saturating_sub(NEAR_LEVELS) / BUCKET..=level.saturating_add(NEAR_LEVELS) / BUCKET
        });
        let [a, b, c] = ranges;
        let keys = a.flat_map(|a| {
            b.clone().flat_map({
                let c = c.clone();
                move |b| c.clone().map(move |c| [a, b, c])
            })
        });
        keys.into_iter()
            .filter_map(|key| self.buckets.get(&key))
            .flatten()
            .any(|other| are_near(fingerprint, other))
    }
}

/// The three cells whose brightness varies most.
fn most_varied(train: &[FingerprintedImage]) -> [usize; 3] {
    let mut sums = [[0u64; 2]; CELLS];
    for image in train {
        for (sum, level) in sums.iter_mut().zip(&image.fingerprint.cells) {
            let level = u64::from(*level);
            *sum = [sum[0] + level, sum[1] + level * level];
        }
    }
    let count = train.len() as u64;
    let mut by_variance: Vec<usize> = (0..CELLS).collect();
    by_variance
        .sort_by_key(|cell| std::cmp::Reverse(count * sums[*cell][1] - sums[*cell][0] * sums[*cell][0]));
    [by_variance[0], by_variance[1], by_variance[2]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn image(episode: usize, label: u8, exact: u64, dhash: u64) -> FingerprintedImage {
        FingerprintedImage {
            episode,
            label,
            fingerprint: Fingerprint { exact, dhash, cells: [dhash as u8; CELLS] },
        }
    }

    #[test]
    fn counts_what_is_shared() {
        let train = [image(0, 1, 10, 0), image(0, 0, 11, 0xffff), image(1, 0, 12, u64::MAX)];
        let val = [
            image(2, 1, 10, 0),
            image(2, 1, 11, 0xffff),
            image(3, 0, 99, 0b110),
            image(3, 0, 98, 0xff00_0000),
        ];
        let found = Leakage::between(&train, &val, &HashSet::new());
        assert_eq!((found.shared_episodes, found.exact_duplicates, found.near_duplicates), (1, 2, 3));
        assert_eq!(found.exact_duplicates_with_other_label, 1);
        assert!(found.warning().unwrap().starts_with("2 of 4"));
        assert_eq!(Leakage::between(&train, &val, &HashSet::from([3])).shared_episodes, 2);
        assert_eq!(Leakage::between(&train, &val[2..], &HashSet::new()).warning(), None);
    }

    /// A fixed camera on a table, with noise, and a bright cube of 6 pixels somewhere on it.
    fn table(cube: usize, noise: u8) -> Fingerprint {
        let mut pixels = Vec::new();
        for (y, x) in (0..64usize).flat_map(|y| (0..64usize).map(move |x| (y, x))) {
            let level =
                if x.abs_diff(cube) < 3 && y.abs_diff(30) < 3 { 220 } else { 60 + (x + 2 * y) as u8 / 2 };
            pixels.extend([level + (x * 7 + y * 13) as u8 % (noise + 1); 3]);
        }
        Fingerprint::of(&pixels, [64, 64, 3])
    }

    #[test]
    fn noise_is_near_and_a_moved_cube_is_not() {
        assert!(are_near(&table(20, 0), &table(20, 4)));
        assert!(!are_near(&table(20, 0), &table(26, 0)));
    }

    /// A thumbnail of few levels, so that some are near.
    fn fingerprint() -> impl Strategy<Value = Fingerprint> {
        (0u64..32, prop::collection::vec((0..CELLS, 0u8..40), 0..6)).prop_map(|(dhash, spots)| {
            let mut cells = [100; CELLS];
            spots.iter().for_each(|(cell, level)| cells[cell % 7] = *level);
            Fingerprint { exact: 0, dhash, cells }
        })
    }

    proptest! {
        #[test]
        fn the_index_finds_what_comparing_all_finds(
            train in prop::collection::vec(fingerprint(), 0..40), val in prop::collection::vec(fingerprint(), 1..10)
        ) {
            let train: Vec<FingerprintedImage> = train.into_iter().map(|fingerprint| FingerprintedImage { episode: 0, label: 0, fingerprint }).collect();
            let index = Index::of(&train);
            for fingerprint in &val {
                let brute = train.iter().any(|image| are_near(&image.fingerprint, fingerprint));
                prop_assert_eq!(index.has_near(fingerprint), brute);
            }
        }
    }
}
