//! Pickles: read into objects by a stack machine that runs nothing, then frozen into a tree.

mod builtins;
mod escape;
mod freeze;
mod gather;
mod globals;
mod heap;
mod key;
mod machine;
mod memo;
mod numpy;
pub(crate) mod opcode;
mod torch;

pub(crate) use freeze::freeze;
pub(crate) use gather::{fortran_strides, gather, swap};
pub(crate) use heap::{Node, Slot, Storage, StorageData};
pub(crate) use machine::{Loaded, Machine, StorageId};

use super::buffer::Buffer;
use super::error::{ReadError, Result};
use super::limits::Meter;
use super::value::PyValue;

/// Reads the plain pickle at `start` of a stream.
pub(crate) fn read(stream: &Buffer, start: usize, meter: &mut Meter) -> Result<PyValue> {
    let loaded = Machine::new(stream, start, &mut no_storages, meter).run()?;
    freeze(&loaded, meter)
}

/// For pickles that no torch archive surrounds.
pub(crate) fn no_storages(_: &StorageId<'_>, at: usize) -> Result<Storage> {
    Err(ReadError::unsupported(
        at,
        "a torch storage outside a torch file",
        "save the whole file with `torch.save`",
    ))
}
