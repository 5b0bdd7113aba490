//! Labelled frames where they lie: what a classifier of images is trained and measured on.
//!
//! [`LabelledData::read`] takes anything that holds frames and their labels, in every format of
//! [`Recordings`]. No image is copied: a [`FrameImage`] is a view of the mapped
//! file, and becomes bytes of height, width and channel when it is asked for. [`LabelledData::split`] chooses frames for
//! training and validation by the rules of [`convert_images`](crate::convert::convert_images), to the order of frames.
//!
//! ```no_run
//! use std::path::Path;
//! use plaudit_data::labelled::{LabelledData, ReadOptions, SplitOptions};
//!
//! let data = LabelledData::read(Path::new("logs/run/collected_data"), &ReadOptions::default(), &|_| {})?;
//! let split = data.split(&SplitOptions::default())?;
//! let first = data.frame(split.train[0]);
//! println!("{:?}: {}", first.images[0].shape(), first.success);
//! # Ok::<(), plaudit_data::labelled::LabelledError>(())
//! ```

mod choose;
mod error;
mod leak;
mod read;

use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;

use crate::convert::OnProgress;
use crate::recording::{BadFile, DatasetFormat, MAIN, Recordings, Rules};

pub use crate::recording::FrameImage;
pub use choose::{FramePick, SplitOptions, TrainValSplit};
pub use error::LabelledError;
pub use leak::leakage;

/// How data is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The cameras of each frame, by their keys: `main_images`, `extra_view_images`, `extra_view_images[1]`, or whatever
    /// the recording calls them.
    pub cameras: Vec<String>,
    /// How recordings are read.
    pub rules: Rules,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { cameras: vec![MAIN.into()], rules: Rules::default() }
    }
}

/// One frame: an image of each camera, and whether it shows success.
#[derive(Clone, Debug)]
pub struct LabelledFrame {
    /// One image per camera, in the order that was asked for.
    pub images: Vec<FrameImage>,
    /// The label.
    pub success: bool,
    /// Which entry of its episode it is.
    pub at: usize,
    /// The environment's state vector at that step, if it was recorded.
    pub state: Option<Vec<f32>>,
}

/// The frames of one episode, in order.
#[derive(Clone, Debug)]
pub struct LabelledEpisode {
    /// What it is called: the name of its file without the ending, or its name in the store.
    pub name: String,
    /// The folder it lies in.
    pub folder: String,
    /// Its frames.
    pub frames: Vec<LabelledFrame>,
}

impl LabelledEpisode {
    /// Whether any frame is labelled a success.
    #[must_use]
    pub fn has_success(&self) -> bool {
        self.frames.iter().any(|frame| frame.success)
    }
}

/// Labelled frames, by episode.
#[derive(Debug)]
pub struct LabelledData {
    /// Where they were read from.
    pub path: PathBuf,
    /// What that is.
    pub format: DatasetFormat,
    /// The cameras that were asked for, and the size of their images.
    pub cameras: Vec<(String, FrameShape)>,
    /// The episodes. Images whose file does not say where they are from are one episode.
    pub episodes: Vec<LabelledEpisode>,
    /// Whether frames are grouped into the episodes that they happened in, in order.
    pub in_episodes: bool,
    /// Whether episodes have every recorded frame, so that a frame stack (history of k frames) can be read.
    pub has_history: bool,
    /// Files that were left out.
    pub skipped: Vec<BadFile>,
}

impl LabelledData {
    /// Reads labelled frames in any format that [`Recordings`] opens.
    ///
    /// # Errors
    /// When nothing usable is there, a camera is missing, or images of one camera have different sizes.
    pub fn read(
        path: &Path,
        options: &ReadOptions,
        progress: &OnProgress<'_>,
    ) -> Result<Self, LabelledError> {
        if !path.exists() {
            return Err(LabelledError::Nothing { path: path.into() });
        }
        read::read(Recordings::open(path, &options.rules)?, options, progress)
    }

    /// Reads folders of successful and of failed `.npy` trajectories that need not lie together.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_trajectories(
        positive: &Path,
        negative: &Path,
        options: &ReadOptions,
        progress: &OnProgress<'_>,
    ) -> Result<Self, LabelledError> {
        read::read(Recordings::of_trajectories(positive, negative, &options.rules)?, options, progress)
    }

    /// A frame that was picked.
    ///
    /// # Panics
    /// If it was picked from other data.
    #[must_use]
    pub fn frame(&self, pick: FramePick) -> &LabelledFrame {
        &self.episodes[pick.episode as usize].frames[pick.frame as usize]
    }

    /// The frame so many steps before a picked one, or the first of its episode.
    ///
    /// # Panics
    /// If it was picked from other data.
    #[must_use]
    pub fn frame_before(&self, pick: FramePick, steps: usize) -> &LabelledFrame {
        &self.episodes[pick.episode as usize].frames[(pick.frame as usize).saturating_sub(steps)]
    }

    /// Whether no episode lacks a frame between its first and its last.
    fn is_gapless(episodes: &[LabelledEpisode]) -> bool {
        let follows = |pair: &[LabelledFrame]| pair[1].at == pair[0].at + 1;
        episodes.iter().all(|episode| episode.frames.windows(2).all(follows))
    }

    /// How many frames there are.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.episodes.iter().map(|episode| episode.frames.len()).sum()
    }
}
