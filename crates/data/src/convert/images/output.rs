//! Where the chosen images of a part go: a `.pt`, or a store.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde_json::Value;

use super::choose::Pick;
use super::episodes::Labelled;
use super::{metadata, to_pt, to_store};
use crate::convert::error::ConvertError;
use crate::convert::fingerprint::Fingerprint;
use crate::convert::progress::{OnProgress, Progress, Stage};
use crate::convert::stored::Files;
use crate::python::{PtWriter, PyValue};
use crate::store::{Entry, StoreBuilder};

/// What images are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageFormat {
    /// One file of torch's for each part, as RLinf reads them.
    #[default]
    Pt,
    /// One store of plaudit's own for each part: an episode there has the chosen frames of one recorded episode in the
    /// order of time, the labels in its column `success`, and the frames' places in the recording under the fact `frame`.
    Store,
}

impl ImageFormat {
    /// What `--format` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pt => "pt",
            Self::Store => "store",
        }
    }
}

impl fmt::Display for ImageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ImageFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Pt, Self::Store].into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| format!("`{text}` is neither pt nor store"))
    }
}

/// What a part is made of.
pub(super) struct Material<'a> {
    pub(super) files: &'a Files<'a>,
    pub(super) labelled: &'a Labelled,
    /// In the order of the part.
    pub(super) picks: &'a [Pick],
    pub(super) stage: Stage,
    pub(super) memory_bytes: usize,
    pub(super) progress: &'a OnProgress<'a>,
}

impl Material<'_> {
    /// Height, width and channels, which are the same for all.
    pub(super) fn shape(&self) -> [usize; 3] {
        let first = self.picks.first();
        first.map_or([1; 3], |pick| pick.image(&self.labelled.episodes).form.shape())
    }

    pub(super) fn report(&self, done: usize) {
        (self.progress)(Progress { stage: self.stage, done, total: self.picks.len() });
    }
}

/// A part that nothing is in yet.
pub(super) enum Output {
    Pt(Box<PtWriter>),
    Store(StoreBuilder),
}

/// A part whose images are written.
pub(super) struct Part<'a> {
    material: Material<'a>,
    /// In the order of the part.
    pub(super) prints: Vec<Fingerprint>,
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
    pub(super) fn fill(self, material: Material<'_>) -> Result<Part<'_>, ConvertError> {
        let (written, prints) = match self {
            Self::Pt(mut writer) => {
                let (images, prints) = to_pt::write(&material, &mut writer)?;
                (Written::Pt(writer, images), prints)
            }
            Self::Store(builder) => {
                let (entries, prints) = to_store::write(&material, &builder)?;
                (Written::Store(builder, entries), prints)
            }
        };
        Ok(Part { material, prints, written })
    }
}

impl Part<'_> {
    /// Writes what is left to write, and gives the part its name.
    pub(super) fn finish(self, metadata: &Value) -> Result<(), ConvertError> {
        let Material { labelled, picks, .. } = self.material;
        match self.written {
            Written::Pt(writer, images) => {
                Ok(writer.finish(&metadata::payload(images, picks, labelled, metadata))?)
            }
            Written::Store(builder, entries) => Ok(builder.finish(entries, metadata.clone())?),
        }
    }
}
