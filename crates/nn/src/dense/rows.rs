//! What happens to rows between products: biases, activations, norms, and the way back through them.
//!
//! Plain loops over slices; compiled for each instruction set, where the compiler makes vectors of them.

use super::compiled::for_each_isa;
use super::spec::Activation;
use crate::kernels::lanes::Lanes;

const LAYER_NORM_EPS: f32 = 1e-5;

/// A matrix inside a slice: so many rows of `width` numbers, `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) width: usize,
    pub(super) stride: usize,
}

impl Rows {
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
pub(super) struct Columns<'a> {
    pub(super) center: &'a [f32],
    pub(super) scale: &'a [f32],
    pub(super) shift: &'a [f32],
}

/// What the way back through batch norm needs to know of each column: a gradient `g` becomes
/// `slope * (g - mean - (hat - center) * along)`.
#[derive(Clone, Copy)]
pub(super) struct ColumnsBack<'a> {
    pub(super) slope: &'a [f32],
    pub(super) mean: &'a [f32],
    pub(super) center: &'a [f32],
    pub(super) along: &'a [f32],
}

for_each_isa! {
    /// Adds a bias (none if empty) to each row, then applies the activation.
    pub(super) fn bias_activate = bias_activate_rows(values: &mut [f32], rows: Rows, bias: &[f32], activation: Activation);

    /// Normalises each row, then scale, shift and activation. Keeps the normed values (laid out as the values) and one
    /// over the standard deviations where there is room for them.
    pub(super) fn layer_norm = layer_norm_rows(values: &mut [f32], rows: Rows, affine: Affine<'_>, activation: Activation, hat: &mut [f32], inv_std: &mut [f32]);

    /// From gradients of outputs to those before the activation, given the outputs.
    pub(super) fn activation_back = activation_back_rows(activation: Activation, outputs: &[f32], output_stride: usize, grad: &mut [f32], rows: Rows);

    /// From gradients after scale and shift to those before the norm. Writes the sums for scale and shift.
    pub(super) fn layer_norm_back = layer_norm_back_rows(grad: &mut [f32], rows: Rows, weight: &[f32], hat: &[f32], hat_stride: usize, inv_std: &[f32], sums: [&mut [f32]; 2]);

    /// Sums over the rows.
    pub(super) fn column_sums = column_sums_rows(values: &[f32], rows: Rows, sums: &mut [f32]);

    /// Sums over the rows of squared distances from a center.
    pub(super) fn column_squares = column_squares_rows(values: &[f32], rows: Rows, center: &[f32], sums: &mut [f32]);

    /// Sums over the rows of products of two matrices.
    pub(super) fn column_products = column_products_rows(values: &[f32], rows: Rows, others: &[f32], other_stride: usize, sums: &mut [f32]);

    /// Normalises columns and writes the result after scale and shift; before them too, where there is room.
    pub(super) fn batch_norm = batch_norm_rows(inputs: &[f32], rows: Rows, columns: Columns<'_>, affine: Affine<'_>, hat: &mut [f32], to: &mut [f32], to_stride: usize);

    /// The way back through [`batch_norm`], in place.
    pub(super) fn batch_norm_back = batch_norm_back_rows(grad: &mut [f32], rows: Rows, hat: &[f32], hat_stride: usize, columns: ColumnsBack<'_>);
}

/// Hyperbolic tangent within 1.5e-7 (4e-7 of its value), exact in sign and at zero; not-a-number stays.
///
/// `e = exp(2x) - 1` without the loss of digits near zero, then `e / (e + 2)`.
#[inline(always)]
pub(super) fn tanh<L: Lanes>(lanes: L, x: f32) -> f32 {
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
    let doublings = x.clamp(-9.02, 9.02) * (2.0 * std::f32::consts::LOG2_E);
    let rounded = doublings + ROUNDER;
    let f = doublings - (rounded - ROUNDER);
    let mut p = POLYNOMIAL[0];
    for c in &POLYNOMIAL[1..] {
        p = lanes.mul_add_one(p, f, *c);
    }
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(0x3f80_0000));
    let e = lanes.mul_add_one(power, p * f, power - 1.0);
    e / (e + 2.0)
}

#[inline(always)]
fn activate<L: Lanes>(lanes: L, values: &mut [f32], activation: Activation) {
    match activation {
        Activation::None => {}
        Activation::Tanh => values.iter_mut().for_each(|x| *x = tanh(lanes, *x)),
        Activation::Relu => values.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
    }
}

#[inline(always)]
fn bias_activate_rows<L: Lanes>(
    lanes: L,
    values: &mut [f32],
    rows: Rows,
    bias: &[f32],
    activation: Activation,
) {
    for row in rows.of_mut(values) {
        row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        activate(lanes, row, activation);
    }
}

#[inline(always)]
fn activation_back_rows<L: Lanes>(
    lanes: L,
    activation: Activation,
    outputs: &[f32],
    output_stride: usize,
    grad: &mut [f32],
    rows: Rows,
) {
    let outputs = outputs.chunks(output_stride);
    for (row, outputs) in rows.of_mut(grad).zip(outputs) {
        let both = row.iter_mut().zip(outputs);
        match activation {
            Activation::None => {}
            Activation::Tanh => both.for_each(|(g, y)| *g *= lanes.mul_add_one(-*y, *y, 1.0)),
            Activation::Relu => both.for_each(|(g, y)| *g = if *y > 0.0 { *g } else { 0.0 }),
        }
    }
}

#[inline(always)]
fn layer_norm_rows<L: Lanes>(
    lanes: L,
    values: &mut [f32],
    rows: Rows,
    affine: Affine<'_>,
    activation: Activation,
    hat: &mut [f32],
    inv_std: &mut [f32],
) {
    let share = 1.0 / rows.width as f32;
    for (index, row) in rows.of_mut(values).enumerate() {
        let mean = sum_of(row, |x| x) * share;
        let variance = sum_of(row, |x| (x - mean) * (x - mean)) * share;
        let inv = 1.0 / (variance + LAYER_NORM_EPS).sqrt();
        row.iter_mut().for_each(|x| *x = (*x - mean) * inv);
        if !hat.is_empty() {
            hat[index * rows.stride..][..rows.width].copy_from_slice(row);
            inv_std[index] = inv;
        }
        for ((x, w), b) in row.iter_mut().zip(affine.weight).zip(affine.bias) {
            *x = lanes.mul_add_one(*x, *w, *b);
        }
        activate(lanes, row, activation);
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn layer_norm_back_rows<L: Lanes>(
    lanes: L,
    grad: &mut [f32],
    rows: Rows,
    weight: &[f32],
    hat: &[f32],
    hat_stride: usize,
    inv_std: &[f32],
    sums: [&mut [f32]; 2],
) {
    let [weight_sums, bias_sums] = sums;
    weight_sums.fill(0.0);
    bias_sums.fill(0.0);
    let share = 1.0 / rows.width as f32;
    let hats = Rows { stride: hat_stride, ..rows };
    for ((row, hat), inv) in rows.of_mut(grad).zip(hats.of(hat)).zip(inv_std) {
        for (((g, h), w), b) in row.iter().zip(hat).zip(weight_sums.iter_mut()).zip(bias_sums.iter_mut()) {
            *w = lanes.mul_add_one(*g, *h, *w);
            *b += g;
        }
        row.iter_mut().zip(weight).for_each(|(g, w)| *g *= w);
        let mean = sum_of(row, |g| g) * share;
        let along = sum_of_products(lanes, row, hat) * share;
        for (g, h) in row.iter_mut().zip(hat) {
            *g = lanes.mul_add_one(-*h, along, *g - mean) * inv;
        }
    }
}

#[inline(always)]
fn column_sums_rows<L: Lanes>(_: L, values: &[f32], rows: Rows, sums: &mut [f32]) {
    sums.fill(0.0);
    for row in rows.of(values) {
        sums.iter_mut().zip(row).for_each(|(s, x)| *s += x);
    }
}

#[inline(always)]
fn column_squares_rows<L: Lanes>(lanes: L, values: &[f32], rows: Rows, center: &[f32], sums: &mut [f32]) {
    sums.fill(0.0);
    for row in rows.of(values) {
        for ((s, x), c) in sums.iter_mut().zip(row).zip(center) {
            *s = lanes.mul_add_one(x - c, x - c, *s);
        }
    }
}

#[inline(always)]
fn column_products_rows<L: Lanes>(
    lanes: L,
    values: &[f32],
    rows: Rows,
    others: &[f32],
    other_stride: usize,
    sums: &mut [f32],
) {
    sums.fill(0.0);
    for (row, other) in rows.of(values).zip(others.chunks(other_stride)) {
        for ((s, x), y) in sums.iter_mut().zip(row).zip(other) {
            *s = lanes.mul_add_one(*x, *y, *s);
        }
    }
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn batch_norm_rows<L: Lanes>(
    lanes: L,
    inputs: &[f32],
    rows: Rows,
    columns: Columns<'_>,
    affine: Affine<'_>,
    hat: &mut [f32],
    to: &mut [f32],
    to_stride: usize,
) {
    let (weight, bias) = (&affine.weight[..rows.width], &affine.bias[..rows.width]);
    for (index, (row, to)) in rows.of(inputs).zip(to.chunks_mut(to_stride)).enumerate() {
        let to = &mut to[..rows.width];
        for (j, (y, x)) in to.iter_mut().zip(row).enumerate() {
            *y = lanes.mul_add_one(x - columns.center[j], columns.scale[j], columns.shift[j]);
        }
        if !hat.is_empty() {
            hat[index * to_stride..][..rows.width].copy_from_slice(to);
        }
        for ((y, w), b) in to.iter_mut().zip(weight).zip(bias) {
            *y = lanes.mul_add_one(*y, *w, *b);
        }
    }
}

#[inline(always)]
fn batch_norm_back_rows<L: Lanes>(
    _: L,
    grad: &mut [f32],
    rows: Rows,
    hat: &[f32],
    hat_stride: usize,
    columns: ColumnsBack<'_>,
) {
    for (row, hat) in rows.of_mut(grad).zip(hat.chunks(hat_stride)) {
        for (j, (g, h)) in row.iter_mut().zip(hat).enumerate() {
            let along = (h - columns.center[j]) * columns.along[j];
            *g = columns.slope[j] * (*g - columns.mean[j] - along);
        }
    }
}

/// Sums in sixteen places, so that vectors can add them.
const PLACES: usize = 16;

#[inline(always)]
fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut places = [0.0f32; PLACES];
    let chunks = values.chunks_exact(PLACES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (place, x) in places.iter_mut().zip(chunk) {
            *place += term(*x);
        }
    }
    places.iter_mut().zip(rest).for_each(|(place, x)| *place += term(*x));
    fold(places)
}

#[inline(always)]
fn sum_of_products<L: Lanes>(lanes: L, a: &[f32], b: &[f32]) -> f32 {
    let mut places = [0.0f32; PLACES];
    let (a_chunks, b_chunks) = (a.chunks_exact(PLACES), b.chunks_exact(PLACES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for ((place, x), y) in places.iter_mut().zip(a).zip(b) {
            *place = lanes.mul_add_one(*x, *y, *place);
        }
    }
    for ((place, x), y) in places.iter_mut().zip(a_rest).zip(b_rest) {
        *place = lanes.mul_add_one(*x, *y, *place);
    }
    fold(places)
}

#[inline(always)]
fn fold(mut places: [f32; PLACES]) -> f32 {
    let mut half = PLACES / 2;
    while half > 0 {
        for i in 0..half {
            places[i] += places[i + half];
        }
        half /= 2;
    }
    places[0]
}
