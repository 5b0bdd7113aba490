//! Passes over flat parameters: a step of Adam or AdamW, the norm of gradients before it, and target networks that follow.

use super::Precision;
use super::simd::{Isa, Kernel, Simd, for_each_isa};
use super::spin_pool::{parallel_for, parallel_for_slice, parallel_for_slices};
use super::threads::{RUN, parallelism, run_range};
use std::sync::atomic::{AtomicU64, Ordering};

/// The settings of one step. With `weight_decay` 0 this is plain Adam.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamStep {
    /// Learning rate of this step.
    pub learning_rate: f64,
    /// How much of the mean gradient is kept.
    pub beta1: f64,
    /// How much of the mean square gradient is kept.
    pub beta2: f64,
    /// Added to the root of the mean square.
    pub eps: f64,
    /// Decoupled weight decay: parameters shrink by `learning_rate * weight_decay` of themselves.
    pub weight_decay: f64,
    /// Which step this is, from 1.
    pub step: u64,
    /// Multiplies every gradient first: 1, or what clips their norm.
    pub grad_scale: f64,
}

/// Moves `params` against `grads`, with the two running means of Adam in `means` and `squares`.
///
/// # Panics
/// When the slices are of different lengths.
pub fn step(settings: &AdamStep, params: &mut [f32], grads: &[f32], means: &mut [f32], squares: &mut [f32]) {
    step_on(Isa::best(Precision::F32), settings, params, grads, means, squares);
}

fn step_on(
    isa: Isa,
    settings: &AdamStep,
    params: &mut [f32],
    grads: &[f32],
    means: &mut [f32],
    squares: &mut [f32],
) {
    let len = params.len();
    assert!([grads.len(), means.len(), squares.len()] == [len; 3], "Adam with slices of different lengths");
    let factors = Factors::of(settings);
    let range = |index| run_range(len, index);
    parallel_for_slices(
        parallelism(len),
        [params, means, squares],
        len.div_ceil(RUN),
        |index| [range(index), range(index), range(index)],
        |index, [params, means, squares]| {
            let grads = &grads[range(index)];
            isa.run(Update { by: &factors, params, grads, means, squares });
        },
    );
}

/// The numbers of a step as the inner loop wants them, worked out in double precision.
pub(crate) struct Factors {
    pub(crate) grad_scale: f32,
    pub(crate) new_mean: f32,
    pub(crate) old_square: f32,
    pub(crate) new_square: f32,
    pub(crate) root_scale: f32,
    pub(crate) eps: f32,
    pub(crate) rate: f32,
    pub(crate) keep: f32,
}

impl AdamStep {
    /// The numbers of the step as the inner loop takes them, in the order of [`Factors`] after the scale of gradients.
    pub(crate) fn factors(&self) -> [f32; 7] {
        let Factors { new_mean, old_square, new_square, root_scale, eps, rate, keep, .. } = Factors::of(self);
        [new_mean, old_square, new_square, root_scale, eps, rate, keep]
    }
}

impl Factors {
    pub(crate) fn of(settings: &AdamStep) -> Self {
        let AdamStep { learning_rate, beta1, beta2, eps, weight_decay, step, grad_scale } = *settings;
        let step = step as f64;
        Self {
            grad_scale: grad_scale as f32,
            new_mean: (1.0 - beta1) as f32,
            old_square: beta2 as f32,
            new_square: (1.0 - beta2) as f32,
            root_scale: (1.0 - beta2.powf(step)).sqrt().recip() as f32,
            eps: eps as f32,
            rate: (learning_rate / (1.0 - beta1.powf(step))) as f32,
            keep: (1.0 - learning_rate * weight_decay) as f32,
        }
    }
}

/// Some of the parameters, with what goes with them.
struct Update<'a> {
    by: &'a Factors,
    params: &'a mut [f32],
    grads: &'a [f32],
    means: &'a mut [f32],
    squares: &'a mut [f32],
}

impl Kernel for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Simd>(self, l: L) {
        let by = self.by;
        let (grad_scale, new_mean) = (l.splat(by.grad_scale), l.splat(by.new_mean));
        let (old_square, new_square) = (l.splat(by.old_square), l.splat(by.new_square));
        let (root_scale, eps) = (l.splat(by.root_scale), l.splat(by.eps));
        let (rate, keep) = (l.splat(by.rate), l.splat(by.keep));
        for i in (0..self.params.len()).step_by(L::WIDTH) {
            let count = (self.params.len() - i).min(L::WIDTH);
            // SAFETY: all four have `count` numbers from here on: `step` compared their lengths.
            unsafe {
                let grad = l.mul(l.load_first(self.grads.as_ptr().add(i), count), grad_scale);
                let mean = l.load_first(self.means.as_ptr().add(i), count);
                let mean = l.mul_add(new_mean, l.sub(grad, mean), mean);
                let square = l.mul(l.load_first(self.squares.as_ptr().add(i), count), old_square);
                let square = l.mul_add(l.mul(grad, grad), new_square, square);
                let root = l.mul_add(l.sqrt(square), root_scale, eps);
                let param = l.mul(l.load_first(self.params.as_ptr().add(i), count), keep);
                let param = l.neg_mul_add(rate, l.div(mean, root), param);
                l.store_first(self.means.as_mut_ptr().add(i), mean, count);
                l.store_first(self.squares.as_mut_ptr().add(i), square, count);
                l.store_first(self.params.as_mut_ptr().add(i), param, count);
            }
        }
    }
}

