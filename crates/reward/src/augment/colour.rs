//! Light and colour: all four changes as one matrix, so that an image is gone through once.

use plaudit_core::{Rng, Seed};

use super::Augment;

/// How much red, green and blue make up brightness (ITU-R BT.601).
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// Changes of one image, as factors around 1 and an angle in turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Jitter {
    pub(crate) brightness: f32,
    pub(crate) contrast: f32,
    pub(crate) saturation: f32,
    pub(crate) hue_turns: f32,
}

impl Jitter {
    /// Nothing where nothing is asked for.
    pub(super) fn sample(augment: &Augment, seed: Seed) -> Option<Self> {
        let Augment { brightness, contrast, saturation, hue, .. } = *augment;
        if [brightness, contrast, saturation, hue].iter().all(|amount| *amount <= 0.0) {
            return None;
        }
        let mut rng = seed.rng();
        let around = |rng: &mut Rng, amount: f64| rng.uniform(-amount, amount.max(f64::MIN_POSITIVE)) as f32;
        Some(Self {
            brightness: 1.0 + around(&mut rng, brightness),
            contrast: 1.0 + around(&mut rng, contrast),
            saturation: 1.0 + around(&mut rng, saturation),
            hue_turns: around(&mut rng, hue),
        })
    }

    /// Brightness, then contrast around the mean, then saturation around each pixel's grey, then hue.
    pub(crate) fn apply(&self, pixels: &mut [u8]) {
        let mean = mean_luma(pixels) * self.brightness;
        let gain = self.brightness * self.contrast;
        // Grey is untouched by saturation and hue, so the offset of contrast goes through unchanged.
        let offset = mean * (1.0 - self.contrast);
        let matrix = multiply(&hue(self.hue_turns), &saturation(self.saturation));
        let matrix = matrix.map(|row| row.map(|factor| factor * gain));
        for pixel in pixels.chunks_exact_mut(3) {
            let old = [pixel[0], pixel[1], pixel[2]].map(f32::from);
            for (byte, row) in pixel.iter_mut().zip(&matrix) {
                let value = row[0] * old[0] + row[1] * old[1] + row[2] * old[2] + offset;
                *byte = (value + 0.5).clamp(0.0, 255.0) as u8;
            }
        }
    }
}

fn mean_luma(pixels: &[u8]) -> f32 {
    let mut sums = [0u64; 3];
    for pixel in pixels.chunks_exact(3) {
        for (sum, byte) in sums.iter_mut().zip(pixel) {
            *sum += u64::from(*byte);
        }
    }
    let count = (pixels.len() / 3).max(1) as f32;
    sums.iter().zip(LUMA).map(|(sum, share)| *sum as f32 / count * share).sum()
}

type Matrix = [[f32; 3]; 3];

/// Towards or away from each pixel's grey.
fn saturation(factor: f32) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let own = if row == column { factor } else { 0.0 };
            own + (1.0 - factor) * LUMA[column]
        })
    })
}

/// A turn of the colour circle that keeps greys: around the diagonal of the cube of colours.
fn hue(turns: f32) -> Matrix {
    let (sin, cos) = (std::f32::consts::TAU * turns).sin_cos();
    let (third, root) = (1.0 / 3.0, (1.0f32 / 3.0).sqrt());
    let same = cos + (1.0 - cos) * third;
    let (one, other) = (third * (1.0 - cos) - root * sin, third * (1.0 - cos) + root * sin);
    [[same, one, other], [other, same, one], [one, other, same]]
}

fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| (0..3).map(|inner| a[row][inner] * b[inner][column]).sum())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Jitter = Jitter { brightness: 1.0, contrast: 1.0, saturation: 1.0, hue_turns: 0.0 };

    fn changed(jitter: Jitter, pixels: [u8; 6]) -> [u8; 6] {
        let mut pixels = pixels;
        jitter.apply(&mut pixels);
        pixels
    }

    #[test]
    fn no_change_is_no_change() {
        let pixels = [200, 10, 30, 0, 255, 128];
        assert_eq!(changed(NONE, pixels), pixels);
    }

    #[test]
    fn each_factor_does_its_own() {
        let pixels = [100, 100, 100, 50, 50, 50];
        assert_eq!(changed(Jitter { brightness: 1.2, ..NONE }, pixels), [120, 120, 120, 60, 60, 60]);
        assert_eq!(changed(Jitter { contrast: 0.0, ..NONE }, pixels), [75; 6]);
        assert_eq!(
            changed(Jitter { saturation: 0.0, ..NONE }, [255, 0, 0, 0, 0, 255]),
            [76, 76, 76, 29, 29, 29]
        );
        assert_eq!(
            changed(Jitter { hue_turns: 1.0 / 3.0, ..NONE }, [255, 0, 0, 9, 9, 9]),
            [0, 255, 0, 9, 9, 9]
        );
        assert_eq!(changed(Jitter { brightness: 3.0, ..NONE }, pixels), [255, 255, 255, 150, 150, 150]);
    }
}
