//! Layer operations between matrix products: biases, activations, norms, and their backward passes.
//!
//! Compiled for each instruction set. Most are plain loops over slices that the compiler makes vectors of; what happens to
//! a panel of a product, whose rows are two vectors short, is written in vectors.

use super::compiled::for_each_isa;
use super::spec::Activation;
use crate::kernels::simd::Simd;

const LAYER_NORM_EPS: f32 = 1e-5;

/// A matrix inside a slice: so many rows of `width` numbers, `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct StridedRows {
    pub(super) count: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

impl StridedRows {
    #[inline(always)]
    pub(super) fn of(self, values: &[f32]) -> impl Iterator<Item = &[f32]> {
        values.chunks(self.stride).take(self.count).map(move |row| &row[..self.width])
    }

    #[inline(always)]
    fn of_mut(self, values: &mut [f32]) -> impl Iterator<Item = &mut [f32]> {
        values.chunks_mut(self.stride).take(self.count).map(move |row| &mut row[..self.width])
    }
}

/// Scale and shift of a norm.
#[derive(Clone, Copy)]
pub(super) struct Affine<'a> {
    pub(super) weight: &'a [f32],
    pub(super) bias: &'a [f32],
}

/// How each column is normalised: `(x - center) * scale + shift`.
#[derive(Clone, Copy)]
pub(super) struct BatchNormColumns<'a> {
    pub(super) center: &'a [f32],
    pub(super) scale: &'a [f32],
    pub(super) shift: &'a [f32],
}

/// What the backward pass of batch norm needs to know of each column: a gradient `g` becomes
/// `grad_scale * (g - mean - (hat - center) * along)`.
#[derive(Clone, Copy)]
pub(super) struct BatchNormBackward<'a> {
    pub(super) grad_scale: &'a [f32],
    pub(super) mean: &'a [f32],
    pub(super) center: &'a [f32],
    pub(super) along: &'a [f32],
}

/// The outputs that a block has left, for gradients of some of its rows.
#[derive(Clone, Copy)]
pub(super) struct SavedOutputs<'a> {
    pub(super) outputs: &'a [f32],
    pub(super) stride: usize,
    /// For each row of gradients, which row of the block it belongs to.
    pub(super) rows: &'a [usize],
}

impl<'a> SavedOutputs<'a> {
    #[inline(always)]
    fn row(self, index: usize, width: usize) -> &'a [f32] {
        &self.outputs[self.rows[index] * self.stride..][..width]
    }
}

/// What a layer norm has left of a block.
#[derive(Clone, Copy)]
pub(super) struct SavedNorm<'a> {
    pub(super) weight: &'a [f32],
    pub(super) hat: &'a [f32],
    pub(super) inv_std: &'a [f32],
}