/// The sum of the squares of `values`, for the norm that clipping needs. Run by run, so that the number of threads makes
/// no difference.
#[must_use]
pub fn sum_of_squares(values: &[f32]) -> f64 {
    let isa = Isa::best(Precision::F32);
    let runs: Vec<AtomicU64> = values.chunks(RUN).map(|_| AtomicU64::new(0)).collect();
    parallel_for(parallelism(values.len()), runs.len(), |index| {
        let sum = squares(isa, &values[run_range(values.len(), index)]);
        runs[index].store(sum.to_bits(), Ordering::Relaxed);
    });
    runs.into_iter().map(|sum| f64::from_bits(sum.into_inner())).sum()
}

/// Multiplies every number with `factor`.
pub fn scale(values: &mut [f32], factor: f32) {
    let (len, isa) = (values.len(), Isa::best(Precision::F32));
    let range = |index| run_range(len, index);
    parallel_for_slice(parallelism(len), values, len.div_ceil(RUN), range, |_, values| {
        multiply(isa, values, factor);
    });
}

/// `target = (1 - tau) * target + tau * source`; `tau` of one copies exactly.
///
/// # Panics
/// When the slices are of different lengths.
pub fn polyak(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "target and source are of different networks");
    if tau == 1.0 {
        target.copy_from_slice(source);
        return;
    }
    let (len, isa) = (source.len(), Isa::best(Precision::F32));
    let range = |index| run_range(len, index);
    parallel_for_slice(parallelism(len), target, len.div_ceil(RUN), range, |index, target| {
        follow(isa, target, &source[range(index)], tau);
    });
}

for_each_isa! {
    /// The sum of squares, in double precision.
    fn squares = squares_of(values: &[f32]) -> f64;

    fn multiply = multiply_all(values: &mut [f32], factor: f32);

    fn follow = follow_all(target: &mut [f32], source: &[f32], tau: f32);
}

#[inline(always)]
fn multiply_all<L: Simd>(_: L, values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|value| *value *= factor);
}

#[inline(always)]
fn follow_all<L: Simd>(simd: L, target: &mut [f32], source: &[f32], tau: f32) {
    for (t, s) in target.iter_mut().zip(source) {
        *t = simd.mul_add_one(tau, s - *t, *t);
    }
}

#[inline(always)]
fn squares_of<L: Simd>(_: L, values: &[f32]) -> f64 {
    const PLACES: usize = 16;
    let mut places = [0.0f64; PLACES];
    let parts = values.chunks_exact(PLACES);
    for (place, x) in places.iter_mut().zip(parts.remainder()) {
        *place = f64::from(*x) * f64::from(*x);
    }
    for part in parts {
        for (place, x) in places.iter_mut().zip(part) {
            *place += f64::from(*x) * f64::from(*x);
        }
    }
    places.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three steps, as PyTorch's AdamW does them in double precision.
    #[test]
    fn steps_follow_the_formula() {
        for (weight_decay, len) in [(0.0, 5), (0.01, 37)] {
            let start: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
            let grads: Vec<f32> = (0..len).map(|i| (i as f32 * 0.91).cos() * 0.1).collect();
            let settings = |step| AdamStep {
                learning_rate: 1e-3,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
                weight_decay,
                step,
                grad_scale: 0.5,
            };
            for isa in Isa::all() {
                let (mut params, mut means, mut squares) = (start.clone(), vec![0.0; len], vec![0.0; len]);
                for step in 1..=3 {
                    step_on(isa, &settings(step), &mut params, &grads, &mut means, &mut squares);
                }
                for i in 0..len {
                    let expected =
                        after_three_steps(f64::from(start[i]), f64::from(grads[i]) * 0.5, weight_decay);
                    assert!((f64::from(params[i]) - expected).abs() < 1e-6, "{i} on {}", isa.name());
                }
            }
        }
    }

    fn after_three_steps(mut param: f64, grad: f64, weight_decay: f64) -> f64 {
        let (mut mean, mut square) = (0.0, 0.0);
        for step in 1..=3 {
            param *= 1.0 - 1e-3 * weight_decay;
            mean = 0.9 * mean + 0.1 * grad;
            square = 0.999 * square + 0.001 * grad * grad;
            let (mean, square) = (mean / (1.0 - 0.9f64.powi(step)), square / (1.0 - 0.999f64.powi(step)));
            param -= 1e-3 * mean / (square.sqrt() + 1e-8);
        }
        param
    }

    #[test]
    fn squares_are_added_up() {
        assert_eq!(sum_of_squares(&[3.0; 40_000]), 360_000.0);
    }
}
