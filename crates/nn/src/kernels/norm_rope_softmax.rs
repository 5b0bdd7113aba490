//! What happens to rows between matrix products: normalisation, rotary position embedding (RoPE), gates, softmax; and their gradients.
//!
//! Loops are plain, over a fixed number of sums side by side, and compiled once per instruction set.

use super::simd::{Isa, Kernel, Simd};
use super::threads::{Shared, for_each, part_start};
use super::{Precision, unfilled};
use std::marker::PhantomData;
use std::ops::Range;

/// Sums side by side.
const SUMS: usize = 32;
/// Into so many parts sums over rows are cut; not the number of threads, which sums must not depend on.
const PARTS: usize = 16;
/// Numbers of work that are worth a part of its own.
const WORTH: usize = 8192;

/// The sum of products.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; SUMS];
    let (chunks_a, chunks_b) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
    let rest: f32 = chunks_a.remainder().iter().zip(chunks_b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for i in 0..SUMS {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[inline(always)]
fn sum(a: &[f32]) -> f32 {
    let mut sums = [0f32; SUMS];
    let chunks = a.chunks_exact(SUMS);
    let rest: f32 = chunks.remainder().iter().sum();
    for a in chunks {
        for i in 0..SUMS {
            sums[i] += a[i];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// `sums += numbers`
#[inline(always)]
pub(crate) fn add_into(sums: &mut [f32], numbers: &[f32]) {
    sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
}

/// `e^x`, to the last digit or two, without branches.
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    let x = x.clamp(-87.3, 88.7);
    // Rounds by adding and taking off a number whose last digit is the unit.
    const ROUND: f32 = 12_582_912.0;
    let n = (x * LOG2_E + ROUND) - ROUND;
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let e = p * r * r + r + 1.0;
    let power = f32::from_bits(((n as i32 + 127) << 23) as u32);
    e * power
}

/// Work on some rows.
trait OnRows: Copy + Sync {
    /// Does part `part` of the work, which is these rows.
    fn run(self, part: usize, rows: Range<usize>);
}

/// A part of such work, compiled for an instruction set.
struct Compiled<W>(W, usize, Range<usize>);

impl<W: OnRows> Kernel for Compiled<W> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, _: L) {
        self.0.run(self.1, self.2);
    }
}

/// Work on rows, written as if it were a closure. A closure would not be compiled for the instruction set.
macro_rules! on_rows {
    ([$($name:ident: $type:ty),* $(,)?], |$part:ident, $rows:ident| $body:block) => {{
        #[derive(Clone, Copy)]
        struct Work<'a> {
            $($name: $type,)*
            life: PhantomData<&'a ()>,
        }
        impl OnRows for Work<'_> {
            #[inline(always)]
            fn run(self, $part: usize, $rows: Range<usize>) {
                let Self { $($name,)* life: _ } = self;
                $body
            }
        }
        Work { $($name,)* life: PhantomData }
    }};
}

/// Does work on rows of so many numbers, on all threads.
fn over_rows(rows: usize, width: usize, work: impl OnRows) {
    let isa = Isa::best(Precision::F32);
    let parts = (rows * width / WORTH).clamp(1, 4 * PARTS).min(rows.max(1));
    for_each(parts, |part| {
        let range = part_start(rows, parts, part)..part_start(rows, parts, part + 1);
        isa.run(Compiled(work, part, range));
    });
}

/// Does work on rows that are always cut alike, so that sums do not depend on threads.
fn in_parts(rows: usize, work: impl OnRows) {
    let isa = Isa::best(Precision::F32);
    for_each(PARTS, |part| {
        let range = part_start(rows, PARTS, part)..part_start(rows, PARTS, part + 1);
        isa.run(Compiled(work, part, range));
    });
}

/// A slice whose rows threads write.
#[derive(Clone, Copy)]
struct Out(Shared<f32>);

impl Out {
    fn of(numbers: &mut [f32]) -> Self {
        Self(Shared::of(numbers))
    }