for_each_isa! {
    /// The hyperbolic tangent of each number.
    pub(super) fn tanh_of = tanh_all(values: &mut [f32]);

    /// Applies the activation to each row.
    pub(super) fn activate = activate_rows(values: &mut [f32], rows: StridedRows, activation: Activation);

    /// Adds a bias (none if empty) to each row, then applies the activation.
    pub(super) fn bias_activate = bias_activate_rows(values: &mut [f32], rows: StridedRows, bias: &[f32], activation: Activation);

    /// Normalises each row, then scale, shift and activation. Keeps the normed values (laid out as the values) and one
    /// over the standard deviations where there is room for them.
    pub(super) fn layer_norm = layer_norm_rows(values: &mut [f32], rows: StridedRows, affine: Affine<'_>, activation: Activation, hat: &mut [f32], inv_std: &mut [f32]);

    /// From gradients of outputs to those before the activation. Writes their sums where there is room for them.
    pub(super) fn activation_back = activation_back_rows(activation: Activation, saved: SavedOutputs<'_>, grad: &mut [f32], rows: StridedRows, sums: &mut [f32]);

    /// From gradients of outputs to those before activation, scale, shift and norm. Writes the sums for the bias before
    /// them, and for scale and shift, where there is room for them.
    pub(super) fn layer_norm_back = layer_norm_back_rows(activation: Activation, saved: SavedOutputs<'_>, normed: SavedNorm<'_>, grad: &mut [f32], rows: StridedRows, sums: [&mut [f32]; 3]);

    /// Adds numbers to sums.
    pub(super) fn add = add_all(sums: &mut [f32], values: &[f32]);

    /// Sums over the rows.
    pub(super) fn column_sums = column_sums_rows(values: &[f32], rows: StridedRows, sums: &mut [f32]);

    /// Sums over the rows of squared distances from a center.
    pub(super) fn column_squares = column_squares_rows(values: &[f32], rows: StridedRows, center: &[f32], sums: &mut [f32]);

    /// Sums over the rows of products of two matrices.
    pub(super) fn column_products = column_products_rows(values: &[f32], rows: StridedRows, others: &[f32], other_stride: usize, sums: &mut [f32]);

    /// Normalises columns and writes the result after scale and shift; before them too, where there is room.
    pub(super) fn batch_norm = batch_norm_rows(inputs: &[f32], rows: StridedRows, columns: BatchNormColumns<'_>, affine: Affine<'_>, hat: &mut [f32], to: &mut [f32], to_stride: usize);

    /// The backward pass of [`batch_norm`], in place.
    pub(super) fn batch_norm_back = batch_norm_back_rows(grad: &mut [f32], rows: StridedRows, hat: &[f32], hat_stride: usize, columns: BatchNormBackward<'_>);
}

/// Hyperbolic tangent within 1.5e-7 (4e-7 of its value), exact in sign and at zero; not-a-number stays.
///
/// `e = exp(2x) - 1` without the loss of digits near zero, then `e / (e + 2)`.
#[inline(always)]
fn tanh<L: Simd>(simd: L, x: L::Vector) -> L::Vector {
    // (2^f - 1) / f for |f| <= 1/2: the polynomial of least relative error, 1e-8.
    // Its last number is ln 2, which 0.693_147_2 is in this precision.
    const POLYNOMIAL: [f32; 6] = [
        0.000_154_035_12,
        0.001_339_073_5,
        0.009_618_238,
        0.055_503_573,
        0.240_226_49,
        std::f32::consts::LN_2,
    ];
    // Adding this makes a float of magnitude below 2^22 an integer, found in its lowest bits.
    const ROUNDER: f32 = 12_582_912.0;
    let doublings = simd.mul(simd.clamp(x, -9.02, 9.02), simd.splat(2.0 * std::f32::consts::LOG2_E));
    let rounded = simd.add(doublings, simd.splat(ROUNDER));
    let f = simd.sub(doublings, simd.sub(rounded, simd.splat(ROUNDER)));
    let mut p = simd.splat(POLYNOMIAL[0]);
    for c in &POLYNOMIAL[1..] {
        p = simd.mul_add(p, f, simd.splat(*c));
    }
    let power = simd.power_of_two(rounded);
    let e = simd.mul_add(power, simd.mul(p, f), simd.sub(power, simd.splat(1.0)));
    simd.div(e, simd.add(e, simd.splat(2.0)))
}

#[inline(always)]
fn tanh_all<L: Simd>(simd: L, values: &mut [f32]) {
    activate_slice(simd, values, Activation::Tanh);
}

#[inline(always)]
fn activate_slice<L: Simd>(simd: L, values: &mut [f32], activation: Activation) {
    for chunk in values.chunks_mut(L::WIDTH) {
        // SAFETY: exactly the chunk is read and written.
        unsafe {
            let x = load(simd, chunk);
            let y = match activation {
                Activation::None => x,
                Activation::Tanh => tanh(simd, x),
                Activation::Relu => simd.relu(x),
            };
            store(simd, chunk, y);
        }
    }
}

/// Reads a chunk of at most a vector.
///
/// # Safety
/// It is no longer.
#[inline(always)]
unsafe fn load<L: Simd>(simd: L, chunk: &[f32]) -> L::Vector {
    // SAFETY: the chunk can be read; the caller's promise.
    unsafe {
        match chunk.len() == L::WIDTH {
            true => simd.load(chunk.as_ptr()),
            false => simd.load_first(chunk.as_ptr(), chunk.len()),
        }
    }
}

/// Writes a chunk of at most a vector.
///
/// # Safety
/// It is no longer.
#[inline(always)]
unsafe fn store<L: Simd>(simd: L, chunk: &mut [f32], vector: L::Vector) {
    // SAFETY: the chunk can be written; the caller's promise.
    unsafe {
        match chunk.len() == L::WIDTH {
            true => simd.store(chunk.as_mut_ptr(), vector),
            false => simd.store_first(chunk.as_mut_ptr(), vector, chunk.len()),
        }
    }
}

#[inline(always)]
fn bias_activate_rows<L: Simd>(
    simd: L,
    values: &mut [f32],
    rows: StridedRows,
    bias: &[f32],
    activation: Activation,
) {
    for row in rows.of_mut(values) {
        row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        activate_slice(simd, row, activation);
    }
}

#[inline(always)]
fn activate_rows<L: Simd>(simd: L, values: &mut [f32], rows: StridedRows, activation: Activation) {
    for row in rows.of_mut(values) {
        activate_slice(simd, row, activation);
    }
}

#[inline(always)]
fn activation_back_rows<L: Simd>(
    simd: L,
    activation: Activation,
    saved: SavedOutputs<'_>,
    grad: &mut [f32],
    rows: StridedRows,
    sums: &mut [f32],
) {
    sums.fill(0.0);
    for (index, row) in rows.of_mut(grad).enumerate() {
        activation_gradient(simd, activation, row, saved.row(index, rows.width));
        for (sums, row) in sums.chunks_mut(L::WIDTH).zip(row.chunks(L::WIDTH)) {
            // SAFETY: both are as wide as the row, so that their chunks have the same lengths.
            unsafe { store(simd, sums, simd.add(load(simd, sums), load(simd, row))) };
        }
    }
}

/// Gradients of outputs become those before the activation.
#[inline(always)]
fn activation_gradient<L: Simd>(simd: L, activation: Activation, grad: &mut [f32], outputs: &[f32]) {
    if activation == Activation::None {
        return;
    }
    for (grad, outputs) in grad.chunks_mut(L::WIDTH).zip(outputs.chunks(L::WIDTH)) {
        // SAFETY: chunks of two rows of the same width have the same lengths.
        unsafe {
            let (g, y) = (load(simd, grad), load(simd, outputs));
            let before = match activation {
                Activation::None => g,
                Activation::Tanh => simd.mul(g, simd.neg_mul_add(y, y, simd.splat(1.0))),
                Activation::Relu => simd.where_positive(g, y),
            };
            store(simd, grad, before);
        }
    }
}

#[inline(always)]
fn add_all<L: Simd>(_: L, sums: &mut [f32], values: &[f32]) {
    add_to(sums, values);
}

#[inline(always)]
fn add_to(sums: &mut [f32], row: &[f32]) {
    sums.iter_mut().zip(row).for_each(|(s, x)| *s += x);
}

#[inline(always)]
fn layer_norm_rows<L: Simd>(
    simd: L,
    values: &mut [f32],
    rows: StridedRows,
    affine: Affine<'_>,
    activation: Activation,
    hat: &mut [f32],
    inv_std: &mut [f32],
) {
    let share = 1.0 / rows.width as f32;
    // Of both activations, the one that is a matter of a comparison is done in passing.
    let floor = if activation == Activation::Relu { 0.0 } else { f32::NEG_INFINITY };
    let (weight, bias) = (&affine.weight[..rows.width], &affine.bias[..rows.width]);
    for (index, row) in rows.of_mut(values).enumerate() {
        let mean = sum_of(row, |x| x) * share;
        let variance = sum_of(row, |x| (x - mean) * (x - mean)) * share;
        let inv = 1.0 / (variance + LAYER_NORM_EPS).sqrt();
        let end = |hat: f32, w: f32, b: f32| {
            let y = simd.mul_add_one(hat, w, b);
            if y < floor { floor } else { y }
        };
        if hat.is_empty() {
            for ((x, w), b) in row.iter_mut().zip(weight).zip(bias) {
                *x = end((*x - mean) * inv, *w, *b);
            }
        } else {
            inv_std[index] = inv;
            let hats = &mut hat[index * rows.stride..][..rows.width];
            for (((x, h), w), b) in row.iter_mut().zip(hats).zip(weight).zip(bias) {
                *h = (*x - mean) * inv;
                *x = end(*h, *w, *b);
            }
        }
        if activation == Activation::Tanh {
            activate_slice(simd, row, activation);
        }
    }
}

#[inline(always)]
fn layer_norm_back_rows<L: Simd>(
    simd: L,
    activation: Activation,
    saved: SavedOutputs<'_>,
    normed: SavedNorm<'_>,
    grad: &mut [f32],
    rows: StridedRows,
    sums: [&mut [f32]; 3],
) {
    let [bias_sums, weight_sums, shift_sums] = sums;
    [&mut *bias_sums, weight_sums, shift_sums].into_iter().for_each(|sums| sums.fill(0.0));
    let share = 1.0 / rows.width as f32;
    for (index, row) in rows.of_mut(grad).enumerate() {
        let block_row = saved.rows[index];
        let hat = &normed.hat[block_row * saved.stride..][..rows.width];
        let inv = normed.inv_std[block_row];
        activation_gradient(simd, activation, row, saved.row(index, rows.width));
        for (((g, h), w), s) in row.iter().zip(hat).zip(weight_sums.iter_mut()).zip(shift_sums.iter_mut()) {
            *w = simd.mul_add_one(*g, *h, *w);
            *s += g;
        }
        row.iter_mut().zip(normed.weight).for_each(|(g, w)| *g *= w);
        let (sum, product) = sums_along(simd, row, hat);
        let (mean, along) = (sum * share, product * share);
        for (g, h) in row.iter_mut().zip(hat) {
            *g = simd.mul_add_one(-*h, along, *g - mean) * inv;
        }
        add_to(bias_sums, row);
    }
}

#[inline(always)]
fn column_sums_rows<L: Simd>(_: L, values: &[f32], rows: StridedRows, sums: &mut [f32]) {
    sums.fill(0.0);
    for row in rows.of(values) {
        sums.iter_mut().zip(row).for_each(|(s, x)| *s += x);
    }
}

#[inline(always)]
fn column_squares_rows<L: Simd>(
    simd: L,
    values: &[f32],
    rows: StridedRows,
    center: &[f32],
    sums: &mut [f32],
) {
    sums.fill(0.0);
    for row in rows.of(values) {
        for ((s, x), c) in sums.iter_mut().zip(row).zip(center) {
            *s = simd.mul_add_one(x - c, x - c, *s);
        }
    }
}

#[inline(always)]
fn column_products_rows<L: Simd>(
    simd: L,
    values: &[f32],
    rows: StridedRows,
    others: &[f32],
    other_stride: usize,
    sums: &mut [f32],
) {
    sums.fill(0.0);
    for (row, other) in rows.of(values).zip(others.chunks(other_stride)) {
        for ((s, x), y) in sums.iter_mut().zip(row).zip(other) {
            *s = simd.mul_add_one(*x, *y, *s);
        }
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn batch_norm_rows<L: Simd>(
    simd: L,
    inputs: &[f32],
    rows: StridedRows,
    columns: BatchNormColumns<'_>,
    affine: Affine<'_>,
    hat: &mut [f32],
    to: &mut [f32],
    to_stride: usize,
) {
    let (weight, bias) = (&affine.weight[..rows.width], &affine.bias[..rows.width]);
    for (index, (row, to)) in rows.of(inputs).zip(to.chunks_mut(to_stride)).enumerate() {
        let to = &mut to[..rows.width];
        for (j, (y, x)) in to.iter_mut().zip(row).enumerate() {
            *y = simd.mul_add_one(x - columns.center[j], columns.scale[j], columns.shift[j]);
        }
        if !hat.is_empty() {
            hat[index * to_stride..][..rows.width].copy_from_slice(to);
        }
        for ((y, w), b) in to.iter_mut().zip(weight).zip(bias) {
            *y = simd.mul_add_one(*y, *w, *b);
        }
    }
}

#[inline(always)]
fn batch_norm_back_rows<L: Simd>(
    _: L,
    grad: &mut [f32],
    rows: StridedRows,
    hat: &[f32],
    hat_stride: usize,
    columns: BatchNormBackward<'_>,
) {
    for (row, hat) in rows.of_mut(grad).zip(hat.chunks(hat_stride)) {
        for (j, (g, h)) in row.iter_mut().zip(hat).enumerate() {
            let along = (h - columns.center[j]) * columns.along[j];
            *g = columns.grad_scale[j] * (*g - columns.mean[j] - along);
        }
    }
}

/// Sums in so many SIMD lanes, so that vectors can add them, and none waits for the one before.
const LANES: usize = 32;

#[inline(always)]
fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += term(*x);
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane += term(*x));
    fold(lanes)
}

/// The sum of `a`, and that of its products with `b`.
#[inline(always)]
fn sums_along<L: Simd>(simd: L, a: &[f32], b: &[f32]) -> (f32, f32) {
    let [mut sums, mut products] = [[0.0f32; LANES]; 2];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for (((sum, product), x), y) in sums.iter_mut().zip(&mut products).zip(a).zip(b) {
            *sum += x;
            *product = simd.mul_add_one(*x, *y, *product);
        }
    }
    for (((sum, product), x), y) in sums.iter_mut().zip(&mut products).zip(a_rest).zip(b_rest) {
        *sum += x;
        *product = simd.mul_add_one(*x, *y, *product);
    }
    (fold(sums), fold(products))
}

#[inline(always)]
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}
