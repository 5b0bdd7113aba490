//! From what a camera takes to what a policy sees: cut, then scale.

use plaudit_core::{FrameShape, Frames};
use thiserror::Error;

use super::jpeg::LARGEST_SIDE;

/// Part of an image, in shares of its height and width from the upper left corner: RLinf's `camera_crop_regions`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CropRegion {
    top: f64,
    left: f64,
    bottom: f64,
    right: f64,
}

/// A region that is none.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error(
    "[top, left, bottom, right] = {0:?} is no region of an image: all lie between 0 and 1, top above bottom, left before right"
)]
pub struct CropRegionError(pub [f64; 4]);

impl CropRegion {
    /// From `[top, left, bottom, right]`.
    pub fn new([top, left, bottom, right]: [f64; 4]) -> Result<Self, CropRegionError> {
        let is_region =
            0.0 <= top && top < bottom && bottom <= 1.0 && 0.0 <= left && left < right && right <= 1.0;
        if is_region {
            Ok(Self { top, left, bottom, right })
        } else {
            Err(CropRegionError([top, left, bottom, right]))
        }
    }
}

/// What is kept of an image.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Crop {
    /// The largest part in the middle with the frame's proportions; of square frames a square, as RLinf cuts.
    #[default]
    Centre,
    /// A part of it.
    Region(CropRegion),
    /// All of it.
    Whole,
}

/// How a camera's images become frames of the configured size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameFit {
    /// What is kept.
    pub crop: Crop,
    /// Rows of the frame.
    pub height: usize,
    /// Columns of the frame.
    pub width: usize,
}

impl From<FrameShape> for FrameFit {
    /// The middle of the image at this size.
    fn from(FrameShape { height, width, .. }: FrameShape) -> Self {
        Self { crop: Crop::Centre, height, width }
    }
}

/// Rows and columns of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    top: usize,
    left: usize,
    height: usize,
    width: usize,
}

impl FrameFit {
    /// The middle of the image as a square of `side` pixels.
    pub fn square(side: usize) -> Self {
        Self { crop: Crop::Centre, height: side, width: side }
    }

    /// The shape of the frames.
    pub fn shape(&self) -> FrameShape {
        FrameShape::rgb(self.height, self.width)
    }

    /// Refuses frames without pixels, and such as nobody can mean.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (height, width) = (self.height, self.width);
        if (1..=LARGEST_SIDE).contains(&height) && (1..=LARGEST_SIDE).contains(&width) {
            return Ok(());
        }
        Err(format!("frames of {width}x{height} cannot be made; sides of 1 to {LARGEST_SIDE} pixels can"))
    }

    /// Cuts and scales one RGB image. Scaling is linear between the centres of pixels, as OpenCV does by default.
    pub(crate) fn apply(&self, image: Frames) -> Frames {
        let window = self.window(image.shape);
        let is_whole = window.height == image.shape.height && window.width == image.shape.width;
        if is_whole && image.shape == self.shape() {
            return image;
        }
        let rows = samples(window.top, window.height, self.height);
        let columns = samples(window.left, window.width, self.width);
        let stride = image.shape.width * 3;
        let mut pixels = Vec::with_capacity(self.shape().bytes());
        for row in &rows {
            let (upper, lower) = (&image.pixels[row.first * stride..], &image.pixels[row.second * stride..]);
            for column in &columns {
                for channel in 0..3 {
                    let (left, right) = (column.first * 3 + channel, column.second * 3 + channel);
                    let above = column.mix(upper[left].into(), upper[right].into());
                    let below = column.mix(lower[left].into(), lower[right].into());
                    pixels.push(row.mix(above, below).round() as u8);
                }
            }
        }
        Frames { shape: self.shape(), pixels }
    }

    fn window(&self, FrameShape { height, width, .. }: FrameShape) -> Window {
        match self.crop {
            Crop::Whole => Window { top: 0, left: 0, height, width },
            Crop::Centre => {
                // Whole pixels, rounded down: heights and widths are at most a few thousand.
                let (wanted_height, wanted_width) = (self.height.max(1), self.width.max(1));
                let cut_height = height.min(width * wanted_height / wanted_width).max(1);
                let cut_width = width.min(height * wanted_width / wanted_height).max(1);
                let (top, left) = ((height - cut_height) / 2, (width - cut_width) / 2);
                Window { top, left, height: cut_height, width: cut_width }
            }
            Crop::Region(CropRegion { top, left, bottom, right }) => {
                let (top, height) = span(top, bottom, height);
                let (left, width) = span(left, right, width);
                Window { top, left, height, width }
            }
        }
    }
}

/// Where a share of `size` pixels begins and how many it has: at least one.
fn span(from: f64, to: f64, size: usize) -> (usize, usize) {
    let at = |share: f64| (share * size as f64) as usize;
    let first = at(from).min(size - 1);
    (first, at(to).min(size).saturating_sub(first).max(1))
}

