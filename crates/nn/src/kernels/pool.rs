//! Pooling: the largest of 3x3 pixels at every other pixel, and the mean of a whole image.

use super::Precision;
use super::simd::{Isa, Kernel, Simd};
use super::threads::{Shared, for_each};
use rayon::prelude::*;

/// Sizes of the images that go into a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolShape {
    /// Images.
    pub batch: usize,
    /// Rows of an input image.
    pub height: usize,
    /// Columns of an input image.
    pub width: usize,
    /// Channels.
    pub channels: usize,
}

impl PoolShape {
    /// Rows of an image after [`max_pool_3x3_s2_p1`].
    #[must_use]
    pub fn out_height(&self) -> usize {
        self.height.div_ceil(2)
    }

    /// Columns of an image after [`max_pool_3x3_s2_p1`].
    #[must_use]
    pub fn out_width(&self) -> usize {
        self.width.div_ceil(2)
    }

    /// Numbers before.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.batch * self.height * self.width * self.channels
    }

    /// Numbers after [`max_pool_3x3_s2_p1`].
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.batch * self.out_height() * self.out_width() * self.channels
    }
}

/// The largest of 3x3 pixels around every other pixel (stride 2, padding 1).
///
/// `max_indices`, if given, gets which of the nine it was (row times three plus column), the first of equals, for
/// [`max_pool_3x3_s2_p1_backward`]. As everywhere, a NaN wins.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn max_pool_3x3_s2_p1(
    shape: &PoolShape,
    input: &[f32],
    output: &mut [f32],
    max_indices: Option<&mut [u8]>,
) {
    max_pool_on(Isa::best(Precision::F32), shape, input, output, max_indices);
}

fn max_pool_on(
    isa: Isa,
    shape: &PoolShape,
    input: &[f32],
    output: &mut [f32],
    max_indices: Option<&mut [u8]>,
) {
    assert_eq!(input.len(), shape.input_len(), "numbers of the input");
    assert_eq!(output.len(), shape.output_len(), "numbers of the output");
    assert!(
        max_indices.as_deref().is_none_or(|max_indices| max_indices.len() == output.len()),
        "an index for every output"
    );
    let row_len = shape.out_width() * shape.channels;
    let (output, max_indices) = (Shared::of(output), max_indices.map(Shared::of));
    for_each(shape.batch * shape.out_height(), |row| {
        let (image, row_in_image) = (row / shape.out_height(), row % shape.out_height());
        let image_len = shape.height * shape.width * shape.channels;
        // SAFETY: inside both, and each row has its own part.
        let (output, max_indices) = unsafe {
            (output.at(row * row_len), max_indices.map(|max_indices| max_indices.at(row * row_len)))
        };
        let input = &input[image * image_len..][..image_len];
        isa.run(PoolRow { shape, input, row: row_in_image, output, max_indices });
    });
}

/// A row of the output.
struct PoolRow<'a> {
    shape: &'a PoolShape,
    /// The image.
    input: &'a [f32],
    row: usize,
    output: *mut f32,
    max_indices: Option<*mut u8>,
}

impl Kernel for PoolRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let channels = self.shape.channels;
        for column in 0..self.shape.out_width() {
            for channel in (0..channels).step_by(L::WIDTH) {
                let count = (channels - channel).min(L::WIDTH);
                // SAFETY: the row has this column, and the pixel `count` channels from here on.
                unsafe {
                    let (best, place) = self.best(l, column, channel, count);
                    let at = column * channels + channel;
                    if count == L::WIDTH {
                        l.store(self.output.add(at), best);
                    } else {
                        l.store_first(self.output.add(at), best, count);
                    }
                    if let Some(max_indices) = self.max_indices {
                        store_max_indices(l, max_indices.add(at), place, count);
                    }
                }
            }
        }
    }
}

