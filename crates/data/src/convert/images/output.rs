//! Where the chosen images of a split go: a `.pt`, or a store.

use std::path::Path;

use serde_json::Value;

use plaudit_pyfiles::{PtWriter, PyValue};

use super::episodes::Labelled;
use super::{metadata, to_pt, to_store};
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::progress::{OnProgress, Progress, Stage};
use crate::convert::split::FramePick;
use crate::convert::stored::Files;
use crate::store::{Entry, StoreBuilder};

/// What images are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageFormat {
    /// One torch file for each split, as RLinf reads them.
    #[default]
    Pt,
    /// One plaudit store for each split: an episode there has the chosen frames of one recorded episode in the
    /// order of time, the labels in its column `success`, and the frames' indices in the recording under the fact `frame`.
    Store,
}

/// The input of a split: its files, labels and chosen images.
pub(super) struct SplitInput<'a> {
    pub(super) files: &'a Files<'a>,
    pub(super) labelled: &'a Labelled,
    /// In the order of the split.
    pub(super) picks: &'a [FramePick],
    pub(super) stage: Stage,
    pub(super) memory_bytes: usize,
    pub(super) progress: &'a OnProgress<'a>,
}

impl SplitInput<'_> {
    /// Height, width and channels, which are the same for all.
    pub(super) fn shape(&self) -> [usize; 3] {
        let first = self.picks.first();
        first.map_or([1; 3], |pick| self.labelled.frame(*pick).image.pixel_format.shape())
    }

    pub(super) fn report(&self, done: usize) {
        (self.progress)(Progress { stage: self.stage, done, total: self.picks.len() });
    }
}

/// An empty split.
pub(super) enum Output {
    Pt(Box<PtWriter>),
    Store(StoreBuilder),
}

/// A split whose images are written.
pub(super) struct WrittenImages<'a> {
    split_input: SplitInput<'a>,
    /// In the order of the split.
    pub(super) fingerprints: Vec<Fingerprint>,
    written: Written,
}

enum Written {
    Pt(Box<PtWriter>, Vec<PyValue>),
    Store(StoreBuilder, Vec<Entry>),
}

impl Output {
    pub(super) fn create(format: ImageFormat, path: &Path) -> Result<Self, ConvertError> {
        Ok(match format {
            ImageFormat::Pt => Self::Pt(Box::new(PtWriter::create(path)?)),
            ImageFormat::Store => Self::Store(StoreBuilder::create(path)?),
        })
    }

    /// Writes the images.
    pub(super) fn fill(self, split_input: SplitInput<'_>) -> Result<WrittenImages<'_>, ConvertError> {
        let (written, fingerprints) = match self {
            Self::Pt(mut writer) => {
                let (images, fingerprints) = to_pt::write(&split_input, &mut writer)?;
                (Written::Pt(writer, images), fingerprints)
            }
            Self::Store(builder) => {
                let (entries, fingerprints) = to_store::write(&split_input, &builder)?;
                (Written::Store(builder, entries), fingerprints)
            }
        };
        Ok(WrittenImages { split_input, fingerprints, written })
    }
}

impl WrittenImages<'_> {
    /// Writes what is left to write, and gives the split its name.
    pub(super) fn finish(self, metadata: &Value) -> Result<(), ConvertError> {
        let SplitInput { labelled, picks, .. } = self.split_input;
        match self.written {
            Written::Pt(writer, images) => {
                Ok(writer.finish(&metadata::payload(images, picks, labelled, metadata))?)
            }
            Written::Store(builder, entries) => Ok(builder.finish(entries, metadata.clone())?),
        }
    }
}
