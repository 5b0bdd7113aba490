//! What need not be computed twice: pairs of frames that windows share, and the beginning of prompts.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::text::Memory;
use super::vision::Seen;

/// Kept from one call of [`QwenVl::score`](super::QwenVl::score) to the next, for one model. What it saves changes no
/// result: tokens of a pair of frames depend on that pair alone, and a prompt's beginning on nothing after it.
pub struct ScoreCache {
    pub(super) pairs: Pairs,
    /// The tokens that all prompts began with, and what the model remembers of them.
    pub(super) prefix: Option<(Vec<u32>, Memory)>,
}

/// The tokens of pairs of frames, the oldest first to go.
#[derive(Default)]
pub(super) struct Pairs {
    kept: HashMap<u64, Vec<Pair>>,
    order: VecDeque<u64>,
    room: usize,
    /// Pairs that were found, and all that were asked for.
    found: [usize; 2],
}

struct Pair {
    bytes: Vec<u8>,
    sides: [usize; 2],
    seen: Seen,
}

impl std::fmt::Debug for ScoreCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ScoreCache({} pairs of frames)", self.pairs.order.len())
    }
}

impl ScoreCache {
    /// Room for so many pairs of frames. A window of two views and four frames each has four of them; one of 128 pixels
    /// takes 100 kB and its tokens.
    #[must_use]
    pub fn new(pairs: usize) -> Self {
        Self { pairs: Pairs { room: pairs, ..Pairs::default() }, prefix: None }
    }

    /// How many pairs of frames were found in it, and how many were asked for.
    #[must_use]
    pub fn found(&self) -> [usize; 2] {
        self.pairs.found
    }
}

fn key(bytes: &[u8], sides: [usize; 2]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (bytes, sides).hash(&mut hasher);
    hasher.finish()
}

impl Pairs {
    pub(super) fn get(&mut self, bytes: &[u8], sides: [usize; 2]) -> Option<Seen> {
        self.found[1] += 1;
        let kept = self.kept.get(&key(bytes, sides))?;
        let pair = kept.iter().find(|pair| pair.sides == sides && pair.bytes == bytes)?;
        self.found[0] += 1;
        Some(pair.seen.clone())
    }

    pub(super) fn keep(&mut self, bytes: &[u8], sides: [usize; 2], seen: Seen) {
        if self.room == 0 {
            return;
        }
        if self.order.len() >= self.room
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
        }
        let key = key(bytes, sides);
        self.kept.entry(key).or_default().push(Pair { bytes: bytes.to_vec(), sides, seen });
        self.order.push_back(key);
    }
}
