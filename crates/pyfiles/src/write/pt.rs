//! Writing torch's `.pt`: storages first, as they come, and the pickle that refers to them at the end.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pickler::{Pickler, Protocol, Tensors, address, unsupported_value};
use super::{Fault, Step, step_of};
use crate::array::{Array, byte_len};
use crate::atomic_file::AtomicFile;
use crate::dtype::DType;
use crate::error::WriteError;
use crate::value::PyValue;
use crate::zip::ZipWriter;

/// A tensor whose bytes a [`PtWriter`] has written; only that writer's file can hold it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTensor {
    pub(super) writer: u64,
    pub(super) dtype: DType,
    pub(super) storage: usize,
    /// In elements.
    pub(super) offset: usize,
    pub(super) shape: Box<[usize]>,
}

/// How the tensors of a `.pt` share memory once torch has loaded them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storages {
    /// Each tensor has its own. Right for weights.
    #[default]
    Own,
    /// All tensors of one element type are views of one storage: much quicker to load when there are thousands, as
    /// in a dataset of images. Somebody who saves one such view again in Python saves the whole storage, unless
    /// they `.clone()` it first.
    Shared,
}

/// Writes a `.pt` that `torch.load` accepts, also with `weights_only=True` and `mmap=True`.
///
/// numpy arrays stay numpy arrays; with those, `torch.load` needs `weights_only=False`.
///
/// # Errors
/// When the system refuses, or a value cannot be represented in a torch file. Nothing is left under the name then.
pub fn write_pt(path: impl AsRef<Path>, value: &PyValue, storages: Storages) -> Result<(), WriteError> {
    let mut writer = PtWriter::create(path)?;
    if storages == Storages::Shared {
        writer.share(value)?;
    }
    writer.finish(value)
}

/// Writes a `.pt` piece by piece, so that a large dataset is never in memory.
///
/// ```
/// use plaudit_pyfiles::{DType, PtWriter, PyValue};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("train.pt");
/// let mut writer = PtWriter::create(&path)?;
/// let mut images = writer.storage(DType::U8)?;
/// let mut list = Vec::new();
/// for shade in 0..100 {
///     list.push(images.push(&[8, 8, 3], &[shade; 192])?);
/// }
/// writer.finish(&PyValue::dict([("images", PyValue::list(list)), ("labels", PyValue::list([]))]))?;
///
/// let data = plaudit_pyfiles::read(&path)?;
/// let images = data.get("images").and_then(|images| images.as_items()).unwrap_or_default();
/// assert_eq!(images[7].as_array().map(|image| image.bytes()[0]), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PtWriter {
    path: PathBuf,
    zip: ZipWriter<AtomicFile>,
    /// The length of each storage in bytes.
    storages: Vec<u64>,
    /// Tensors of the value that were stored ahead of it, by address.
    places: HashMap<usize, StoredTensor>,
    number: u64,
}

static WRITERS: AtomicU64 = AtomicU64::new(0);

