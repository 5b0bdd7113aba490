//! Images that stay in their files until they are wanted.
//!
//! The first pass over a recording keeps for each image only where its bytes are. The second reads them from
//! there, in the order of the output, so that memory follows a budget and not the data.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;

use super::error::{ConvertError, FileProblem};
use super::fingerprint::Fingerprint;
use super::picture::Form;
use crate::python::{Access, Array, Buffer, PyValue, Reader};

/// Where one image is, and how its bytes become an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Which of the [`Files`].
    pub(crate) file: u32,
    place: Place,
    pub(crate) form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// The bytes lie in the file as they are.
    At(u64),
    /// The bytes are strided or swapped in the file: it must be read again. Which of its images it is.
    Again(u32),
}

impl Stored {
    /// Of an image that was read from `bytes`; `number` is its place in the list that [`Files`] gives again.
    pub(crate) fn of(image: &Array, form: Form, bytes: &Buffer, file: usize, number: usize) -> Self {
        let (start, wanted) = (bytes.as_ptr() as usize, image.bytes().as_ptr() as usize);
        let inside = wanted >= start && wanted + image.bytes().len() <= start + bytes.len();
        let place = if inside { Place::At((wanted - start) as u64) } else { Place::Again(number as u32) };
        Self { file: file as u32, place, form }
    }
}

/// A file that was read once, and what it looked like then.
#[derive(Clone, Debug)]
pub(crate) struct KnownFile {
    pub(crate) path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
}

impl KnownFile {
    /// Reads a file, and remembers what it looked like.
    pub(crate) fn read(path: &Path) -> Result<(Self, Buffer, PyValue), FileProblem> {
        let metadata = std::fs::metadata(path)?;
        let bytes = Buffer::open(path, Access::Map)?;
        let value = Reader::new().read_bytes(bytes.clone())?;
        let known = Self { path: path.into(), len: metadata.len(), modified: metadata.modified().ok() };
        Ok((known, bytes, value))
    }

    /// Holds the place of a file that is not used.
    pub(crate) fn unused(path: &Path) -> Self {
        Self { path: path.into(), len: 0, modified: None }
    }

    fn open(&self) -> Result<File, ConvertError> {
        let failed = |source| ConvertError::Read { path: self.path.clone(), source };
        let file = File::open(&self.path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() != self.len || metadata.modified().ok() != self.modified {
            return Err(self.changed());
        }
        Ok(file)
    }

    fn changed(&self) -> ConvertError {
        ConvertError::Changed { path: self.path.clone() }
    }
}

/// All images of a value, in the order in which they were numbered.
pub(crate) type Images<'a> = dyn Fn(&PyValue, &Path) -> Result<Vec<Array>, FileProblem> + Sync + 'a;

/// The files of a conversion, to read images from.
pub(crate) struct Files<'a> {
    pub(crate) known: &'a [KnownFile],
    pub(crate) images: &'a Images<'a>,
}

/// One image to fetch: where from, where to, and its fingerprint when it is there.
pub(crate) struct Fetch<'a> {
    pub(crate) from: Stored,
    pub(crate) to: &'a mut [u8],
    pub(crate) print: Fingerprint,
}

impl Files<'_> {
    /// Fetches many images, file by file, on all threads.
    pub(crate) fn fetch_all(&self, wanted: &mut [Fetch<'_>]) -> Result<(), ConvertError> {
        let mut order: Vec<&mut Fetch<'_>> = wanted.iter_mut().collect();
        order.sort_by_key(|fetch| fetch.from.file);
        order
            .par_chunk_by_mut(|a, b| a.from.file == b.from.file)
            .try_for_each(|same| self.fetch_from_one(same))
    }

    fn fetch_from_one(&self, wanted: &mut [&mut Fetch<'_>]) -> Result<(), ConvertError> {
        let Some(first) = wanted.first() else { return Ok(()) };
        let known = &self.known[first.from.file as usize];
        let file = known.open()?;
        let mut again = None;
        let mut raw = Vec::new();
        for fetch in wanted {
            self.fetch(fetch, known, &file, &mut again, &mut raw)?;
            fetch.print = Fingerprint::of(fetch.to, fetch.from.form.shape());
        }
        Ok(())
    }

    fn fetch(
        &self,
        fetch: &mut Fetch<'_>,
        known: &KnownFile,
        file: &File,
        again: &mut Option<Vec<Array>>,
        raw: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let failed = |source| ConvertError::Read { path: known.path.clone(), source };
        let form = fetch.from.form;
        match fetch.from.place {
            Place::At(offset) if form.is_plain() => read_at(file, fetch.to, offset).map_err(failed),
            Place::At(offset) => {
                raw.resize(form.stored_bytes(), 0);
                read_at(file, raw, offset).map_err(failed)?;
                form.convert(raw, fetch.to);
                Ok(())
            }
            Place::Again(number) => {
                if again.is_none() {
                    *again = Some(self.images_again(known)?);
                }
                let image = again.as_ref().and_then(|images| images.get(number as usize));
                match image {
                    Some(image) if image.bytes().len() == form.stored_bytes() => {
                        form.convert(image.bytes(), fetch.to);
                        Ok(())
                    }
                    _ => Err(known.changed()),
                }
            }
        }
    }

    fn images_again(&self, known: &KnownFile) -> Result<Vec<Array>, ConvertError> {
        let read = || {
            let (_, _, value) = KnownFile::read(&known.path)?;
            (self.images)(&value, &known.path)
        };
        read().map_err(|problem: FileProblem| ConvertError::BadFile {
            first: problem.in_file(&known.path),
            others: 0,
        })
    }
}

#[cfg(unix)]
fn read_at(file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, to, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, to: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(to)
}
