//! A cache of encoded frame pairs in the GPU's memory, for windows to come.

use std::collections::HashMap;

use cudarc::driver::CudaSlice;
use rayon::prelude::*;

use super::super::patches::VisualKind;
use super::vision::FramePair;
use crate::gpu::Address;
use crate::gpu::Gpu;
use crate::gpu::GpuError;

/// Visual embeddings, level by level, in a ring buffer: the oldest go first.
#[derive(Default)]
pub(in super::super) struct FrameCache {
    /// `[levels, rows, width]`
    memory: Option<CudaSlice<u16>>,
    rows: usize,
    /// Numbers of a row in all levels.
    numbers: usize,
    /// Where the next rows go.
    next: usize,
    /// By fingerprint.
    kept: HashMap<u64, Vec<CachedPair>>,
    /// Cache hits, and all lookups.
    pub(in super::super) found: [usize; 2],
}

struct CachedPair {
    kind: VisualKind,
    sides: [usize; 2],
    bytes: Vec<u8>,
    first: usize,
    rows: usize,
}

/// A pair with its fingerprint and the tokens it becomes.
#[derive(Clone, Copy, Debug)]
pub(super) struct HashedPair<'a> {
    pub(super) pair: FramePair<'a>,
    pub(super) fingerprint: u64,
    pub(super) rows: usize,
}

impl FrameCache {
    /// Makes room for so many rows of so many numbers, unless there is.
    pub(super) fn open(&mut self, gpu: &Gpu, rows: usize, numbers: usize) -> Result<(), GpuError> {
        if self.numbers != numbers || self.memory.is_none() {
            *self = Self { found: self.found, numbers, rows, ..Self::default() };
            self.memory = Some(gpu.alloc(rows * numbers)?);
        }
        Ok(())
    }

    /// The row that a pair begins at, if it is kept.
    pub(super) fn find(&mut self, asked: &HashedPair<'_>) -> Option<usize> {
        self.found[1] += 1;
        let FramePair { kind, sides, bytes } = asked.pair;
        let kept = self.kept.get(&asked.fingerprint)?;
        let kept =
            kept.iter().find(|kept| kept.kind == kind && kept.sides == sides && kept.bytes == bytes)?;
        self.found[0] += 1;
        Some(kept.first)
    }

    /// Where row `row` of a level is; levels are `width` wide.
    pub(super) fn at(&self, gpu: &Gpu, level: usize, row: usize, width: usize) -> Address {
        let base = self.memory.as_ref().map_or(Address::NONE, |memory| gpu.address(memory));
        base.plus((level * self.rows + row) * width)
    }

    /// Keeps pairs whose rows lie one after another, as many of the last ones as there is room for. Says which of their rows
    /// are to be copied, and where to.
    pub(super) fn keep(&mut self, pairs: &[HashedPair<'_>]) -> (std::ops::Range<usize>, usize) {
        let total: usize = pairs.iter().map(|pair| pair.rows).sum();
        let (mut skipped, mut from) = (0, 0);
        while total - from > self.rows {
            from += pairs[skipped].rows;
            skipped += 1;
        }
        let count = total - from;
        if self.next + count > self.rows {
            self.next = 0;
        }
        let place = self.next;
        self.forget(place..place + count);
        self.next += count;
        let bytes: Vec<Vec<u8>> = pairs[skipped..].par_iter().map(|pair| pair.pair.bytes.to_vec()).collect();
        let mut first = place;
        for (HashedPair { pair, fingerprint, rows }, bytes) in pairs[skipped..].iter().zip(bytes) {
            let kept = CachedPair { kind: pair.kind, sides: pair.sides, bytes, first, rows: *rows };
            self.kept.entry(*fingerprint).or_default().push(kept);
            first += rows;
        }
        (from..total, place)
    }

    /// Forgets pairs that have one of these rows.
    fn forget(&mut self, gone: std::ops::Range<usize>) {
        self.kept.retain(|_, kept| {
            kept.retain(|kept| kept.first + kept.rows <= gone.start || kept.first >= gone.end);
            !kept.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps pairs of one number each, of so many rows.
    fn keep(frame_cache: &mut FrameCache, pairs: &[(u8, usize)]) -> (std::ops::Range<usize>, usize) {
        let bytes: Vec<[u8; 1]> = pairs.iter().map(|(number, _)| [*number]).collect();
        let hashed: Vec<HashedPair<'_>> =
            bytes.iter().zip(pairs).map(|(bytes, (_, rows))| hashed(bytes, *rows)).collect();
        frame_cache.keep(&hashed)
    }

    fn hashed(bytes: &[u8], rows: usize) -> HashedPair<'_> {
        let pair = FramePair { kind: VisualKind::Video, sides: [2, 2], bytes };
        HashedPair { pair, fingerprint: u64::from(bytes[0] % 2), rows } // some have a fingerprint in common
    }

    fn found(frame_cache: &mut FrameCache) -> Vec<(u8, usize)> {
        (0..10).filter_map(|number| Some((number, frame_cache.find(&hashed(&[number], 0))?))).collect()
    }

    #[test]
    fn the_oldest_rows_are_written_over() {
        let mut frame_cache = FrameCache { rows: 10, ..FrameCache::default() };
        assert_eq!(keep(&mut frame_cache, &[(0, 3), (1, 3)]), (0..6, 0));
        assert_eq!(keep(&mut frame_cache, &[(2, 2)]), (0..2, 6));
        assert_eq!(found(&mut frame_cache), [(0, 0), (1, 3), (2, 6)]);
        assert_eq!(keep(&mut frame_cache, &[(3, 4)]), (0..4, 0), "no room at the end");
        assert_eq!(found(&mut frame_cache), [(2, 6), (3, 0)], "both whose rows were needed are gone");
        assert_eq!(keep(&mut frame_cache, &[(4, 4), (5, 4), (6, 5)]), (4..13, 0), "the first has no room");
        assert_eq!(found(&mut frame_cache), [(5, 0), (6, 4)]);
        assert_eq!(keep(&mut frame_cache, &[(7, 11)]), (11..11, 9));
        assert_eq!(found(&mut frame_cache), [(5, 0), (6, 4)], "too large for the cache");
    }
}
