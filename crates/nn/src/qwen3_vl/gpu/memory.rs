//! Memory of a GPU that is used again from call to call.

use cudarc::driver::{CudaSlice, DeviceRepr, PinnedHostSlice};
use rayon::prelude::*;

use super::device::Gpu;
use super::error::GpuError;

/// A place in the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address(pub(super) u64);

/// Bytes of a bf16 number.
const NUMBER: usize = 2;

impl Address {
    pub(super) const NONE: Self = Self(0);

    /// So many numbers (bf16) further.
    pub(super) fn plus(self, numbers: usize) -> Self {
        Self(self.0 + (numbers * NUMBER) as u64)
    }

    /// So many whole numbers (32 bits) further.
    pub(super) fn plus_ints(self, ints: usize) -> Self {
        Self(self.0 + (ints * size_of::<i32>()) as u64)
    }
}

/// Memory that grows when more is asked for, and otherwise stays.
#[derive(Debug)]
pub(super) struct Buffer<T> {
    held: Option<CudaSlice<T>>,
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { held: None }
    }
}

impl<T: DeviceRepr> Buffer<T> {
    /// Room for at least so many. What was in it may be gone.
    pub(super) fn of(&mut self, gpu: &Gpu, count: usize) -> Result<Address, GpuError> {
        match &self.held {
            Some(held) if held.len() >= count => Ok(gpu.address(held)),
            _ => {
                self.held = None; // before more is taken
                let room = gpu.alloc(count)?;
                Ok(gpu.address(self.held.insert(room)))
            }
        }
    }

    /// Puts these there.
    pub(super) fn put(&mut self, gpu: &Gpu, things: &[T]) -> Result<Address, GpuError> {
        let address = self.of(gpu, things.len())?;
        if let Some(held) = &mut self.held
            && !things.is_empty()
        {
            gpu.stream.memcpy_htod(things, held).map_err(GpuError::failed("copying to the GPU"))?;
        }
        Ok(address)
    }

    /// The first so many of what is there.
    pub(super) fn get(&self, gpu: &Gpu, count: usize) -> Result<Vec<T>, GpuError> {
        let Some(held) = &self.held else { return Ok(Vec::new()) };
        let things = gpu.stream.clone_dtoh(&held.slice(..count));
        let things = things.map_err(GpuError::failed("copying from the GPU"))?;
        gpu.wait()?;
        Ok(things)
    }
}

/// Bytes that go to the GPU from many places, by way of memory that it can fetch from.
#[derive(Debug, Default)]
pub(super) struct StagedBytes {
    staged: Option<PinnedHostSlice<u8>>,
    buffer: Buffer<u8>,
}

impl StagedBytes {
    /// Puts all parts there, one after another.
    pub(super) fn put(&mut self, gpu: &Gpu, parts: &[&[u8]]) -> Result<Address, GpuError> {
        let total = parts.iter().map(|part| part.len()).sum();
        gpu.wait()?; // what is staged may still be on its way
        if self.staged.as_ref().is_none_or(|staged| staged.len() < total) {
            self.staged = None; // before more is taken
            self.staged = Some(gpu.staging(total)?);
        }
        let Some(staged) = &mut self.staged else { unreachable!("just made") };
        let staged = staged.as_mut_slice().map_err(GpuError::failed("staging images"))?;
        let mut rest = &mut *staged;
        let mut pieces = Vec::with_capacity(parts.len());
        for part in parts {
            let (piece, others) = rest.split_at_mut(part.len());
            pieces.push((piece, part));
            rest = others;
        }
        pieces.into_par_iter().for_each(|(piece, part)| piece.copy_from_slice(part));
        self.buffer.put(gpu, &staged[..total])
    }
}

/// Lists of whole numbers that go to the GPU in one copy.
#[derive(Debug, Default)]
pub(super) struct Lists {
    numbers: Vec<i32>,
}

/// A list among [`Lists`].
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    from: usize,
    pub(super) len: usize,
}

impl Lists {
    pub(super) fn add(&mut self, numbers: impl IntoIterator<Item = usize>) -> List {
        self.add_ints(numbers.into_iter().map(|number| number as i32))
    }

    pub(super) fn add_ints(&mut self, numbers: impl IntoIterator<Item = i32>) -> List {
        let from = self.numbers.len();
        self.numbers.extend(numbers);
        List { from, len: self.numbers.len() - from }
    }

    pub(super) fn numbers(&self) -> &[i32] {
        &self.numbers
    }
}

impl List {
    /// Where it is, if all lists were put at `base`.
    pub(super) fn at(self, base: Address) -> Address {
        base.plus_ints(self.from)
    }

    /// The numbers of it.
    #[cfg(test)]
    pub(super) fn of(self, lists: &Lists) -> &[i32] {
        &lists.numbers[self.from..self.from + self.len]
    }
}
