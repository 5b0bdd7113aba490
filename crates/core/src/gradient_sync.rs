//! Ranks: several copies of one training that share its batches, and what they exchange.

use std::fmt::Debug;

use thiserror::Error;

/// What the ranks of a training exchange: slices of numbers, always in the order of ranks.
///
/// Every rank makes the same calls in the same order; a call returns when all others made theirs. Sums are taken
/// rank by rank, first to last, so that they are bit-exact on every rank and in every run, whatever carries the numbers.
/// Numbers arrive as the bits that were sent.
pub trait GradientSync: Debug + Send + Sync {
    /// Which rank this is, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn world(&self) -> usize;

    /// Sums slices: `numbers` are one slice for each rank, of `lens[rank]` numbers. `sum` is this rank's own slice; to it is
    /// added, or it is replaced by, that slice of every rank, in the order of ranks.
    ///
    /// # Errors
    /// When another rank is gone, or the lengths do not fit.
    fn reduce_scatter(
        &self,
        numbers: &[f32],
        lens: &[usize],
        sum: &mut [f32],
        onto: SumOnto,
    ) -> Result<(), SyncError>;

    /// Puts the slices of all ranks one after another into `all`; that of a rank has `lens[rank]` numbers.
    ///
    /// # Errors
    /// When another rank is gone, or the lengths do not fit.
    fn all_gather(&self, own: &[f32], lens: &[usize], all: &mut [f32]) -> Result<(), SyncError>;

    /// Replaces `numbers` by those of one rank.
    ///
    /// # Errors
    /// When another rank is gone, or there is no such rank.
    fn broadcast(&self, from: usize, numbers: &mut [f32]) -> Result<(), SyncError>;

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// When another rank is gone.
    fn barrier(&self) -> Result<(), SyncError>;

    /// This rank cannot go on, for this reason: the others are not to wait for it.
    fn give_up(&self, reason: &str);

    /// The mean over all ranks of each number, in place.
    ///
    /// # Errors
    /// When another rank is gone.
    fn all_reduce_mean(&self, numbers: &mut [f32]) -> Result<(), SyncError> {
        let lens = even_slices(numbers.len(), self.world());
        let mut own = vec![0.0; lens[self.rank()]];
        self.reduce_scatter(numbers, &lens, &mut own, SumOnto::Nothing)?;
        let share = 1.0 / self.world() as f32;
        own.iter_mut().for_each(|sum| *sum *= share);
        self.all_gather(&own, &lens, numbers)
    }
}

/// What a sum begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumOnto {
    /// The first rank's numbers.
    Nothing,
    /// What is there already.
    Previous,
}

impl SumOnto {
    /// Adds a slice, or begins with it. What comes after it is added.
    pub fn put(&mut self, numbers: &[f32], sum: &mut [f32]) {
        match self {
            Self::Nothing => sum.copy_from_slice(numbers),
            Self::Previous => sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number),
        }
        *self = Self::Previous;
    }
}

/// Why ranks no longer train together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SyncError {
    /// Another rank ended before this one.
    #[error("rank {rank} ended: {reason}")]
    Peer {
        /// Which.
        rank: usize,
        /// What it said.
        reason: String,
    },
    /// What carries the numbers failed.
    #[error("ranks cannot reach each other: {reason}")]
    Transport {
        /// Why.
        reason: String,
    },
    /// Ranks were started with something that differs.
    #[error("rank {rank} has {what} than rank 0: {theirs} there, {ours} here")]
    Different {
        /// This rank.
        rank: usize,
        /// What differs: `another config`, …
        what: String,
        /// As rank 0 has it.
        theirs: String,
        /// As this rank has it.
        ours: String,
    },
    /// Slices that do not fit together.
    #[error("{len} numbers where the ranks together have {expected}")]
    Length {
        /// How many there are.
        len: usize,
        /// How many there should be.
        expected: usize,
    },
}

impl SyncError {
    /// Whether so many numbers are what the ranks together have.
    ///
    /// # Errors
    /// When they are not.
    pub fn check_len(len: usize, expected: usize) -> Result<(), Self> {
        if len == expected { Ok(()) } else { Err(Self::Length { len, expected }) }
    }
}

/// So many numbers in slices that differ in length by one at most.
#[must_use]
pub fn even_slices(len: usize, world: usize) -> Vec<usize> {
    let world = world.max(1);
    (0..world).map(|rank| (rank + 1) * len / world - rank * len / world).collect()
}

/// A training of one rank: nothing is exchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneRank;

impl GradientSync for OneRank {
    fn rank(&self) -> usize {
        0
    }

    fn world(&self) -> usize {
        1
    }

    fn reduce_scatter(
        &self,
        numbers: &[f32],
        _: &[usize],
        sum: &mut [f32],
        mut onto: SumOnto,
    ) -> Result<(), SyncError> {
        SyncError::check_len(numbers.len(), sum.len())?;
        onto.put(numbers, sum);
        Ok(())
    }

    fn all_gather(&self, own: &[f32], _: &[usize], all: &mut [f32]) -> Result<(), SyncError> {
        SyncError::check_len(all.len(), own.len())?;
        all.copy_from_slice(own);
        Ok(())
    }

    fn broadcast(&self, _: usize, _: &mut [f32]) -> Result<(), SyncError> {
        Ok(())
    }

    fn barrier(&self) -> Result<(), SyncError> {
        Ok(())
    }

    fn give_up(&self, _: &str) {}
}

/// Bytes of the longest text that ranks exchange.
const MAX_TEXT: u64 = 1 << 26;

