//! Whether what a model is audited on was there when it learned.

use std::path::PathBuf;

use plaudit_data::convert::Leakage;
use plaudit_data::labelled::leakage;
use serde::Serialize;

use crate::dataset::{DatasetError, Frames, Manifest, SplitManifest};

/// Reads every frame of some datasets.
type ReadFrames<'a> = dyn Fn(&[PathBuf]) -> Result<Frames, DatasetError> + 'a;

/// What is known about frames that are in both.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "known")]
pub enum SharedWithTraining {
    /// These are the frames that it was trained on.
    Everything,
    /// These are the frames it was validated on: its first threshold was picked on them.
    Validation,
    /// Its training frames were picked from this data; which ones is not known.
    SamePlace {
        /// Where.
        path: String,
    },
    /// Both were compared, image by image.
    Compared(Leakage),
    /// What it learned from is not there.
    Unknown,
}

impl SharedWithTraining {
    /// Looks for it: where it was said to be, or else where the model's card says it was.
    pub(super) fn find(
        dataset: Option<&Manifest>,
        frames: &Frames,
        said: &[PathBuf],
        read: &ReadFrames<'_>,
    ) -> Result<Self, DatasetError> {
        if let Some(Manifest { train, val }) = dataset {
            let sha256 = SplitManifest::of(frames)?.sha256;
            if train.sha256 == sha256 {
                return Ok(Self::Everything);
            }
            if val.as_ref().is_some_and(|val| val.sha256 == sha256) {
                return Ok(Self::Validation);
            }
        }
        if !said.is_empty() {
            return Self::compared(&read(said)?, frames);
        }
        let paths: Vec<PathBuf> =
            dataset.iter().flat_map(|dataset| dataset.train.paths.iter().map(PathBuf::from)).collect();
        let same = |path: &&PathBuf| {
            let real = path.canonicalize().ok();
            real.is_some() && frames.recordings().iter().any(|other| other.path.canonicalize().ok() == real)
        };
        if let Some(path) = paths.iter().find(same) {
            return Ok(Self::SamePlace { path: path.display().to_string() });
        }
        if paths.is_empty() || !paths.iter().all(|path| path.exists()) {
            return Ok(Self::Unknown);
        }
        // What is there now need not be what was there then, so that trouble with it is not the user's.
        let compared = read(&paths).and_then(|train| Self::compared(&train, frames));
        Ok(compared.unwrap_or(Self::Unknown))
    }

    /// Whether numbers from this data say nothing about new episodes.
    #[must_use]
    pub fn is_leak(&self) -> bool {
        match self {
            Self::Everything | Self::SamePlace { .. } => true,
            Self::Compared(found) => found.exact_duplicates > 0,
            Self::Validation | Self::Unknown => false,
        }
    }

    fn compared(train: &Frames, frames: &Frames) -> Result<Self, DatasetError> {
        let of = |frames: &Frames| frames.recordings().to_vec();
        let (train, measured) = (of(train), of(frames));
        let [train, measured] =
            [&train, &measured].map(|data| data.iter().map(|data| &**data).collect::<Vec<_>>());
        Ok(Self::Compared(leakage(&train, &measured)?))
    }
}
