//! Pooling: the largest of 3x3 pixels at every other pixel, and the mean of a whole picture.

/// Sizes of the pictures that go into a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolShape {
    /// Pictures.
    pub batch: usize,
    /// Rows of an input picture.
    pub height: usize,
    /// Columns of an input picture.
    pub width: usize,
    /// Channels.
    pub channels: usize,
}

impl PoolShape {
    /// Rows of a picture after [`max_pool_3x3_s2_p1`].
    #[must_use]
    pub fn out_height(&self) -> usize {
        self.height.div_ceil(2)
    }

    /// Columns of a picture after [`max_pool_3x3_s2_p1`].
    #[must_use]
    pub fn out_width(&self) -> usize {
        self.width.div_ceil(2)
    }

    /// Numbers after [`max_pool_3x3_s2_p1`].
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.batch * self.out_height() * self.out_width() * self.channels
    }
}

/// The largest of 3x3 pixels around every other pixel (stride 2, padding 1).
///
/// `places`, if given, gets which of the nine it was (row times three plus column), the first of equals, for
/// [`max_pool_3x3_s2_p1_backward`]. As everywhere, a NaN wins.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn max_pool_3x3_s2_p1(
    shape: &PoolShape,
    input: &[f32],
    output: &mut [f32],
    mut places: Option<&mut [u8]>,
) {
    let PoolShape { height, width, channels, .. } = *shape;
    for (i, out) in output.iter_mut().enumerate() {
        let (channel, column) = (i % channels, i / channels % shape.out_width());
        let row = i / channels / shape.out_width() % shape.out_height();
        let picture = i / channels / shape.out_width() / shape.out_height();
        let (mut best, mut best_place) = (f32::NEG_INFINITY, None);
        for place in 0..9 {
            let (y, x) = (row * 2 + place / 3, column * 2 + place % 3);
            if y == 0 || x == 0 || y > height || x > width {
                continue;
            }
            let value = input[((picture * height + y - 1) * width + x - 1) * channels + channel];
            if best_place.is_none() || value > best || value.is_nan() {
                (best, best_place) = (value, Some(place));
            }
        }
        *out = best;
        if let (Some(places), Some(place)) = (&mut places, best_place) {
            places[i] = place as u8;
        }
    }
}

/// The gradient of [`max_pool_3x3_s2_p1`] from the places it gave.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn max_pool_3x3_s2_p1_backward(
    shape: &PoolShape,
    places: &[u8],
    grad_output: &[f32],
    grad_input: &mut [f32],
) {
    let PoolShape { height, width, channels, .. } = *shape;
    grad_input.fill(0.0);
    for (i, grad) in grad_output.iter().enumerate() {
        let (channel, column) = (i % channels, i / channels % shape.out_width());
        let row = i / channels / shape.out_width() % shape.out_height();
        let picture = i / channels / shape.out_width() / shape.out_height();
        let place = usize::from(places[i]);
        let (y, x) = (row * 2 + place / 3 - 1, column * 2 + place % 3 - 1);
        grad_input[((picture * height + y) * width + x) * channels + channel] += grad;
    }
}

/// The mean of every channel over a picture: `[batch, pixels, channels]` to `[batch, channels]`.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn global_average(shape: &PoolShape, input: &[f32], output: &mut [f32]) {
    let pixels = shape.height * shape.width;
    for (input, output) in input.chunks(pixels * shape.channels).zip(output.chunks_mut(shape.channels)) {
        output.fill(0.0);
        for pixel in input.chunks(shape.channels) {
            output.iter_mut().zip(pixel).for_each(|(sum, x)| *sum += x);
        }
        output.iter_mut().for_each(|sum| *sum /= pixels as f32);
    }
}

/// The gradient of [`global_average`].
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn global_average_backward(shape: &PoolShape, grad_output: &[f32], grad_input: &mut [f32]) {
    let pixels = shape.height * shape.width;
    for (grads, grad) in
        grad_input.chunks_mut(pixels * shape.channels).zip(grad_output.chunks(shape.channels))
    {
        for pixel in grads.chunks_mut(shape.channels) {
            pixel.iter_mut().zip(grad).for_each(|(out, grad)| *out = grad / pixels as f32);
        }
    }
}
