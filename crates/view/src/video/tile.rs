//! Many pictures side by side.

use plaudit_core::{FrameShape, Frames};

use super::picture::Picture;

/// Lays pictures of one size out as RLinf does: `floor(sqrt(n))` rows, filled column by column; black where none is left.
#[must_use]
pub fn tile(pictures: &[Picture]) -> Picture {
    let (width, height) = pictures.first().map_or((1, 1), Picture::size);
    let rows = pictures.len().isqrt().max(1);
    let columns = pictures.len().div_ceil(rows).max(1);
    let mut tiled = Picture::filled(columns * width, rows * height, [0; 3]);
    for (n, picture) in pictures.iter().enumerate() {
        paste(&mut tiled, (n / rows * width, n % rows * height), picture);
    }
    tiled
}

/// Lays out one camera's images of a whole batch in the same way.
#[must_use]
pub fn tile_frames(frames: &Frames) -> Picture {
    let pictures: Vec<_> = (0..frames.count()).map(|row| picture_of(frames, row)).collect();
    tile(&pictures)
}

fn picture_of(frames: &Frames, row: usize) -> Picture {
    let mut picture = Picture::filled(frames.shape.width, frames.shape.height, [0; 3]);
    picture.paste((0, 0), frames.shape, frames.image(row));
    picture
}

/// Copies one picture into another.
fn paste(into: &mut Picture, at: (usize, usize), picture: &Picture) {
    let shape = FrameShape::rgb(picture.height(), picture.width());
    into.paste(at, shape, picture.pixels());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_first() {
        let pictures: Vec<_> = (1..=7).map(|n| Picture::filled(2, 1, [n; 3])).collect();
        let tiled = tile(&pictures);
        assert_eq!(tiled.size(), (8, 2));
        let rows = [0, 1].map(|y| [0, 2, 4, 6].map(|x| tiled.at(x, y)[0]));
        assert_eq!(rows, [[1, 3, 5, 7], [2, 4, 6, 0]]);
        assert_eq!(tile(&pictures[..1]), pictures[0]);
        let pixels: Vec<u8> = pictures.iter().flat_map(|picture| picture.pixels().to_vec()).collect();
        assert_eq!(tile_frames(&Frames::new(FrameShape::rgb(1, 2), pixels).unwrap()), tiled);
    }
}
