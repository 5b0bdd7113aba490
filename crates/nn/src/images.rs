//! Image preprocessing: whatever people have becomes what the network was trained on.
//!
//! The arithmetic is PyTorch's: bytes become `x / 255`, floats must already lie in 0..1, sizes change by bilinear
//! interpolation without antialiasing (`F.interpolate(..., align_corners=False)`), and ImageNet's mean and standard
//! deviation are taken off last.

use rayon::prelude::*;

/// ImageNet's channel means.
pub const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
/// ImageNet's channel standard deviations.
pub const STD: [f32; 3] = [0.229, 0.224, 0.225];

/// The numbers of images.
#[derive(Clone, Copy, Debug)]
pub enum Pixels<'a> {
    /// 0 to 255.
    U8(&'a [u8]),
    /// 0.0 to 1.0.
    F32(&'a [f32]),
}

/// The order of the axes of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Rows, columns, colours: cameras and PNG.
    Hwc,
    /// Colours, rows, columns: PyTorch.
    Chw,
}

impl ImageLayout {
    /// The order that a shape `[n, a, b, c]` suggests, as RLinf reads it: colours come last if there are 1, 3 or 4
    /// of them.
    #[must_use]
    pub fn of_shape(shape: [usize; 4]) -> Self {
        if matches!(shape[3], 1 | 3 | 4) { Self::Hwc } else { Self::Chw }
    }
}

/// The images of one camera, one after another in memory.
#[derive(Clone, Copy, Debug)]
pub struct ViewPixels<'a> {
    /// The camera, as `image_keys` names it.
    pub key: &'a str,
    /// All images.
    pub pixels: Pixels<'a>,
    /// The order of their axes.
    pub layout: ImageLayout,
    /// How many images.
    pub count: usize,
    /// Rows of each.
    pub height: usize,
    /// Columns of each.
    pub width: usize,
    /// Colours of each.
    pub channels: usize,
}

impl<'a> ViewPixels<'a> {
    /// Images in an array of four axes, whose order is inferred from its shape ([`ImageLayout::of_shape`]).
    #[must_use]
    pub fn from_shape(key: &'a str, pixels: Pixels<'a>, shape: [usize; 4]) -> Self {
        let layout = ImageLayout::of_shape(shape);
        let [count, a, b, c] = shape;
        let (height, width, channels) = if layout == ImageLayout::Hwc { (a, b, c) } else { (b, c, a) };
        Self { key, pixels, layout, count, height, width, channels }
    }

    fn numbers_of_one(&self) -> usize {
        self.height * self.width * self.channels
    }
}

/// The images of a batch, by camera. The `i`-th images of all cameras belong together.
#[derive(Clone, Debug)]
pub struct ImageBatch<'a> {
    views: Vec<ViewPixels<'a>>,
}

