//! Adam and AdamW over flat parameters, and the clipping of gradients before them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::compiled::{best_isa, for_each_isa};
use crate::kernels::simd::Simd;
use crate::spin_pool::{Parallelism, parallel_for, parallel_for_slice, parallel_for_slices};

/// The constants of an optimiser. The default is PyTorch's Adam.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamSettings {
    /// How slowly the first and the second moment change.
    pub betas: [f32; 2],
    /// Added to the root of the second moment.
    pub eps: f32,
    /// Decoupled weight decay: AdamW where it is not zero.
    pub weight_decay: f32,
}

impl Default for AdamSettings {
    fn default() -> Self {
        Self { betas: [0.9, 0.999], eps: 1e-8, weight_decay: 0.0 }
    }
}

/// The state of an optimiser: all a checkpoint needs, beside the parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    /// Its constants.
    pub settings: AdamSettings,
    /// Steps taken.
    pub step: u64,
    /// First moments, one for each parameter.
    pub m: Vec<f32>,
    /// Second moments, one for each parameter.
    pub v: Vec<f32>,
}

impl Adam {
    /// An optimiser that has not yet taken a step, for so many parameters.
    pub fn new(parameters: usize, settings: AdamSettings) -> Self {
        Self { settings, step: 0, m: vec![0.0; parameters], v: vec![0.0; parameters] }
    }

    /// One step for all parameters.
    pub fn step(&mut self, params: &mut [f32], grads: &[f32], lr: f32) {
        self.step_groups(params, grads, &[(0..params.len(), lr)]);
    }

    /// One step for groups of parameters, each with its own learning rate. What is in no group stays as it is.
    pub fn step_groups(&mut self, params: &mut [f32], grads: &[f32], groups: &[(Range<usize>, f32)]) {
        assert!(
            params.len() == self.m.len() && grads.len() == self.m.len(),
            "an optimiser of another network"
        );
        self.step += 1;
        let isa = best_isa();
        for (range, lr) in groups {
            let (rates, grads) = (self.rates(*lr), &grads[range.clone()]);
            let slices = [&mut params[range.clone()], &mut self.m[range.clone()], &mut self.v[range.clone()]];
            let place = |index: usize| index * CHUNK..((index + 1) * CHUNK).min(grads.len());
            let places = |index: usize| [place(index), place(index), place(index)];
            parallel_for_slices(
                parallelism(grads.len()),
                slices,
                grads.len().div_ceil(CHUNK),
                places,
                |index, [params, m, v]| {
                    update(isa, params, &grads[place(index)], m, v, rates);
                },
            );
        }
    }

    /// The constants of this step, with the corrections for moments that began at zero.
    fn rates(&self, lr: f32) -> Rates {
        let AdamSettings { betas: [b1, b2], eps, weight_decay } = self.settings;
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(self.step as f64);
        Rates {
            step_size: (f64::from(lr) / correction(b1)) as f32,
            inv_root: (1.0 / correction(b2).sqrt()) as f32,
            keep: 1.0 - lr * weight_decay,
            b1,
            b2,
            eps,
        }
    }
}

/// Parameters that one task updates: some microseconds of work.
const CHUNK: usize = 1 << 14;

/// What one step multiplies with.
#[derive(Clone, Copy)]
struct Rates {
    step_size: f32,
    inv_root: f32,
    keep: f32,
    b1: f32,
    b2: f32,
    eps: f32,
}

for_each_isa! {
    /// Moments and parameters in one pass.
    fn update = update_all(params: &mut [f32], grads: &[f32], m: &mut [f32], v: &mut [f32], rates: Rates);

    /// The sum of squares.
    fn squares = squares_of(values: &[f32]) -> f64;

    fn multiply = multiply_all(values: &mut [f32], factor: f32);
}

#[inline(always)]
fn multiply_all<L: Simd>(_: L, values: &mut [f32], factor: f32) {
    values.iter_mut().for_each(|value| *value *= factor);
}

#[inline(always)]
fn update_all<L: Simd>(
    simd: L,
    params: &mut [f32],
    grads: &[f32],
    m: &mut [f32],
    v: &mut [f32],
    rates: Rates,
) {
    let Rates { step_size, inv_root, keep, b1, b2, eps } = rates;
    for (((p, g), m), v) in params.iter_mut().zip(grads).zip(m).zip(v) {
        // Kept in registers: read back from memory, they would wait for their own way there.
        let first = simd.mul_add_one(1.0 - b1, *g - *m, *m);
        let second = simd.mul_add_one((1.0 - b2) * *g, *g, b2 * *v);
        *p = keep * *p - step_size * first / simd.mul_add_one(second.sqrt(), inv_root, eps);
        (*m, *v) = (first, second);
    }
}

/// Short sums in single precision, their sum in double.
#[inline(always)]
fn squares_of<L: Simd>(simd: L, values: &[f32]) -> f64 {
    const PLACES: usize = 32;
    let mut total = 0.0;
    for chunk in values.chunks(64 * PLACES) {
        let mut places = [0.0f32; PLACES];
        let parts = chunk.chunks_exact(PLACES);
        for (place, x) in places.iter_mut().zip(parts.remainder()) {
            *place = x * x;
        }
        for part in parts {
            for (place, x) in places.iter_mut().zip(part) {
                *place = simd.mul_add_one(*x, *x, *place);
            }
        }
        total += places.iter().map(|place| f64::from(*place)).sum::<f64>();
    }
    total
}

/// Scales gradients so that their norm is at most `max_norm`; returns the norm they had. As PyTorch's, it divides by
/// the norm plus 1e-6. A norm that is not finite is returned and nothing scaled: stopping is for the caller.
pub fn clip_grad_norm(grads: &mut [f32], max_norm: f32) -> f32 {
    let norm = sum_of_squares(grads).sqrt() as f32;
    let scale = max_norm / (norm + 1e-6);
    if norm.is_finite() && scale < 1.0 {
        let (len, isa) = (grads.len(), best_isa());
        let place = |index: usize| index * CHUNK..((index + 1) * CHUNK).min(len);
        parallel_for_slice(parallelism(len), grads, len.div_ceil(CHUNK), place, |_, grads| {
            multiply(isa, grads, scale)
        });
    }
    norm
}

/// Chunk by chunk, so that the number of threads makes no difference.
fn sum_of_squares(values: &[f32]) -> f64 {
    let isa = best_isa();
    let chunks: Vec<AtomicU64> = values.chunks(CHUNK).map(|_| AtomicU64::new(0)).collect();
    parallel_for(parallelism(values.len()), chunks.len(), |index| {
        let chunk = &values[index * CHUNK..((index + 1) * CHUNK).min(values.len())];
        chunks[index].store(squares(isa, chunk).to_bits(), Ordering::Relaxed);
    });
    chunks.into_iter().map(|sum| f64::from_bits(sum.into_inner())).sum()
}

/// Whether so many parameters are worth more than one thread.
fn parallelism(parameters: usize) -> Parallelism {
    if parameters < 2 * CHUNK { Parallelism::OneThread } else { Parallelism::AllThreads }
}
