//! The cache of what windows share: encoded frame pairs, and the prefix of prompts.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::text::KvCache;
use super::vision::VisualEmbeds;

/// Kept from one call of [`QwenVl::score`](super::QwenVl::score) to the next, for one model. It changes no
/// result: tokens of a pair of frames depend on that pair alone, and a prompt's prefix on nothing after it.
pub struct ScoreCache {
    pub(super) pairs: FramePairCache,
    /// The prefix that all prompts shared, and its KV cache.
    pub(super) prefix: Option<(Vec<u32>, KvCache)>,
    /// The tokens of pairs of frames in a GPU's memory.
    pub(super) frame_cache: super::gpu::FrameCache,
}

/// The tokens of pairs of frames, the oldest first to go.
#[derive(Default)]
pub(super) struct FramePairCache {
    kept: HashMap<u64, Vec<CachedPair>>,
    order: VecDeque<u64>,
    capacity: Capacity,
    /// Bytes of what is kept.
    held: usize,
    /// Cache hits, and all lookups.
    found: [usize; 2],
}

struct CachedPair {
    bytes: Vec<u8>,
    sides: [usize; 2],
    visual_embeds: VisualEmbeds,
}

/// How much may be kept.
enum Capacity {
    MaxPairs(usize),
    MaxBytes(usize),
}

impl Default for Capacity {
    fn default() -> Self {
        Self::MaxPairs(0)
    }
}

impl CachedPair {
    /// Bytes of its pixels and of its tokens.
    fn size(&self) -> usize {
        let numbers: usize = std::iter::once(&self.visual_embeds.tokens)
            .chain(&self.visual_embeds.deepstack)
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
        Self::with_capacity(Capacity::MaxPairs(pairs))
    }

    /// Room for as many pairs of frames as take so many bytes.
    #[must_use]
    pub fn of_bytes(bytes: usize) -> Self {
        Self::with_capacity(Capacity::MaxBytes(bytes))
    }

    fn with_capacity(capacity: Capacity) -> Self {
        Self {
            pairs: FramePairCache { capacity, ..FramePairCache::default() },
            prefix: None,
            frame_cache: super::gpu::FrameCache::default(),
        }
    }

    /// How many pairs it has room for, if each takes so many bytes.
    pub(super) fn max_pairs(&self, bytes: usize) -> usize {
        match self.pairs.capacity {
            Capacity::MaxPairs(most) => most,
            Capacity::MaxBytes(most) => most / bytes.max(1),
        }
    }

    /// How many lookups of frame pairs hit, and how many there were.
    #[must_use]
    pub fn hits_and_lookups(&self) -> [usize; 2] {
        if self.frame_cache.found[1] > 0 {
            return self.frame_cache.found;
        }
        self.pairs.found
    }
}

fn key(bytes: &[u8], sides: [usize; 2]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (bytes, sides).hash(&mut hasher);
    hasher.finish()
}

impl FramePairCache {
    pub(super) fn get(&mut self, bytes: &[u8], sides: [usize; 2]) -> Option<VisualEmbeds> {
        self.found[1] += 1;
        let kept = self.kept.get(&key(bytes, sides))?;
        let pair = kept.iter().find(|pair| pair.sides == sides && pair.bytes == bytes)?;
        self.found[0] += 1;
        Some(pair.visual_embeds.clone())
    }

    pub(super) fn keep(&mut self, bytes: &[u8], sides: [usize; 2], visual_embeds: VisualEmbeds) {
        let pair = CachedPair { bytes: bytes.to_vec(), sides, visual_embeds };
        let size = pair.size();
        while !self.has_capacity_for(size) {
            let Some(oldest) = self.order.pop_front() else { return };
            let gone = self.kept.remove(&oldest).unwrap_or_default();
            self.held -= gone.iter().map(CachedPair::size).sum::<usize>();
        }
        let key = key(bytes, sides);
        self.kept.entry(key).or_default().push(pair);
        self.order.push_back(key);
        self.held += size;
    }

    fn has_capacity_for(&self, size: usize) -> bool {
        match self.capacity {
            Capacity::MaxPairs(most) => self.order.len() < most,
            Capacity::MaxBytes(most) => self.held + size <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn visual_embeds() -> VisualEmbeds {
        VisualEmbeds { tokens: Tensor::zeros([2, 4]), deepstack: Vec::new() }
    }

    #[test]
    fn the_oldest_pairs_are_evicted() {
        // A pair has 10 bytes of pixels and 32 of tokens.
        for (cache, kept) in
            [(ScoreCache::new(3), 3), (ScoreCache::of_bytes(100), 2), (ScoreCache::of_bytes(9), 0)]
        {
            let mut pairs = cache.pairs;
            for level in 0..5 {
                pairs.keep(&[level; 10], [1, 1], visual_embeds());
            }
            let found: Vec<u8> = (0..5).filter(|level| pairs.get(&[*level; 10], [1, 1]).is_some()).collect();
            assert_eq!(found, (5 - kept..5).collect::<Vec<u8>>());
            assert_eq!(pairs.held, usize::from(kept) * 42);
            assert!(pairs.get(&[4; 10], [2, 1]).is_none(), "of other sides");
        }
    }
}