    /// Some numbers.
    ///
    /// # Safety
    /// They are inside, and no other thread has them.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    unsafe fn part<'a>(self, start: usize, count: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.at(start), count) }
    }
}

/// Softmax of the scores times `scale`, row by row. Row `i` attends to `first + i * more` keys; the others get zero.
pub(crate) fn softmax_rows(
    isa: Isa,
    scores: &mut [f32],
    width: usize,
    scale: f32,
    [first, more]: [usize; 2],
) {
    let (rows, out) = (scores.len() / width, Out::of(scores));
    let work = on_rows!([out: Out, width: usize, scale: f32, first: usize, more: usize], |_part, range| {
        for row in range {
            // SAFETY: each row is another's.
            let scores = unsafe { out.part(row * width, width) };
            let (seen, hidden) = scores.split_at_mut(first + row * more);
            hidden.fill(0.0);
            let most = largest(seen);
            seen.iter_mut().for_each(|score| *score = exp((*score - most) * scale));
            let whole = 1.0 / sum(seen);
            seen.iter_mut().for_each(|share| *share *= whole);
        }
    });
    isa.run(Compiled(work, 0, 0..rows));
}

#[inline(always)]
fn largest(a: &[f32]) -> f32 {
    let larger = |most: f32, number: f32| if number > most { number } else { most };
    let mut most = [f32::NEG_INFINITY; SUMS];
    let chunks = a.chunks_exact(SUMS);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
    for a in chunks {
        for i in 0..SUMS {
            most[i] = larger(most[i], a[i]);
        }
    }
    most.iter().copied().fold(rest, larger)
}

/// Root mean square normalisation of rows, then a scale. Gives one over the root of each row.
#[must_use]
pub fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32, output: &mut [f32]) -> Vec<f32> {
    let width = scale.len();
    let rows = x.len() / width;
    let mut inverse = unfilled(rows);
    let (out, inverses) = (Out::of(output), Out::of(&mut inverse));
    let work = on_rows!([x: &'a [f32], scale: &'a [f32], epsilon: f32, width: usize, out: Out, inverses: Out], |_part, range| {
        for row in range {
            let x = &x[row * width..][..width];
            let factor = 1.0 / (dot(x, x) / width as f32 + epsilon).sqrt();
            // SAFETY: each row is another's.
            let (out, inverse) = unsafe { (out.part(row * width, width), inverses.part(row, 1)) };
            inverse[0] = factor;
            for i in 0..width {
                out[i] = x[i] * factor * scale[i];
            }
        }
    });
    over_rows(rows, width, work);
    inverse
}

/// The gradients of input and scale.
#[must_use]
pub fn rms_norm_backward(x: &[f32], scale: &[f32], inverse: &[f32], gradient: &[f32]) -> [Vec<f32>; 2] {
    let width = scale.len();
    let rows = x.len() / width;
    let (mut of_x, mut partial) = (unfilled(x.len()), vec![0.0; PARTS * width]);
    let (out, sums) = (Out::of(&mut of_x), Out::of(&mut partial));
    let work = on_rows!([x: &'a [f32], scale: &'a [f32], inverse: &'a [f32], gradient: &'a [f32], width: usize, out: Out, sums: Out], |part, range| {
        // SAFETY: each part has its own sums, and each row is another's.
        let sums = unsafe { sums.part(part * width, width) };
        for row in range {
            let (x, g) = (&x[row * width..][..width], &gradient[row * width..][..width]);
            let factor = inverse[row];
            // SAFETY: as above.
            let out = unsafe { out.part(row * width, width) };
            for i in 0..width {
                out[i] = g[i] * scale[i];
                sums[i] += g[i] * x[i] * factor;
            }
            let along = dot(out, x) * factor * factor / width as f32;
            for i in 0..width {
                out[i] = factor * (out[i] - x[i] * along);
            }
        }
    });
    in_parts(rows, work);
    [of_x, add_parts(&partial, width)]
}

fn add_parts(partial: &[f32], width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    partial.chunks_exact(width).for_each(|part| add_into(&mut total, part));
    total
}

