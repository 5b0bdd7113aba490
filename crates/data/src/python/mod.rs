//! Python's files: pickles, `.npy`, `.npz` and torch's `.pt`, without Python.

mod array;
mod bigint;
mod buffer;
mod dtype;
mod error;
mod limits;
mod npy;
mod npy_header;
mod pickle;
mod reader;
mod torch_legacy;
mod torch_zip;
mod value;
mod write;
mod zip;

use std::path::Path;

pub use array::{Array, Element, ShapeError};
pub use bigint::BigInt;
pub use buffer::{Access, Buffer};
pub use dtype::{DType, TimeUnit};
pub use error::{Problem, ReadError, WriteError};
pub use limits::Limits;
pub use reader::{Format, Reader};
pub use value::{Library, ObjectArray, PyDict, PyValue};
pub use write::{
    PickleStyle, Protocol, PtWriter, StorageWriter, Storages, StoredTensor, TensorStyle, pickle_bytes,
    write_npy, write_npz, write_pickle, write_pt,
};

/// Reads any Python file: a pickle, `.npy`, `.npz` or `.pt`, told apart by its contents.
///
/// # Errors
/// See [`Reader::read`].
pub fn read(path: impl AsRef<Path>) -> Result<PyValue, ReadError> {
    Reader::new().read(path)
}
