//! Pictures as brightness and colour, in whole blocks.

use plaudit_draw::{Canvas, Rgb};

/// Numbers on a grid.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub(super) width: usize,
    pub(super) values: Vec<u8>,
}

impl Plane {
    pub(super) fn new(width: usize, height: usize) -> Self {
        Self { width, values: vec![0; width * height] }
    }

    pub(super) fn at(&self, x: usize, y: usize) -> i32 {
        i32::from(self.values[y * self.width + x])
    }

    /// The 4x4 values from (`x`, `y`), row after row.
    pub(super) fn block(&self, x: usize, y: usize) -> [i32; 16] {
        std::array::from_fn(|n| self.at(x + n % 4, y + n / 4))
    }

    /// Puts 4x4 values to (`x`, `y`), cut to what a byte holds.
    pub(super) fn set_block(&mut self, x: usize, y: usize, block: &[i32; 16]) {
        for (n, value) in block.iter().enumerate() {
            self.values[(y + n / 4) * self.width + x + n % 4] = (*value).clamp(0, 255) as u8;
        }
    }
}

/// Brightness at every pixel; blue and red at every second one across and down. BT.601, narrow range.
#[derive(Debug, Clone)]
pub(super) struct Yuv {
    pub(super) luma: Plane,
    pub(super) chroma: [Plane; 2],
}

impl Yuv {
    /// An empty picture with room for whole 16x16 blocks.
    pub(super) fn empty((width, height): (usize, usize)) -> Self {
        let (width, height) = (width.next_multiple_of(16), height.next_multiple_of(16));
        let chroma = || Plane::new(width / 2, height / 2);
        Self { luma: Plane::new(width, height), chroma: [chroma(), chroma()] }
    }

    /// A picture; beyond its edges, the last pixels go on.
    pub(super) fn of(picture: &Canvas) -> Self {
        let mut yuv = Self::empty(picture.size());
        let width = yuv.luma.width;
        let pixel = |x: usize, y: usize| picture.at(x.min(picture.width() - 1), y.min(picture.height() - 1));
        for y in (0..yuv.luma.values.len() / width).step_by(2) {
            for x in (0..width).step_by(2) {
                let square = [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)];
                let mut sum = [0; 3];
                for (x, y) in square {
                    let colour = pixel(x, y);
                    yuv.luma.values[y * width + x] = brightness(colour);
                    sum = std::array::from_fn(|n| sum[n] + i32::from(colour[n]));
                }
                let at = y / 2 * (width / 2) + x / 2;
                yuv.chroma[0].values[at] = weighted(sum, [-38, -74, 112], 128);
                yuv.chroma[1].values[at] = weighted(sum, [112, -94, -18], 128);
            }
        }
        yuv
    }
}

fn brightness(colour: Rgb) -> u8 {
    let [red, green, blue] = colour.map(i32::from);
    (((66 * red + 129 * green + 25 * blue + 128) >> 8) + 16) as u8
}

/// A weighted sum of four pixels, in 256ths.
fn weighted(sum: [i32; 3], weights: [i32; 3], offset: i32) -> u8 {
    let total: i32 = sum.iter().zip(weights).map(|(sum, weight)| sum * weight).sum();
    (((total + 512) >> 10) + offset) as u8
}
