//! Does the validation part know anything that training has seen?
//!
//! A number measured on images that are also in the training part is worth nothing, and it does not show. So every
//! conversion counts three things and writes them into its metadata: episodes that are on both sides, images that
//! are equal to the byte, and images that look alike (difference hash of 64 bits, at most [`NEAR`] of them other).

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use serde::Serialize;

use super::fingerprint::Fingerprint;

/// Images whose difference hashes differ in at most this many of 64 bits count as near duplicates.
pub const NEAR: u32 = 3;

/// What the validation part shares with the training part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Leakage {
    /// Validation episodes that are in the training part too: the same file, or every image of it.
    pub shared_episodes: usize,
    /// Validation images that are in the training part, byte for byte.
    pub exact_duplicates: usize,
    /// Those of them that have another label there.
    pub exact_duplicates_with_other_label: usize,
    /// Validation images that look like one in the training part, exact ones included.
    pub near_duplicates: usize,
    /// How many of the 64 bits of their difference hashes may differ.
    pub near_distance: u32,
    /// Validation images that were compared.
    pub val_images: usize,
    /// Training images that they were compared with.
    pub train_images: usize,
}

/// One image of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) episode: usize,
    pub(crate) label: u8,
    pub(crate) print: Fingerprint,
}

impl Leakage {
    /// Compares two parts. `same_file` are validation episodes whose file is on both sides.
    pub(crate) fn between(train: &[Seen], val: &[Seen], same_file: &HashSet<usize>) -> Self {
        let mut labels: HashMap<u64, u8> = HashMap::with_capacity(train.len());
        for seen in train {
            *labels.entry(seen.print.exact).or_default() |= 1 << seen.label.min(7);
        }
        let mut found =
            Self { near_distance: NEAR, val_images: val.len(), train_images: train.len(), ..Self::default() };
        let mut whole: HashMap<usize, bool> = HashMap::new();
        for seen in val {
            let known = labels.get(&seen.print.exact);
            found.exact_duplicates += usize::from(known.is_some());
            let other = known.is_some_and(|known| known & !(1 << seen.label.min(7)) != 0);
            found.exact_duplicates_with_other_label += usize::from(other);
            *whole.entry(seen.episode).or_insert(true) &= known.is_some();
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
            "{} of {} validation images are in the training part too ({} with another label), {} validation episode(s) \
             entirely: validation will look better than it is",
            self.exact_duplicates,
            self.val_images,
            self.exact_duplicates_with_other_label,
            self.shared_episodes
        ))
    }
}

fn near_duplicates(train: &[Seen], val: &[Seen]) -> usize {
    let index = Index::of(train.iter().map(|seen| seen.print.look));
    let mut looks: HashMap<u64, usize> = HashMap::new();
    for seen in val {
        *looks.entry(seen.print.look).or_default() += 1;
    }
    looks.par_iter().filter(|(look, _)| index.has_near(**look)).map(|(_, count)| count).sum()
}

/// Hashes by each of their four quarters: of four quarters that differ in three bits at most, one is equal.
struct Index {
    all: HashSet<u64>,
    quarters: [Vec<Vec<u64>>; 4],
}

const QUARTER_BITS: u32 = 16;

impl Index {
    fn of(looks: impl Iterator<Item = u64>) -> Self {
        const { assert!(NEAR < 4, "with four quarters, three changed bits leave one untouched") };
        let all: HashSet<u64> = looks.collect();
        let quarters = std::array::from_fn(|quarter| {
            let mut buckets = vec![Vec::new(); 1 << QUARTER_BITS];
            for look in &all {
                buckets[quarter_of(*look, quarter)].push(*look);
            }
            buckets
        });
        Self { all, quarters }
    }

    fn has_near(&self, look: u64) -> bool {
        let near = |other: &u64| (look ^ other).count_ones() <= NEAR;
        self.all.contains(&look)
            || (0..4).any(|quarter| self.quarters[quarter][quarter_of(look, quarter)].iter().any(near))
    }
}

fn quarter_of(look: u64, quarter: usize) -> usize {
    (look >> (quarter as u32 * QUARTER_BITS)) as u16 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(episode: usize, label: u8, exact: u64, look: u64) -> Seen {
        Seen { episode, label, print: Fingerprint { exact, look } }
    }

    #[test]
    fn counts_what_is_shared() {
        let train = [seen(0, 1, 10, 0), seen(0, 0, 11, 0xffff), seen(1, 0, 12, u64::MAX)];
        let val =
            [seen(2, 1, 10, 0), seen(2, 1, 11, 0xffff), seen(3, 0, 99, 0b111), seen(3, 0, 98, 0xff00_0000)];
        let found = Leakage::between(&train, &val, &HashSet::new());
        assert_eq!((found.shared_episodes, found.exact_duplicates, found.near_duplicates), (1, 2, 3));
        assert_eq!(found.exact_duplicates_with_other_label, 1);
        assert!(found.warning().unwrap().starts_with("2 of 4"));
        assert_eq!(Leakage::between(&train, &val, &HashSet::from([3])).shared_episodes, 2);
        assert_eq!(Leakage::between(&train, &val[2..], &HashSet::new()).warning(), None);
    }

    proptest! {
        #[test]
        fn the_index_finds_what_comparing_all_finds(
            train in prop::collection::vec(any::<u64>(), 0..40), flips in prop::collection::vec(0u32..64, 0..6), other: u64
        ) {
            let index = Index::of(train.iter().copied());
            let moved = train.first().map_or(other, |first| flips.iter().fold(*first, |look, flip| look ^ 1 << flip));
            for look in [other, moved] {
                let brute = train.iter().any(|known| (known ^ look).count_ones() <= NEAR);
                prop_assert_eq!(index.has_near(look), brute);
            }
        }
    }
}