/// Images that a network cannot take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A frame that cannot be read or decoded.
    #[error("{why}")]
    Unreadable {
        /// Which, and why.
        why: String,
    },
    /// A camera of the model is not in the batch.
    #[error(
        "no images of camera `{key}`; the batch has {}. The model was made for `image_keys: [{}]`",
        listed(.present), .wanted.join(", ")
    )]
    MissingView {
        /// The camera.
        key: String,
        /// Those that are there.
        present: Vec<String>,
        /// Those the model needs.
        wanted: Vec<String>,
    },
    /// Not three colours.
    #[error("camera `{key}`: images of {channels} channels; the model takes {wanted}: {hint}")]
    Channels {
        /// The camera.
        key: String,
        /// The channels of its images.
        channels: usize,
        /// The channels of the model.
        wanted: usize,
        /// What to do.
        hint: &'static str,
    },
    /// Floats that are not in 0..1.
    #[error(
        "camera `{key}`: float images must lie in 0..1, but range from {min} to {max}; divide by 255, or pass \
         bytes"
    )]
    Range {
        /// The camera.
        key: String,
        /// The least number.
        min: f32,
        /// The greatest number.
        max: f32,
    },
    /// A buffer that its shape does not fill.
    #[error(
        "camera `{key}`: {count} images of {height}x{width}x{channels} need {needed} numbers, not {given}"
    )]
    Length {
        /// The camera.
        key: String,
        /// Images announced.
        count: usize,
        /// Rows announced.
        height: usize,
        /// Columns announced.
        width: usize,
        /// Colours announced.
        channels: usize,
        /// The numbers these would be.
        needed: usize,
        /// The numbers there are.
        given: usize,
    },
    /// Cameras with different numbers of images.
    #[error(
        "camera `{key}` has {count} images and `{other}` has {other_count}; each time step needs one of each"
    )]
    Counts {
        /// The first camera.
        key: String,
        /// Its images.
        count: usize,
        /// Another camera.
        other: String,
        /// Its images.
        other_count: usize,
    },
    /// Images without rows or columns.
    #[error("camera `{key}`: images of {height}x{width} have no pixels")]
    Empty {
        /// The camera.
        key: String,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl<'a> ImageBatch<'a> {
    /// A batch of one view for each camera. It may have more cameras than the model uses.
    ///
    /// # Errors
    /// When a buffer and its shape disagree, or cameras have different numbers of images.
    pub fn new(views: Vec<ViewPixels<'a>>) -> Result<Self, ImageError> {
        for view in &views {
            check_length(view)?;
            let first = &views[0];
            if view.count != first.count {
                return Err(ImageError::Counts {
                    key: first.key.to_owned(),
                    count: first.count,
                    other: view.key.to_owned(),
                    other_count: view.count,
                });
            }
        }
        Ok(Self { views })
    }

    /// A batch of one camera.
    ///
    /// # Errors
    /// When the buffer and its shape disagree.
    pub fn of(view: ViewPixels<'a>) -> Result<Self, ImageError> {
        Self::new(vec![view])
    }

    /// How many time steps there are images of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.views.first().map_or(0, |view| view.count)
    }

    /// Whether there are no images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cameras.
    #[must_use]
    pub fn views(&self) -> &[ViewPixels<'a>] {
        &self.views
    }

    /// The time steps `range`, of every camera.
    ///
    /// # Panics
    /// If the range reaches past the end.
    #[must_use]
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let cut = |view: &ViewPixels<'a>| {
            let one = view.numbers_of_one();
            let numbers = range.start * one..range.end * one;
            let pixels = match view.pixels {
                Pixels::U8(all) => Pixels::U8(&all[numbers]),
                Pixels::F32(all) => Pixels::F32(&all[numbers]),
            };
            ViewPixels { pixels, count: range.len(), ..*view }
        };
        Self { views: self.views.iter().map(cut).collect() }
    }

    /// The view of each camera that a model uses. A batch of one camera serves a model of one camera, whatever
    /// the two are called.
    ///
    /// # Errors
    /// When a camera is not in the batch.
    pub fn views_for(&self, keys: &[String]) -> Result<Vec<&ViewPixels<'a>>, ImageError> {
        if let ([only], [_]) = (&self.views[..], keys) {
            return Ok(vec![only]);
        }
        let find = |key: &String| {
            self.views.iter().find(|view| view.key == key).ok_or_else(|| ImageError::MissingView {
                key: key.clone(),
                present: self.views.iter().map(|view| view.key.to_owned()).collect(),
                wanted: keys.to_vec(),
            })
        };
        keys.iter().map(find).collect()
    }
}

fn check_length(view: &ViewPixels<'_>) -> Result<(), ImageError> {
    let ViewPixels { count, height, width, channels, .. } = *view;
    let given = match view.pixels {
        Pixels::U8(all) => all.len(),
        Pixels::F32(all) => all.len(),
    };
    let needed = [count, height, width, channels].iter().try_fold(1usize, |n, side| n.checked_mul(*side));
    if needed == Some(given) {
        return Ok(());
    }
    let needed = needed.unwrap_or(usize::MAX);
    Err(ImageError::Length { key: view.key.to_owned(), count, height, width, channels, needed, given })
}

