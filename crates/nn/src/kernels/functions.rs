//! Functions of many numbers at once: some fifteen times as quick as one by one.

use super::Precision;
use super::simd::{Isa, Simd, for_each_isa};

/// Adding this makes a float of magnitude below 2^22 an integer, found in its lowest bits.
const ROUNDER: f32 = 12_582_912.0;
/// ln 2 in two parts: whole multiples of the first are exact.
const LN_2: [f32; 2] = [0.693_359_4, -0.000_212_194_44];

/// Each number's exponential, within 2e-7 of its value.
pub fn exp(values: &mut [f32]) {
    exp_each(Isa::best(Precision::F32), values);
}

/// Each number's natural logarithm, within 2e-7 of its value or of 1: minus infinity of zero, not a number below it.
pub fn ln(values: &mut [f32]) {
    ln_each(Isa::best(Precision::F32), values);
}

/// Each number's hyperbolic tangent, within 4e-7 of its value.
pub fn tanh(values: &mut [f32]) {
    tanh_each(Isa::best(Precision::F32), values);
}

for_each_isa! {
    fn exp_each = exp_all(values: &mut [f32]);
    fn ln_each = ln_all(values: &mut [f32]);
    fn tanh_each = tanh_all(values: &mut [f32]);
}

#[inline(always)]
pub(crate) fn exp_all<L: Simd>(simd: L, values: &mut [f32]) {
    values.iter_mut().for_each(|x| *x = exp_one(simd, *x));
}

