//! Which episodes train, and which validate.

use super::python_random::PythonRandom;
use crate::recording::SplitUnit;

/// Numbers of episodes, in the order in which they are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) train: Vec<usize>,
    pub(crate) val: Vec<usize>,
}

/// The one split: whole episodes, or runs of one label, are on one side.
pub(crate) fn split<T>(
    unit: SplitUnit,
    units: &[Vec<T>],
    success: impl Fn(&T) -> bool,
    share: f64,
    random: &mut PythonRandom,
) -> Split {
    let block = |unit: &Vec<T>| Block { success: unit.iter().any(&success), frames: unit.len() };
    match unit {
        SplitUnit::Recording => by_episode(units.len(), share, random),
        SplitUnit::Run => by_block(&units.iter().map(block).collect::<Vec<_>>(), share, random),
    }
}

/// All episodes shuffled; the first `max(1, int(count * share))` validate.
pub(crate) fn by_episode(count: usize, share: f64, random: &mut PythonRandom) -> Split {
    let mut val: Vec<usize> = (0..count).collect();
    random.shuffle(&mut val);
    let in_val = ((count as f64 * share) as usize).max(1).min(count);
    let train = val.split_off(in_val);
    Split { train, val }
}

/// An episode, or a run of frames under one label: whether it has a success, and its length.
#[derive(Clone, Copy, Debug)]
struct Block {
    success: bool,
    frames: usize,
}

/// Of each class shuffled blocks validate, until they have the wanted share of its frames; one block at least stays
/// on each side.
///
/// A class must have two blocks for that: [`cut_lone_blocks`] sees to it.
fn by_block(blocks: &[Block], share: f64, random: &mut PythonRandom) -> Split {
    let mut split = Split { train: Vec::new(), val: Vec::new() };
    for success in [true, false] {
        let mut numbers: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].success == success).collect();
        let frames: usize = numbers.iter().map(|at| blocks[*at].frames).sum();
        let wanted = ((frames as f64 * share) as usize).max(1);
        random.shuffle(&mut numbers);
        let mut taken = 0;
        let last = numbers.len().saturating_sub(1);
        for (index, number) in numbers.into_iter().enumerate() {
            if taken < wanted && index < last {
                taken += blocks[number].frames;
                split.val.push(number);
            } else {
                split.train.push(number);
            }
        }
    }
    split
}

/// Where a class has one block only, that block is cut: its last frames, by `share`, become a block of their own.
pub(crate) fn cut_lone_blocks<T>(blocks: &mut Vec<Vec<T>>, share: f64, success: impl Fn(&T) -> bool) {
    for class in [true, false] {
        let is_class = |block: &Vec<T>| block.first().is_some_and(|frame| success(frame) == class);
        let mut of_class = (0..blocks.len()).filter(|at| is_class(&blocks[*at]));
        let (Some(only), None) = (of_class.next(), of_class.next()) else { continue };
        let frames = blocks[only].len();
        let cut = ((frames as f64 * share) as usize).max(1);
        if frames > cut {
            let tail = blocks[only].split_off(frames - cut);
            blocks.push(tail);
        }
    }
}

/// One frame of one episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FramePick {
    /// Which episode.
    pub episode: u32,
    /// Which of its frames.
    pub frame: u32,
}

/// The frames of both splits, in the order in which they are used.
pub(crate) struct ChosenFrames {
    /// Which of the units are on which side.
    pub(crate) split: Split,
    pub(crate) train: Vec<FramePick>,
    pub(crate) val: Vec<FramePick>,
}

/// How frames are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) unit: SplitUnit,
    /// The share of units that validate.
    pub(crate) val_split: f64,
    /// Failures kept for each success; without it, all.
    pub(crate) ratio: Option<f64>,
    /// Whether failures are dropped from the validation split too.
    pub(crate) balance_val: bool,
}

impl Choice {
    /// Splits units of frames and evens out the classes. A side may come out empty.
    pub(crate) fn of(
        self,
        units: &[Vec<FramePick>],
        success: impl Fn(&FramePick) -> bool,
        random: &mut PythonRandom,
    ) -> ChosenFrames {
        let split = split(self.unit, units, &success, self.val_split, random);
        let frames = |numbers: &[usize]| numbers.iter().flat_map(|at| units[*at].iter().copied()).collect();
        let train = balance(frames(&split.train), self.ratio, &success, random);
        let val: Vec<FramePick> = frames(&split.val);
        let val = if self.balance_val { balance(val, self.ratio, &success, random) } else { val };
        ChosenFrames { split, train, val }
    }
}

/// All successes, `ratio` times as many failures sampled at random, shuffled together. Without a ratio, or without a
/// success to measure it by, all failures stay.
pub(crate) fn balance<T>(
    frames: Vec<T>,
    ratio: Option<f64>,
    success: impl Fn(&T) -> bool,
    random: &mut PythonRandom,
) -> Vec<T> {
    let (mut picks, mut failures): (Vec<T>, Vec<T>) = frames.into_iter().partition(success);
    random.shuffle(&mut failures);
    if let Some(ratio) = ratio.filter(|_| !picks.is_empty()) {
        failures.truncate((picks.len() as f64 * ratio) as usize); // the cast drops the fraction, as Python's int() does
    }
    picks.append(&mut failures);
    random.shuffle(&mut picks);
    picks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_lone_block_is_cut_at_its_end() {
        let mut blocks = vec![vec![(true, 0), (true, 1), (true, 2), (true, 3), (true, 4)], vec![(false, 9)]];
        cut_lone_blocks(&mut blocks, 0.4, |frame| frame.0);
        assert_eq!(
            blocks,
            [vec![(true, 0), (true, 1), (true, 2)], vec![(false, 9)], vec![(true, 3), (true, 4)]]
        );
    }

    proptest! {
        #[test]
        fn episodes_are_on_one_side(count in 1usize..60, share in 0.0f64..1.0, seed: i64) {
            let split = by_episode(count, share, &mut PythonRandom::new(seed));
            let mut all: Vec<usize> = split.train.iter().chain(&split.val).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
            prop_assert_eq!(split.val.len(), ((count as f64 * share) as usize).max(1));
        }

        #[test]
        fn blocks_are_on_one_side_and_classes_on_both(
            sizes in prop::collection::vec((any::<bool>(), 1usize..30), 0..20), share in 0.0f64..1.0, seed: i64
        ) {
            let mut blocks: Vec<Block> = sizes.iter().map(|(success, frames)| Block { success: *success, frames: *frames }).collect();
            blocks.extend([true, true, false, false].map(|success| Block { success, frames: 3 }));
            let split = by_block(&blocks, share, &mut PythonRandom::new(seed));
            let mut all: Vec<usize> = split.train.iter().chain(&split.val).copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..blocks.len()).collect::<Vec<_>>());
            for side in [&split.train, &split.val] {
                for success in [true, false] {
                    prop_assert!(side.iter().any(|at| blocks[*at].success == success));
                }
            }
        }
    }
}
