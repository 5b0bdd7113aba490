//! HDF5 files: groups, and datasets as arrays. Nothing is taken from a file's word: a dataset that claims more than its file
//! can hold is refused before memory is reserved.

use std::path::Path;

use hdf5_pure::{AttrValue, DType as Stored, Dataset, FormatError, Source};
use plaudit_pyfiles::{Access, Array, Buffer, DType};

use crate::recording::FileProblem;

/// The most that deflate makes of a byte; no other filter that is read here makes more.
const MOST_EXPANSION: u64 = 1032;
/// Bytes of the largest dataset that is read.
const MOST_BYTES: u64 = 1 << 36;

/// What is wrong with an HDF5 file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Hdf5Error {
    /// It is not one, or damaged.
    #[error("{location} cannot be read: {what}")]
    Unreadable {
        /// `the file`, or a group or dataset by its path.
        location: String,
        /// What the reader said.
        what: String,
    },
    /// A dataset claims more than there can be.
    #[error("`{key}` claims {claimed} bytes (shape {shape:?}), and a file of {file} bytes can hold {most}")]
    TooLarge {
        /// Its path.
        key: String,
        /// Its shape.
        shape: Vec<u64>,
        /// How many bytes that would be.
        claimed: u64,
        /// How large the file is.
        file: u64,
        /// What it can hold at most.
        most: u64,
    },
    /// A dataset of another type than numbers.
    #[error("`{key}` is of type {found}, and numbers were expected")]
    Type {
        /// Its path.
        key: String,
        /// Its type.
        found: String,
    },
    /// A dataset of another shape.
    #[error("`{key}` has shape {found:?}, and {expected} was expected")]
    Shape {
        /// Its path.
        key: String,
        /// Its shape.
        found: Vec<usize>,
        /// What was expected.
        expected: String,
    },
    /// Nothing was observed: the states of the simulator alone were recorded.
    #[error("`{episode}` has no observations, only the simulator's states")]
    NoObservations {
        /// Which episode.
        episode: String,
    },
    /// States were observed, and no images.
    #[error("`{episode}` was recorded without images")]
    NoImages {
        /// Which episode.
        episode: String,
    },
}

impl Hdf5Error {
    /// What can be done about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } | Self::TooLarge { .. } => "copy or download the file again",
            Self::Type { .. } | Self::Shape { .. } => "is it what another program wrote?",
            Self::NoObservations { .. } | Self::NoImages { .. } => {
                "replay it with images: ManiSkill's replay_trajectory in observation mode rgb, or robomimic's \
                 dataset_states_to_obs.py with cameras"
            }
        }
    }
}

/// The bytes of a file, mapped.
struct MappedFile(Buffer);

impl Source for MappedFile {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FormatError> {
        let available = self.0.len();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(into.len());
        let eof = || FormatError::UnexpectedEof { expected: end, available };
        into.copy_from_slice(self.0.get(start..end).ok_or_else(eof)?);
        Ok(())
    }
}

/// An open file.
pub(crate) struct Hdf5File {
    file: hdf5_pure::File,
    bytes: u64,
}

impl Hdf5File {
    pub(crate) fn open(path: &Path) -> Result<Self, FileProblem> {
        let bytes = Buffer::open(path, Access::Map)?;
        let length = bytes.len() as u64;
        let file = hdf5_pure::File::from_source(MappedFile(bytes)).map_err(|error| unreadable("", &error))?;
        Ok(Self { file, bytes: length })
    }

    /// The groups in a group, in the order in which numbers in their names count as numbers.
    pub(crate) fn groups(&self, path: &str) -> Result<Vec<String>, FileProblem> {
        let found = self.group(path).and_then(|group| group.groups());
        let mut names = found.map_err(|error| unreadable(path, &error))?;
        names.sort_by_cached_key(|name| by_number(name));
        Ok(names)
    }

    /// The datasets in a group, by name.
    pub(crate) fn datasets(&self, path: &str) -> Result<Vec<String>, FileProblem> {
        let found = self.group(path).and_then(|group| group.datasets());
        let mut names = found.map_err(|error| unreadable(path, &error))?;
        names.sort();
        Ok(names)
    }

