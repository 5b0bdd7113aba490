//! What a model was trained on, for the record.

use plaudit_data::labelled::LabelledError;
use plaudit_data::recording::FileProblem;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::DatasetError;
use super::frames::{ClassBalance, Frames};

/// What a model was trained and validated on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// What it learned from.
    pub train: SplitManifest,
    /// What it was measured on, if anything.
    pub val: Option<SplitManifest>,
}

/// One part of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitManifest {
    /// Where it was read from.
    pub paths: Vec<String>,
    /// How many frames of each label.
    pub balance: ClassBalance,
    /// How many episodes they are from; 0 where that is not known.
    pub episodes: usize,
    /// The views, with the height, width and channels of their images.
    pub views: Vec<(String, [usize; 3])>,
    /// SHA-256 over all frames in order: of the hashes of each frame's pixels, view by view, and its label.
    /// A frame of a video counts by the bytes that it is decoded from, so that nothing has to be decoded.
    pub sha256: String,
}

impl Manifest {
    /// Looks at every pixel of both parts, and of videos at every byte.
    ///
    /// # Errors
    /// When a video ends before a frame of it.
    pub fn of(train: &Frames, val: Option<&Frames>) -> Result<Self, DatasetError> {
        Ok(Self { train: SplitManifest::of(train)?, val: val.map(SplitManifest::of).transpose()? })
    }
}

impl SplitManifest {
    /// Looks at every pixel, and of videos at every byte.
    ///
    /// # Errors
    /// When a video ends before a frame of it.
    pub fn of(frames: &Frames) -> Result<Self, DatasetError> {
        let known = frames.recordings().iter().all(|recording| recording.in_episodes);
        let side = |shape: &plaudit_core::FrameShape| [shape.height, shape.width, shape.channels];
        let views = frames.views().iter().map(ToString::to_string).zip(frames.shapes().iter().map(side));
        Ok(Self {
            paths: frames.recordings().iter().map(|recording| recording.path.display().to_string()).collect(),
            balance: frames.balance(),
            episodes: if known { frames.by_episode().len() } else { 0 },
            views: views.collect(),
            sha256: hash(frames)?,
        })
    }
}

fn hash(frames: &Frames) -> Result<String, DatasetError> {
    hash_with(frames, |at| vec![u8::from(frames.success(at))])
}

/// SHA-256 over the pixels of all frames in order, whatever their labels are. A frame of a video counts by the bytes that it
/// is decoded from.
///
/// # Errors
/// When a video ends before a frame of it.
pub fn pixels_sha256(frames: &Frames) -> Result<String, DatasetError> {
    hash_with(frames, |_| Vec::new())
}

fn hash_with(frames: &Frames, beside: impl Fn(usize) -> Vec<u8> + Sync) -> Result<String, DatasetError> {
    let one = |at: usize| -> Result<[u8; 32], DatasetError> {
        let mut hash = Sha256::new();
        for view in 0..frames.views().len() {
            let unreadable =
                |problem: FileProblem| LabelledError::Frames(problem.in_file(frames.origin(at).episode));
            hash.update(frames.image(at, view).identity().map_err(unreadable)?);
        }
        hash.update(beside(at));
        Ok(hash.finalize().into())
    };
    let all: Vec<[u8; 32]> = (0..frames.len()).into_par_iter().map(one).collect::<Result<_, _>>()?;
    let mut hash = Sha256::new();
    all.iter().for_each(|one| hash.update(one));
    let bytes: [u8; 32] = hash.finalize().into();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
