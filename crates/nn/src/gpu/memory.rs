//! Memory of a GPU that is used again from call to call.

use std::ops::Range;

use cudarc::driver::{CudaSlice, DeviceRepr, PinnedHostSlice, ValidAsZeroBits};
use rayon::prelude::*;

use super::device::Gpu;
use super::error::GpuError;
use super::graph::Moment;

/// A place in the GPU's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) u64);

/// Bytes of a bf16 number.
const NUMBER: usize = 2;

impl Address {
    pub(crate) const NONE: Self = Self(0);

    /// So many numbers (bf16) further.
    pub(crate) fn plus(self, numbers: usize) -> Self {
        Self(self.0 + (numbers * NUMBER) as u64)
    }

    /// So many whole numbers (32 bits) further.
    pub(crate) fn plus_ints(self, ints: usize) -> Self {
        Self(self.0 + (ints * size_of::<i32>()) as u64)
    }
}

/// Memory that grows when more is asked for, and otherwise stays.
#[derive(Debug)]
pub(crate) struct Buffer<T> {
    held: Option<CudaSlice<T>>,
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { held: None }
    }
}

impl<T: DeviceRepr> Buffer<T> {
    /// Room for at least so many. What was in it may be gone.
    pub(crate) fn of(&mut self, gpu: &Gpu, count: usize) -> Result<Address, GpuError> {
        match &self.held {
            Some(held) if held.len() >= count => Ok(gpu.address(held)),
            _ => {
                self.held = None; // before more is taken
                let room = gpu.alloc(count)?;
                Ok(gpu.address(self.held.insert(room)))
            }
        }
    }

    /// Room for at least so many, of which whatever is new is zeros.
    pub(crate) fn zeroed(&mut self, gpu: &Gpu, count: usize) -> Result<Address, GpuError>
    where
        T: ValidAsZeroBits,
    {
        let had = self.len();
        let address = self.of(gpu, count)?;
        if let Some(held) = &mut self.held
            && held.len() > had
        {
            gpu.stream.memset_zeros(held).map_err(GpuError::failed("clearing memory"))?;
        }
        Ok(address)
    }

    /// Puts these there.
    pub(crate) fn put(&mut self, gpu: &Gpu, things: &[T]) -> Result<Address, GpuError> {
        let address = self.of(gpu, things.len())?;
        if let Some(held) = &mut self.held
            && !things.is_empty()
        {
            gpu.stream.memcpy_htod(things, held).map_err(GpuError::failed("copying to the GPU"))?;
        }
        Ok(address)
    }

    /// Where it is; nowhere before there is room for anything.
    pub(crate) fn address(&self, gpu: &Gpu) -> Address {
        self.held.as_ref().map_or(Address::NONE, |held| gpu.address(held))
    }

    /// Puts the first so many of another there, on the GPU.
    pub(crate) fn copy(&mut self, gpu: &Gpu, from: &Self, count: usize) -> Result<(), GpuError> {
        let (Some(to), Some(from)) = (&mut self.held, &from.held) else { return Ok(()) };
        let (mut to, from) = (to.slice_mut(..count), from.slice(..count));
        gpu.stream.memcpy_dtod(&from, &mut to).map_err(GpuError::failed("copying on the GPU"))
    }

    /// Puts so many of what lies elsewhere on the GPU there, from `start` on. There is room for it.
    pub(crate) fn copy_from(
        &mut self,
        gpu: &Gpu,
        start: usize,
        from: Address,
        count: usize,
    ) -> Result<(), GpuError> {
        let Some(held) = self.held.as_ref().filter(|held| start + count <= held.len()) else {
            return Err(GpuError::Unsupported { what: "a copy to where there is no room" });
        };
        let (to, bytes) = (gpu.address(held).0 + (start * size_of::<T>()) as u64, count * size_of::<T>());
        gpu.stream.context().bind_to_thread().map_err(GpuError::failed("copying on the GPU"))?;
        // SAFETY: there is room for it, as was checked; callers give the address of so many on this GPU.
        unsafe { cudarc::driver::result::memcpy_dtod_async(to, from.0, bytes, gpu.stream.cu_stream()) }
            .map_err(GpuError::failed("copying on the GPU"))
    }

