//! Many images side by side.

use plaudit_core::Frames;

use plaudit_draw::Canvas;

/// Lays images of one size out as RLinf does: `floor(sqrt(n))` rows, filled column by column; black where none is left.
#[must_use]
pub fn tile(images: &[Canvas]) -> Canvas {
    tile_all(&images.iter().collect::<Vec<_>>())
}

/// The same of images that lie apart.
pub(super) fn tile_all(images: &[&Canvas]) -> Canvas {
    let (width, height) = images.first().map_or((1, 1), |first| first.size());
    let rows = images.len().isqrt().max(1);
    let columns = images.len().div_ceil(rows).max(1);
    let mut tiled = Canvas::filled(columns * width, rows * height, [0; 3]);
    for (n, image) in images.iter().enumerate() {
        tiled.put((n / rows * width, n % rows * height), image);
    }
    tiled
}

/// Lays out one camera's images of a whole batch in the same way.
#[must_use]
pub fn tile_frames(frames: &Frames) -> Canvas {
    let images: Vec<_> = (0..frames.count()).map(|row| image_of(frames, row)).collect();
    tile(&images)
}

fn image_of(frames: &Frames, row: usize) -> Canvas {
    let mut image = Canvas::filled(frames.shape.width, frames.shape.height, [0; 3]);
    image.paste((0, 0), frames.shape, frames.image(row));
    image
}

#[cfg(test)]
mod tests {
    use super::*;
    use plaudit_core::FrameShape;

    #[test]
    fn columns_fill_first() {
        let images: Vec<_> = (1..=7).map(|n| Canvas::filled(2, 1, [n; 3])).collect();
        let tiled = tile(&images);
        assert_eq!(tiled.size(), (8, 2));
        let rows = [0, 1].map(|y| [0, 2, 4, 6].map(|x| tiled.at(x, y)[0]));
        assert_eq!(rows, [[1, 3, 5, 7], [2, 4, 6, 0]]);
        assert_eq!(tile(&images[..1]), images[0]);
        let pixels: Vec<u8> = images.iter().flat_map(|image| image.pixels().to_vec()).collect();
        assert_eq!(tile_frames(&Frames::new(FrameShape::rgb(1, 2), pixels).unwrap()), tiled);
    }
}
