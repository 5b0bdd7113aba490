//! Images of any file as bytes of height, width and channel.

use std::borrow::Cow;

use crate::convert::{FileProblem, Form, Layout, Strictness};
use crate::python::Array;

/// An image as it lies in its file.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    array: Array,
    layout: Layout,
}

/// An image as bytes.
#[derive(Debug)]
pub(super) struct Pixels<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// Height, width and channels.
    pub(super) shape: [usize; 3],
}

impl Picture {
    /// An image, if an array has the shape of one. Channels are found where there are 1, 3 or 4 of them.
    pub(super) fn of(array: &Array) -> Option<Self> {
        let is_channels = |side: usize| matches!(side, 1 | 3 | 4);
        let layout = match *array.shape() {
            [1, _, _, last] | [_, _, last] if is_channels(last) => Layout::ChannelsLast,
            [1, first, _, _] | [first, _, _] if is_channels(first) => Layout::ChannelsFirst,
            _ => return None,
        };
        Some(Self { array: array.clone(), layout })
    }

    /// An image whose channels come first.
    pub(super) fn channels_first(array: Array) -> Self {
        Self { array, layout: Layout::ChannelsFirst }
    }

    /// Its bytes, in place where they lie as wanted.
    pub(super) fn pixels(&self) -> Result<Pixels<'_>, FileProblem> {
        let form = Form::of(&self.array, self.layout, Strictness::AllowByteFloats, || "an image".into())?;
        let shape = form.shape();
        if form.is_plain() {
            return Ok(Pixels { bytes: Cow::Borrowed(self.array.bytes()), shape });
        }
        let mut bytes = vec![0; shape.iter().product()];
        form.convert(self.array.bytes(), &mut bytes);
        Ok(Pixels { bytes: Cow::Owned(bytes), shape })
    }
}

impl Pixels<'_> {
    /// The image fitted into a square of RGB, what is beside it in `around`; each pixel is the mean of those it covers.
    pub(super) fn fitted(&self, side: usize, around: [u8; 3]) -> Vec<u8> {
        let [height, width, channels] = self.shape;
        let long = height.max(width);
        let (tall, wide) = ((height * side / long).max(1), (width * side / long).max(1));
        let (top, left) = ((side - tall) / 2, (side - wide) / 2);
        let mut out = around.repeat(side * side);
        for y in 0..tall {
            for x in 0..wide {
                let at = ((top + y) * side + left + x) * 3;
                for (channel, byte) in out[at..at + 3].iter_mut().enumerate() {
                    let channel = if channels < 3 { 0 } else { channel };
                    *byte = self.mean(covers(y, tall, height), covers(x, wide, width), channel);
                }
            }
        }
        out
    }

    fn mean(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, channel: usize) -> u8 {
        let [_, width, channels] = self.shape;
        let count = (rows.len() * columns.len()) as u64;
        let pixel =
            |row: usize, column: usize| u64::from(self.bytes[(row * width + column) * channels + channel]);
        let sum: u64 = rows.flat_map(|row| columns.clone().map(move |column| pixel(row, column))).sum();
        (sum / count.max(1)) as u8
    }
}

/// Which of `from` pixels the pixel number `at` of `to` covers: at least one.
fn covers(at: usize, to: usize, from: usize) -> std::ops::Range<usize> {
    let start = at * from / to;
    start..((at + 1) * from / to).max(start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_fitted_whole() {
        let array = Array::from_slice(&[2, 4, 3], &[10u8; 24]).unwrap();
        let picture = Picture::of(&array).unwrap();
        let fitted = picture.pixels().unwrap().fitted(4, [9, 9, 9]);
        assert_eq!(&fitted[..12], [9; 12], "a wide image has bars above and below");
        assert_eq!(&fitted[12..36], [10; 24]);
        let grey = Array::from_slice(&[1, 2, 2], &[0.0f32, 0.2, 0.4, 1.0]).unwrap();
        let small = Picture::of(&grey).unwrap();
        assert_eq!(small.pixels().unwrap().fitted(1, [0; 3]), [102; 3]);
        assert!(Picture::of(&Array::from_slice(&[7], &[0u8; 7]).unwrap()).is_none());
    }
}