impl PoolRow<'_> {
    /// The largest and its index.
    ///
    /// # Safety
    /// The column is in the output, and a pixel has `count` channels from this one on.
    #[inline(always)]
    unsafe fn best<L: Simd>(
        &self,
        l: L,
        column: usize,
        channel: usize,
        count: usize,
    ) -> (L::Vector, L::Vector) {
        let PoolShape { height, width, channels, .. } = *self.shape;
        let mut best = (l.splat(f32::NEG_INFINITY), l.splat(MIDDLE));
        for y in 0..3 {
            let in_row = (self.row * 2 + y).wrapping_sub(1);
            if in_row >= height {
                continue;
            }
            for x in 0..3 {
                let in_column = (column * 2 + x).wrapping_sub(1);
                if in_column >= width {
                    continue;
                }
                // SAFETY: the pixel is inside the image.
                let value = unsafe {
                    let at = self.input.as_ptr().add((in_row * width + in_column) * channels + channel);
                    if count == L::WIDTH { l.load(at) } else { l.load_first(at, count) }
                };
                best = l.keep_larger(best, value, (y * 3 + x) as f32);
            }
        }
        best
    }
}

/// The index of the middle pixel, which is always inside: what is given when all are minus infinity.
const MIDDLE: f32 = 4.0;

/// # Safety
/// `count` bytes can be written; it is at most a vector.
#[inline(always)]
unsafe fn store_max_indices<L: Simd>(l: L, to: *mut u8, max_indices: L::Vector, count: usize) {
    // SAFETY: the caller's promise; a part of a vector goes through memory of its own.
    unsafe {
        if count == L::WIDTH {
            l.store_bytes(to, max_indices);
        } else {
            let mut bytes = [0; 64];
            l.store_bytes(bytes.as_mut_ptr(), max_indices);
            to.copy_from_nonoverlapping(bytes.as_ptr(), count);
        }
    }
}

/// The gradient of [`max_pool_3x3_s2_p1`] from the indices it gave.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn max_pool_3x3_s2_p1_backward(
    shape: &PoolShape,
    max_indices: &[u8],
    grad_output: &[f32],
    grad_input: &mut [f32],
) {
    max_pool_backward_on(Isa::best(Precision::F32), shape, max_indices, grad_output, grad_input);
}

fn max_pool_backward_on(
    isa: Isa,
    shape: &PoolShape,
    max_indices: &[u8],
    grad_output: &[f32],
    grad_input: &mut [f32],
) {
    assert_eq!(max_indices.len(), shape.output_len(), "an index for every output");
    assert_eq!(grad_output.len(), shape.output_len(), "numbers of the output");
    assert_eq!(grad_input.len(), shape.input_len(), "numbers of the input");
    let image_len = shape.out_height() * shape.out_width() * shape.channels;
    let target = Shared::of(grad_input);
    for_each(shape.batch * shape.height, |row| {
        let (image, row_in_image) = (row / shape.height, row % shape.height);
        let here = image * image_len..(image + 1) * image_len;
        // SAFETY: inside the gradient, and each row has its own part.
        let grad_input = unsafe { target.at(row * shape.width * shape.channels) };
        let (max_indices, grads) = (&max_indices[here.clone()], &grad_output[here]);
        isa.run(PoolGradRow { shape, max_indices, grads, row: row_in_image, grad_input });
    });
}

/// A row of the input's gradient.
struct PoolGradRow<'a> {
    shape: &'a PoolShape,
    /// Of the image, as the gradients.
    max_indices: &'a [u8],
    grads: &'a [f32],
    row: usize,
    grad_input: *mut f32,
}

impl Kernel for PoolGradRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let channels = self.shape.channels;
        let whole = channels / L::WIDTH * L::WIDTH;
        for column in 0..self.shape.width {
            for channel in (0..whole).step_by(L::WIDTH) {
                // SAFETY: the row has this column, and the pixel a vector from this channel on.
                unsafe {
                    let grad = self.grad(l, column, channel);
                    l.store(self.grad_input.add(column * channels + channel), grad);
                }
            }
            for channel in whole..channels {
                let mut grad = 0.0;
                for (out_row, y) in windows(self.row, self.shape.out_height()) {
                    for (out_column, x) in windows(column, self.shape.out_width()) {
                        let at = (out_row * self.shape.out_width() + out_column) * channels + channel;
                        grad +=
                            if usize::from(self.max_indices[at]) == y * 3 + x { self.grads[at] } else { 0.0 };
                    }
                }
                // SAFETY: the row has this pixel.
                unsafe { *self.grad_input.add(column * channels + channel) = grad };
            }
        }
    }
}

