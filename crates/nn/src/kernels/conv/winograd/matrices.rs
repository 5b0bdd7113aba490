//! The matrices of Winograd's F(4, 3): four outputs of a three-tap filter from six products.
//!
//! They evaluate polynomials at 0, ±√½, ±√2 and infinity. The usual points (±1, ±2) lose one bit more: here the
//! powers stay close to one. Each function applies a matrix to a column of vectors; twice, along both sides, it transforms a
//! tile.

use crate::kernels::simd::Simd;

/// Outputs along a side of a tile.
pub(super) const OUTPUTS: usize = 4;
/// Inputs along a side of a tile, and products.
pub(super) const INPUTS: usize = 6;
/// Products of a tile.
pub(super) const PRODUCTS: usize = INPUTS * INPUTS;

const ROOT_HALF: f32 = std::f32::consts::FRAC_1_SQRT_2;
const ROOT_TWO: f32 = std::f32::consts::SQRT_2;

/// Inputs to products (Bᵀ).
#[inline(always)]
pub(super) fn input<L: Simd>(l: L, d: [L::Vector; 6]) -> [L::Vector; 6] {
    let (half, two, middle) = (l.splat(0.5), l.splat(2.0), l.splat(2.5));
    let (near, far) = (l.splat(ROOT_HALF), l.splat(ROOT_TWO));
    let (even, odd) = (l.neg_mul_add(two, d[2], d[4]), l.neg_mul_add(two, d[1], d[3]));
    let (far_even, far_odd) = (l.neg_mul_add(half, d[2], d[4]), l.neg_mul_add(half, d[1], d[3]));
    [
        l.neg_mul_add(middle, d[2], l.add(d[0], d[4])),
        l.mul_add(near, odd, even),
        l.neg_mul_add(near, odd, even),
        l.mul_add(far, far_odd, far_even),
        l.neg_mul_add(far, far_odd, far_even),
        l.neg_mul_add(middle, d[3], l.add(d[1], d[5])),
    ]
}

/// Gradients of products to gradients of inputs (B).
#[inline(always)]
pub(super) fn grad_input<L: Simd>(l: L, m: [L::Vector; 6]) -> [L::Vector; 6] {
    let (half, two, middle) = (l.splat(0.5), l.splat(2.0), l.splat(2.5));
    let (even, far_even) = (l.add(m[1], m[2]), l.add(m[3], m[4]));
    let odd = l.mul(l.splat(ROOT_HALF), l.sub(m[1], m[2]));
    let far_odd = l.mul(l.splat(ROOT_TWO), l.sub(m[3], m[4]));
    [
        m[0],
        l.neg_mul_add(half, far_odd, l.neg_mul_add(two, odd, m[5])),
        l.neg_mul_add(middle, m[0], l.neg_mul_add(half, far_even, l.mul(l.splat(-2.0), even))),
        l.neg_mul_add(middle, m[5], l.add(odd, far_odd)),
        l.add(m[0], l.add(even, far_even)),
        m[5],
    ]
}

/// Products to outputs (Aᵀ).
#[inline(always)]
pub(super) fn output<L: Simd>(l: L, m: [L::Vector; 6]) -> [L::Vector; 4] {
    let (half, two) = (l.splat(0.5), l.splat(2.0));
    let (even, far_even) = (l.add(m[1], m[2]), l.add(m[3], m[4]));
    let odd = l.mul(l.splat(ROOT_HALF), l.sub(m[1], m[2]));
    let far_odd = l.mul(l.splat(ROOT_TWO), l.sub(m[3], m[4]));
    [
        l.add(l.add(m[0], even), far_even),
        l.add(odd, far_odd),
        l.mul_add(half, even, l.mul(two, far_even)),
        l.mul_add(half, odd, l.mul_add(two, far_odd, m[5])),
    ]
}

/// Gradients of outputs to gradients of products (A).
#[inline(always)]
pub(super) fn grad_output<L: Simd>(l: L, y: [L::Vector; 4]) -> [L::Vector; 6] {
    let (half, two) = (l.splat(0.5), l.splat(2.0));
    let (near, far) = (l.splat(ROOT_HALF), l.splat(ROOT_TWO));
    let (even, odd) = (l.mul_add(half, y[2], y[0]), l.mul_add(half, y[3], y[1]));
    let (far_even, far_odd) = (l.mul_add(two, y[2], y[0]), l.mul_add(two, y[3], y[1]));
    [
        y[0],
        l.mul_add(near, odd, even),
        l.neg_mul_add(near, odd, even),
        l.mul_add(far, far_odd, far_even),
        l.neg_mul_add(far, far_odd, far_even),
        y[3],
    ]
}

/// Weights to factors of the products (G).
#[inline(always)]
pub(super) fn weights<L: Simd>(l: L, g: [L::Vector; 3]) -> [L::Vector; 6] {
    let (near, far) = (l.splat(-2.0 / 3.0), l.splat(1.0 / 6.0));
    let even = l.mul(near, l.mul_add(l.splat(0.5), g[2], g[0]));
    let far_even = l.mul(far, l.mul_add(l.splat(2.0), g[2], g[0]));
    let (odd, far_odd) = (l.splat(-2.0 / 3.0 * ROOT_HALF), l.splat(ROOT_TWO / 6.0));
    [
        g[0],
        l.mul_add(odd, g[1], even),
        l.neg_mul_add(odd, g[1], even),
        l.mul_add(far_odd, g[1], far_even),
        l.neg_mul_add(far_odd, g[1], far_even),
        g[2],
    ]
}

/// Gradients of the factors to gradients of weights (Gᵀ).
#[inline(always)]
pub(super) fn grad_weights<L: Simd>(l: L, u: [L::Vector; 6]) -> [L::Vector; 3] {
    let (even, far_even) = (l.add(u[1], u[2]), l.add(u[3], u[4]));
    let (odd, far_odd) = (l.sub(u[1], u[2]), l.sub(u[3], u[4]));
    let third = l.splat(1.0 / 3.0);
    [
        l.mul_add(l.splat(1.0 / 6.0), far_even, l.mul_add(l.splat(-2.0 / 3.0), even, u[0])),
        l.mul_add(l.splat(ROOT_TWO / 6.0), far_odd, l.mul(l.splat(-2.0 / 3.0 * ROOT_HALF), odd)),
        l.mul_add(third, l.sub(far_even, even), u[5]),
    ]
}
