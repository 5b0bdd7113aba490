//! What happens to rows of tokens between matrix products: normalisation, rotary position embedding (RoPE), gates, softmax;
//! and their gradients.
//!
//! Each is a function of some rows, compiled for each instruction set, and a driver that divides the rows among threads.

use super::functions::{exp_one, load, normal_one, store, tanh_vector};
use super::layer_ops::{self, Activation, Affine, LayerNorm, SavedNorm, SavedOutputs, StridedRows};
use super::simd::{Isa, Simd, for_each_isa};
use super::spin_pool::{Parallelism, parallel_for_slices};
use super::sums::{add_to, dot, largest, sum_of};
use super::threads::part_start;
use super::{Precision, unfilled};
use std::ops::Range;

/// Into so many parts sums over rows are cut; not the number of threads, which sums must not depend on.
const PARTS: usize = 16;
/// Numbers of work that are worth a part of its own.
const WORTH: usize = 8192;

for_each_isa! {
    /// Softmax of the scores times `scale`, row by row. Row `i` attends to `visible[0] + i * visible[1]` keys; the others get zero.
    pub(crate) fn softmax_rows = softmax_of(scores: &mut [f32], width: usize, scale: f32, visible: [usize; 2]);

    /// Gradients of softmax's outputs to gradients of the scores before scaling, row by row.
    pub(crate) fn softmax_backward = softmax_back(probs: &[f32], gradients: &mut [f32], width: usize, scale: f32);

    fn rms_norm_part = rms_norm_of(x: &[f32], scale: &[f32], epsilon: f32, output: &mut [f32], inverse: &mut [f32]);
    fn rms_norm_back_part = rms_norm_back(x: &[f32], scale: &[f32], inverse: &[f32], gradient: &[f32], output: &mut [f32], sums: &mut [f32]);
    fn rotate_tokens = rotate_all(x: &[f32], angles: Rotation<'_>, first_token: usize, output: &mut [f32]);
    fn swiglu_run = swiglu_of(gate: &[f32], up: &[f32], output: &mut [f32]);
    fn swiglu_back_run = swiglu_back(gate: &[f32], up: &[f32], gradient: &[f32], of_gate: &mut [f32], of_up: &mut [f32]);
    fn gelu_run = gelu_of(x: &[f32], output: &mut [f32]);
    fn gelu_back_run = gelu_back(x: &[f32], gradient: &[f32], output: &mut [f32]);
    fn erf_gelu_run = erf_gelu_of(x: &[f32], output: &mut [f32]);
    fn erf_gelu_back_run = erf_gelu_back(x: &[f32], gradient: &[f32], output: &mut [f32]);
    fn log_sum_exp_row = log_sum_exp_of(row: &[f32]) -> f32;
    fn exp_minus = exp_minus_of(row: &[f32], minus: f32, factor: f32, output: &mut [f32]);
}

/// Does work on parts of rows, on all threads: of each slice, `widths[i]` numbers for each row.
fn over_rows<const N: usize>(
    rows: usize,
    parts: usize,
    slices: [&mut [f32]; N],
    widths: [usize; N],
    work: impl Fn(Isa, Range<usize>, [&mut [f32]; N]) + Sync,
) {
    let isa = Isa::best(Precision::F32);
    let range = |part| part_start(rows, parts, part)..part_start(rows, parts, part + 1);
    parallel_for_slices(
        Parallelism::AllThreads,
        slices,
        parts,
        |part| widths.map(|width| range(part).start * width..range(part).end * width),
        |part, slices| work(isa, range(part), slices),
    );
}

/// Parts for rows whose results do not depend on how they are cut.
fn parts_of(rows: usize, width: usize) -> usize {
    (rows * width / WORTH).clamp(1, 4 * PARTS).min(rows.max(1))
}

/// Does work on rows that are always cut alike, with `sums` numbers of its own for each part; the sums of all parts.
fn with_sums(
    rows: usize,
    width: usize,
    output: &mut [f32],
    sums: usize,
    work: impl Fn(Isa, Range<usize>, &mut [f32], &mut [f32]) + Sync,
) -> Vec<f32> {
    let (isa, mut partial) = (Isa::best(Precision::F32), vec![0.0; PARTS * sums]);
    let range = |part| part_start(rows, PARTS, part)..part_start(rows, PARTS, part + 1);
    parallel_for_slices(
        Parallelism::AllThreads,
        [output, &mut partial],
        PARTS,
        |part| [range(part).start * width..range(part).end * width, part * sums..(part + 1) * sums],
        |part, [output, sums]| work(isa, range(part), output, sums),
    );
    let mut total = vec![0.0; sums];
    partial.chunks_exact(sums).for_each(|part| add_to(&mut total, part));
    total
}

/// Some rows of a matrix.
fn rows_of<'a>(x: &'a [f32], rows: &Range<usize>, width: usize) -> &'a [f32] {
    &x[rows.start * width..rows.end * width]
}