impl PoolGradRow<'_> {
    /// What all windows over a pixel give back to it.
    ///
    /// # Safety
    /// The column is in the input, and a pixel has a vector of channels from this one on.
    #[inline(always)]
    unsafe fn grad<L: Simd>(&self, l: L, column: usize, channel: usize) -> L::Vector {
        let mut sum = l.splat(0.0);
        for (out_row, y) in windows(self.row, self.shape.out_height()) {
            for (out_column, x) in windows(column, self.shape.out_width()) {
                let at = (out_row * self.shape.out_width() + out_column) * self.shape.channels + channel;
                // SAFETY: the window is in the output.
                unsafe {
                    let place = l.load_bytes(self.max_indices.as_ptr().add(at));
                    let grad = l.load(self.grads.as_ptr().add(at));
                    sum = l.add(sum, l.where_equal(grad, place, (y * 3 + x) as f32));
                }
            }
        }
        sum
    }
}

/// The windows over a row (or column) of the input, and which of their rows it is: one over an even row, two over an odd.
#[inline(always)]
fn windows(row: usize, windows: usize) -> impl Iterator<Item = (usize, usize)> {
    let lower = (row / 2, 1 + row % 2);
    let upper = (row % 2 == 1 && row / 2 + 1 < windows).then_some((row / 2 + 1, 0));
    std::iter::once(lower).chain(upper)
}

/// The mean of every channel over an image: `[batch, pixels, channels]` to `[batch, channels]`.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn global_average(shape: &PoolShape, input: &[f32], output: &mut [f32]) {
    assert_eq!(input.len(), shape.input_len(), "numbers of the input");
    assert_eq!(output.len(), shape.batch * shape.channels, "numbers of the output");
    let pixels = shape.height * shape.width;
    let sums = Shared::of(output);
    for_each(shape.batch, |image| {
        // SAFETY: each image has its own part.
        let output =
            unsafe { std::slice::from_raw_parts_mut(sums.at(image * shape.channels), shape.channels) };
        output.fill(0.0);
        for pixel in
            input[image * pixels * shape.channels..][..pixels * shape.channels].chunks(shape.channels)
        {
            output.iter_mut().zip(pixel).for_each(|(sum, x)| *sum += x);
        }
        output.iter_mut().for_each(|sum| *sum /= pixels as f32);
    });
}

