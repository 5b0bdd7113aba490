//! zarr: arrays in chunks, v2 and v3, in a folder or a zip archive. Nothing is taken from a file's word: an array that claims more than
//! its chunks can hold is refused before memory is reserved.

mod array;
mod blosc;
mod codecs;
mod error;
mod metadata;
mod store;

pub(crate) use array::ZarrArray;
pub use error::ZarrError;
pub(crate) use store::Store;
