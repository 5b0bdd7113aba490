//! Images from their files into one storage of a `.pt`, in the order of the split.

use plaudit_pyfiles::{DType, PtWriter, PyValue};

use super::output::SplitInput;
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::stored::{Fetch, Files, StoredImage};

/// Writes all images, some at a time: while some are written, the next are read. Gives them as the list of the file
/// will have them, and their fingerprints.
pub(super) fn write(
    split_input: &SplitInput<'_>,
    writer: &mut PtWriter,
) -> Result<(Vec<PyValue>, Vec<Fingerprint>), ConvertError> {
    let stored: Vec<_> =
        split_input.picks.iter().map(|pick| split_input.labelled.frame(*pick).image).collect();
    let shape = split_input.shape();
    let bytes = shape.iter().product::<usize>();
    // Two batches are in memory at a time.
    let batch = split_input.memory_bytes / 2 / bytes;
    let mut storage = writer.storage(DType::U8)?;
    let (mut images, mut fingerprints) = (Vec::with_capacity(stored.len()), Vec::with_capacity(stored.len()));
    let (mut ready, mut next) = (Batch::default(), Batch::default());
    let mut batches = stored.chunks(batch.max(1));
    next.fill(split_input.files, batches.next().unwrap_or_default(), bytes)?;
    while !next.fingerprints.is_empty() {
        std::mem::swap(&mut ready, &mut next);
        let coming = batches.next().unwrap_or_default();
        let write = || {
            ready.pixels.chunks_exact(bytes).try_for_each(|image| {
                images.push(storage.push(&shape, image)?);
                Ok::<(), ConvertError>(())
            })
        };
        let (read, written) = rayon::join(|| next.fill(split_input.files, coming, bytes), write);
        read?;
        written?;
        fingerprints.append(&mut ready.fingerprints);
        split_input.report(images.len());
    }
    Ok((images, fingerprints))
}

/// Some images in memory.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) pixels: Vec<u8>,
    pub(super) fingerprints: Vec<Fingerprint>,
}

impl Batch {
    /// Fetches these images in place of those that were there.
    pub(super) fn fill(
        &mut self,
        files: &Files<'_>,
        stored: &[StoredImage],
        bytes: usize,
    ) -> Result<(), ConvertError> {
        self.pixels.resize(stored.len() * bytes, 0);
        let to = self.pixels.chunks_exact_mut(bytes);
        let both = stored.iter().zip(to);
        let mut fetches: Vec<Fetch<'_>> =
            both.map(|(from, to)| Fetch { from: *from, to, fingerprint: Fingerprint::default() }).collect();
        files.fetch_all(&mut fetches)?;
        self.fingerprints = fetches.iter().map(|fetch| fetch.fingerprint).collect();
        Ok(())
    }
}
