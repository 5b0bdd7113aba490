//! One step of Adam or AdamW over a slice of parameters, in one pass over memory.

use rayon::prelude::*;

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
    pub step: u32,
    /// Multiplies every gradient first: 1, or what clips their norm.
    pub grad_scale: f64,
}

/// Numbers one thread takes at a time.
const RUN: usize = 1 << 15;

/// Moves `params` against `grads`, with the two running means of Adam in `means` and `squares`.
///
/// # Panics
/// When the slices are of different lengths.
pub fn step(settings: &AdamStep, params: &mut [f32], grads: &[f32], means: &mut [f32], squares: &mut [f32]) {
    let len = params.len();
    assert!([grads.len(), means.len(), squares.len()] == [len; 3], "Adam with slices of different lengths");
    let factors = Factors::of(settings);
    params
        .par_chunks_mut(RUN)
        .zip(grads.par_chunks(RUN))
        .zip(means.par_chunks_mut(RUN))
        .zip(squares.par_chunks_mut(RUN))
        .for_each(|(((params, grads), means), squares)| factors.apply(params, grads, means, squares));
}

/// The numbers of a step as the inner loop wants them, worked out in double precision.
struct Factors {
    grad_scale: f32,
    new_mean: f32,
    old_square: f32,
    new_square: f32,
    root_scale: f32,
    eps: f32,
    rate: f32,
    keep: f32,
}

impl Factors {
    fn of(settings: &AdamStep) -> Self {
        let AdamStep { learning_rate, beta1, beta2, eps, weight_decay, step, grad_scale } = *settings;
        let step = f64::from(step);
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

    fn apply(&self, params: &mut [f32], grads: &[f32], means: &mut [f32], squares: &mut [f32]) {
        for (((param, grad), mean), square) in params.iter_mut().zip(grads).zip(means).zip(squares) {
            let grad = grad * self.grad_scale;
            *mean += self.new_mean * (grad - *mean);
            *square = self.old_square * *square + self.new_square * grad * grad;
            *param = *param * self.keep - self.rate * *mean / (square.sqrt() * self.root_scale + self.eps);
        }
    }
}

/// The sum of the squares of `values`, for the norm that clipping needs. The same for any number of threads.
#[must_use]
pub fn sum_of_squares(values: &[f32]) -> f64 {
    let parts: Vec<f64> =
        values.par_chunks(RUN).map(|run| run.iter().map(|&x| f64::from(x) * f64::from(x)).sum()).collect();
    parts.iter().sum()
}
