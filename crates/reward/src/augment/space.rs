//! Where things are in an image, and how sharp.

use plaudit_core::{FrameShape, Seed};

/// What covers a part that is cut out: ImageNet's mean, which a normalised network sees as zero.
pub(crate) const GREY: [u8; 3] = [124, 116, 104];

/// Moves an image by up to `shift` of its sides and cuts it down by up to `crop` of them, as one resampling.
pub(super) fn move_and_crop(
    image: &[u8],
    shape: FrameShape,
    shift: f64,
    crop: f64,
    seed: Seed,
    pixels: &mut [u8],
) {
    let mut moves = seed.purpose("shift").rng();
    let mut cuts = seed.purpose("crop").rng();
    let kept = 1.0 - crop.clamp(0.0, 0.95) * cuts.unit();
    let window = |side: usize, moved: f64, place: f64| {
        let side = side as f64;
        // Whole pixels where nothing is stretched: then no colour is mixed.
        let moved = if crop > 0.0 { moved * side } else { (moved * side).round() };
        Window { start: moved + (1.0 - kept) * side * place, kept }
    };
    let rows = window(shape.height, moves.uniform(-shift, shift.max(f64::MIN_POSITIVE)), cuts.unit());
    let columns = window(shape.width, moves.uniform(-shift, shift.max(f64::MIN_POSITIVE)), cuts.unit());
    resample(image, shape, &rows, &columns, pixels);
}

/// What is seen through two windows, stretched over the whole image; the border is repeated.
pub(crate) fn resample(image: &[u8], shape: FrameShape, rows: &Window, columns: &Window, pixels: &mut [u8]) {
    let columns: Vec<Between> = (0..shape.width).map(|at| columns.source(at, shape.width)).collect();
    let width = shape.width * shape.channels;
    // Two lines of the image are stretched at any time: those that the line of the result lies between.
    let mut stretched = [(usize::MAX, vec![0.0; width]), (usize::MAX, vec![0.0; width])];
    for (at, line) in pixels.chunks_exact_mut(width).enumerate() {
        let row = rows.source(at, shape.height);
        if stretched[0].0 != row.first {
            stretched.swap(0, 1);
        }
        for ((has, numbers), wanted) in stretched.iter_mut().zip([row.first, row.second]) {
            if *has != wanted {
                stretch(&image[wanted * width..][..width], shape.channels, &columns, numbers);
                *has = wanted;
            }
        }
        let [(_, above), (_, below)] = &stretched;
        for ((byte, above), below) in line.iter_mut().zip(above).zip(below) {
            // Between two bytes, plus a half. By way of 32 bits several are cast at once.
            *byte = (above + (below - above) * row.share + 0.5) as i32 as u8;
        }
    }
}

/// One line of an image, stretched.
fn stretch(line: &[u8], channels: usize, columns: &[Between], numbers: &mut [f32]) {
    let value = |column: &Between, channel: usize| {
        let [first, second] =
            [column.first, column.second].map(|at| f32::from(line[at * channels + channel]));
        first + (second - first) * column.share
    };
    if channels == 3 {
        // Known to the compiler, which then unrolls it.
        for (pixel, column) in numbers.as_chunks_mut::<3>().0.iter_mut().zip(columns) {
            *pixel = std::array::from_fn(|channel| value(column, channel));
        }
        return;
    }
    for (pixel, column) in numbers.chunks_exact_mut(channels).zip(columns) {
        pixel.iter_mut().enumerate().for_each(|(channel, number)| *number = value(column, channel));
    }
}

/// What is seen of one axis.
pub(crate) struct Window {
    /// Pixels before it.
    pub(crate) start: f64,
    /// The share of the axis in it.
    pub(crate) kept: f64,
}

/// A place between two pixels.
struct Between {
    first: usize,
    second: usize,
    share: f32,
}

impl Window {
    fn source(&self, at: usize, side: usize) -> Between {
        let place = self.start + (at as f64 + 0.5) * self.kept - 0.5;
        let place = place.clamp(0.0, (side - 1) as f64);
        let first = place.floor();
        let second = (first as usize + 1).min(side - 1);
        Between { first: first as usize, second, share: (place - first) as f32 }
    }
}

/// Blurs by a normal distribution of this many pixels, the border repeated.
pub(crate) fn blur(pixels: &mut [u8], shape: FrameShape, deviation: f64) {
    let kernel = kernel(deviation);
    if kernel.len() == 1 {
        return;
    }
    let FrameShape { height, width, channels } = shape;
    let old: Vec<f32> = pixels.iter().map(|byte| f32::from(*byte)).collect();
    let mut across = vec![0.0; old.len()];
    let reach = kernel.len() / 2;
    let near = |at: usize, offset: usize, side: usize| (at + offset).saturating_sub(reach).min(side - 1);
    for y in 0..height {
        for x in 0..width {
            for (offset, weight) in kernel.iter().enumerate() {
                let from = (y * width + near(x, offset, width)) * channels;
                let to = (y * width + x) * channels;
                for channel in 0..channels {
                    across[to + channel] += weight * old[from + channel];
                }
            }
        }
    }
    let mut line = vec![0.0; width * channels];
    for y in 0..height {
        line.fill(0.0);
        for (offset, weight) in kernel.iter().enumerate() {
            let from = near(y, offset, height) * width * channels;
            for (sum, value) in line.iter_mut().zip(&across[from..]) {
                *sum += weight * value;
            }
        }
        for (byte, value) in pixels[y * width * channels..].iter_mut().zip(&line) {
            *byte = (value + 0.5).clamp(0.0, 255.0) as u8;
        }
    }
}