/// The images of a camera as `[n, height, width, 3]` from 0 to 1, brought to a size.
///
/// # Errors
/// When they are not of three colours, empty, or floats beyond 0 and 1.
pub fn resized(view: &ViewPixels<'_>, [height, width]: [usize; 2]) -> Result<Vec<f32>, ImageError> {
    let preprocess = Preprocess { keys: Vec::new(), channels: 3, height, width, normalize: false };
    preprocess.check(view)?;
    Ok(preprocess.view(view))
}

/// How a model wants its images.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Preprocess {
    pub(crate) keys: Vec<String>,
    pub(crate) channels: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) normalize: bool,
}

impl Preprocess {
    /// The view of each camera, once it is known to fit.
    pub(crate) fn views<'b, 'a>(
        &self,
        batch: &'b ImageBatch<'a>,
    ) -> Result<Vec<&'b ViewPixels<'a>>, ImageError> {
        let views = batch.views_for(&self.keys)?;
        views.iter().try_for_each(|view| self.check(view))?;
        Ok(views)
    }

    /// Whether images already have the model's size.
    pub(crate) fn same_size(&self, view: &ViewPixels<'_>) -> bool {
        (view.height, view.width) == (self.height, self.width)
    }

    /// The images of a camera that fits, as `[n, height, width, channels]`.
    pub(crate) fn view(&self, view: &ViewPixels<'_>) -> Vec<f32> {
        let mut out = vec![0.0; view.count * self.height * self.width * self.channels];
        let resampler = Resampler {
            view,
            preprocess: self,
            rows: taps(view.height, self.height),
            columns: taps(view.width, self.width),
        };
        match view.pixels {
            Pixels::U8(all) if self.same_size(view) => {
                let table = self.table();
                resampler.each(all, &mut out, |from, to| {
                    resampler.copy(from, to, |c, byte| table[c][usize::from(byte)])
                });
            }
            Pixels::U8(all) => resampler.each(all, &mut out, |from, to| {
                resampler.resize(from, to, |byte| f32::from(byte) / 255.0);
            }),
            Pixels::F32(all) if self.same_size(view) => {
                resampler.each(all, &mut out, |from, to| {
                    resampler.copy(from, to, |c, number| self.finish(c, number))
                });
            }
            Pixels::F32(all) => {
                resampler.each(all, &mut out, |from, to| resampler.resize(from, to, |number| number));
            }
        }
        out
    }

    /// What a number in 0..1 of colour `c` becomes.
    fn finish(&self, c: usize, number: f32) -> f32 {
        if self.normalize { (number - MEAN[c % 3]) / STD[c % 3] } else { number }
    }

    /// What each byte of each colour becomes.
    pub(crate) fn table(&self) -> Vec<[f32; 256]> {
        let row = |c| std::array::from_fn(|byte| self.finish(c, byte as f32 / 255.0));
        (0..self.channels).map(row).collect()
    }

    fn check(&self, view: &ViewPixels<'_>) -> Result<(), ImageError> {
        let key = || view.key.to_owned();
        if view.channels != self.channels {
            let hint = match view.channels {
                4 => "drop the alpha channel",
                1 => "repeat the grey channel three times",
                _ => "check the order of the axes (rows, columns, colours or colours, rows, columns)",
            };
            return Err(ImageError::Channels {
                key: key(),
                channels: view.channels,
                wanted: self.channels,
                hint,
            });
        }
        if view.height == 0 || view.width == 0 {
            return Err(ImageError::Empty { key: key(), height: view.height, width: view.width });
        }
        if let Pixels::F32(all) = view.pixels {
            let (min, max) = range(all);
            let inside = all.is_empty() || (min >= 0.0 && max <= 1.0);
            if !inside {
                return Err(ImageError::Range { key: key(), min, max });
            }
        }
        Ok(())
    }
}

