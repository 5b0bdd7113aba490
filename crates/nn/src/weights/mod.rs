//! Named tensors: what a checkpoint holds, whoever wrote it.
//!
//! [`Weights::read`] accepts what people have: safetensors, torch's `.pt` (a plain state dict or a checkpoint
//! around one), and the folders that training runs leave behind. Names come out as the networks here spell them:
//! wrappers' prefixes are taken off, and constants that some versions stored by accident are dropped.

mod folder;
mod safetensors;
mod torch;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use plaudit_pyfiles::{ReadError, WriteError};

pub use plaudit_pyfiles::{Array, DType, Element, ShapeError};

/// Tensors by name, in the order of the file, each in the type it was stored in.
///
/// Cloning is cheap: the bytes are shared, and those of large files stay on disk until they are touched.
///
/// ```
/// use plaudit_nn::Weights;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("model.safetensors");
/// let mut weights = Weights::new();
/// weights.insert_f32("head.weight", &[2, 3], &[0.5; 6]);
/// weights.write_safetensors(&path, &[("made by".into(), "an example".into())].into())?;
///
/// let read = Weights::read(&path)?;
/// assert_eq!(read.f32("head.weight"), Some(vec![0.5; 6]));
/// assert_eq!(read.metadata()["made by"], "an example");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    tensors: IndexMap<String, Array>,
    metadata: BTreeMap<String, String>,
}

/// A checkpoint that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The operating system refused.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A `.pt` or pickle that cannot be read.
    #[error(transparent)]
    Python(#[from] ReadError),
    /// A safetensors file without its end.
    #[error("{}: the file is cut short: it has {length} of at least {expected} bytes", file.display())]
    CutShort {
        /// The file.
        file: PathBuf,
        /// How many bytes it has.
        length: u64,
        /// How many its beginning announces, as far as that can be read.
        expected: u64,
    },
    /// A safetensors file that is not what it claims to be.
    #[error("{}: byte {at}: {problem}; the file is damaged or no safetensors file", file.display())]
    Safetensors {
        /// The file.
        file: PathBuf,
        /// Where the trouble is.
        at: u64,
        /// What is wrong.
        problem: String,
    },
    /// A file without a state dict in it.
    #[error(
        "{}: no weights in it, but {found}; expected tensors by name, or those under `model_state_dict`, \
         `state_dict` or `model`", file.display()
    )]
    NoTensors {
        /// The file.
        file: PathBuf,
        /// What was there instead.
        found: String,
    },
    /// A folder without a checkpoint in it.
    #[error("{}: no checkpoint in this folder; looked for {}", folder.display(), looked_for.join(", "))]
    EmptyFolder {
        /// The folder.
        folder: PathBuf,
        /// The names that were tried.
        looked_for: Vec<String>,
    },
    /// A file that could not be written. Nothing is left under its name, and what was there before stays.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Weights {
    /// No tensors yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a checkpoint: a file (safetensors, or anything torch saved), or a folder that a run wrote.
    ///
    /// # Errors
    /// When there is nothing to read, when it is damaged, or when it holds no tensors.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let file = Self::locate(path)?;
        let stored =
            if safetensors::is_named_so(&file) { safetensors::read(&file)? } else { torch::read(&file)? };
        let tensors =
            stored.tensors.into_iter().filter_map(|(name, tensor)| Some((plain_name(&name)?, tensor)));
        Ok(Self { tensors: tensors.collect(), metadata: stored.metadata })
    }

    /// The file that [`read`](Self::read) reads when it is given `path`: itself, or the checkpoint in a folder.
    ///
    /// # Errors
    /// When a folder has no checkpoint.
    pub fn locate(path: impl AsRef<Path>) -> Result<PathBuf, WeightsError> {
        let path = path.as_ref();
        if path.is_dir() { folder::checkpoint_in(path) } else { Ok(path.to_owned()) }
    }

    /// Writes a safetensors file with these words in its header. It appears whole or not at all.
    ///
    /// # Errors
    /// When the system refuses, or an element type has no name in the format.
    pub fn write_safetensors(
        &self,
        path: impl AsRef<Path>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), WeightsError> {
        Ok(safetensors::write(path.as_ref(), &self.tensors, metadata)?)
    }

    /// Writes a state dict that `torch.load(..., weights_only=True)` gives back. It appears whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write_pt(&self, path: impl AsRef<Path>) -> Result<(), WeightsError> {
        Ok(torch::write(path.as_ref(), &self.tensors)?)
    }

    /// Adds a tensor, or replaces the one of that name.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Array) {
        self.tensors.insert(name.into(), tensor);
    }

    /// Adds a tensor of `f32`, or replaces the one of that name.
    ///
    /// # Panics
    /// If the shape does not take exactly these numbers.
    pub fn insert_f32(&mut self, name: impl Into<String>, shape: &[usize], numbers: &[f32]) {
        #[allow(clippy::expect_used)]
        let tensor = Array::from_slice(shape, numbers).expect("as many numbers as the shape takes");
        self.insert(name, tensor);
    }

    /// A tensor as it was stored.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Array> {
        self.tensors.get(name)
    }

    /// A tensor's numbers as `f32`, whatever they were stored as.
    #[must_use]
    pub fn f32(&self, name: &str) -> Option<Vec<f32>> {
        self.get(name)?.to_f32()
    }

    /// Every tensor with its name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Array)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// How many tensors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are no tensors.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The words in the header of a safetensors file; empty for other files.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tensors whose names start with `prefix`, without it.
    #[must_use]
    pub fn under(&self, prefix: &str) -> Self {
        let inside = self.iter().filter_map(|(name, tensor)| Some((name.strip_prefix(prefix)?, tensor)));
        Self {
            tensors: inside.map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect(),
            metadata: self.metadata.clone(),
        }
    }
}

/// What data parallelism, compilation and wrappers put before a name; taken off once each, in this order.
const PREFIXES: [&str; 3] = ["module.", "_orig_mod.", "model."];

/// Normalisation constants that some versions stored with the weights.
const CONSTANTS: [&str; 4] = ["mean", "std", "_mean", "_std"];

/// The name as a network spells it; nothing for constants.
fn plain_name(stored: &str) -> Option<String> {
    let name = PREFIXES.iter().fold(stored, |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
    (!CONSTANTS.contains(&name)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_wrappers() {
        let cases = [
            ("backbone.conv1.weight", Some("backbone.conv1.weight")),
            ("module.backbone.conv1.weight", Some("backbone.conv1.weight")),
            ("module._orig_mod.model.fc.bias", Some("fc.bias")),
            ("model.module.fc.bias", Some("module.fc.bias")),
            ("_mean", None),
            ("module._std", None),
            ("running_mean", Some("running_mean")),
        ];
        for (stored, plain) in cases {
            assert_eq!(plain_name(stored).as_deref(), plain, "{stored}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut weights = Weights::new();
        weights.insert_f32("a.weight", &[2, 2], &[1.0, -2.0, 3.5, f32::MIN_POSITIVE]);
        weights.insert("a.count", Array::from_number(7i64));
        weights.insert("a.half", Array::from_slice(&[3], &[half::bf16::ONE; 3]).unwrap());
        for name in ["x.safetensors", "x.pt"] {
            let path = dir.path().join(name);
            if name.ends_with("pt") {
                weights.write_pt(&path).unwrap();
            } else {
                weights.write_safetensors(&path, &BTreeMap::new()).unwrap();
            }
            assert_eq!(Weights::read(&path).unwrap(), weights, "{name}");
        }
    }
}
