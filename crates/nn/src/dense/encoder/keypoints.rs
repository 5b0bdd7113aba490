//! Spatial softmax keypoints: the expected position of each channel under a softmax over positions (Levine et al., 2016).
//!
//! ```text
//! p = softmax over positions of a channel      x̂ = Σ p x      ŷ = Σ p y      x and y from -1 to 1
//! ```
//!
//! A thing that moves by a pixel moves its point by as much, wherever it is: few images are enough to learn from.

use rayon::prelude::*;

use crate::kernels::functions::exp_all;
use crate::kernels::simd::{Simd, for_each_isa};
use crate::kernels::{Isa, Precision};

/// The size of what points are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::dense) struct Keypoints {
    pub(in crate::dense) height: usize,
    pub(in crate::dense) width: usize,
    pub(in crate::dense) channels: usize,
}

impl Keypoints {
    /// Numbers in the feature map of one image.
    pub(in crate::dense) fn inputs(self) -> usize {
        self.height * self.width * self.channels
    }

    /// Numbers that come out for one image: `[x̂ of every channel | ŷ of every channel]`.
    pub(in crate::dense) fn outputs(self) -> usize {
        2 * self.channels
    }

    /// Points `[batch, outputs]` of values `[batch, row, column, channel]`, which become p.
    pub(in crate::dense) fn forward(self, values: &mut [f32], points: &mut [f32]) {
        let isa = Isa::best(Precision::F32);
        let images = values.par_chunks_mut(self.inputs()).zip(points.par_chunks_mut(self.outputs()));
        images.for_each(|(values, points)| spatial_softmax(isa, values, points, self.height, self.width));
    }

    /// Gradients of the values, from those of the points; `probabilities` is what the values have become.
    pub(in crate::dense) fn backward(
        self,
        probabilities: &[f32],
        points: &[f32],
        grad_points: &[f32],
        grad_values: &mut [f32],
    ) {
        let isa = Isa::best(Precision::F32);
        let images = grad_values.par_chunks_mut(self.inputs()).zip(probabilities.par_chunks(self.inputs()));
        let points = points.par_chunks(self.outputs()).zip(grad_points.par_chunks(self.outputs()));
        images.zip(points).for_each(|((grad, probabilities), (points, grad_points))| {
            spatial_softmax_backward(isa, probabilities, points, grad_points, grad, self.height, self.width);
        });
    }
}

for_each_isa! {
    /// The points of one image.
    fn spatial_softmax = spatial_softmax_all(values: &mut [f32], points: &mut [f32], height: usize, width: usize);

    /// `p ((x - x̂) ∂x̂ + (y - ŷ) ∂ŷ)` at every position of one image.
    fn spatial_softmax_backward = spatial_softmax_backward_all(
        probabilities: &[f32], points: &[f32], grad_points: &[f32], grad: &mut [f32], height: usize, width: usize,
    );
}

#[inline(always)]
fn spatial_softmax_all<L: Simd>(
    simd: L,
    values: &mut [f32],
    points: &mut [f32],
    height: usize,
    width: usize,
) {
    let channels = points.len() / 2;
    let (x, y) = points.split_at_mut(channels);
    let largest = &mut *x;
    largest.fill(f32::NEG_INFINITY);
    for row in values.chunks_exact(channels) {
        largest
            .iter_mut()
            .zip(row)
            .for_each(|(most, value)| *most = if *value > *most { *value } else { *most });
    }
    for row in values.chunks_exact_mut(channels) {
        row.iter_mut().zip(&*largest).for_each(|(value, most)| *value -= most);
    }
    exp_all(simd, values);
    let sums = &mut *y;
    sums.fill(0.0);
    for row in values.chunks_exact(channels) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    for row in values.chunks_exact_mut(channels) {
        row.iter_mut().zip(&*sums).for_each(|(value, sum)| *value /= sum);
    }
    x.fill(0.0);
    y.fill(0.0);
    for (position, row) in values.chunks_exact(channels).enumerate() {
        let [down, right] = coordinates(position, height, width);
        for ((x, y), p) in x.iter_mut().zip(&mut *y).zip(row) {
            *x = simd.mul_add_one(*p, right, *x);
            *y = simd.mul_add_one(*p, down, *y);
        }
    }
}

#[inline(always)]
fn spatial_softmax_backward_all<L: Simd>(
    simd: L,
    probabilities: &[f32],
    points: &[f32],
    grad_points: &[f32],
    grad: &mut [f32],
    height: usize,
    width: usize,
) {
    let channels = points.len() / 2;
    let ((x, y), (grad_x, grad_y)) = (points.split_at(channels), grad_points.split_at(channels));
    let rows = grad.chunks_exact_mut(channels).zip(probabilities.chunks_exact(channels));
    for (position, (grad, probabilities)) in rows.enumerate() {
        let [down, right] = coordinates(position, height, width);
        let (points, gradients) = (x.iter().zip(y), grad_x.iter().zip(grad_y));
        for (((g, p), (x, y)), (by_x, by_y)) in grad.iter_mut().zip(probabilities).zip(points).zip(gradients)
        {
            *g = p * simd.mul_add_one(right - x, *by_x, (down - y) * by_y);
        }
    }
}

/// How far down and right a position is, each from -1 to 1.
#[inline(always)]
fn coordinates(position: usize, height: usize, width: usize) -> [f32; 2] {
    let along = |at: usize, size: usize| match size {
        1 => 0.0,
        _ => 2.0 * at as f32 / (size - 1) as f32 - 1.0,
    };
    [along(position / width, height), along(position % width, width)]
}