/// The least and the greatest number; NaN if there is one.
fn range(all: &[f32]) -> (f32, f32) {
    let of_chunk = |chunk: &[f32]| {
        let mut range = (f32::INFINITY, f32::NEG_INFINITY);
        for number in chunk {
            if number.is_nan() {
                return (f32::NAN, f32::NAN);
            }
            range = (range.0.min(*number), range.1.max(*number));
        }
        range
    };
    let join = |a: (f32, f32), b: (f32, f32)| {
        if b.0.is_nan() {
            b
        } else if a.0.is_nan() {
            a
        } else {
            (a.0.min(b.0), a.1.max(b.1))
        }
    };
    all.par_chunks(1 << 16).map(of_chunk).reduce(|| (f32::INFINITY, f32::NEG_INFINITY), join)
}

/// Two neighbours of a place along an axis, and the share of the second.
type Tap = (usize, usize, f32);

/// Where each of `to` places lies among `from`, with pixels as squares whose centres are at one half.
fn taps(from: usize, to: usize) -> Vec<Tap> {
    let scale = from as f32 / to as f32;
    let tap = |i: usize| {
        let place = ((i as f32 + 0.5) * scale - 0.5).max(0.0);
        let first = (place as usize).min(from.saturating_sub(1));
        (first, (first + 1).min(from.saturating_sub(1)), place - first as f32)
    };
    (0..to).map(tap).collect()
}

/// Resamples one camera's images to the network's size.
struct Resampler<'a> {
    view: &'a ViewPixels<'a>,
    preprocess: &'a Preprocess,
    rows: Vec<Tap>,
    columns: Vec<Tap>,
}

impl Resampler<'_> {
    fn each<T: Sync>(&self, all: &[T], out: &mut [f32], make: impl Fn(&[T], &mut [f32]) + Sync) {
        let (from, to) =
            (self.view.numbers_of_one(), self.rows.len() * self.columns.len() * self.view.channels);
        all.par_chunks(from).zip(out.par_chunks_mut(to)).for_each(|(from, to)| make(from, to));
    }

    /// Steps in memory from row to row, column to column, colour to colour.
    fn steps(&self) -> [usize; 3] {
        let ViewPixels { height, width, channels, .. } = *self.view;
        match self.view.layout {
            ImageLayout::Hwc => [width * channels, channels, 1],
            ImageLayout::Chw => [width, 1, height * width],
        }
    }

    fn copy<T: Copy>(&self, from: &[T], to: &mut [f32], finish: impl Fn(usize, T) -> f32) {
        let channels = self.view.channels;
        if self.view.layout == ImageLayout::Hwc {
            for (from, to) in from.chunks_exact(channels).zip(to.chunks_exact_mut(channels)) {
                for c in 0..channels {
                    to[c] = finish(c, from[c]);
                }
            }
        } else {
            for (c, plane) in from.chunks_exact(self.view.height * self.view.width).enumerate() {
                for (to, from) in to[c..].iter_mut().step_by(channels).zip(plane) {
                    *to = finish(c, *from);
                }
            }
        }
    }

    fn resize<T: Copy>(&self, from: &[T], to: &mut [f32], unit: impl Fn(T) -> f32) {
        let ([row, column, colour], channels) = (self.steps(), self.view.channels);
        let places = self.rows.iter().flat_map(|y| self.columns.iter().map(move |x| (*y, *x)));
        for (((top, bottom, down), (left, right, along)), to) in places.zip(to.chunks_exact_mut(channels)) {
            for (c, to) in to.iter_mut().enumerate() {
                let at = |y: usize, x: usize| unit(from[y * row + x * column + c * colour]);
                let upper = (1.0 - along) * at(top, left) + along * at(top, right);
                let lower = (1.0 - along) * at(bottom, left) + along * at(bottom, right);
                *to = self.preprocess.finish(c, (1.0 - down) * upper + down * lower);
            }
        }
    }
}

