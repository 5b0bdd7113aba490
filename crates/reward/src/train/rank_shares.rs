//! Which rank measures which examples.

use std::ops::Range;

use plaudit_core::{GradientSync, SyncError};

/// Examples in batches, which ranks take in turn. Batches are the same on any number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankShares {
    examples: usize,
    batch: usize,
    world: usize,
}

impl RankShares {
    pub(crate) fn of(examples: usize, batch: usize, world: usize) -> Self {
        Self { examples, batch: batch.max(1), world: world.max(1) }
    }

    /// The batches of a rank.
    pub(crate) fn batches(self, rank: usize) -> impl Iterator<Item = Range<usize>> {
        let firsts = (0..self.examples).step_by(self.batch).skip(rank).step_by(self.world);
        firsts.map(move |first| first..(first + self.batch).min(self.examples))
    }

    /// What was found for every example, in their order, from what each rank found for its own: `width` numbers each.
    pub(crate) fn gather(
        self,
        ranks: &dyn GradientSync,
        own: Vec<f32>,
        width: usize,
    ) -> Result<Vec<f32>, SyncError> {
        if self.world == 1 {
            return Ok(own);
        }
        let lens: Vec<usize> =
            (0..self.world).map(|rank| self.batches(rank).map(|batch| batch.len() * width).sum()).collect();
        let mut by_rank = vec![0.0; self.examples * width];
        ranks.all_gather(&own, &lens, &mut by_rank)?;
        let mut in_order = vec![0.0; by_rank.len()];
        let mut rest = &by_rank[..];
        for batch in (0..self.world).flat_map(|rank| self.batches(rank)) {
            let (numbers, after) = rest.split_at(batch.len() * width);
            in_order[batch.start * width..batch.end * width].copy_from_slice(numbers);
            rest = after;
        }
        Ok(in_order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_measured_once() {
        let shares = RankShares::of(11, 3, 2);
        let of = |rank| shares.batches(rank).collect::<Vec<_>>();
        assert_eq!(of(0), [0..3, 6..9]);
        assert_eq!(of(1), [3..6, 9..11]);
        let idle = RankShares::of(4, 4, 3);
        assert_eq!((idle.batches(0).count(), idle.batches(1).count(), idle.batches(2).count()), (1, 0, 0));
        assert_eq!(RankShares::of(5, 2, 1).batches(0).collect::<Vec<_>>(), [0..2, 2..4, 4..5]);
    }
}