/// Two neighbours and how much of the second there is.
struct Sample {
    first: usize,
    second: usize,
    share: f32,
}

impl Sample {
    fn mix(&self, first: f32, second: f32) -> f32 {
        first + (second - first) * self.share
    }
}

/// For each of `wanted` pixels, what it is mixed from among `available` ones that begin at `start`.
fn samples(start: usize, available: usize, wanted: usize) -> Vec<Sample> {
    let step = available as f64 / wanted as f64;
    let sample = |at: usize| {
        let place = ((at as f64 + 0.5) * step - 0.5).clamp(0.0, (available - 1) as f64);
        let first = place as usize;
        let second = (first + 1).min(available - 1);
        Sample { first: start + first, second: start + second, share: (place - first as f64) as f32 }
    };
    (0..wanted).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every pixel says where it is: row, column, their sum.
    fn map(height: usize, width: usize) -> Frames {
        let pixel = |at: usize| [(at / width) as u8, (at % width) as u8, (at / width + at % width) as u8];
        let pixels = (0..height * width).flat_map(pixel).collect();
        Frames::new(FrameShape::rgb(height, width), pixels).unwrap()
    }

    #[test]
    fn the_middle_square_is_cut_and_halved() {
        let frame = FrameFit::square(2).apply(map(4, 8));
        // Columns 2 to 5 remain; each new pixel is the mean of four: rows 0.5 and 2.5, columns 2.5 and 4.5.
        assert_eq!(frame.pixels, [1, 3, 3, 1, 5, 5, 3, 3, 5, 3, 5, 7]);
    }

    #[test]
    fn the_middle_has_the_proportions_of_the_frame() {
        let fit = FrameFit { crop: Crop::Centre, height: 1, width: 2 };
        assert_eq!(
            fit.window(FrameShape::rgb(480, 640)),
            Window { top: 80, left: 0, height: 320, width: 640 }
        );
        let square = FrameFit::square(128);
        assert_eq!(
            square.window(FrameShape::rgb(480, 640)),
            Window { top: 0, left: 80, height: 480, width: 480 }
        );
    }

    #[test]
    fn enlarging_repeats_the_border_and_mixes_inside() {
        let fit = FrameFit { crop: Crop::Whole, height: 1, width: 4 };
        let image = Frames::new(FrameShape::rgb(1, 2), vec![0, 0, 0, 100, 100, 100]).unwrap();
        let reds: Vec<u8> = fit.apply(image).pixels.chunks(3).map(|pixel| pixel[0]).collect();
        assert_eq!(reds, [0, 25, 75, 100]);
    }

    #[test]
    fn frames_that_cannot_be_are_refused() {
        assert!(FrameFit::square(128).check().is_ok());
        assert!(FrameFit::square(0).check().unwrap_err().contains("0x0"));
        assert!(FrameFit { crop: Crop::Whole, height: 1, width: 1 << 40 }.check().is_err());
    }

    #[test]
    fn a_region_is_cut_out() {
        let region = CropRegion::new([0.5, 0.25, 1.0, 0.75]).unwrap();
        let fit = FrameFit { crop: Crop::Region(region), height: 2, width: 4 };
        assert_eq!(fit.apply(map(4, 8)).pixels[..6], [2, 2, 4, 2, 3, 5]);
    }

    #[test]
    fn regions_that_are_none_are_refused() {
        for wrong in
            [[0.5, 0.0, 0.5, 1.0], [-0.1, 0.0, 1.0, 1.0], [0.0, 0.9, 1.0, 0.1], [0.0, 0.0, f64::NAN, 1.0]]
        {
            let error = CropRegion::new(wrong).unwrap_err();
            assert!(error.to_string().contains("between 0 and 1"));
        }
    }

    proptest! {
        #[test]
        fn frames_have_the_configured_size_and_no_colour_from_nowhere(
            height in 1usize..40, width in 1usize..40, rows in 1usize..20, columns in 1usize..20,
            top in 0.0f64..0.9, left in 0.0f64..0.9,
        ) {
            let region = CropRegion::new([top, left, (top + 0.1).min(1.0), (left + 0.1).min(1.0)]).unwrap();
            for crop in [Crop::Whole, Crop::Centre, Crop::Region(region)] {
                let frame = FrameFit { crop, height: rows, width: columns }.apply(map(height, width));
                prop_assert_eq!(frame.shape, FrameShape::rgb(rows, columns));
                prop_assert_eq!(frame.pixels.len(), rows * columns * 3);
                let possible = |pixel: &[u8]| usize::from(pixel[0]) < height && usize::from(pixel[1]) < width;
                prop_assert!(frame.pixels.chunks(3).all(possible));
            }
        }
    }
}