#[inline(always)]
fn softmax_of<L: Simd>(simd: L, scores: &mut [f32], width: usize, scale: f32, [first, more]: [usize; 2]) {
    for (row, scores) in scores.chunks_exact_mut(width).enumerate() {
        let (seen, hidden) = scores.split_at_mut(first + row * more);
        hidden.fill(0.0);
        let most = largest(seen);
        seen.iter_mut().for_each(|score| *score = exp_one(simd, (*score - most) * scale));
        let whole = 1.0 / sum_of(seen, |x| x);
        seen.iter_mut().for_each(|share| *share *= whole);
    }
}

#[inline(always)]
fn softmax_back<L: Simd>(simd: L, probs: &[f32], gradients: &mut [f32], width: usize, scale: f32) {
    for (probs, gradients) in probs.chunks_exact(width).zip(gradients.chunks_exact_mut(width)) {
        let mean = dot(simd, probs, gradients);
        for (gradient, prob) in gradients.iter_mut().zip(probs) {
            *gradient = prob * (*gradient - mean) * scale;
        }
    }
}

/// Root mean square normalisation of rows, then a scale. Gives one over the root of each row.
#[must_use]
pub fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32, output: &mut [f32]) -> Vec<f32> {
    let width = scale.len();
    let rows = x.len() / width;
    let mut inverse = unfilled(rows);
    let slices = [output, &mut inverse[..]];
    over_rows(rows, parts_of(rows, width), slices, [width, 1], |isa, range, [output, inverse]| {
        rms_norm_part(isa, rows_of(x, &range, width), scale, epsilon, output, inverse);
    });
    inverse
}

#[inline(always)]
fn rms_norm_of<L: Simd>(
    simd: L,
    x: &[f32],
    scale: &[f32],
    epsilon: f32,
    output: &mut [f32],
    inverse: &mut [f32],
) {
    let rows = x.chunks_exact(scale.len()).zip(output.chunks_exact_mut(scale.len()));
    for ((x, output), inverse) in rows.zip(inverse) {
        let factor = 1.0 / (dot(simd, x, x) / scale.len() as f32 + epsilon).sqrt();
        *inverse = factor;
        for ((y, x), scale) in output.iter_mut().zip(x).zip(scale) {
            *y = x * factor * scale;
        }
    }
}

/// The gradients of input and scale.
#[must_use]
pub fn rms_norm_backward(x: &[f32], scale: &[f32], inverse: &[f32], gradient: &[f32]) -> [Vec<f32>; 2] {
    let width = scale.len();
    let mut of_x = unfilled(x.len());
    let of_scale = with_sums(x.len() / width, width, &mut of_x, width, |isa, range, output, sums| {
        let (x, gradient) = (rows_of(x, &range, width), rows_of(gradient, &range, width));
        rms_norm_back_part(isa, x, scale, &inverse[range], gradient, output, sums);
    });
    [of_x, of_scale]
}

#[inline(always)]
fn rms_norm_back<L: Simd>(
    simd: L,
    x: &[f32],
    scale: &[f32],
    inverse: &[f32],
    gradient: &[f32],
    output: &mut [f32],
    sums: &mut [f32],
) {
    let width = scale.len();
    let rows = x.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(output.chunks_exact_mut(width));
    for (((x, g), out), factor) in rows.zip(inverse) {
        let inputs = x.iter().zip(g).zip(scale);
        for ((out, sum), ((x, g), scale)) in out.iter_mut().zip(sums.iter_mut()).zip(inputs) {
            *out = g * scale;
            *sum = simd.mul_add_one(*g, x * factor, *sum);
        }
        let along = dot(simd, out, x) * factor * factor / width as f32;
        for (out, x) in out.iter_mut().zip(x) {
            *out = factor * simd.mul_add_one(-x, along, *out);
        }
    }
}

/// What a layer norm keeps for its gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNormSaved {
    /// The rows before scale and shift.
    pub hat: Vec<f32>,
    /// One over the deviation of each row.
    pub inv_std: Vec<f32>,
}