/// Layer normalisation of rows. Gives mean and one over the deviation of each row.
#[must_use]
pub fn layer_norm(
    x: &[f32],
    scale: &[f32],
    shift: &[f32],
    epsilon: f32,
    output: &mut [f32],
) -> Vec<[f32; 2]> {
    let width = scale.len();
    let rows = x.len() / width;
    let mut moments = unfilled(2 * rows);
    let (out, kept) = (Out::of(output), Out::of(&mut moments));
    let work = on_rows!([x: &'a [f32], scale: &'a [f32], shift: &'a [f32], epsilon: f32, width: usize, out: Out, kept: Out], |_part, range| {
        for row in range {
            let x = &x[row * width..][..width];
            let mean = sum(x) / width as f32;
            // SAFETY: each row is another's.
            let (out, kept) = unsafe { (out.part(row * width, width), kept.part(2 * row, 2)) };
            for i in 0..width {
                out[i] = x[i] - mean;
            }
            let factor = 1.0 / (dot(out, out) / width as f32 + epsilon).sqrt();
            (kept[0], kept[1]) = (mean, factor);
            for i in 0..width {
                out[i] = out[i] * factor * scale[i] + shift[i];
            }
        }
    });
    over_rows(rows, width, work);
    moments.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
}

/// The gradients of input, scale and shift.
#[must_use]
pub fn layer_norm_backward(
    x: &[f32],
    scale: &[f32],
    moments: &[[f32; 2]],
    gradient: &[f32],
) -> [Vec<f32>; 3] {
    let width = scale.len();
    let rows = x.len() / width;
    let (mut of_x, mut partial) = (unfilled(x.len()), vec![0.0; PARTS * 2 * width]);
    let (out, sums) = (Out::of(&mut of_x), Out::of(&mut partial));
    let work = on_rows!([x: &'a [f32], scale: &'a [f32], moments: &'a [[f32; 2]], gradient: &'a [f32], width: usize, out: Out, sums: Out], |part, range| {
        // SAFETY: each part has its own sums, and each row is another's.
        let sums = unsafe { sums.part(part * 2 * width, 2 * width) };
        let (of_scale, of_shift) = sums.split_at_mut(width);
        for row in range {
            let (x, g) = (&x[row * width..][..width], &gradient[row * width..][..width]);
            let [mean, factor] = moments[row];
            // SAFETY: as above.
            let out = unsafe { out.part(row * width, width) };
            for i in 0..width {
                out[i] = g[i] * scale[i];
                of_scale[i] += g[i] * (x[i] - mean) * factor;
                of_shift[i] += g[i];
            }
            let middle = sum(out) / width as f32;
            let along = (dot(out, x) - mean * middle * width as f32) * factor * factor / width as f32;
            for i in 0..width {
                out[i] = factor * (out[i] - middle - (x[i] - mean) * along);
            }
        }
    });
    in_parts(rows, work);
    let both = add_parts(&partial, 2 * width);
    [of_x, both[..width].to_vec(), both[width..].to_vec()]
}

/// RoPE: rotates heads `[token, head, width]` by the angles `cos` and `sin` `[period, width / 2]` of their tokens, or back.
pub fn rope(
    x: &[f32],
    heads: usize,
    [cos, sin]: [&[f32]; 2],
    half: usize,
    inverse: bool,
    output: &mut [f32],
) {
    let row = heads * 2 * half;
    let (tokens, period) = (x.len() / row, cos.len() / half);
    let out = Out::of(output);
    let sign = if inverse { -1.0 } else { 1.0 };
    let work = on_rows!([x: &'a [f32], cos: &'a [f32], sin: &'a [f32], row: usize, half: usize, period: usize, sign: f32, out: Out], |_part, range| {
        for token in range {
            let angle = token % period * half;
            let (cos, sin) = (&cos[angle..][..half], &sin[angle..][..half]);
            // SAFETY: each token is another's.
            let out = unsafe { out.part(token * row, row) };
            let heads = x[token * row..][..row].chunks_exact(2 * half).zip(out.chunks_exact_mut(2 * half));
            for (x, out) in heads {
                let ((low, high), (to_low, to_high)) = (x.split_at(half), out.split_at_mut(half));
                for i in 0..half {
                    let s = sin[i] * sign;
                    to_low[i] = low[i] * cos[i] - high[i] * s;
                    to_high[i] = high[i] * cos[i] + low[i] * s;
                }
            }
        }
    });
    over_rows(tokens, row, work);
}

