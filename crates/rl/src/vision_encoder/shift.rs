//! Images shifted by a few pixels at random (DrQ, Kostrikov et al., 2020): a critic should not care.

use plaudit_core::{FrameShape, Seed};

/// Moves each of the images `[n, height, width, channels]` by up to `reach` pixels along both axes; what enters at an
/// edge repeats that edge. Each image samples from its own stream of the seed.
pub fn shift(pixels: &mut [u8], shape: FrameShape, reach: usize, seed: Seed) {
    let mut before = Vec::new();
    let by = shifts(pixels.len() / shape.bytes(), reach, seed);
    for (image, by) in pixels.chunks_exact_mut(shape.bytes()).zip(by) {
        before.clear();
        before.extend_from_slice(image);
        move_by(&before, image, shape, by.map(|by| by as isize));
    }
}

/// Rows and columns that [`shift`] moves each of `n` images by.
pub(crate) fn shifts(n: usize, reach: usize, seed: Seed) -> impl Iterator<Item = [i32; 2]> {
    (0..n as u64).map(move |at| {
        let mut rng = seed.index(at).rng();
        let mut way = || rng.below(2 * reach + 1) as i32 - reach as i32;
        [way(), way()]
    })
}

/// `to[y, x] = from[y + down, x + right]`, with the nearest pixel where there is none.
fn move_by(from: &[u8], to: &mut [u8], shape: FrameShape, [down, right]: [isize; 2]) {
    let FrameShape { height, width, channels } = shape;
    let near = |place: usize, by: isize, size: usize| place.saturating_add_signed(by).min(size - 1);
    // Columns that have a pixel to read from are one run in every row.
    let (first, last) =
        ((-right).clamp(0, width as isize) as usize, (width as isize - right).min(width as isize));
    let last = last.max(first as isize) as usize;
    for (y, row) in to.chunks_exact_mut(width * channels).enumerate() {
        let source = &from[near(y, down, height) * width * channels..][..width * channels];
        let start = near(first, right, width) * channels;
        row[first * channels..last * channels]
            .copy_from_slice(&source[start..start + (last - first) * channels]);
        for x in (0..first).chain(last..width) {
            let at = near(x, right, width) * channels;
            row[x * channels..(x + 1) * channels].copy_from_slice(&source[at..at + channels]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: FrameShape = FrameShape { height: 3, width: 4, channels: 1 };

    #[test]
    fn edges_repeat() {
        let from: Vec<u8> = (0..12).collect();
        for (by, expected) in [
            ([0, 0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
            ([1, 0], [4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11]),
            ([-1, 1], [1, 2, 3, 3, 1, 2, 3, 3, 5, 6, 7, 7]),
            ([0, -2], [0, 0, 0, 1, 4, 4, 4, 5, 8, 8, 8, 9]),
            ([-9, 9], [3; 12]),
        ] {
            let mut to = vec![99; 12];
            move_by(&from, &mut to, SHAPE, by);
            assert_eq!(to, expected, "{by:?}");
        }
    }

    #[test]
    fn each_image_is_moved_on_its_own_and_reaches_every_place() {
        let (image, n) = ((0..12).collect::<Vec<u8>>(), 2000);
        let mut images = image.repeat(n);
        shift(&mut images, SHAPE, 1, Seed::new(4));
        let mut encoded = std::collections::BTreeMap::new();
        for moved in images.chunks_exact(12) {
            *encoded.entry(moved.to_vec()).or_insert(0) += 1;
        }
        // Nine ways, each as likely: 222 of 2000, within five standard deviations of 14.
        assert_eq!(encoded.len(), 9);
        assert!(encoded.values().all(|&count| (152..=292).contains(&count)), "{encoded:?}");
        let mut alone = image;
        shift(&mut alone, SHAPE, 1, Seed::new(4));
        assert_eq!(alone, images[..12], "what an image becomes does not depend on the others");
    }
}
