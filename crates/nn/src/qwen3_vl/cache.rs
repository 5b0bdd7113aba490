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
    /// The tokens of pairs of frames in a GPU's memory.
    #[cfg(feature = "cuda-judge")]
    pub(super) shelf: super::gpu::Shelf,
}

/// The tokens of pairs of frames, the oldest first to go.
#[derive(Default)]
pub(super) struct Pairs {
    kept: HashMap<u64, Vec<Pair>>,
    order: VecDeque<u64>,
    room: Room,
    /// Bytes of what is kept.
    held: usize,
    /// Pairs that were found, and all that were asked for.
    found: [usize; 2],
}

struct Pair {
    bytes: Vec<u8>,
    sides: [usize; 2],
    seen: Seen,
}

/// How much is kept.
enum Room {
    Pairs(usize),
    Bytes(usize),
}

impl Default for Room {
    fn default() -> Self {
        Self::Pairs(0)
    }
}

impl Pair {
    /// Bytes of its pixels and of its tokens.
    fn size(&self) -> usize {
        let numbers: usize = std::iter::once(&self.seen.tokens)
            .chain(&self.seen.deepstack)
            .map(|tokens| tokens.dims().iter().product::<usize>())
            .sum();
        self.bytes.len() + numbers * size_of::<f32>()
    }
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
        Self::with_room(Room::Pairs(pairs))
    }

    /// Room for as many pairs of frames as take so many bytes.
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Self {
        Self::with_room(Room::Bytes(bytes))
    }

    fn with_room(room: Room) -> Self {
        Self {
            pairs: Pairs { room, ..Pairs::default() },
            prefix: None,
            #[cfg(feature = "cuda-judge")]
            shelf: super::gpu::Shelf::default(),
        }
    }

    /// How many pairs it has room for, if each takes so many bytes.
    #[cfg(feature = "cuda-judge")]
    pub(super) fn room_for(&self, bytes: usize) -> usize {
        match self.pairs.room {
            Room::Pairs(most) => most,
            Room::Bytes(most) => most / bytes.max(1),
        }
    }

    /// How many pairs of frames were found in it, and how many were asked for.
    #[must_use]
    pub fn found(&self) -> [usize; 2] {
        #[cfg(feature = "cuda-judge")]
        if self.shelf.found[1] > 0 {
            return self.shelf.found;
        }
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
        let pair = Pair { bytes: bytes.to_vec(), sides, seen };
        let size = pair.size();
        while !self.has_room_for(size) {
            let Some(oldest) = self.order.pop_front() else { return };
            let gone = self.kept.remove(&oldest).unwrap_or_default();
            self.held -= gone.iter().map(Pair::size).sum::<usize>();
        }
        let key = key(bytes, sides);
        self.kept.entry(key).or_default().push(pair);
        self.order.push_back(key);
        self.held += size;
    }

    fn has_room_for(&self, size: usize) -> bool {
        match self.room {
            Room::Pairs(most) => self.order.len() < most,
            Room::Bytes(most) => self.held + size <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;

    use super::*;

    fn seen() -> Seen {
        Seen { tokens: Tensor::zeros([2, 4], &Default::default()), deepstack: Vec::new() }
    }

    #[test]
    fn the_oldest_pairs_go_when_there_is_no_room() {
        // A pair has 10 bytes of pixels and 32 of tokens.
        for (cache, kept) in
            [(ScoreCache::new(3), 3), (ScoreCache::of_bytes(100), 2), (ScoreCache::of_bytes(9), 0)]
        {
            let mut pairs = cache.pairs;
            for level in 0..5 {
                pairs.keep(&[level; 10], [1, 1], seen());
            }
            let found: Vec<u8> = (0..5).filter(|level| pairs.get(&[*level; 10], [1, 1]).is_some()).collect();
            assert_eq!(found, (5 - kept..5).collect::<Vec<u8>>());
            assert_eq!(pairs.held, usize::from(kept) * 42);
            assert!(pairs.get(&[4; 10], [2, 1]).is_none(), "of other sides");
        }
    }
}