    /// A text attribute of a group.
    pub(crate) fn text(&self, path: &str, name: &str) -> Option<String> {
        let mut attributes = self.group(path).and_then(|group| group.attrs()).ok()?;
        match attributes.remove(name)? {
            AttrValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// A dataset that may be there.
    pub(crate) fn column(&self, group: &str, name: &str) -> Result<Option<Array>, FileProblem> {
        match self.datasets(group)?.iter().any(|found| found == name) {
            true => self.array(&format!("{group}/{name}")).map(Some),
            false => Ok(None),
        }
    }

    /// A dataset's shape and type, without its numbers.
    pub(crate) fn peek(&self, key: &str) -> Result<(Vec<usize>, Stored), FileProblem> {
        let read = || {
            let dataset = self.file.dataset(key)?;
            Ok((dataset.shape()?, dataset.dtype()?))
        };
        let (shape, dtype) = read().map_err(|error: hdf5_pure::Error| unreadable(key, &error))?;
        let shape = shape.into_iter().map(|side| usize::try_from(side).unwrap_or(usize::MAX)).collect();
        Ok((shape, dtype))
    }

    /// A dataset's numbers.
    pub(crate) fn array(&self, key: &str) -> Result<Array, FileProblem> {
        let failed = |error: hdf5_pure::Error| unreadable(key, &error);
        let dataset = self.file.dataset(key).map_err(failed)?;
        let shape = self.checked_shape(key, &dataset)?;
        let array = match dataset.dtype().map_err(failed)? {
            Stored::U8 => Array::new(DType::U8, &shape, dataset.read_u8().map_err(failed)?),
            Stored::F32 => Array::from_slice(&shape, &dataset.read_f32().map_err(failed)?),
            Stored::F64 => Array::from_slice(&shape, &dataset.read_f64().map_err(failed)?),
            // numpy's bool: two names of a byte.
            Stored::Enum(_) if matches!(dataset.element_size(), Ok(1)) => {
                Array::new(DType::U8, &shape, dataset.read_raw().map_err(failed)?)
            }
            Stored::I8 | Stored::I16 | Stored::I32 | Stored::I64 | Stored::U16 | Stored::U32 => {
                Array::from_slice(&shape, &dataset.read_i64().map_err(failed)?)
            }
            other => return Err(Hdf5Error::Type { key: key.into(), found: other.to_string() }.into()),
        };
        array.map_err(|error| Hdf5Error::Unreadable { location: named(key), what: error.to_string() }.into())
    }

    fn group(&self, path: &str) -> Result<hdf5_pure::Group, hdf5_pure::Error> {
        if path.is_empty() { Ok(self.file.root()) } else { self.file.group(path) }
    }

    /// The shape of a dataset that the file has room for.
    fn checked_shape(&self, key: &str, dataset: &Dataset) -> Result<Vec<usize>, FileProblem> {
        let failed = |error: hdf5_pure::Error| unreadable(key, &error);
        let shape = dataset.shape().map_err(failed)?;
        // Numbers become 64 bits wide at most.
        let size = dataset.element_size().map_err(failed)?;
        let claimed = shape.iter().fold(size, |bytes, side| bytes.saturating_mul(*side));
        let most = self.bytes.saturating_mul(MOST_EXPANSION).min(MOST_BYTES);
        if claimed > most {
            let (key, file) = (key.into(), self.bytes);
            return Err(Hdf5Error::TooLarge { key, shape, claimed, file, most }.into());
        }
        Ok(shape.into_iter().map(|side| side as usize).collect())
    }
}

fn unreadable(key: &str, error: &hdf5_pure::Error) -> FileProblem {
    Hdf5Error::Unreadable { location: named(key), what: error.to_string() }.into()
}

fn named(key: &str) -> String {
    if key.is_empty() { "the file".into() } else { format!("`{key}`") }
}

/// `demo_2` comes before `demo_10`.
fn by_number(name: &str) -> (String, u64, String) {
    let words = name.trim_end_matches(|sign: char| sign.is_ascii_digit());
    (words.into(), name[words.len()..].parse().unwrap_or(0), name.into())
}
