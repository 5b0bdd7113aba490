//! Sums over a row, for kernels whose loops the compiler makes vectors of.

use super::simd::Simd;

/// Sums in so many SIMD lanes, so that vectors can add them, and none waits for the one before.
const LANES: usize = 32;

#[inline(always)]
pub(crate) fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
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
pub(crate) fn sums_along<L: Simd>(simd: L, a: &[f32], b: &[f32]) -> (f32, f32) {
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

/// The sum of products.
#[inline(always)]
pub(crate) fn dot<L: Simd>(simd: L, a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let (a_rest, b_rest) = (a_chunks.remainder(), b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for ((lane, x), y) in lanes.iter_mut().zip(a).zip(b) {
            *lane = simd.mul_add_one(*x, *y, *lane);
        }
    }
    for ((lane, x), y) in lanes.iter_mut().zip(a_rest).zip(b_rest) {
        *lane = simd.mul_add_one(*x, *y, *lane);
    }
    fold(lanes)
}

/// The largest number of a row.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> f32 {
    let larger = |most: f32, number: f32| if number > most { number } else { most };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, x)| *lane = larger(*lane, *x));
    }
    lanes.into_iter().fold(rest, larger)
}

/// `sums += values`
#[inline(always)]
pub(crate) fn add_to(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += x);
}