impl PtWriter {
    /// Begins a file. It gets its name when it is finished.
    ///
    /// # Errors
    /// When no file can be made in that folder.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, WriteError> {
        let path = path.as_ref().to_owned();
        let file = AtomicFile::create(&path).map_err(|error| Fault::from(error).in_file(&path))?;
        let number = WRITERS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { path, zip: ZipWriter::new(file), storages: Vec::new(), places: HashMap::new(), number })
    }

    /// Begins a storage that tensors of one element type are pushed into.
    ///
    /// # Errors
    /// When the system refuses, or torch has no such element type.
    pub fn storage(&mut self, dtype: DType) -> Result<StorageWriter<'_>, WriteError> {
        self.begin(dtype).map_err(|fault| fault.in_file(&self.path))?;
        Ok(StorageWriter { writer: self, dtype })
    }

    /// Writes the value and gives the file its name. Tensors that were not stored yet get a storage each.
    ///
    /// # Errors
    /// When the system refuses, or a value cannot be represented in a torch file. Nothing is left under the name then.
    pub fn finish(mut self, value: &PyValue) -> Result<(), WriteError> {
        let path = std::mem::take(&mut self.path);
        self.finish_value(value).map_err(|fault| fault.in_file(&path))
    }

    fn finish_value(mut self, value: &PyValue) -> Result<(), Fault> {
        let mut tensors = Vec::new();
        find_tensors(value, &mut tensors, 0)?;
        for tensor in tensors {
            if !self.places.contains_key(&address(&tensor)) {
                self.begin(tensor.dtype())?;
                self.store(&tensor)?;
            }
        }
        let mut pickle = Vec::new();
        let tensors =
            Tensors::Archive { places: &self.places, storages: &self.storages, writer: self.number };
        Pickler::new(&mut pickle, Protocol::Two, tensors).dump(value)?;
        let order: &[u8] = if cfg!(target_endian = "little") { b"little" } else { b"big" };
        self.zip.add("archive/data.pkl", &[&pickle])?;
        self.zip.add("archive/.format_version", &[b"1"])?;
        self.zip.add("archive/.storage_alignment", &[b"64"])?;
        self.zip.add("archive/byteorder", &[order])?;
        self.zip.add("archive/version", &[b"3\n"])?;
        Ok(self.zip.finish()?.commit()?)
    }

    /// Stores all tensors of one element type one after another, type by type.
    fn share(&mut self, value: &PyValue) -> Result<(), WriteError> {
        self.share_tensors(value).map_err(|fault| fault.in_file(&self.path))
    }

    fn share_tensors(&mut self, value: &PyValue) -> Result<(), Fault> {
        let mut tensors = Vec::new();
        find_tensors(value, &mut tensors, 0)?;
        let mut types: Vec<DType> = Vec::new();
        for tensor in &tensors {
            if !types.contains(&tensor.dtype()) {
                types.push(tensor.dtype());
            }
        }
        for dtype in types {
            self.begin(dtype)?;
            for tensor in tensors.iter().filter(|tensor| tensor.dtype() == dtype) {
                if !self.places.contains_key(&address(tensor)) {
                    self.store(tensor)?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, dtype: DType) -> Result<(), Fault> {
        refuse_foreign(dtype)?;
        self.zip.start_member(&format!("archive/data/{}", self.storages.len()))?;
        self.storages.push(0);
        Ok(())
    }

    fn store(&mut self, tensor: &Arc<Array>) -> Result<(), Fault> {
        let stored = self.append(tensor.dtype(), tensor.shape(), tensor.bytes())?;
        self.places.insert(address(tensor), stored);
        Ok(())
    }

    /// Adds bytes to the storage that was begun last.
    fn append(&mut self, dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<StoredTensor, Fault> {
        if byte_len(dtype, shape) != Some(bytes.len()) {
            let what = format!("{} bytes as {dtype} of shape {shape:?}", bytes.len());
            return Err(unsupported_value(what, "as a torch tensor", "shape and bytes must fit"));
        }
        let storage = self.storages.len() - 1;
        let start = self.storages[storage];
        let offset = usize::try_from(start / dtype.size() as u64).unwrap_or(usize::MAX);
        self.zip.write(bytes)?;
        self.storages[storage] += bytes.len() as u64;
        Ok(StoredTensor { writer: self.number, dtype, storage, offset, shape: shape.into() })
    }
}

impl std::fmt::Debug for PtWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PtWriter({}, {} storages)", self.path.display(), self.storages.len())
    }
}

/// One storage of a [`PtWriter`], to push tensors into.
#[derive(Debug)]
pub struct StorageWriter<'a> {
    writer: &'a mut PtWriter,
    dtype: DType,
}

impl StorageWriter<'_> {
    /// Writes the bytes of one tensor, in C order, and gives the tensor to put into the value.
    ///
    /// # Errors
    /// When the system refuses, or shape and bytes do not fit.
    pub fn push(&mut self, shape: &[usize], bytes: &[u8]) -> Result<PyValue, WriteError> {
        let stored = self.writer.append(self.dtype, shape, bytes);
        stored
            .map(|tensor| PyValue::Stored(Arc::new(tensor)))
            .map_err(|fault| fault.in_file(&self.writer.path))
    }
}

/// Every tensor of a value, in order.
fn find_tensors(value: &PyValue, found: &mut Vec<Arc<Array>>, depth: usize) -> Result<(), Fault> {
    if depth > 500 {
        return Err(unsupported_value(
            "containers nested more than 500 deep",
            "in a torch file",
            "write flatter data",
        ));
    }
    match value {
        PyValue::Tensor(tensor) => {
            refuse_foreign(tensor.dtype())?;
            found.push(tensor.clone());
        }
        PyValue::List(items) | PyValue::Tuple(items) => find_in_items(items, found, depth)?,
        PyValue::Dict(dict) => {
            for part in [Some(&**dict), dict.attributes()].into_iter().flatten() {
                part.iter().try_for_each(|(key, item)| {
                    find_tensors(item, found, depth + 1).map_err(|fault| fault.within(|| step_of(key)))
                })?;
            }
        }
        PyValue::ObjectArray(array) => find_in_items(array.items(), found, depth)?,
        _ => {}
    }
    Ok(())
}

fn find_in_items(items: &[PyValue], found: &mut Vec<Arc<Array>>, depth: usize) -> Result<(), Fault> {
    items.iter().enumerate().try_for_each(|(at, item)| {
        find_tensors(item, found, depth + 1).map_err(|fault| fault.within(|| Step::Index(at)))
    })
}

/// Refuses an element type that torch does not have.
fn refuse_foreign(dtype: DType) -> Result<(), Fault> {
    if dtype.torch_name().is_some() {
        return Ok(());
    }
    let hint = "write it as a numpy array in a pickle or .npy file";
    Err(unsupported_value(format!("an array of {dtype}"), "as a torch tensor", hint))
}