    /// How many there is room for.
    pub(crate) fn len(&self) -> usize {
        self.held.as_ref().map_or(0, CudaSlice::len)
    }

    /// The first so many of what is there.
    pub(crate) fn get(&self, gpu: &Gpu, count: usize) -> Result<Vec<T>, GpuError> {
        self.get_range(gpu, 0..count)
    }

    /// Some of what is there.
    pub(crate) fn get_range(&self, gpu: &Gpu, range: Range<usize>) -> Result<Vec<T>, GpuError> {
        let Some(held) = &self.held else { return Ok(Vec::new()) };
        let things = gpu.stream.clone_dtoh(&held.slice(range));
        let things = things.map_err(GpuError::failed("copying from the GPU"))?;
        gpu.wait()?;
        Ok(things)
    }
}

/// Bytes that come from the GPU; the host goes on until it wants to read them.
#[derive(Debug)]
pub(crate) struct FetchedBytes {
    pinned: PinnedHostSlice<u8>,
    /// When they are there. The memory's own event is not recorded, for nothing is tracked by events here.
    there: Option<Moment>,
}

impl FetchedBytes {
    /// Room for just so many.
    pub(crate) fn room(gpu: &Gpu, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self { pinned: gpu.fetching(bytes)?, there: None })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.pinned.len()
    }

    /// Asks for those from `start` on, as they are when all that was asked for before is done.
    pub(crate) fn fetch(&mut self, gpu: &Gpu, from: &Buffer<u8>, start: usize) -> Result<(), GpuError> {
        let Some(held) = &from.held else { return Ok(()) };
        let range = held.slice(start..start + self.pinned.len());
        let copied = gpu.stream.memcpy_dtoh(&range, &mut self.pinned);
        copied.map_err(GpuError::failed("copying from the GPU"))?;
        self.there = Some(gpu.moment()?);
        Ok(())
    }

    /// Waits until they are there, and for nothing that was asked for later.
    pub(crate) fn wait(&self) -> Result<&[u8], GpuError> {
        if let Some(there) = &self.there {
            there.wait()?;
        }
        self.pinned.as_slice().map_err(GpuError::failed("computing"))
    }
}

impl Drop for FetchedBytes {
    /// The GPU may still write there.
    fn drop(&mut self) {
        if let Some(there) = &self.there {
            let _ = there.wait(); // a GPU that is lost writes nothing
        }
    }
}

/// Bytes that go to the GPU from many places, by way of memory that it can fetch from. There are two such, by turns, so that the next bytes
/// can be written while the GPU still fetches the last.
#[derive(Debug, Default)]
pub(crate) struct StagedBytes {
    staged: [Option<PinnedHostSlice<u8>>; 2],
    /// When the GPU has fetched what was written to each.
    fetched: [Option<Moment>; 2],
    turn: usize,
    buffer: Buffer<u8>,
}

impl StagedBytes {
    /// Makes room for so many bytes; whether the address of what was there has changed.
    pub(crate) fn reserve(&mut self, gpu: &Gpu, bytes: usize) -> Result<bool, GpuError> {
        for (staged, fetched) in self.staged.iter_mut().zip(&mut self.fetched) {
            if staged.as_ref().is_none_or(|staged| staged.len() < bytes) {
                if let Some(fetched) = fetched.take() {
                    fetched.wait()?;
                }
                *staged = None; // before more is taken
                *staged = Some(gpu.staging(bytes)?);
            }
        }
        let grows = self.buffer.len() < bytes;
        self.buffer.of(gpu, bytes)?;
        Ok(grows)
    }

    /// Puts the first so many bytes of another there, on the GPU.
    pub(crate) fn copy(&mut self, gpu: &Gpu, from: &Self, bytes: usize) -> Result<(), GpuError> {
        self.buffer.copy(gpu, &from.buffer, bytes)
    }

