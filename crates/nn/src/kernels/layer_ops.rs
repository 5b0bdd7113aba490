//! What happens to rows between matrix products: biases, activations, norms, and their backward passes.
//!
//! Compiled for each instruction set. Most are plain loops over slices that the compiler makes vectors of; what happens to
//! a panel of a product, whose rows are two vectors short, is written in vectors.

use super::functions::{load, store, tanh_vector};
use super::simd::{Simd, for_each_isa};
use super::sums::{add_to, sum_of, sums_along};

/// A function of each number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    None,
    /// Hyperbolic tangent.
    Tanh,
    /// The larger of the number and zero.
    Relu,
}

/// A matrix inside a slice: so many rows of `width` numbers, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct StridedRows {
    pub(crate) count: usize,
    pub(crate) width: usize,
    pub(crate) stride: usize,
}

impl StridedRows {
    #[inline(always)]
    pub(crate) fn of(self, values: &[f32]) -> impl Iterator<Item = &[f32]> {
        values.chunks(self.stride).take(self.count).map(move |row| &row[..self.width])
    }

    #[inline(always)]
    fn of_mut(self, values: &mut [f32]) -> impl Iterator<Item = &mut [f32]> {
        values.chunks_mut(self.stride).take(self.count).map(move |row| &mut row[..self.width])
    }
}

/// Scale and shift of a norm.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) weight: &'a [f32],
    pub(crate) bias: &'a [f32],
}

/// A layer norm: what is added to variances, and what follows.
#[derive(Clone, Copy)]
pub(crate) struct LayerNorm<'a> {
    pub(crate) eps: f32,
    pub(crate) affine: Affine<'a>,
    pub(crate) activation: Activation,
}

/// How each column is normalised: `(x - center) * scale + shift`.
#[derive(Clone, Copy)]
pub(crate) struct BatchNormColumns<'a> {
    pub(crate) center: &'a [f32],
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
}

/// What the backward pass of batch norm needs to know of each column: a gradient `g` becomes
/// `grad_scale * (g - mean - (hat - center) * along)`.
#[derive(Clone, Copy)]
pub(crate) struct BatchNormBackward<'a> {
    pub(crate) grad_scale: &'a [f32],
    pub(crate) mean: &'a [f32],
    pub(crate) center: &'a [f32],
    pub(crate) along: &'a [f32],
}

/// The outputs that a block has left, for gradients of some of its rows.
#[derive(Clone, Copy)]
pub(crate) struct SavedOutputs<'a> {
    pub(crate) outputs: &'a [f32],
    pub(crate) stride: usize,
    /// For each row of gradients, which row of the block it belongs to.
    pub(crate) rows: &'a [usize],
}

impl<'a> SavedOutputs<'a> {
    #[inline(always)]
    fn row(self, index: usize, width: usize) -> &'a [f32] {
        &self.outputs[self.rows[index] * self.stride..][..width]
    }
}

/// What a layer norm has left of a block.
#[derive(Clone, Copy)]
pub(crate) struct SavedNorm<'a> {
    pub(crate) weight: &'a [f32],
    pub(crate) hat: &'a [f32],
    pub(crate) inv_std: &'a [f32],
}

for_each_isa! {
    /// Applies the activation to each row.
    pub(crate) fn activate = activate_rows(values: &mut [f32], rows: StridedRows, activation: Activation);

    /// Adds a bias (none if empty) to each row, then applies the activation.
    pub(crate) fn bias_activate = bias_activate_rows(values: &mut [f32], rows: StridedRows, bias: &[f32], activation: Activation);

    /// Normalises each row, then scale, shift and activation. Keeps the normed values (laid out as the values) and one
    /// over the standard deviations where there is room for them.
    pub(crate) fn layer_norm = layer_norm_rows(values: &mut [f32], rows: StridedRows, norm: LayerNorm<'_>, hat: &mut [f32], inv_std: &mut [f32]);

    /// From gradients of outputs to those before the activation. Writes their sums where there is room for them.
    pub(crate) fn activation_back = activation_back_rows(activation: Activation, saved: SavedOutputs<'_>, grad: &mut [f32], rows: StridedRows, sums: &mut [f32]);

    /// From gradients of outputs to those before activation, scale, shift and norm. Writes the sums for the bias before
    /// them, and for scale and shift, where there is room for them.
    pub(crate) fn layer_norm_back = layer_norm_back_rows(activation: Activation, saved: SavedOutputs<'_>, normed: SavedNorm<'_>, grad: &mut [f32], rows: StridedRows, sums: [&mut [f32]; 3]);

    /// Adds numbers to sums.
    pub(crate) fn add = add_all(sums: &mut [f32], values: &[f32]);

    /// Sums over the rows.
    pub(crate) fn column_sums = column_sums_rows(values: &[f32], rows: StridedRows, sums: &mut [f32]);

    /// Sums over the rows of squared distances from a center.
    pub(crate) fn column_squares = column_squares_rows(values: &[f32], rows: StridedRows, center: &[f32], sums: &mut [f32]);

    /// Sums over the rows of products of two matrices.
    pub(crate) fn column_products = column_products_rows(values: &[f32], rows: StridedRows, others: &[f32], other_stride: usize, sums: &mut [f32]);

    /// Normalises columns and writes the result after scale and shift; before them too, where there is room.
    pub(crate) fn batch_norm = batch_norm_rows(inputs: &[f32], rows: StridedRows, columns: BatchNormColumns<'_>, affine: Affine<'_>, hat: &mut [f32], to: &mut [f32], to_stride: usize);

    /// The backward pass of [`batch_norm`], in place.
    pub(crate) fn batch_norm_back = batch_norm_back_rows(grad: &mut [f32], rows: StridedRows, hat: &[f32], hat_stride: usize, columns: BatchNormBackward<'_>);
}

#[inline(always)]
fn activate_slice<L: Simd>(simd: L, values: &mut [f32], activation: Activation) {
    for chunk in values.chunks_mut(L::WIDTH) {
        // SAFETY: exactly the chunk is read and written.
        unsafe {
            let x = load(simd, chunk);
            let y = match activation {
                Activation::None => x,
                Activation::Tanh => tanh_vector(simd, x),
                Activation::Relu => simd.relu(x),
            };
            store(simd, chunk, y);
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
fn layer_norm_rows<L: Simd>(
    simd: L,
    values: &mut [f32],
    rows: StridedRows,
    LayerNorm { eps, affine, activation }: LayerNorm<'_>,
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
        let inv = 1.0 / (variance + eps).sqrt();
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