#[cfg(test)]
#[path = "../tests/torch/formula.rs"]
mod formula;

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(preprocess: &Preprocess, batch: &ImageBatch<'_>) -> Vec<f32> {
        preprocess.view(preprocess.views(batch).unwrap()[0])
    }

    #[derive(serde::Deserialize)]
    struct Case {
        name: String,
        shape: [usize; 4],
        size: [usize; 2],
        kind: String,
        normalize: bool,
        expected: Vec<f32>,
    }

    #[test]
    fn images_become_what_pytorch_makes_of_them() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/torch/images.json")).unwrap();
        for Case { name, shape, size: [height, width], kind, normalize, expected } in cases {
            let bytes = formula::bytes(&name, shape.iter().product());
            let floats: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte) / 256.0).collect();
            let pixels = if kind == "u8" { Pixels::U8(&bytes) } else { Pixels::F32(&floats) };
            let batch = ImageBatch::of(ViewPixels::from_shape("any", pixels, shape)).unwrap();
            let preprocess = Preprocess { keys: vec!["main".into()], channels: 3, height, width, normalize };
            let got = whole(&preprocess, &batch);
            assert_eq!(got.len(), expected.len(), "{name}");
            let off = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-6, "{name}: {off:e} off");
        }
    }

    #[test]
    fn images_that_do_not_fit_are_refused() {
        let preprocess = Preprocess {
            keys: vec!["wrist".into(), "side".into()],
            channels: 3,
            height: 4,
            width: 4,
            normalize: true,
        };
        let (bytes, floats) = ([0u8; 2 * 48], [0.5f32, f32::NAN, 2.0, -1.0].repeat(12));
        let view = |key, pixels, shape| ViewPixels::from_shape(key, pixels, shape);
        let good = view("wrist", Pixels::U8(&bytes), [2, 4, 4, 3]);
        let refused = |views: Vec<ViewPixels<'_>>| {
            let batch = ImageBatch::new(views);
            batch.and_then(|batch| preprocess.views(&batch).map(drop)).unwrap_err().to_string()
        };
        let cases = [
            (
                vec![good],
                "no images of camera `side`; the batch has wrist. The model was made for `image_keys: [wrist, side]`",
            ),
            (
                vec![good, view("side", Pixels::U8(&bytes), [1, 4, 6, 4])],
                "camera `wrist` has 2 images and `side` has 1",
            ),
            (
                vec![view("wrist", Pixels::U8(&bytes), [2, 4, 4, 4])],
                "2 images of 4x4x4 need 128 numbers, not 96",
            ),
            (
                vec![good, view("side", Pixels::U8(&bytes[..64]), [2, 4, 2, 4])],
                "camera `side`: images of 4 channels; the model takes 3: drop the alpha channel",
            ),
            (
                vec![good, view("side", Pixels::F32(&floats[..24]), [2, 3, 2, 2])],
                "camera `side`: float images must lie in 0..1, but range from NaN to NaN",
            ),
            (
                vec![good, view("side", Pixels::F32(&[0.0, 255.0, 3.0, 1.0, 1.0, 1.0]), [2, 1, 1, 3])],
                "range from 0 to 255; divide by 255, or pass bytes",
            ),
            (vec![good, view("side", Pixels::U8(&[]), [2, 0, 5, 3])], "images of 0x5 have no pixels"),
        ];
        for (views, expected) in cases {
            let error = refused(views);
            assert!(error.contains(expected), "{error}\nlacks: {expected}");
        }
    }

    #[test]
    fn parts_of_a_batch_are_the_same_images() {
        let bytes = formula::bytes("parts", 3 * 5 * 4 * 3);
        let batch = ImageBatch::of(ViewPixels::from_shape("any", Pixels::U8(&bytes), [3, 5, 4, 3])).unwrap();
        let preprocess =
            Preprocess { keys: vec!["any".into()], channels: 3, height: 6, width: 6, normalize: true };
        let parts = [0..1, 1..3].map(|range| whole(&preprocess, &batch.slice(range)));
        assert_eq!(parts.concat(), whole(&preprocess, &batch));
    }
}
