//! Images brought to a size the model takes, to the last level as torch does it.

use super::error::VlmError;

/// An image wider than this times its height, or the other way round, is refused.
const LONGEST_ASPECT: f64 = 200.0;

/// Rounds halves to even numbers, as Python does.
fn round(value: f64) -> f64 {
    value.round_ties_even()
}

/// The size a video of so many frames is brought to: sides multiples of `factor`, pixels of all frames between two
/// bounds. An image is a video of one frame with `frame_factor` 1.
pub(super) fn smart_size(
    [frames, height, width]: [usize; 3],
    frame_factor: usize,
    factor: usize,
    [least, most]: [usize; 2],
) -> Result<[usize; 2], VlmError> {
    if height == 0 || width == 0 {
        return Err(VlmError::Input(format!("an image of {height}x{width} pixels")));
    }
    let (mut h, mut w, f) = (height as f64, width as f64, factor as f64);
    if frame_factor > 1 && height.min(width) < factor {
        let scale = (f / h).max(f / w);
        (h, w) = ((h * scale).floor(), (w * scale).floor());
    }
    if h.max(w) / h.min(w) > LONGEST_ASPECT {
        let what = format!("an image of {height}x{width} pixels: one side is more than 200 times the other");
        return Err(VlmError::Input(what));
    }
    let t = frames as f64;
    let rounded_frames = round(t / frame_factor as f64) * frame_factor as f64;
    let side = |side: f64| round(side / f) * f;
    let pixels = rounded_frames * side(h) * side(w);
    let size = if pixels > most as f64 {
        let beta = (t * h * w / most as f64).sqrt();
        [h, w].map(|side| f.max((side / beta / f).floor() * f))
    } else if pixels < least as f64 {
        let beta = (least as f64 / (t * h * w)).sqrt();
        [h, w].map(|side| (side * beta / f).ceil() * f)
    } else {
        [side(h), side(w)]
    };
    if size.contains(&0.0) {
        return Err(VlmError::Input(format!(
            "an image of {height}x{width} pixels is too small to be scaled"
        )));
    }
    Ok(size.map(|side| side as usize))
}

/// The pixels that one pixel of the result is made of.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// What every result along one axis is made of, and by how many bits its weights were scaled.
struct Axis {
    taps: Vec<Taps>,
    bits: u32,
}

/// Keys' cubic with -1/2, as Pillow and torch use it when they smooth.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

impl Axis {
    fn new(from: usize, to: usize) -> Self {
        let scale = from as f64 / to as f64;
        let support = 2.0 * scale.max(1.0);
        let inverse = 1.0 / scale.max(1.0);
        let real: Vec<(usize, Vec<f64>)> = (0..to)
            .map(|i| {
                let center = scale * (i as f64 + 0.5);
                let first = (center - support + 0.5).max(0.0) as usize;
                let end = ((center + support + 0.5) as usize).min(from);
                let weights: Vec<f64> =
                    (first..end).map(|j| cubic((j as f64 - center + 0.5) * inverse)).collect();
                let total: f64 = weights.iter().sum();
                (first, weights.into_iter().map(|weight| weight / total).collect())
            })
            .collect();
        let largest = real.iter().flat_map(|(_, weights)| weights).copied().fold(0.0, f64::max);
        let bits = weight_bits(largest);
        let whole = |weight: f64| (weight * f64::from(1 << bits) + 0.5f64.copysign(weight)) as i32;
        let taps = real
            .into_iter()
            .map(|(first, weights)| Taps { first, weights: weights.into_iter().map(whole).collect() })
            .collect();
        Self { taps, bits }
    }

    /// One result from the numbers that `at` gives.
    fn mix(&self, taps: &Taps, at: impl Fn(usize) -> u8) -> u8 {
        let start = 1 << (self.bits - 1);
        let products = taps.weights.iter().enumerate();
        let sum = products.fold(start, |sum, (j, weight)| sum + weight * i32::from(at(taps.first + j)));
        (sum >> self.bits).clamp(0, 255) as u8
    }
}

/// As many bits as keep the largest weight inside 16.
fn weight_bits(largest: f64) -> u32 {
    let fits = |bits: &u32| (0.5 + largest * f64::from(1 << (bits + 1))) < f64::from(1 << 15);
    (0..22).find(|bits| !fits(bits)).unwrap_or(22)
}

/// An RGB image `[height, width, 3]` at another size: bicubic and smoothed, first along rows, then along columns,
/// each pass rounded to bytes.
pub(super) fn bicubic(
    pixels: &[u8],
    [height, width]: [usize; 2],
    [to_height, to_width]: [usize; 2],
) -> Vec<u8> {
    let along_rows = if to_width == width {
        pixels.to_vec()
    } else {
        let axis = Axis::new(width, to_width);
        let row = |y: usize| {
            let pixels = &pixels[y * width * 3..];
            axis.taps
                .iter()
                .flat_map(|taps| (0..3).map(|c| axis.mix(taps, |x| pixels[x * 3 + c])))
                .collect::<Vec<_>>()
        };
        (0..height).flat_map(row).collect()
    };
    if to_height == height {
        return along_rows;
    }
    let axis = Axis::new(height, to_height);
    let line = to_width * 3;
    let row = |taps| (0..line).map(|x| axis.mix(taps, |y| along_rows[y * line + x])).collect::<Vec<_>>();
    axis.taps.iter().flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_transformers() {
        // (frames, height, width), frame factor, bounds, size; from `smart_resize` of transformers 5.22.2.
        let image = [65_536, 16_777_216];
        let video = [4096, 25_165_824];
        let cases = [
            ([1, 96, 80], 1, image, [288, 256]),
            ([1, 128, 128], 1, [1024, 16_777_216], [128, 128]),
            ([1, 112, 144], 1, [1024, 16_777_216], [128, 128]), // 3.5 and 4.5 both round to 4
            ([1, 8000, 6000], 1, image, [4704, 3520]),
            ([4, 100, 100], 2, video, [96, 96]),
            ([4, 20, 50], 2, video, [32, 64]), // 32x80 first
            ([2, 33, 33], 2, video, [64, 64]),
            ([600, 480, 640], 2, video, [160, 224]),
        ];
        for (size, frames, bounds, expected) in cases {
            assert_eq!(smart_size(size, frames, 32, bounds).unwrap(), expected, "{size:?}");
        }
        assert!(smart_size([1, 10, 4000], 1, 32, image).is_err());
    }
}
