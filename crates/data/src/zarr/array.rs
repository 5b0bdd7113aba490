//! An array: which chunks some of its rows are in, and those rows put together.

use std::ops::Range;

use plaudit_pyfiles::{Array, Buffer, DType, crc32c};

use super::error::ZarrError;
use super::metadata::{Metadata, parse_v2, parse_v3};
use super::store::Store;

/// Bytes that need no proof, and what a byte of a chunk becomes at most beyond them.
const FREE_BYTES: u64 = 1 << 26;
const MOST_EXPANSION: u64 = 1 << 12;
/// Bytes of the largest rows that are read together, and how many chunks they may be in.
const MOST_BYTES: u64 = 1 << 35;
const MOST_CHUNKS: usize = 1 << 20;
/// Says of a chunk within a file that it was not written.
const ABSENT: u64 = u64::MAX;

/// An array of a store.
#[derive(Clone, Debug)]
pub(crate) struct ZarrArray {
    key: String,
    metadata: Metadata,
}

impl ZarrArray {
    /// The array at a path in a store, if there is one.
    pub(crate) fn find(store: &Store, key: &str) -> Result<Option<Self>, ZarrError> {
        let (v2, v3) = (format!("{key}/.zarray"), format!("{key}/zarr.json"));
        let metadata = match (store.get(&v2)?, store.get(&v3)?) {
            (Some(text), _) => parse_v2(key, &text)?,
            (None, Some(text)) => parse_v3(key, &text)?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Self { key: key.into(), metadata }))
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.metadata.shape
    }

    pub(crate) fn dtype(&self) -> DType {
        self.metadata.dtype
    }

    /// Some rows of the first axis.
    pub(crate) fn rows(&self, store: &Store, rows: Range<usize>) -> Result<Array, ZarrError> {
        let shape = self.shape();
        if rows.start > rows.end || rows.end > shape[0] {
            let what = format!(
                "`{}` has {} rows, and {} to {} were asked for",
                self.key, shape[0], rows.start, rows.end
            );
            return Err(ZarrError::Rows { what });
        }
        let wanted: Vec<usize> = std::iter::once(rows.len()).chain(shape[1..].iter().copied()).collect();
        let each = self.dtype().size();
        let claimed = wanted.iter().fold(each, |bytes, side| bytes.saturating_mul(*side));
        let files = self.files(store, &rows)?;
        let stored =
            files.iter().map(|(_, _, bytes)| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)).sum();
        self.check_size(&self.key, claimed, stored)?;
        let mut out = match self.metadata.fill.iter().all(|byte| *byte == 0) {
            true => vec![0; claimed],
            false => self.metadata.fill.repeat(claimed / each),
        };
        for (key, origin, bytes) in files {
            let Some(bytes) = bytes else { continue };
            self.add_file(&key, &origin, &bytes, &rows, &mut out)?;
        }
        let failed = |error: plaudit_pyfiles::ShapeError| ZarrError::Rows { what: error.to_string() };
        Array::new(self.dtype(), &wanted, out).map_err(failed)
    }

    fn check_size(&self, key: &str, claimed: usize, stored: u64) -> Result<(), ZarrError> {
        let most = FREE_BYTES.saturating_add(stored.saturating_mul(MOST_EXPANSION)).min(MOST_BYTES);
        let claimed = claimed as u64;
        match claimed <= most {
            true => Ok(()),
            false => Err(ZarrError::TooLarge { key: key.into(), claimed, stored, most }),
        }
    }

    /// The files that some rows are in: their names, their first element, and their bytes where they were written.
    fn files(&self, store: &Store, rows: &Range<usize>) -> Result<Vec<StoredFile>, ZarrError> {
        let Metadata { shape, chunk, prefix, separator, .. } = &self.metadata;
        let first = std::iter::once(rows.start / chunk[0]..rows.end.div_ceil(chunk[0]));
        let others = shape[1..].iter().zip(&chunk[1..]).map(|(side, chunk)| 0..side.div_ceil(*chunk));
        let ranges: Vec<Range<usize>> = first.chain(others).collect();
        let count = ranges.iter().fold(1_usize, |count, range| count.saturating_mul(range.len()));
        if count > MOST_CHUNKS {
            let what = format!(
                "`{}`: {count} chunks for {} rows, where {MOST_CHUNKS} are read at most",
                self.key,
                rows.len()
            );
            return Err(ZarrError::Rows { what });
        }
        let mut found = Vec::with_capacity(count);
        for_each_index(&ranges, |index| {
            let numbers: Vec<String> = index.iter().map(usize::to_string).collect();
            let name = [&[(*prefix).to_owned()][..usize::from(!prefix.is_empty())], &numbers]
                .concat()
                .join(separator);
            let key = format!("{}/{name}", self.key);
            let bytes = store.get(&key)?;
            let origin = index.iter().zip(chunk).map(|(index, side)| index.saturating_mul(*side)).collect();
            found.push((key, origin, bytes));
            Ok(())
        })?;
        Ok(found)
    }

    /// Puts what a file has of some rows where it belongs.
    fn add_file(
        &self,
        key: &str,
        origin: &[usize],
        bytes: &Buffer,
        rows: &Range<usize>,
        out: &mut [u8],
    ) -> Result<(), ZarrError> {
        let Some(shard) = &self.metadata.shard else {
            return self.add_chunk(key, origin, &self.metadata.chunk, bytes, rows, out);
        };
        let damaged = |what: &str| ZarrError::Chunk { key: key.into(), what: what.into() };
        let inner: Vec<Range<usize>> =
            self.metadata.chunk.iter().zip(&shard.chunk).map(|(outer, inner)| 0..outer / inner).collect();
        let count = inner.iter().fold(1_usize, |count, range| count.saturating_mul(range.len()));
        let entries = count.checked_mul(16).ok_or_else(|| damaged("it claims too many chunks"))?;
        let length = entries.saturating_add(if shard.has_checksum { 4 } else { 0 });
        let start = match shard.is_index_first {
            true => 0,
            false => bytes.len().checked_sub(length).ok_or_else(|| damaged("it is cut short"))?,
        };
        let index =
            bytes.get(start..start.saturating_add(length)).ok_or_else(|| damaged("it is cut short"))?;
        let (entries, check) = index.split_at(entries);
        if shard.has_checksum && crc32c(entries).to_le_bytes() != check {
            return Err(damaged("the checksum of its index is of other bytes"));
        }
        let mut entries = entries.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        for_each_index(&inner, |at| {
            let (offset, length) = (entries.next().unwrap_or(ABSENT), entries.next().unwrap_or(ABSENT));
            let corner: Vec<usize> = origin
                .iter()
                .zip(at.iter().zip(&shard.chunk))
                .map(|(origin, (at, side))| origin + at * side)
                .collect();
            let is_wanted = corner[0] < rows.end && corner[0] + shard.chunk[0] > rows.start;
            if (offset, length) == (ABSENT, ABSENT) || !is_wanted {
                return Ok(());
            }
            let range = usize::try_from(offset).ok().zip(usize::try_from(offset.saturating_add(length)).ok());
            let chunk = range.and_then(|(start, end)| bytes.get(start..end));
            let chunk = chunk.ok_or_else(|| damaged("its index leads out of it"))?;
            self.add_chunk(key, &corner, &shard.chunk, chunk, rows, out)
        })
    }

    /// Puts what a chunk has of some rows where it belongs.
    fn add_chunk(
        &self,
        key: &str,
        origin: &[usize],
        chunk: &[usize],
        bytes: &[u8],
        rows: &Range<usize>,
        out: &mut [u8],
    ) -> Result<(), ZarrError> {
        let each = self.dtype().size();
        let expected = chunk.iter().fold(each, |bytes, side| bytes.saturating_mul(*side));
        self.check_size(key, expected, bytes.len() as u64)?;
        let damaged = |what| ZarrError::Chunk { key: key.into(), what };
        let numbers = self.metadata.codecs.decode(bytes, expected, each).map_err(damaged)?;
        let strides = strides(chunk, &self.metadata.codecs.order);
        let shape = self.shape();
        // Of each axis: what is in the chunk and wanted, counted in the array.
        let wanted = |axis: usize| {
            let asked = if axis == 0 { rows.clone() } else { 0..shape[axis] };
            origin[axis].max(asked.start)..(origin[axis] + chunk[axis]).min(asked.end)
        };
        let ranges: Vec<Range<usize>> = (0..chunk.len()).map(wanted).collect();
        let last = chunk.len() - 1;
        let run = ranges[last].len();
        for_each_index(&ranges[..last], |index| {
            let index = || index.iter().copied().chain([ranges[last].start]).enumerate();
            let from: usize = index().map(|(axis, at)| (at - origin[axis]) * strides[axis]).sum();
            let to = index().fold(0, |to, (axis, at)| {
                let (at, side) = if axis == 0 { (at - rows.start, rows.len()) } else { (at, shape[axis]) };
                to * side + at
            });
            let out = &mut out[to * each..(to + run) * each];
            if strides[last] == 1 {
                out.copy_from_slice(&numbers[from * each..(from + run) * each]);
                return Ok(());
            }
            for (at, element) in out.chunks_exact_mut(each).enumerate() {
                let from = (from + at * strides[last]) * each;
                element.copy_from_slice(&numbers[from..from + each]);
            }
            Ok(())
        })
    }
}

type StoredFile = (String, Vec<usize>, Option<Buffer>);

/// How far apart elements of each axis lie in a chunk whose axes lie in an order.
fn strides(chunk: &[usize], order: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; chunk.len()];
    let mut stride = 1;
    for axis in order.iter().rev() {
        strides[*axis] = stride;
        stride *= chunk[*axis];
    }
    strides
}

/// Every index within some ranges, the last axis first.
fn for_each_index(
    ranges: &[Range<usize>],
    mut each: impl FnMut(&[usize]) -> Result<(), ZarrError>,
) -> Result<(), ZarrError> {
    if ranges.iter().any(Range::is_empty) {
        return Ok(());
    }
    let mut index: Vec<usize> = ranges.iter().map(|range| range.start).collect();
    loop {
        each(&index)?;
        let Some(axis) = (0..ranges.len()).rev().find(|axis| index[*axis] + 1 < ranges[*axis].end) else {
            return Ok(());
        };
        index[axis] += 1;
        (axis + 1..ranges.len()).for_each(|axis| index[axis] = ranges[axis].start);
    }
}
