//! The second pass: images from their files into one storage, in the order of the part.

use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::progress::{OnProgress, Progress, Stage};
use crate::convert::stored::{Fetch, Files, Stored};
use crate::python::{DType, PtWriter, PyValue};

/// What was written of a part.
pub(super) struct Part {
    /// The images, to be put into the list of the file.
    pub(super) images: Vec<PyValue>,
    pub(super) prints: Vec<Fingerprint>,
}

/// Writes all images, some at a time: while some are written, the next are read.
pub(super) fn images(
    files: &Files<'_>,
    stored: &[Stored],
    writer: &mut PtWriter,
    stage: Stage,
    memory_bytes: usize,
    progress: &OnProgress<'_>,
) -> Result<Part, ConvertError> {
    let shape = stored.first().map_or([1; 3], |stored| stored.form.shape());
    let bytes = shape.iter().product::<usize>();
    // Two batches are in memory at a time.
    let batch = memory_bytes / 2 / bytes;
    let mut storage = writer.storage(DType::U8)?;
    let mut part =
        Part { images: Vec::with_capacity(stored.len()), prints: Vec::with_capacity(stored.len()) };
    let (mut ready, mut next) = (Batch::default(), Batch::default());
    let mut batches = stored.chunks(batch.max(1));
    next.fill(files, batches.next().unwrap_or_default(), bytes)?;
    while !next.prints.is_empty() {
        std::mem::swap(&mut ready, &mut next);
        let coming = batches.next().unwrap_or_default();
        let write = || {
            ready.pixels.chunks_exact(bytes).try_for_each(|image| {
                part.images.push(storage.push(&shape, image)?);
                Ok::<(), ConvertError>(())
            })
        };
        let (read, written) = rayon::join(|| next.fill(files, coming, bytes), write);
        read?;
        written?;
        part.prints.append(&mut ready.prints);
        progress(Progress { stage, done: part.images.len(), total: stored.len() });
    }
    Ok(part)
}

/// Some images in memory.
#[derive(Default)]
struct Batch {
    pixels: Vec<u8>,
    prints: Vec<Fingerprint>,
}

impl Batch {
    fn fill(&mut self, files: &Files<'_>, stored: &[Stored], bytes: usize) -> Result<(), ConvertError> {
        self.pixels.resize(stored.len() * bytes, 0);
        let to = self.pixels.chunks_exact_mut(bytes);
        let both = stored.iter().zip(to);
        let mut fetches: Vec<Fetch<'_>> =
            both.map(|(from, to)| Fetch { from: *from, to, print: Fingerprint::default() }).collect();
        files.fetch_all(&mut fetches)?;
        self.prints = fetches.iter().map(|fetch| fetch.print).collect();
        Ok(())
    }
}