/// Weights that sum to one; a single one where there is nothing to blur.
fn kernel(deviation: f64) -> Vec<f32> {
    if deviation < 0.1 {
        return vec![1.0];
    }
    let reach = (3.0 * deviation).ceil() as i64;
    let weight = |at: i64| (-0.5 * (at as f64 / deviation).powi(2)).exp();
    let sum: f64 = (-reach..=reach).map(weight).sum();
    (-reach..=reach).map(|at| (weight(at) / sum) as f32).collect()
}

/// Covers a rectangle with sides of up to `share`.
pub(super) fn cut_out(pixels: &mut [u8], shape: FrameShape, share: f64, seed: Seed) {
    let mut rng = seed.rng();
    let mut span = |side: usize| {
        let length = ((side as f64 * share.min(1.0) * rng.unit()).ceil() as usize).clamp(1, side);
        let start = rng.below(side - length + 1);
        start..start + length
    };
    let (rows, columns) = (span(shape.height), span(shape.width));
    for y in rows {
        let line = &mut pixels[y * shape.width * shape.channels..][..shape.width * shape.channels];
        for pixel in line.chunks_exact_mut(shape.channels).skip(columns.start).take(columns.len()) {
            for (channel, byte) in pixel.iter_mut().enumerate() {
                *byte = GREY.get(channel).copied().unwrap_or(255);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_moves_whole_pixels_and_repeats_the_border() {
        let shape = FrameShape { height: 4, width: 8, channels: 1 };
        let original: Vec<u8> = (0..32).collect();
        for seed in 0..30 {
            let mut pixels = vec![0; original.len()];
            move_and_crop(&original, shape, 0.25, 0.0, Seed::new(seed), &mut pixels);
            let found = (-1i64..=1).flat_map(|down| (-2i64..=2).map(move |right| (down, right))).find(
                |(down, right)| {
                    let expected = |y: i64, x: i64| {
                        original[((y + down).clamp(0, 3) * 8 + (x + right).clamp(0, 7)) as usize]
                    };
                    (0..4).all(|y| (0..8).all(|x| pixels[(y * 8 + x) as usize] == expected(y, x)))
                },
            );
            assert!(found.is_some(), "{pixels:?}");
        }
    }

    /// Each pixel by itself, from the four around its place.
    fn resampled_plainly(image: &[u8], shape: FrameShape, rows: &Window, columns: &Window) -> Vec<u8> {
        let FrameShape { height, width, channels } = shape;
        let mut pixels = Vec::new();
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let (row, column) = (rows.source(y, height), columns.source(x, width));
            for channel in 0..channels {
                let across = |line: usize| {
                    let value = |at: usize| f32::from(image[(line * width + at) * channels + channel]);
                    value(column.first) + (value(column.second) - value(column.first)) * column.share
                };
                let (above, below) = (across(row.first), across(row.second));
                pixels.push((above + (below - above) * row.share + 0.5) as u8);
            }
        }
        pixels
    }

    #[test]
    fn resampling_by_lines_gives_the_bytes_of_resampling_by_pixels() {
        let mut rng = Seed::new(8).rng();
        for (height, width, channels) in [(9, 14, 3), (1, 1, 3), (5, 3, 1), (3, 7, 4)] {
            let shape = FrameShape { height, width, channels };
            let image: Vec<u8> = (0..shape.bytes()).map(|_| rng.below(256) as u8).collect();
            for _ in 0..40 {
                let mut window = || Window { start: rng.uniform(-9.0, 9.0), kept: rng.uniform(0.05, 1.5) };
                let (rows, columns) = (window(), window());
                let mut pixels = vec![0; image.len()];
                resample(&image, shape, &rows, &columns, &mut pixels);
                assert_eq!(pixels, resampled_plainly(&image, shape, &rows, &columns));
            }
        }
    }

    #[test]
    fn kernels_sum_to_one() {
        for deviation in [0.2, 0.5, 1.0, 3.0] {
            assert!((kernel(deviation).iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
        assert_eq!(kernel(0.0), [1.0]);
    }

    #[test]
    fn a_blurred_point_spreads_and_keeps_its_light() {
        let shape = FrameShape { height: 15, width: 15, channels: 1 };
        let mut pixels = vec![0; 225];
        pixels[7 * 15 + 7] = 250;
        blur(&mut pixels, shape, 1.0);
        let sum: u32 = pixels.iter().map(|byte| u32::from(*byte)).sum();
        assert!((235..=265).contains(&sum), "{sum}");
        assert_eq!(pixels[7 * 15 + 7], 40, "250 / (2 pi)");
        assert_eq!(pixels[6 * 15 + 7], pixels[7 * 15 + 6]);
    }
}