/// Layer normalisation of rows. Gives what the gradient needs, if it is wanted.
pub fn layer_norm(
    x: &[f32],
    [scale, shift]: [&[f32]; 2],
    eps: f32,
    output: &mut [f32],
    wants_gradient: bool,
) -> Option<LayerNormSaved> {
    let width = scale.len();
    let rows = x.len() / width;
    let norm = LayerNorm { eps, affine: Affine { weight: scale, bias: shift }, activation: Activation::None };
    let kept = if wants_gradient { rows } else { 0 };
    let mut saved = LayerNormSaved { hat: unfilled(kept * width), inv_std: unfilled(kept) };
    let slices = [output, &mut saved.hat[..], &mut saved.inv_std[..]];
    let widths = if wants_gradient { [width, width, 1] } else { [width, 0, 0] };
    over_rows(rows, parts_of(rows, width), slices, widths, |isa, range, [output, hat, inv_std]| {
        output.copy_from_slice(rows_of(x, &range, width));
        let rows = StridedRows { count: range.len(), width, stride: width };
        layer_ops::layer_norm(isa, output, rows, norm, hat, inv_std);
    });
    wants_gradient.then_some(saved)
}

/// The gradients of input, scale and shift.
#[must_use]
pub fn layer_norm_backward(scale: &[f32], saved: &LayerNormSaved, gradient: &[f32]) -> [Vec<f32>; 3] {
    let (width, rows) = (scale.len(), saved.inv_std.len());
    let mut of_x = unfilled(gradient.len());
    let mut of_scale = with_sums(rows, width, &mut of_x, 2 * width, |isa, range, output, sums| {
        output.copy_from_slice(rows_of(gradient, &range, width));
        let hat = rows_of(&saved.hat, &range, width);
        let all: Vec<usize> = (0..range.len()).collect();
        let outputs = SavedOutputs { outputs: hat, stride: width, rows: &all };
        let normed = SavedNorm { weight: scale, hat, inv_std: &saved.inv_std[range.clone()] };
        let rows = StridedRows { count: range.len(), width, stride: width };
        let (of_scale, of_shift) = sums.split_at_mut(width);
        let sums = [&mut [][..], of_scale, of_shift];
        layer_ops::layer_norm_back(isa, Activation::None, outputs, normed, output, rows, sums);
    });
    let of_shift = of_scale.split_off(width);
    [of_x, of_scale, of_shift]
}

/// How the heads of tokens are rotated.
#[derive(Clone, Copy)]
struct Rotation<'a> {
    /// `[period, half]`, as the sine.
    cos: &'a [f32],
    sin: &'a [f32],
    /// Half the numbers of a head.
    half: usize,
    /// Numbers of a token.
    token: usize,
    /// What sines are multiplied with.
    sign: f32,
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
    let token = heads * 2 * half;
    let (tokens, sign) = (x.len() / token, if inverse { -1.0 } else { 1.0 });
    let rotation = Rotation { cos, sin, half, token, sign };
    over_rows(tokens, parts_of(tokens, token), [output], [token], |isa, range, [output]| {
        rotate_tokens(isa, rows_of(x, &range, token), rotation, range.start, output);
    });
}

#[inline(always)]
fn rotate_all<L: Simd>(
    simd: L,
    x: &[f32],
    Rotation { cos, sin, half, token, sign }: Rotation<'_>,
    first_token: usize,
    output: &mut [f32],
) {
    let period = cos.len() / half;
    for (i, (x, output)) in x.chunks_exact(token).zip(output.chunks_exact_mut(token)).enumerate() {
        let angle = (first_token + i) % period * half;
        let (cos, sin) = (&cos[angle..][..half], &sin[angle..][..half]);
        for (x, output) in x.chunks_exact(2 * half).zip(output.chunks_exact_mut(2 * half)) {
            let ((low, high), (to_low, to_high)) = (x.split_at(half), output.split_at_mut(half));
            let (inputs, angles) = (low.iter().zip(high), cos.iter().zip(sin));
            let outputs = to_low.iter_mut().zip(to_high);
            for ((to_low, to_high), ((low, high), (cos, sin))) in outputs.zip(inputs.zip(angles)) {
                let sin = sin * sign;
                *to_low = simd.mul_add_one(-high, sin, low * cos);
                *to_high = simd.mul_add_one(*low, sin, high * cos);
            }
        }
    }
}

