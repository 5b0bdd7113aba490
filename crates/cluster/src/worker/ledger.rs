//! Which segments the learner took in: each of every worker once, in order, whatever was killed meanwhile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What the actor records: one line for each segment it takes in, and one whenever it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum LedgerLine {
    /// The actor started: every worker's next segment is this one. What was taken in from here on before is forgotten with
    /// the learner that had learned from it.
    Start {
        /// The segment, by worker.
        next: Vec<u64>,
    },
    /// A segment was taken in.
    Segment {
        /// The worker's rank.
        rank: usize,
        /// The segment's number.
        segment: u64,
        /// Steps of the worker's rollout before it.
        start: u64,
        /// Its steps.
        steps: u64,
        /// The version of the policy that acted.
        version: u64,
        /// The process that played it.
        incarnation: u64,
    },
}

/// Counts segments as they arrive.
#[derive(Debug, Clone)]
pub struct Ledger {
    next: Vec<u64>,
    /// Segments that arrived again and were dropped.
    pub duplicates: u64,
}

impl Ledger {
    /// A ledger whose workers are at these segments.
    pub fn new(next: Vec<u64>) -> Self {
        Self { next, duplicates: 0 }
    }

    /// Every worker's next segment.
    pub fn next(&self) -> &[u64] {
        &self.next
    }

    /// Whether a segment was taken in already.
    pub fn is_counted(&self, rank: usize, segment: u64) -> bool {
        self.next.get(rank).is_some_and(|next| segment < *next)
    }

    /// Whether a segment is the next of its worker. One that was counted before is dropped; one that skips another cannot be.
    pub fn take(&mut self, rank: usize, segment: u64) -> Result<bool, LedgerError> {
        let Some(next) = self.next.get_mut(rank) else { return Err(LedgerError::Rank { rank }) };
        match segment.cmp(next) {
            std::cmp::Ordering::Less => {
                self.duplicates += 1;
                Ok(false)
            }
            std::cmp::Ordering::Equal => {
                *next += 1;
                Ok(true)
            }
            std::cmp::Ordering::Greater => Err(LedgerError::Gap { rank, segment, next: *next }),
        }
    }
}

/// Segments that were lost or counted twice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// A worker that is not known.
    #[error("there is no worker {rank}")]
    Rank {
        /// Its rank.
        rank: usize,
    },
    /// A segment is missing.
    #[error("segment {segment} of worker {rank} came where {next} was due")]
    Gap {
        /// The worker.
        rank: usize,
        /// What came.
        segment: u64,
        /// What was due.
        next: u64,
    },
    /// A segment was counted twice.
    #[error("segment {segment} of worker {rank} was counted twice")]
    Twice {
        /// The worker.
        rank: usize,
        /// The segment.
        segment: u64,
    },
    /// Steps are missing between two segments.
    #[error(
        "segment {segment} of worker {rank} begins at step {start}, and the one before it ended at {end}"
    )]
    Steps {
        /// The worker.
        rank: usize,
        /// The segment.
        segment: u64,
        /// Where it begins.
        start: u64,
        /// Where it should.
        end: u64,
    },
    /// A start from what was never learned.
    #[error("the actor started at segment {next} of worker {rank}, and {known} had been taken in")]
    Start {
        /// The worker.
        rank: usize,
        /// Where it started.
        next: u64,
        /// How far it had come.
        known: u64,
    },
}

/// Checks the lines of a whole run, however often its actor started. Returns how many segments of each worker the learner
/// has learned from in the end.
pub fn verify(lines: &[LedgerLine]) -> Result<Vec<u64>, LedgerError> {
    let mut next: Vec<u64> = Vec::new();
    // Where each worker's rollout was before each of its segments.
    let mut begins: BTreeMap<(usize, u64), u64> = BTreeMap::new();
    for line in lines {
        match line {
            LedgerLine::Start { next: starts } => {
                for (rank, &start) in starts.iter().enumerate() {
                    let known = next.get(rank).copied().unwrap_or(0);
                    if start > known {
                        return Err(LedgerError::Start { rank, next: start, known });
                    }
                }
                begins.retain(|(rank, segment), _| starts.get(*rank).is_some_and(|start| segment <= start));
                next.clone_from(starts);
            }
            LedgerLine::Segment { rank, segment, start, steps, .. } => {
                let (rank, segment) = (*rank, *segment);
                let Some(due) = next.get_mut(rank) else { return Err(LedgerError::Rank { rank }) };
                if segment < *due {
                    return Err(LedgerError::Twice { rank, segment });
                }
                if segment > *due {
                    return Err(LedgerError::Gap { rank, segment, next: *due });
                }
                if let Some(&end) = begins.get(&(rank, segment)).filter(|end| *end != start) {
                    return Err(LedgerError::Steps { rank, segment, start: *start, end });
                }
                begins.insert((rank, segment + 1), start + steps);
                *due += 1;
            }
        }
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(rank: usize, segment: u64) -> LedgerLine {
        LedgerLine::Segment { rank, segment, start: segment * 10, steps: 10, version: 1, incarnation: 7 }
    }

    #[test]
    fn each_segment_counts_once() {
        let mut ledger = Ledger::new(vec![0, 5]);
        assert_eq!(ledger.take(0, 0), Ok(true));
        assert_eq!(ledger.take(0, 0), Ok(false));
        assert_eq!(ledger.take(1, 6), Err(LedgerError::Gap { rank: 1, segment: 6, next: 5 }));
        assert_eq!(ledger.take(2, 0), Err(LedgerError::Rank { rank: 2 }));
        assert_eq!((ledger.next(), ledger.duplicates), (&[1, 5][..], 1));
    }

    #[test]
    fn a_run_is_whole_or_says_what_is_missing() {
        let start = |next: [u64; 2]| LedgerLine::Start { next: next.to_vec() };
        let fine = vec![
            start([0, 0]),
            segment(0, 0),
            segment(1, 0),
            segment(0, 1),
            // Killed: what was learned of segment 1 was not saved.
            start([1, 1]),
            segment(1, 1),
            segment(0, 1),
        ];
        assert_eq!(verify(&fine), Ok(vec![2, 2]));
        let broken = [
            (vec![start([0, 0]), segment(0, 1)], LedgerError::Gap { rank: 0, segment: 1, next: 0 }),
            (vec![start([0, 0]), segment(0, 0), segment(0, 0)], LedgerError::Twice { rank: 0, segment: 0 }),
            (vec![start([0, 0]), start([1, 0])], LedgerError::Start { rank: 0, next: 1, known: 0 }),
        ];
        for (lines, error) in broken {
            assert_eq!(verify(&lines), Err(error));
        }
        let jump =
            LedgerLine::Segment { rank: 0, segment: 1, start: 11, steps: 10, version: 1, incarnation: 7 };
        let error = LedgerError::Steps { rank: 0, segment: 1, start: 11, end: 10 };
        assert_eq!(verify(&[start([0, 0]), segment(0, 0), jump]), Err(error));
    }
}
