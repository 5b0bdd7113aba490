//! Images cut into patches, in the order the vision tower takes them.

use super::config::VisionConfig;
use super::error::VlmError;

/// An RGB image: bytes `[height, width, 3]`.
#[derive(Clone, Copy, Debug)]
pub struct RgbImage<'a> {
    /// The bytes, row by row.
    pub rgb: &'a [u8],
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl RgbImage<'_> {
    pub(super) fn check(&self) -> Result<(), VlmError> {
        let Self { rgb, height, width } = *self;
        if rgb.len() == height * width * 3 && !rgb.is_empty() {
            return Ok(());
        }
        Err(VlmError::Input(format!("{} bytes are not an RGB image of {height}x{width} pixels", rgb.len())))
    }
}

/// What a [`Visual`] is shown as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VisualKind {
    /// One still.
    Image,
    /// Frames with their times.
    Video,
}

/// An image or a video, cut into patches.
#[derive(Clone, Debug, PartialEq)]
pub struct Visual {
    /// Which of the two.
    pub kind: VisualKind,
    /// Patches: pairs of frames, rows, columns.
    pub grid: [usize; 3],
    /// Seconds at the middle of each pair of frames; empty for an image.
    pub times: Vec<f64>,
    /// Seconds from one pair of frames to the next; zero for an image.
    pub seconds_per_pair: f64,
    /// `[pairs * rows * columns, 3 * frames * side * side]` bytes of pixels.
    pub patches: Vec<u8>,
}

impl Visual {
    /// The bytes of each pair of frames.
    pub(super) fn pairs(&self) -> impl Iterator<Item = &[u8]> {
        self.patches.chunks_exact(self.patches.len() / self.grid[0].max(1))
    }

    /// Patches of one pair of frames.
    #[must_use]
    pub fn pair_patches(&self) -> usize {
        self.grid[1] * self.grid[2]
    }
}

/// Cuts frames of one size, multiples of the merged patch, into patches. The last frame is repeated until the frames
/// fill whole patches.
pub(super) fn patchify(
    frames: &[Vec<u8>],
    [height, width]: [usize; 2],
    vision: &VisionConfig,
) -> ([usize; 3], Vec<u8>) {
    let VisionConfig { patch, frames: depth, merge, .. } = *vision;
    let pairs = frames.len().div_ceil(depth);
    let (rows, columns) = (height / patch, width / patch);
    let mut patches = Vec::with_capacity(pairs * rows * columns * vision.patch_len());
    for pair in 0..pairs {
        for [row, column] in patch_coordinates(rows, columns, merge) {
            for colour in 0..3 {
                for frame in 0..depth {
                    let frame = &frames[(pair * depth + frame).min(frames.len() - 1)];
                    for y in row * patch..(row + 1) * patch {
                        let line = &frame[(y * width + column * patch) * 3..][..patch * 3];
                        patches.extend(line.iter().skip(colour).step_by(3));
                    }
                }
            }
        }
    }
    ([pairs, rows, columns], patches)
}

/// Row and column of each patch of an image: squares that become a token one after another, row by row in both.
pub(super) fn patch_coordinates(
    rows: usize,
    columns: usize,
    merge: usize,
) -> impl Iterator<Item = [usize; 2]> {
    let squares =
        (0..rows / merge).flat_map(move |row| (0..columns / merge).map(move |column| (row, column)));
    squares.flat_map(move |(row, column)| {
        (0..merge).flat_map(move |i| (0..merge).map(move |j| [row * merge + i, column * merge + j]))
    })
}
