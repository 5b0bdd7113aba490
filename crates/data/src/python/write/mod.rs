//! Writing Python files.

use super::dtype::DType;

/// A tensor whose bytes are in a file already.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor {
    pub(crate) dtype: DType,
    pub(crate) storage: usize,
    pub(crate) offset: usize,
    pub(crate) shape: Box<[usize]>,
}
