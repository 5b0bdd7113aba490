//! Images for people: what was trained on, what went wrong, and how scores run through an episode.

mod curves;
mod debug;
mod mistakes;
mod preview;
mod windows;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;
use plaudit_draw::{Canvas, Rgb, Tint};
use plaudit_pyfiles::AtomicFile;

pub use curves::{ScoreCurve, curves};
pub use debug::{save_split, save_successes};
pub use mistakes::{Mistake, Mistakes};
pub use preview::preview;
pub use windows::{SheetWindow, window_sheet, window_strip};

/// An image that could not be saved.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; give a folder that can be written", path.display())]
pub struct ImageWriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// An image, as the bytes of a PNG file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Png {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// The file.
    pub bytes: Vec<u8>,
}

impl Png {
    /// Of pixels of height, width and channels: 1 is grey, 3 are RGB, 4 are RGB and opacity.
    ///
    /// # Panics
    /// When the pixels do not fill the shape, which no frame of a dataset, a window or an environment does.
    #[must_use]
    pub fn of(shape: FrameShape, pixels: &[u8]) -> Self {
        let bytes = plaudit_draw::encode_png(shape, pixels);
        let Some(bytes) = bytes else { panic!("{shape:?} of {} bytes is not an image", pixels.len()) };
        Self { height: shape.height, width: shape.width, bytes }
    }

    /// Writes the file; it appears whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &Path) -> Result<(), ImageWriteError> {
        let write = || {
            let mut file = AtomicFile::create(path)?;
            file.write_all(&self.bytes)?;
            file.commit()
        };
        write().map_err(|source| ImageWriteError { path: path.into(), source })
    }
}

impl From<&Canvas> for Png {
    fn from(image: &Canvas) -> Self {
        Self { height: image.height(), width: image.width(), bytes: image.png() }
    }
}

/// The longer side of a frame on a sheet.
const SIDE: usize = 128;

/// What the borders of sheets mean.
fn by_label() -> Vec<(Rgb, String)> {
    [(true, "green: labelled success"), (false, "red: labelled failure")]
        .map(|(success, words)| (Tint::of(success).colour(), words.to_string()))
        .into()
}