/// `gate / (1 + e^-gate) * up`
pub fn swiglu(gate: &[f32], up: &[f32], output: &mut [f32]) {
    let count = gate.len();
    over_rows(count, parts_of(count, 1), [output], [1], |isa, run, [output]| {
        swiglu_run(isa, &gate[run.clone()], &up[run], output);
    });
}

#[inline(always)]
fn swiglu_of<L: Simd>(simd: L, gate: &[f32], up: &[f32], output: &mut [f32]) {
    for ((out, g), u) in output.iter_mut().zip(gate).zip(up) {
        *out = g / (1.0 + exp_one(simd, -g)) * u;
    }
}

/// The gradients of gate and up.
#[must_use]
pub fn swiglu_backward(gate: &[f32], up: &[f32], gradient: &[f32]) -> [Vec<f32>; 2] {
    let count = gate.len();
    let mut found = [unfilled(count), unfilled(count)];
    let slices = found.each_mut().map(Vec::as_mut_slice);
    over_rows(count, parts_of(count, 1), slices, [1, 1], |isa, run, [of_gate, of_up]| {
        let (gate, up, gradient) = (&gate[run.clone()], &up[run.clone()], &gradient[run]);
        swiglu_back_run(isa, gate, up, gradient, of_gate, of_up);
    });
    found
}

#[inline(always)]
fn swiglu_back<L: Simd>(
    simd: L,
    gate: &[f32],
    up: &[f32],
    gradient: &[f32],
    of_gate: &mut [f32],
    of_up: &mut [f32],
) {
    let inputs = gate.iter().zip(up).zip(gradient);
    for (((gate, up), gradient), (of_gate, of_up)) in inputs.zip(of_gate.iter_mut().zip(of_up)) {
        let open = 1.0 / (1.0 + exp_one(simd, -gate));
        let silu = gate * open;
        *of_up = gradient * silu;
        *of_gate = gradient * up * simd.mul_add_one(silu, 1.0 - open, open);
    }
}

const ROOT: f32 = 0.797_884_6; // of 2 / pi
const CUBE: f32 = 0.044_715;

/// GELU by the hyperbolic tangent.
pub fn gelu(x: &[f32], output: &mut [f32]) {
    over_rows(x.len(), parts_of(x.len(), 1), [output], [1], |isa, run, [output]| {
        gelu_run(isa, &x[run], output);
    });
}

/// `tanh(ROOT * (x + CUBE * x^3))`, and the square of `x`.
#[inline(always)]
fn gelu_tanh<L: Simd>(simd: L, x: L::Vector) -> (L::Vector, L::Vector) {
    let square = simd.mul(x, x);
    let inner = simd.mul_add(simd.mul(square, simd.splat(ROOT * CUBE)), x, simd.mul(x, simd.splat(ROOT)));
    (tanh_vector(simd, inner), square)
}

#[inline(always)]
fn gelu_of<L: Simd>(simd: L, x: &[f32], output: &mut [f32]) {
    let half = simd.splat(0.5);
    for (x, output) in x.chunks(L::WIDTH).zip(output.chunks_mut(L::WIDTH)) {
        // SAFETY: chunks of two slices of the same length have the same lengths, at most a vector.
        unsafe {
            let x = load(simd, x);
            let (t, _) = gelu_tanh(simd, x);
            let half = simd.mul(half, x);
            store(simd, output, simd.mul_add(half, t, half));
        }
    }
}

/// The gradient of [`gelu`].
#[must_use]
pub fn gelu_backward(x: &[f32], gradient: &[f32]) -> Vec<f32> {
    let mut of_x = unfilled(x.len());
    over_rows(x.len(), parts_of(x.len(), 1), [&mut of_x], [1], |isa, run, [output]| {
        gelu_back_run(isa, &x[run.clone()], &gradient[run], output);
    });
    of_x
}

#[inline(always)]
fn gelu_back<L: Simd>(simd: L, x: &[f32], gradient: &[f32], output: &mut [f32]) {
    let (half, one) = (simd.splat(0.5), simd.splat(1.0));
    let inputs = x.chunks(L::WIDTH).zip(gradient.chunks(L::WIDTH));
    for ((x, gradient), output) in inputs.zip(output.chunks_mut(L::WIDTH)) {
        // SAFETY: chunks of slices of the same length have the same lengths, at most a vector.
        unsafe {
            let (x, gradient) = (load(simd, x), load(simd, gradient));
            let (t, square) = gelu_tanh(simd, x);
            let inner = simd.mul_add(square, simd.splat(3.0 * ROOT * CUBE), simd.splat(ROOT));
            let slope = simd.mul(simd.mul(simd.neg_mul_add(t, t, one), x), inner);
            let derivative = simd.mul(half, simd.add(simd.add(t, one), slope));
            store(simd, output, simd.mul(gradient, derivative));
        }
    }
}

