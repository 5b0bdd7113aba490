//! Python's files, without Python: pickles, `.npy`, `.npz` and torch's `.pt`.
//!
//! # Reading
//!
//! [`read`] detects the format by the contents and gives a [`PyValue`]: dicts, lists, numbers, text, and [`Array`]s, which
//! are numpy arrays or torch tensors in C order and in this machine's byte order. [`Reader`] does the same with
//! chosen limits, and from memory.
//!
//! * **Nothing is run.** A pickle is a program; this reader knows the few names that stand for plain data (numpy's and
//!   torch's arrays, `OrderedDict`, `set`, …), makes the data itself, and refuses every other name with the byte where
//!   it stands.
//! * **Nothing is believed.** Memory follows the bytes that are there, never a number that the file claims. Depth,
//!   loops, repetition and compressed or strided arrays that would unfold are bounded by [`Limits`].
//! * **Little is copied.** Large files are mapped, and arrays are views of the map. Only what lies in another order
//!   (big-endian, Fortran, strided) or is compressed is copied.
//!
//! A torch tensor in a plain pickle is a string of bytes with a whole file of old torch inside: it is followed, and
//! its numbers are still a view.
//!
//! # Writing
//!
//! [`write_pickle`], [`write_npy`], [`write_npz`] and [`write_pt`] write what `pickle.load`, `np.load` and
//! `torch.load(weights_only=True)` accept. [`PtWriter`] writes a dataset image by image. A file appears whole under its
//! name, or not at all.
//!
//! ```
//! use plaudit_pyfiles::{Array, PyValue, Storages};
//! use std::sync::Arc;
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("train.pt");
//! let image = Array::from_slice(&[4, 4, 3], &[128u8; 48])?;
//! let data = PyValue::dict([
//!     ("images", PyValue::list([PyValue::Tensor(Arc::new(image))])),
//!     ("labels", PyValue::list([PyValue::Int(1)])),
//! ]);
//! plaudit_pyfiles::write_pt(&path, &data, Storages::Shared)?;
//!
//! let data = plaudit_pyfiles::read(&path)?;
//! for image in data.get("images").and_then(PyValue::as_items).unwrap_or_default() {
//!     let image = image.as_array().ok_or("an image is an array")?;
//!     assert_eq!((image.shape(), image.bytes()[0]), (&[4, 4, 3][..], 128));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array;
pub mod atomic_file;
mod buffer;
mod crc32c;
mod dtype;
mod error;
mod limits;
mod npy;
mod npy_header;
mod pickle;
pub mod plain_file;
mod reader;
mod torch_legacy;
mod torch_zip;
mod value;
mod write;
mod zip;

use std::path::Path;

pub use array::{Array, Element, ShapeError};
pub use buffer::{Access, Buffer};
pub use crc32c::{crc32c, masked_crc32c};
pub use dtype::{DType, TimeUnit};
pub use error::{Problem, ReadError, WriteError};
pub use limits::Limits;
pub use reader::{Format, Reader};
pub use value::{Library, ObjectArray, PyDict, PyValue};
pub use write::{
    AtomicFile, PickleStyle, Protocol, PtWriter, StorageWriter, Storages, StoredTensor, TensorStyle,
    pickle_bytes, write_npy, write_npz, write_pickle, write_pt,
};
pub use zip::Archive;

/// Reads any Python file: a pickle, `.npy`, `.npz` or `.pt`, detected by its contents.
///
/// # Errors
/// See [`Reader::read`].
pub fn read(path: impl AsRef<Path>) -> Result<PyValue, ReadError> {
    Reader::new().read(path)
}
