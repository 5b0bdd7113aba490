//! The formats a video can have.

use std::path::Path;

/// The format of a video file, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VideoFormat {
    /// Animated PNG: every pixel exact; shown by every browser and README. The largest.
    Apng,
    /// H.264 in MP4: every colour, slightly blurred; played by every browser and player. The smallest. Sides are even
    /// there: an odd one repeats its last pixels.
    #[default]
    Mp4,
}

impl VideoFormat {
    /// The format that a file name asks for.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "png" | "apng" => Some(Self::Apng),
            "mp4" => Some(Self::Mp4),
            _ => None,
        }
    }

    /// How its files end.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Apng => "png",
            Self::Mp4 => "mp4",
        }
    }

    /// The longest side of an image it takes.
    pub(super) fn longest_side(self) -> usize {
        match self {
            Self::Apng => 1 << 20,
            Self::Mp4 => plaudit_mp4::LONGEST_SIDE,
        }
    }
}