/// GELU as it is defined: a number times the normal distribution up to it.
pub fn erf_gelu(x: &[f32], output: &mut [f32]) {
    over_rows(x.len(), parts_of(x.len(), 1), [output], [1], |isa, run, [output]| {
        erf_gelu_run(isa, &x[run], output);
    });
}

/// The gradient of [`erf_gelu`].
#[must_use]
pub fn erf_gelu_backward(x: &[f32], gradient: &[f32]) -> Vec<f32> {
    let mut of_x = unfilled(x.len());
    over_rows(x.len(), parts_of(x.len(), 1), [&mut of_x], [1], |isa, run, [output]| {
        erf_gelu_back_run(isa, &x[run.clone()], &gradient[run], output);
    });
    of_x
}

#[inline(always)]
fn erf_gelu_of<L: Simd>(simd: L, x: &[f32], output: &mut [f32]) {
    output.iter_mut().zip(x).for_each(|(output, x)| *output = x * normal_one(simd, *x)[0]);
}

#[inline(always)]
fn erf_gelu_back<L: Simd>(simd: L, x: &[f32], gradient: &[f32], output: &mut [f32]) {
    for ((output, x), gradient) in output.iter_mut().zip(x).zip(gradient) {
        let [below, density] = normal_one(simd, *x);
        *output = gradient * simd.mul_add_one(*x, density, below);
    }
}

/// The cross-entropy of each row of `logits` with the class that it should have, and the logarithm of the sum of its
/// exponentials, which the gradient needs.
#[must_use]
pub fn cross_entropy(logits: &[f32], targets: &[usize]) -> [Vec<f32>; 2] {
    let (isa, width) = (Isa::best(Precision::F32), logits.len() / targets.len().max(1));
    let [mut losses, mut log_sums] = [unfilled(targets.len()), unfilled(targets.len())];
    let slices = [&mut losses[..], &mut log_sums[..]];
    let rows = targets.len();
    over_rows(rows, parts_of(rows, width), slices, [1, 1], |_, range, [losses, log_sums]| {
        for ((row, loss), log_sum) in range.zip(losses).zip(log_sums) {
            let logits = &logits[row * width..][..width];
            *log_sum = log_sum_exp_row(isa, logits);
            *loss = *log_sum - logits[targets[row]];
        }
    });
    [losses, log_sums]
}

/// `factor` times the gradient of the sum of losses of [`cross_entropy`].
#[must_use]
pub fn cross_entropy_backward(logits: &[f32], targets: &[usize], log_sums: &[f32], factor: f32) -> Vec<f32> {
    let (rows, width) = (targets.len(), logits.len() / targets.len().max(1));
    let mut gradient = unfilled(logits.len());
    over_rows(rows, parts_of(rows, width), [&mut gradient], [width], |isa, range, [gradient]| {
        for (row, gradient) in range.zip(gradient.chunks_exact_mut(width)) {
            exp_minus(isa, &logits[row * width..][..width], log_sums[row], factor, gradient);
            gradient[targets[row]] -= factor;
        }
    });
    gradient
}

#[inline(always)]
fn log_sum_exp_of<L: Simd>(simd: L, row: &[f32]) -> f32 {
    let most = largest(row);
    most + sum_of(row, |x| exp_one(simd, x - most)).ln()
}

#[inline(always)]
fn exp_minus_of<L: Simd>(simd: L, row: &[f32], minus: f32, factor: f32, output: &mut [f32]) {
    output.iter_mut().zip(row).for_each(|(output, x)| *output = factor * exp_one(simd, x - minus));
}

/// The sums of columns of rows of `width` numbers.
#[must_use]
pub fn column_sums(x: &[f32], width: usize) -> Vec<f32> {
    with_sums(x.len() / width, 0, &mut [], width, |isa, range, _, sums| {
        let rows = StridedRows { count: range.len(), width, stride: width };
        layer_ops::column_sums(isa, rows_of(x, &range, width), rows, sums);
    })
}
