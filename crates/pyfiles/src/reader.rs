//! Opening Python files: which format it is, and the one way in.

use std::path::Path;

use super::buffer::{Access, Buffer};
use super::error::{Problem, ReadError, Result};
use super::limits::{Limits, Meter};
use super::npy_header::MAGIC;
use super::pickle::opcode as op;
use super::value::PyValue;
use super::zip::Archive;
use super::{npy, pickle, torch_legacy, torch_zip};

/// The formats that Python's tools write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `pickle.dump`, protocols 0 to 5.
    Pickle,
    /// `np.save`: one array, or one object.
    Npy,
    /// `np.savez`, `np.savez_compressed`: named arrays.
    Npz,
    /// `torch.save` since 1.6.
    TorchZip,
    /// `torch.save` before 1.6.
    TorchLegacy,
}

/// Reads Python files, within limits.
///
/// ```
/// use plaudit_pyfiles::{Access, Limits, Reader};
///
/// let reader = Reader::new().access(Access::Copy).limits(Limits { depth: 20, ..Limits::default() });
/// let value = reader.read_bytes(b"\x80\x04]\x94(K\x01K\x02e.".to_vec())?;
/// assert_eq!(value.as_items().map(<[_]>::len), Some(2));
///
/// let error = reader.read_bytes(b"cos\nsystem\n.".to_vec()).unwrap_err();
/// assert!(error.to_string().starts_with("byte 0: refused `os.system`: "));
/// # Ok::<(), plaudit_pyfiles::ReadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Reader {
    access: Access,
    limits: Limits,
    format: Option<Format>,
}

impl Reader {
    /// A reader that detects formats by their first bytes, maps large files, and has the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How the bytes of a file come into the program.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// What reading one file may cost.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads this format and no other.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be opened, is not of the format, is damaged, asks for anything but data, or costs more
    /// than the limits allow.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<PyValue> {
        let path = path.as_ref();
        let bytes = Buffer::open(path, self.access).map_err(|error| ReadError::new(0, Problem::Io(error)));
        bytes.and_then(|bytes| self.read_bytes(bytes)).map_err(|error| error.in_file(path))
    }

    /// Reads bytes that are in memory already.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_bytes(&self, bytes: impl Into<Buffer>) -> Result<PyValue> {
        let bytes = bytes.into();
        let mut meter = Meter::new(self.limits, bytes.len());
        let meter = &mut meter;
        if bytes.starts_with(b"PK") && !matches!(self.format, Some(Format::Pickle)) {
            return self.read_zip(&bytes, meter);
        }
        let format = if bytes.starts_with(MAGIC) {
            Format::Npy
        } else if torch_legacy::is_start(&bytes) {
            Format::TorchLegacy
        } else {
            Format::Pickle
        };
        self.check(format)?;
        match format {
            Format::Npy => npy::read(&bytes, meter),
            Format::TorchLegacy => torch_legacy::read(&bytes, meter),
            _ => pickle::read(&bytes, 0, meter).map_err(|error| if_pickle(error, &bytes)),
        }
    }

    fn read_zip(&self, bytes: &Buffer, meter: &mut Meter) -> Result<PyValue> {
        let archive = Archive::open(bytes)?;
        match torch_zip::folder(&archive) {
            Some(folder) => {
                self.check(Format::TorchZip)?;
                torch_zip::read(&archive, folder, meter)
            }
            None => {
                self.check(Format::Npz)?;
                npy::read_archive(&archive, meter)
            }
        }
    }

    fn check(&self, found: Format) -> Result<()> {
        // torch reads both of its own, and so does whoever asks for either.
        let torch = |format| matches!(format, Format::TorchZip | Format::TorchLegacy);
        match self.format {
            Some(wanted) if wanted != found && !(torch(wanted) && torch(found)) => {
                Err(ReadError::malformed(0, name(wanted), name(found)))
            }
            _ => Ok(()),
        }
    }
}

/// Pickles of this century begin with their protocol. Of what does not, and makes no sense either, that is said too.
fn if_pickle(error: ReadError, bytes: &[u8]) -> ReadError {
    let usual = bytes.first().is_none_or(|first| *first == op::PROTO);
    if usual {
        error
    } else {
        error.with_hint("pickles, .npy, .npz and .pt begin otherwise: is it the right file?")
    }
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Pickle => "a plain pickle",
        Format::Npy => "a .npy file",
        Format::Npz => "a .npz archive",
        Format::TorchZip | Format::TorchLegacy => "a file of torch.save",
    }
}
