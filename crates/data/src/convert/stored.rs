//! Images that stay in their files until they are wanted.
//!
//! The first pass over a recording keeps for each image only where its bytes are. The second reads them from
//! there, in the order of the output, so that memory follows a budget and not the data.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;

use plaudit_pyfiles::Buffer;
use plaudit_pyfiles::plain_file;

use super::error::ConvertError;
use super::fingerprint::Fingerprint;
use crate::recording::{FileProblem, Frame, PixelFormat};

/// Where one image is, and how its bytes become an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredImage {
    /// Which of the [`Files`].
    pub(crate) file: u32,
    location: ImageLocation,
    pub(crate) pixel_format: PixelFormat,
}

#[derive(Clone, Copy, Debug)]
enum ImageLocation {
    /// The bytes lie in the file as they are.
    Offset(u64),
    /// The bytes are strided, swapped or compressed in the file: it must be read again. Which of its images it is.
    Reread(u32),
}

impl StoredImage {
    /// Of an image that was read from `bytes`; `number` is its index in the list that [`Files`] gives again.
    pub(crate) fn of(
        image: &Frame,
        pixel_format: PixelFormat,
        bytes: Option<&Buffer>,
        file: usize,
        number: usize,
    ) -> Self {
        let offset = |image: &[u8], bytes: &Buffer| {
            let offset = (image.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
            (offset + image.len() <= bytes.len()).then_some(offset as u64)
        };
        let found = image.in_place().zip(bytes).and_then(|(image, bytes)| offset(image, bytes));
        let location = found.map_or(ImageLocation::Reread(number as u32), ImageLocation::Offset);
        Self { file: file as u32, location, pixel_format }
    }
}

/// A file that was read once, with its size and time of modification then.
#[derive(Clone, Debug)]
pub(crate) struct KnownFile {
    pub(crate) path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
}

impl KnownFile {
    /// Its size and time of modification now; episodes that have no file of their own have neither.
    pub(crate) fn of(path: &Path) -> Self {
        let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        let (len, modified) = metadata.map_or((0, None), |found| (found.len(), found.modified().ok()));
        Self { path: path.into(), len, modified }
    }

    /// A placeholder for a file that is not used.
    pub(crate) fn unused(path: &Path) -> Self {
        Self { path: path.into(), len: 0, modified: None }
    }

    fn open(&self) -> Result<File, ConvertError> {
        let failed = |source| ConvertError::Read { path: self.path.clone(), source };
        let file = plain_file::open(&self.path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() != self.len || metadata.modified().ok() != self.modified {
            return Err(self.changed());
        }
        Ok(file)
    }

    /// An error if the file is not as it was.
    pub(crate) fn check_unchanged(&self) -> Result<(), ConvertError> {
        if self.modified.is_some() { self.open().map(drop) } else { Ok(()) }
    }

    pub(crate) fn changed(&self) -> ConvertError {
        ConvertError::Changed { path: self.path.clone() }
    }
}

/// All images of the item of that number, in the order in which they were numbered.
pub(crate) type Images<'a> = dyn Fn(usize) -> Result<Vec<Frame>, FileProblem> + Sync + 'a;

/// The files of a conversion, to read images from.
pub(crate) struct Files<'a> {
    pub(crate) known: &'a [KnownFile],
    pub(crate) images: &'a Images<'a>,
}

/// One image to fetch: where from, where to, and its fingerprint when it is there.
pub(crate) struct Fetch<'a> {
    pub(crate) from: StoredImage,
    pub(crate) to: &'a mut [u8],
    pub(crate) fingerprint: Fingerprint,
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
        let number = first.from.file as usize;
        let known = &self.known[number];
        let file = if known.modified.is_some() { Some(known.open()?) } else { None };
        let mut again = None;
        let mut raw = Vec::new();
        for fetch in wanted {
            self.fetch(fetch, number, file.as_ref(), &mut again, &mut raw)?;
            fetch.fingerprint = Fingerprint::of(fetch.to, fetch.from.pixel_format.shape());
        }
        Ok(())
    }

    fn fetch(
        &self,
        fetch: &mut Fetch<'_>,
        number: usize,
        file: Option<&File>,
        again: &mut Option<Vec<Frame>>,
        raw: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        let known = &self.known[number];
        let failed = |source| ConvertError::Read { path: known.path.clone(), source };
        let pixel_format = fetch.from.pixel_format;
        match (fetch.from.location, file) {
            (ImageLocation::Offset(_), None) => Err(known.changed()),
            (ImageLocation::Offset(offset), Some(file)) if pixel_format.is_plain() => {
                read_at(file, fetch.to, offset).map_err(failed)
            }
            (ImageLocation::Offset(offset), Some(file)) => {
                raw.resize(pixel_format.stored_bytes(), 0);
                read_at(file, raw, offset).map_err(failed)?;
                pixel_format.convert(raw, fetch.to);
                Ok(())
            }
            (ImageLocation::Reread(at), _) => {
                if again.is_none() {
                    *again = Some(self.images_again(number)?);
                }
                let image = again.as_ref().and_then(|images| images.get(at as usize));
                let bad = |problem: FileProblem| ConvertError::BadFile {
                    first: problem.in_file(&known.path),
                    others: 0,
                };
                match image.map(Frame::stored_bytes).transpose().map_err(bad)? {
                    Some(image) if image.len() == pixel_format.stored_bytes() => {
                        pixel_format.convert(&image, fetch.to);
                        Ok(())
                    }
                    _ => Err(known.changed()),
                }
            }
        }
    }

    fn images_again(&self, number: usize) -> Result<Vec<Frame>, ConvertError> {
        (self.images)(number).map_err(|problem: FileProblem| ConvertError::BadFile {
            first: problem.in_file(&self.known[number].path),
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
