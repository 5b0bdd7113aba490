//! Writing Python files: whole or not at all, and such that pickle, numpy and torch read them.

mod npy;
mod pickler;
mod pt;
mod values;

use std::io::{self, Write};
use std::path::Path;

pub use crate::atomic_file::AtomicFile;
pub use npy::{write_npy, write_npz};
pub use pickler::{PickleStyle, Protocol, TensorStyle};
pub use pt::{PtWriter, StorageWriter, Storages, StoredTensor, write_pt};

use super::error::WriteError;
use super::value::PyValue;
use pickler::{Pickler, Tensors};

/// Writes a pickle, as `pickle.dump` does.
///
/// # Errors
/// When the system refuses, or a value cannot be represented in a pickle. Nothing is left under the name then, and what was
/// there before stays.
///
/// ```
/// use plaudit_pyfiles::{Array, PickleStyle, PyValue};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("episode.pkl");
/// let image = Array::from_slice(&[2, 2, 3], &[7u8; 12])?;
/// let episode = PyValue::dict([("success", true.into()), ("image", image.into())]);
/// plaudit_pyfiles::write_pickle(&path, &episode, PickleStyle::default())?;
/// assert_eq!(plaudit_pyfiles::read(&path)?, episode);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_pickle(path: impl AsRef<Path>, value: &PyValue, style: PickleStyle) -> Result<(), WriteError> {
    save(path.as_ref(), |file| Pickler::new(file, style.protocol, Tensors::Inline(style.tensors)).dump(value))
}

/// The bytes of a pickle, as `pickle.dumps` gives them.
///
/// # Errors
/// When a value cannot be represented in a pickle.
pub fn pickle_bytes(value: &PyValue, style: PickleStyle) -> Result<Vec<u8>, WriteError> {
    let mut bytes = Vec::new();
    Pickler::new(&mut bytes, style.protocol, Tensors::Inline(style.tensors))
        .dump(value)
        .map_err(|fault| fault.in_file(Path::new("memory")))?;
    Ok(bytes)
}

/// What goes wrong while a file is written, before the file's name is known.
pub(crate) enum Fault {
    Io(io::Error),
    /// A value that the format cannot represent, and the way to it from the innermost container outwards.
    Unsupported {
        path: Vec<Step>,
        what: String,
        place: &'static str,
        hint: &'static str,
    },
}

/// One step on the way from a container to a value in it.
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl Fault {
    pub(crate) fn in_file(self, file: &Path) -> WriteError {
        match self {
            Self::Io(source) => WriteError::Io { file: file.to_owned(), source },
            Self::Unsupported { path, what, place, hint } => {
                WriteError::Unsupported { key: key(&path), what, place, hint }
            }
        }
    }

    /// The same, seen from the container that holds the value.
    pub(crate) fn within(mut self, step: impl FnOnce() -> Step) -> Self {
        if let Self::Unsupported { path, .. } = &mut self {
            path.push(step());
        }
        self
    }
}

/// `observations[3].states`
fn key(path: &[Step]) -> String {
    let mut key = String::new();
    for step in path.iter().rev() {
        match step {
            Step::Key(name) if key.is_empty() => key.push_str(name),
            Step::Key(name) => key.extend([".", name]),
            Step::Index(at) => key.push_str(&format!("[{at}]")),
        }
    }
    key
}

/// A dict's key as a step on the way to its value.
fn step_of(key: &PyValue) -> Step {
    Step::Key(match key {
        PyValue::Str(text) => text.to_string(),
        PyValue::Int(number) => number.to_string(),
        other => format!("a key that is a {}", other.kind()),
    })
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes a file through `fill`, and gives it its name only if all went well.
fn save(path: &Path, fill: impl FnOnce(&mut AtomicFile) -> Result<(), Fault>) -> Result<(), WriteError> {
    let save = || -> Result<(), Fault> {
        let mut file = AtomicFile::create(path)?;
        fill(&mut file)?;
        file.flush()?;
        Ok(file.commit()?)
    };
    save().map_err(|fault| fault.in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    /// A disk with room for so many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let written = bytes.len().min(self.0);
            self.0 -= written;
            if written == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(written) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
            Ok(0)
        }
    }

    #[test]
    fn a_full_disk_is_an_error_wherever_it_strikes() {
        let value = PyValue::list((0..50).map(|i| PyValue::from(format!("{i}").as_str())));
        let whole = pickle_bytes(&value, PickleStyle::default()).unwrap().len();
        for room in 0..whole {
            let tensors = Tensors::Inline(TensorStyle::Torch);
            let fault = Pickler::new(Full(room), Protocol::Four, tensors).dump(&value);
            assert!(matches!(fault, Err(Fault::Io(error)) if error.kind() == io::ErrorKind::StorageFull));
        }
        for room in 0..290 {
            let mut zip = crate::zip::ZipWriter::new(Full(room));
            let written = zip
                .start_member("a")
                .and_then(|()| zip.write(&[1; 100]))
                .and_then(|()| zip.finish().map(drop));
            assert!(written.is_err());
        }
    }

    #[test]
    fn a_failure_half_way_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pkl");
        let error = save(&path, |file| {
            file.write_all(&[0; 1 << 20])?;
            Err(io::Error::from(io::ErrorKind::StorageFull).into())
        });
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("x.pkl: no storage space; nothing was changed under that name"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