/// What ranks exchange beside gradients: a few numbers and words. Each number travels as numbers that single precision has
/// exactly.
impl dyn GradientSync + '_ {
    /// What every rank says, by rank; each says equally many numbers.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn gather(&self, own: &[f32]) -> Result<Vec<Vec<f32>>, SyncError> {
        let mut all = vec![0.0; own.len() * self.world()];
        self.all_gather(own, &vec![own.len(); self.world()], &mut all)?;
        Ok((0..self.world()).map(|rank| all[rank * own.len()..(rank + 1) * own.len()].to_vec()).collect())
    }

    /// Whether any rank says so.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn any(&self, own: bool) -> Result<bool, SyncError> {
        Ok(self.gather(&[f32::from(u8::from(own))])?.iter().any(|flag| flag[0] != 0.0))
    }

    /// The double precision of every rank, by rank.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn gather_f64(&self, own: f64) -> Result<Vec<f64>, SyncError> {
        Ok(self.gather(&parts(own.to_bits()))?.iter().map(|parts| f64::from_bits(joined(parts))).collect())
    }

    /// The words of one rank, on all.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn broadcast_text(&self, from: usize, own: &str) -> Result<String, SyncError> {
        let mut len = parts(own.len() as u64);
        self.broadcast(from, &mut len)?;
        let len = joined(&len);
        if len > MAX_TEXT {
            return Err(SyncError::Transport { reason: format!("a text of {len} bytes") });
        }
        let mut bytes = vec![0.0; len as usize];
        if self.rank() == from {
            bytes.iter_mut().zip(own.bytes()).for_each(|(to, byte)| *to = f32::from(byte));
        }
        self.broadcast(from, &mut bytes)?;
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| byte as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Goes on only if all ranks can: the error of this rank, or that of the first other that has one.
    ///
    /// # Errors
    /// Its own, or [`SyncError::Peer`].
    pub fn agree<T, E: From<SyncError> + ToString>(&self, own: Result<T, E>) -> Result<T, E> {
        if self.world() == 1 {
            return own;
        }
        let failed = self.gather(&[f32::from(u8::from(own.is_err()))])?;
        let Some(rank) = failed.iter().position(|flag| flag[0] != 0.0) else { return own };
        let reason = self.broadcast_text(rank, &own.as_ref().err().map_or_else(String::new, E::to_string))?;
        own.and_then(|_| Err(SyncError::Peer { rank, reason }.into()))
    }

    /// Refuses ranks that were started with something else than rank 0. `what` reads like `another config`. The first line
    /// that differs is named.
    ///
    /// # Errors
    /// [`SyncError::Different`] on a rank that differs, [`SyncError::Peer`] on the others.
    pub fn same_text(&self, what: &str, own: &str) -> Result<(), SyncError> {
        let first = self.broadcast_text(0, own)?;
        self.agree(first_difference(&first, own).map_or(Ok(()), |(theirs, ours)| {
            Err(SyncError::Different { rank: self.rank(), what: what.into(), theirs, ours })
        }))
    }
}

/// The first line that differs, of each.
fn first_difference(first: &str, second: &str) -> Option<(String, String)> {
    let (mut first, mut second) = (first.lines(), second.lines());
    loop {
        match (first.next(), second.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => {
                let word =
                    |line: Option<&str>| line.map_or("nothing".into(), |line| format!("`{}`", line.trim()));
                return Some((word(a), word(b)));
            }
        }
    }
}

/// Sixteen bits at a time: numbers that single precision has exactly.
fn parts(bits: u64) -> [f32; 4] {
    [0, 16, 32, 48].map(|shift| f32::from((bits >> shift) as u16))
}

fn joined(parts: &[f32]) -> u64 {
    parts.iter().enumerate().fold(0, |bits, (i, part)| bits | (*part as u64) << (16 * i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_even_and_all_of_it() {
        for (len, world, expected) in [(10, 3, vec![3, 3, 4]), (2, 4, vec![0, 1, 0, 1]), (0, 2, vec![0, 0])] {
            assert_eq!(even_slices(len, world), expected);
        }
    }

    #[test]
    fn bits_travel_exactly() {
        for number in [0.0, -0.0, 1.0 / 3.0, f64::MIN_POSITIVE, f64::MAX, f64::NAN, -1e300] {
            assert_eq!(joined(&parts(number.to_bits())), number.to_bits());
        }
    }

    #[test]
    fn one_rank_keeps_what_it_has() {
        let rank: &dyn GradientSync = &OneRank;
        let mut numbers = [1.0, 2.5];
        rank.all_reduce_mean(&mut numbers).unwrap();
        assert_eq!(numbers, [1.0, 2.5]);
        assert_eq!(rank.gather_f64(0.1).unwrap(), [0.1]);
        assert_eq!(rank.broadcast_text(0, "ä b").unwrap(), "ä b");
        assert_eq!(rank.agree(Ok::<_, SyncError>(3)).unwrap(), 3);
        assert!(rank.same_text("another config", "a").is_ok());
        let mut sum = [1.0, 1.0];
        rank.reduce_scatter(&numbers, &[2], &mut sum, SumOnto::Previous).unwrap();
        assert_eq!(sum, [2.0, 3.5]);
        assert!(rank.reduce_scatter(&numbers, &[2], &mut [0.0], SumOnto::Nothing).is_err());
    }

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb: 1", "a\nb: 1"), None);
        assert_eq!(first_difference("a\n  b: 1", "a\n  b: 2"), Some(("`b: 1`".into(), "`b: 2`".into())));
        assert_eq!(first_difference("a", "a\nb"), Some(("nothing".into(), "`b`".into())));
    }
}