/// `exp(x) = 2^k exp(r)` with `|r| <= ln 2 / 2`, where a short series is enough. For loops that the compiler makes vectors
/// of.
#[inline(always)]
pub(crate) fn exp_one<L: Simd>(simd: L, x: f32) -> f32 {
    // Beyond these there is only zero, and infinity.
    let x = x.clamp(-104.0, 89.0);
    let rounded = simd.mul_add_one(x, std::f32::consts::LOG2_E, ROUNDER);
    let power = rounded - ROUNDER;
    let r = simd.mul_add_one(-power, LN_2[1], simd.mul_add_one(-power, LN_2[0], x));
    let mut series = 1.0 / 5040.0;
    for divisor in [720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0] {
        series = simd.mul_add_one(series, r, 1.0 / divisor);
    }
    // In two factors, as 2^k alone may be too large or too small for a float.
    let k = (rounded.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let half = k >> 1;
    let two_to = |k: i32| f32::from_bits((k.wrapping_add(127) << 23) as u32);
    series * two_to(half) * two_to(k.wrapping_sub(half))
}

/// The share of a normal distribution below `x`, within `4e-7 + 1e-7 x²` of its value below zero and 4e-7 above, and its
/// density there.
///
/// Below zero the share is `exp(-x² / 2)` times a function that hardly changes: a polynomial of `1 / (1 + 0.35 |x|)`.
#[inline(always)]
pub(crate) fn normal_one<L: Simd>(simd: L, x: f32) -> [f32; 2] {
    // The polynomial of least relative error, 3e-8, down to x = -14.
    const POLYNOMIAL: [f32; 9] = [
        -0.029_146_139,
        0.143_972_71,
        -0.255_716_32,
        0.159_176_5,
        -0.023_111_418,
        0.105_508_66,
        0.119_832_7,
        0.139_861_9,
        0.139_621_4,
    ];
    let falling = exp_one(simd, -0.5 * x * x);
    let t = 1.0 / simd.mul_add_one(0.35, x.abs(), 1.0);
    let mut series = POLYNOMIAL[0];
    for coefficient in &POLYNOMIAL[1..] {
        series = simd.mul_add_one(series, t, *coefficient);
    }
    let beyond = series * t * falling;
    let below = if x > 0.0 { 1.0 - beyond } else { beyond };
    [below, falling * (0.5 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2)]
}

/// Hyperbolic tangent within 1.5e-7 (4e-7 of its value), exact in sign and at zero; not-a-number stays.
///
/// `e = exp(2x) - 1` without the loss of digits near zero, then `e / (e + 2)`.
#[inline(always)]
pub(crate) fn tanh_vector<L: Simd>(simd: L, x: L::Vector) -> L::Vector {
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
    for chunk in values.chunks_mut(L::WIDTH) {
        // SAFETY: exactly the chunk is read and written.
        unsafe { store(simd, chunk, tanh_vector(simd, load(simd, chunk))) };
    }
}

/// Reads a chunk of at most a vector.
///
/// # Safety
/// It is no longer.
#[inline(always)]
pub(crate) unsafe fn load<L: Simd>(simd: L, chunk: &[f32]) -> L::Vector {
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
pub(crate) unsafe fn store<L: Simd>(simd: L, chunk: &mut [f32], vector: L::Vector) {
    // SAFETY: the chunk can be written; the caller's promise.
    unsafe {
        match chunk.len() == L::WIDTH {
            true => simd.store(chunk.as_mut_ptr(), vector),
            false => simd.store_first(chunk.as_mut_ptr(), vector, chunk.len()),
        }
    }
}

/// `ln(2^k m) = k ln 2 + ln m` with `m` near one, and `ln m = 2 artanh((m - 1) / (m + 1))`.
#[inline(always)]
fn ln_all<L: Simd>(simd: L, values: &mut [f32]) {
    // The bits of the root of a half: where the exponent changes.
    const LOWEST: u32 = 0x3f35_04f3;
    for x in values {
        let tiny = *x < f32::MIN_POSITIVE;
        let bits = if tiny { *x * 8_388_608.0 } else { *x }.to_bits().wrapping_sub(LOWEST);
        let k = ((bits as i32) >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
        let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(LOWEST));
        let s = (m - 1.0) / (m + 1.0);
        let z = s * s;
        let mut series = 2.0 / 9.0;
        for divisor in [7.0, 5.0, 3.0] {
            series = simd.mul_add_one(series, z, 2.0 / divisor);
        }
        let of_m = simd.mul_add_one(series * z, s, 2.0 * s);
        let sum = simd.mul_add_one(k, LN_2[0], simd.mul_add_one(k, LN_2[1], of_m));
        let known = if *x == 0.0 { f32::NEG_INFINITY } else { *x };
        *x = if *x > 0.0 && *x < f32::INFINITY {
            sum
        } else if *x < 0.0 {
            f32::NAN
        } else {
            known
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, ours: fn(&mut [f32]), exact: fn(f64) -> f64, xs: &[f32], smallest: f64, share: f64) {
        let mut ys = xs.to_vec();
        ours(&mut ys);
        for (x, y) in xs.iter().zip(ys) {
            let exact = exact(f64::from(*x));
            let error = (f64::from(y) - exact).abs();
            let same = f64::from(y) == f64::from(exact as f32) || (y.is_nan() && exact.is_nan());
            assert!(same || error <= share * exact.abs().max(smallest), "{name}({x}) = {y}, not {exact}");
        }
    }

    #[test]
    fn exponentials_and_logarithms_are_precise() {
        let xs: Vec<f32> = (-120_000..100_000).map(|i| i as f32 * 1e-3).collect();
        check("exp", exp, f64::exp, &xs, f64::from(f32::MIN_POSITIVE), 2e-7);
        check("exp", exp, f64::exp, &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0], 0.0, 0.0);
        let xs: Vec<f32> = (-149_000..128_000).map(|i| (f64::from(i) * 1e-3).exp2() as f32).collect();
        check("ln", ln, f64::ln, &xs, 1.0, 2e-7);
        let near_one: Vec<f32> = (-1000..1000).map(|i| 1.0 + i as f32 * 1e-6).collect();
        check("ln", ln, f64::ln, &near_one, 0.0, 4e-7);
        check("ln", ln, f64::ln, &[0.0, -1.0, f32::INFINITY, f32::NAN, 1.0], 0.0, 0.0);
        let xs: Vec<f32> = (-1000..1000).map(|i| i as f32 * 1e-2).collect();
        check("tanh", tanh, f64::tanh, &xs, 0.0, 4e-7);
    }
}
