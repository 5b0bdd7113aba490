//! Pictures for people: what was trained on, what went wrong, and how scores run through an episode.

mod canvas;
mod curves;
mod debug;
mod font;
mod mistakes;
mod preview;
mod sheet;
mod windows;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plaudit_core::FrameShape;
use plaudit_data::python::AtomicFile;

pub use curves::{ScoreCurve, curves};
pub use debug::{save_part, save_successes};
pub use mistakes::{Mistake, Mistakes};
pub use preview::preview;
pub use sheet::{Cell, Tint, sheet};
pub use windows::{strip, window_sheet};

/// A picture that could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}; give a folder that can be written", path.display())]
pub struct PictureError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A picture, as the bytes of a PNG file.
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
    #[must_use]
    pub fn of(shape: FrameShape, pixels: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, shape.width as u32, shape.height as u32);
        encoder.set_color(match shape.channels {
            1 => png::ColorType::Grayscale,
            4 => png::ColorType::Rgba,
            _ => png::ColorType::Rgb,
        });
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let written = encoder.write_header().and_then(|mut writer| {
            writer.write_image_data(pixels)?;
            writer.finish()
        });
        // Memory takes everything, so what fails is a shape that its pixels do not fill.
        assert!(written.is_ok(), "{shape:?} of {} bytes", pixels.len());
        Self { height: shape.height, width: shape.width, bytes }
    }

    /// Writes the file; it appears whole or not at all.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: &Path) -> Result<(), PictureError> {
        let write = || {
            let mut file = AtomicFile::create(path)?;
            file.write_all(&self.bytes)?;
            file.commit()
        };
        write().map_err(|source| PictureError { path: path.into(), source })
    }
}