    /// Puts bytes that lie elsewhere on the GPU there, from `start` on. There is room for them.
    pub(crate) fn copy_from(
        &mut self,
        gpu: &Gpu,
        start: usize,
        from: Address,
        bytes: usize,
    ) -> Result<(), GpuError> {
        self.buffer.copy_from(gpu, start, from, bytes)
    }

    /// Bytes on the GPU.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Where the bytes are, once there was room for some.
    pub(crate) fn at(&self, gpu: &Gpu) -> Address {
        self.buffer.address(gpu)
    }

    /// Where the bytes go.
    pub(crate) fn address(&mut self, gpu: &Gpu) -> Result<Address, GpuError> {
        self.buffer.of(gpu, 0)
    }

    /// Puts all parts there, one after another.
    pub(crate) fn put(&mut self, gpu: &Gpu, parts: &[&[u8]]) -> Result<Address, GpuError> {
        let mut from = 0;
        let at = |part: &&[u8]| {
            let start = from;
            from += part.len();
            start
        };
        let starts: Vec<usize> = parts.iter().map(at).collect();
        let placed: Vec<(usize, &[u8])> = starts.into_iter().zip(parts.iter().copied()).collect();
        self.put_at(gpu, &placed)
    }

    /// Puts each part at its place; places come in ascending order, and what lies between them is arbitrary.
    pub(crate) fn put_at(&mut self, gpu: &Gpu, parts: &[(usize, &[u8])]) -> Result<Address, GpuError> {
        let total = parts.iter().map(|(start, part)| start + part.len()).max().unwrap_or(0);
        self.reserve(gpu, total)?;
        self.turn ^= 1;
        if let Some(fetched) = self.fetched[self.turn].take() {
            fetched.wait()?;
        }
        let Some(staged) = &mut self.staged[self.turn] else { unreachable!("just made") };
        let staged = staged.as_mut_slice().map_err(GpuError::failed("staging images"))?;
        place(parts, total, staged);
        let address = self.buffer.put(gpu, &staged[..total])?;
        self.fetched[self.turn] = Some(gpu.moment()?);
        Ok(address)
    }
}

impl Drop for StagedBytes {
    /// The GPU may still read there.
    fn drop(&mut self) {
        for fetched in self.fetched.iter().flatten() {
            let _ = fetched.wait(); // a GPU that is lost reads nothing
        }
    }
}

/// Copies parts to their places; many bytes, on many threads.
fn place(parts: &[(usize, &[u8])], total: usize, bytes: &mut [u8]) {
    let (mut rest, mut at) = (bytes, 0);
    let mut pieces = Vec::with_capacity(parts.len());
    for (start, part) in parts {
        let (_, from_here) = rest.split_at_mut(start - at);
        let (piece, others) = from_here.split_at_mut(part.len());
        pieces.extend(piece.chunks_mut(PIECE).zip(part.chunks(PIECE)));
        (rest, at) = (others, start + part.len());
    }
    match total > PIECE {
        true => pieces.into_par_iter().for_each(|(piece, part)| piece.copy_from_slice(part)),
        false => pieces.into_iter().for_each(|(piece, part)| piece.copy_from_slice(part)),
    }
}

/// Bytes that a thread copies at a time.
const PIECE: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_go_to_their_places() {
        let large: Vec<u8> = (0..3 * PIECE + 5).map(|at| (at % 251) as u8).collect();
        for (parts, total) in [
            (vec![(0, &large[..3]), (8, &large[10..12])], 10),
            (vec![(4, &large[..]), (large.len() + 9, &large[..7])], large.len() + 16),
            (vec![], 0),
        ] {
            let mut bytes = vec![255; total + 3];
            place(&parts, total, &mut bytes);
            let mut expected = vec![255; total + 3];
            for (start, part) in parts {
                expected[start..start + part.len()].copy_from_slice(part);
            }
            assert!(bytes == expected);
        }
    }
}
