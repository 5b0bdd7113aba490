//! Which frames are in which batch.

use plaudit_core::Seed;

/// An endless row of micro batches, epoch after epoch. Each epoch has every frame once, except for those that do not fill
/// a batch; where there are fewer frames than a batch takes, a batch is all of them.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    frames: usize,
    size: usize,
    shuffle: bool,
    seed: Seed,
    /// The order of the epoch that was asked for last.
    order: Option<(u64, Vec<usize>)>,
}

/// Steps that go once through so many frames.
#[must_use]
pub fn steps_per_epoch(frames: usize, micro_batch: usize, global_batch: usize) -> u64 {
    let batches = Batches::new(frames, micro_batch, false, Seed::new(0));
    (batches.per_epoch() / micro_batches(micro_batch, global_batch)).max(1)
}

/// Micro batches of one step.
pub(crate) fn micro_batches(micro_batch: usize, global_batch: usize) -> u64 {
    (global_batch / micro_batch.max(1)).max(1) as u64
}

impl Batches {
    pub(crate) fn new(frames: usize, size: usize, shuffle: bool, seed: Seed) -> Self {
        Self { frames, size: size.clamp(1, frames.max(1)), shuffle, seed, order: None }
    }

    pub(crate) fn per_epoch(&self) -> u64 {
        (self.frames / self.size).max(1) as u64
    }

    /// The epoch that a batch is in.
    pub(crate) fn epoch(&self, batch: u64) -> u64 {
        batch / self.per_epoch()
    }

    /// The frames of a batch.
    pub(crate) fn frames(&mut self, batch: u64) -> Vec<usize> {
        let (epoch, place) = (self.epoch(batch), (batch % self.per_epoch()) as usize);
        let range = place * self.size..(place + 1) * self.size;
        self.order_of(epoch)[range].to_vec()
    }

    fn order_of(&mut self, epoch: u64) -> &[usize] {
        if self.order.as_ref().is_none_or(|(known, _)| *known != epoch) {
            let mut order: Vec<usize> = (0..self.frames).collect();
            if self.shuffle {
                self.seed.index(epoch).rng().shuffle(&mut order);
            }
            self.order = Some((epoch, order));
        }
        self.order.as_ref().map_or(&[], |(_, order)| order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn epochs_differ_and_come_again() {
        let mut batches = Batches::new(12, 4, true, Seed::new(1));
        let first: Vec<_> = (0..3).map(|batch| batches.frames(batch)).collect();
        let second: Vec<_> = (3..6).map(|batch| batches.frames(batch)).collect();
        assert_ne!(first, second);
        let again: Vec<_> = (0..3).map(|batch| batches.frames(batch)).collect();
        assert_eq!(first, again);
        assert_eq!(Batches::new(5, 2, false, Seed::new(1)).frames(1), [2, 3]);
    }

    proptest! {
        #[test]
        fn an_epoch_has_every_frame_at_most_once(frames in 1usize..50, size in 1usize..60, epoch in 0u64..4) {
            let mut batches = Batches::new(frames, size, true, Seed::new(7));
            let each = batches.per_epoch();
            let mut seen: Vec<usize> =
                (epoch * each..(epoch + 1) * each).flat_map(|batch| batches.frames(batch)).collect();
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), count);
            prop_assert!(frames - count < size.min(frames));
            prop_assert_eq!(batches.epoch(epoch * each), epoch);
        }
    }
}
