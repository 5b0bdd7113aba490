//! What can go wrong with a video.

use std::io;
use std::path::{Path, PathBuf};

/// Why a video was not made. Every error that concerns a file names it.
#[derive(Debug, thiserror::Error)]
pub enum VideoError {
    /// The file name says no format that can be written.
    #[error("{} does not end in .png or .mp4; the ending chooses the format of a video", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// An invalid frame rate.
    #[error("{fps} frames per second is not a valid frame rate for {}; use a number above 0 and at most 1000", .path.display())]
    Fps {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        fps: f64,
    },
    /// The file or its directory cannot be made.
    #[error("cannot create the video {}: {source}; choose a directory that you may write to", .path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file cannot be written to its end; nothing of it is left.
    #[error("cannot write the video {}: {source}; check the space on the disk", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A video was finished before it was shown anything.
    #[error("the video {} has no frames, so it was not written", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A frame of another size than the first.
    #[error(
        "the video {} is {}x{}, and cannot take a frame of {}x{}; frames must not change size",
        .path.display(), .expected.0, .expected.1, .got.0, .got.1
    )]
    Resized {
        /// The file.
        path: PathBuf,
        /// Width and height of the first frame.
        expected: (usize, usize),
        /// Width and height of this one.
        got: (usize, usize),
    },
    /// A frame that the format cannot hold.
    #[error(
        "frames of {}x{} do not fit into {}: that format takes up to {most} pixels a side; show fewer environments",
        .size.0, .size.1, .path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Width and height.
        size: (usize, usize),
        /// The longest side the format takes.
        most: usize,
    },
    /// Observations without the camera that should be shown.
    #[error("there is no camera `{camera}` to show; {}", cameras(.known))]
    Camera {
        /// The camera asked for.
        camera: String,
        /// Those there are.
        known: Vec<String>,
    },
    /// A column of the wrong length.
    #[error("{rows} {what} for {batch} environments")]
    Rows {
        /// Which column.
        what: &'static str,
        /// Its length.
        rows: usize,
        /// What it should be.
        batch: usize,
    },
    /// The thread that writes videos is gone.
    #[error("the thread that writes videos stopped before its work was done; the last video is missing")]
    Thread,
}

impl VideoError {
    /// The file it concerns, if it concerns one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Format { path }
            | Self::Fps { path, .. }
            | Self::Create { path, .. }
            | Self::Write { path, .. }
            | Self::Empty { path }
            | Self::Resized { path, .. }
            | Self::TooLarge { path, .. } => Some(path),
            Self::Camera { .. } | Self::Rows { .. } | Self::Thread => None,
        }
    }
}

fn cameras(known: &[String]) -> String {
    if known.is_empty() {
        "nothing was rendered: let the environment render every observation".to_owned()
    } else {
        format!("there are {}", known.join(", "))
    }
}

/// Names the file that could not be written.
pub(super) fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> VideoError {
    let path = path.to_owned();
    move |source| VideoError::Write { path, source }
}