/// Does work on single numbers.
fn over_runs(count: usize, work: impl OnRows) {
    over_rows(count, 1, work);
}

/// `gate / (1 + e^-gate) * up`
pub fn swiglu(gate: &[f32], up: &[f32], output: &mut [f32]) {
    let out = Out::of(output);
    let work = on_rows!([gate: &'a [f32], up: &'a [f32], out: Out], |_part, run| {
        // SAFETY: each run is another's.
        let out = unsafe { out.part(run.start, run.len()) };
        for ((out, g), u) in out.iter_mut().zip(&gate[run.clone()]).zip(&up[run]) {
            *out = g / (1.0 + exp(-g)) * u;
        }
    });
    over_runs(gate.len(), work);
}

/// The gradients of gate and up.
#[must_use]
pub fn swiglu_backward(gate: &[f32], up: &[f32], gradient: &[f32]) -> [Vec<f32>; 2] {
    let (mut of_gate, mut of_up) = (unfilled(gate.len()), unfilled(gate.len()));
    let (gates, ups) = (Out::of(&mut of_gate), Out::of(&mut of_up));
    let work = on_rows!([gate: &'a [f32], up: &'a [f32], gradient: &'a [f32], gates: Out, ups: Out], |_part, run| {
        // SAFETY: each run is another's.
        let (gates, ups) = unsafe { (gates.part(run.start, run.len()), ups.part(run.start, run.len())) };
        let (gate, up, gradient) = (&gate[run.clone()], &up[run.clone()], &gradient[run]);
        for i in 0..gate.len() {
            let open = 1.0 / (1.0 + exp(-gate[i]));
            let silu = gate[i] * open;
            ups[i] = gradient[i] * silu;
            gates[i] = gradient[i] * up[i] * (open + silu * (1.0 - open));
        }
    });
    over_runs(gate.len(), work);
    [of_gate, of_up]
}

const ROOT: f32 = 0.797_884_6; // of 2 / pi
const CUBE: f32 = 0.044_715;

/// The hyperbolic tangent.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

/// GELU by the hyperbolic tangent.
pub fn gelu(x: &[f32], output: &mut [f32]) {
    let out = Out::of(output);
    let work = on_rows!([x: &'a [f32], out: Out], |_part, run| {
        // SAFETY: each run is another's.
        let out = unsafe { out.part(run.start, run.len()) };
        for (out, x) in out.iter_mut().zip(&x[run]) {
            *out = 0.5 * x * (1.0 + tanh(ROOT * (x + CUBE * x * x * x)));
        }
    });
    over_runs(x.len(), work);
}

/// The gradient of [`gelu`].
#[must_use]
pub fn gelu_backward(x: &[f32], gradient: &[f32]) -> Vec<f32> {
    let mut of_x = unfilled(x.len());
    let out = Out::of(&mut of_x);
    let work = on_rows!([x: &'a [f32], gradient: &'a [f32], out: Out], |_part, run| {
        // SAFETY: each run is another's.
        let out = unsafe { out.part(run.start, run.len()) };
        for ((out, x), g) in out.iter_mut().zip(&x[run.clone()]).zip(&gradient[run]) {
            let t = tanh(ROOT * (x + CUBE * x * x * x));
            let inner_gradient = ROOT * (1.0 + 3.0 * CUBE * x * x);
            *out = g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner_gradient);
        }
    });
    over_runs(x.len(), work);
    of_x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_to_the_last_digits() {
        for i in -8700..8800 {
            let x = i as f32 * 0.01;
            let off = f64::from(exp(x)) / f64::from(x).exp() - 1.0;
            assert!(off.abs() < 4e-7, "{x}: {off:e}");
        }
    }
}