/// The gradient of [`global_average`].
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn global_average_backward(shape: &PoolShape, grad_output: &[f32], grad_input: &mut [f32]) {
    assert_eq!(grad_input.len(), shape.input_len(), "numbers of the input");
    assert_eq!(grad_output.len(), shape.batch * shape.channels, "numbers of the output");
    let pixels = shape.height * shape.width;
    let spread = |(grads, grad): (&mut [f32], &[f32])| {
        for pixel in grads.chunks_mut(shape.channels) {
            pixel.iter_mut().zip(grad).for_each(|(out, grad)| *out = grad / pixels as f32);
        }
    };
    grad_input
        .par_chunks_mut(pixels * shape.channels)
        .zip(grad_output.par_chunks(shape.channels))
        .for_each(spread);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(batch: usize, height: usize, width: usize, channels: usize) -> PoolShape {
        PoolShape { batch, height, width, channels }
    }

    /// Few values, so that equals are common.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|i| ((i + 7 * seed).wrapping_mul(2_654_435_761) >> 11) as f32 % 13.0 - 6.0).collect()
    }

    /// The index of the largest of nine, by the rule of PyTorch: a later one must be larger, or not a number.
    fn expected_places(shape: &PoolShape, input: &[f32]) -> Vec<u8> {
        let PoolShape { height, width, channels, .. } = *shape;
        let (out_height, out_width) = (shape.out_height(), shape.out_width());
        let place = |i: usize| {
            let (channel, column, row) =
                (i % channels, i / channels % out_width, i / channels / out_width % out_height);
            let image = i / channels / out_width / out_height;
            let mut best: Option<(f32, u8)> = None;
            for place in 0..9u8 {
                let (y, x) = (row * 2 + usize::from(place / 3), column * 2 + usize::from(place % 3));
                if y == 0 || x == 0 || y > height || x > width {
                    continue;
                }
                let value = input[((image * height + y - 1) * width + x - 1) * channels + channel];
                if best.is_none_or(|(best, _)| value > best || value.is_nan()) {
                    best = Some((value, place));
                }
            }
            best.unwrap().1
        };
        (0..shape.output_len()).map(place).collect()
    }

    fn check(shape: PoolShape, seed: usize) {
        let input = numbers(shape.input_len(), seed);
        let grad_output = numbers(shape.output_len(), seed + 1);
        let expected = expected_places(&shape, &input);
        let from = |i: usize| {
            let PoolShape { height, width, channels, .. } = shape;
            let (out_height, out_width) = (shape.out_height(), shape.out_width());
            let (channel, column, row) =
                (i % channels, i / channels % out_width, i / channels / out_width % out_height);
            let (image, place) = (i / channels / out_width / out_height, usize::from(expected[i]));
            ((image * height + row * 2 + place / 3 - 1) * width + column * 2 + place % 3 - 1) * channels
                + channel
        };
        let mut expected_grad = vec![0.0; input.len()];
        grad_output.iter().enumerate().for_each(|(i, grad)| expected_grad[from(i)] += grad);
        for isa in Isa::all() {
            let (mut output, mut max_indices) = (vec![f32::NAN; expected.len()], vec![99; expected.len()]);
            max_pool_on(isa, &shape, &input, &mut output, Some(&mut max_indices));
            assert_eq!(max_indices, expected, "indices on {}", isa.name());
            assert!(output.iter().enumerate().all(|(i, &x)| x == input[from(i)]), "output on {}", isa.name());
            let mut grad_input = vec![f32::NAN; input.len()];
            max_pool_backward_on(isa, &shape, &max_indices, &grad_output, &mut grad_input);
            assert_eq!(grad_input, expected_grad, "gradient on {}", isa.name());
        }
    }

    #[test]
    fn largest_of_nine() {
        check(shape(2, 8, 8, 64), 1);
        check(shape(1, 7, 9, 20), 2);
        check(shape(3, 1, 1, 5), 3);
    }

    #[test]
    fn a_nan_wins_and_stays() {
        let mut input = numbers(9, 1);
        input[0] = f32::NAN;
        for isa in Isa::all() {
            let mut output = [0.0; 4];
            max_pool_on(isa, &shape(1, 3, 3, 1), &input, &mut output, None);
            assert!(output[0].is_nan() && !output[3].is_nan());
        }
    }

    #[test]
    fn minus_infinity_everywhere_still_has_a_place() {
        let shape = shape(1, 2, 2, 16);
        for isa in Isa::all() {
            let (mut output, mut max_indices) = ([0.0; 16], [99; 16]);
            max_pool_on(isa, &shape, &[f32::NEG_INFINITY; 64], &mut output, Some(&mut max_indices));
            let mut grad = [0.0; 64];
            max_pool_backward_on(isa, &shape, &max_indices, &[1.0; 16], &mut grad);
            assert_eq!(grad.iter().sum::<f32>(), 16.0);
        }
    }

    #[test]
    fn mean_of_an_image_and_its_gradient() {
        let shape = shape(2, 1, 2, 3);
        let mut output = [0.0; 6];
        let input = [1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0];
        global_average(&shape, &input, &mut output);
        assert_eq!(output, [2.0, 3.0, 4.0, 1.0, 1.0, 1.0]);
        let mut grads = [9.0; 12];
        global_average_backward(&shape, &[2.0, 4.0, 6.0, 0.0, 0.0, 1.0], &mut grads);
        assert_eq!(grads, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.5]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        #[test]
        fn any_size(size in [1usize..4, 1usize..12, 1usize..12, 1usize..40], seed in 0usize..1000) {
            let [batch, height, width, channels] = size;
            check(shape(batch, height, width, channels), seed);
        }
    }
}
