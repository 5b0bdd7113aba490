//! Convolution by plain loops: any shape, any processor.

use super::ConvShape;
use rayon::prelude::*;

pub(super) fn forward(shape: &ConvShape, input: &[f32], weights: &[f32], output: &mut [f32]) {
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let (ins, outs) = (shape.in_channels, shape.out_channels);
    output.par_chunks_mut(out_width * outs).enumerate().for_each(|(row, output)| {
        let (picture, out_row) = (row / out_height, row % out_height);
        output.fill(0.0);
        for (out_column, sums) in output.chunks_mut(outs).enumerate() {
            for tap in 0..shape.kernel * shape.kernel {
                let Some(pixel) = shape.pixel_under(out_row, out_column, tap) else { continue };
                let pixel = (picture * shape.height * shape.width + pixel) * ins;
                for (channel, &value) in input[pixel..pixel + ins].iter().enumerate() {
                    add_scaled(sums, value, &weights[(tap * ins + channel) * outs..]);
                }
            }
        }
    });
}

pub(super) fn backward_input(
    shape: &ConvShape,
    weights: &[f32],
    grad_output: &[f32],
    grad_input: &mut [f32],
) {
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let (ins, outs) = (shape.in_channels, shape.out_channels);
    grad_input.par_chunks_mut(shape.height * shape.width * ins).enumerate().for_each(|(picture, grads)| {
        grads.fill(0.0);
        for (out_row, out_column, tap) in shape.places() {
            let Some(pixel) = shape.pixel_under(out_row, out_column, tap) else { continue };
            let place = ((picture * out_height + out_row) * out_width + out_column) * outs;
            let grad = &grad_output[place..place + outs];
            for (channel, sum) in grads[pixel * ins..][..ins].iter_mut().enumerate() {
                let weights = &weights[(tap * ins + channel) * outs..][..outs];
                *sum += weights.iter().zip(grad).map(|(w, g)| w * g).sum::<f32>();
            }
        }
    });
}

pub(super) fn backward_weights(
    shape: &ConvShape,
    input: &[f32],
    grad_output: &[f32],
    grad_weights: &mut [f32],
) {
    let (out_height, out_width) = (shape.out_height(), shape.out_width());
    let (ins, outs) = (shape.in_channels, shape.out_channels);
    grad_weights.par_chunks_mut(ins * outs).enumerate().for_each(|(tap, grads)| {
        grads.fill(0.0);
        for picture in 0..shape.batch {
            for (out_row, out_column) in (0..out_height).flat_map(|y| (0..out_width).map(move |x| (y, x))) {
                let Some(pixel) = shape.pixel_under(out_row, out_column, tap) else { continue };
                let pixel = (picture * shape.height * shape.width + pixel) * ins;
                let place = ((picture * out_height + out_row) * out_width + out_column) * outs;
                for (grads, &value) in grads.chunks_mut(outs).zip(&input[pixel..pixel + ins]) {
                    add_scaled(grads, value, &grad_output[place..]);
                }
            }
        }
    });
}

fn add_scaled(sums: &mut [f32], scale: f32, values: &[f32]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum += scale * value;
    }
}

impl ConvShape {
    /// The pixel of the input (counted within its picture) that a weight meets at an output; `None` in the padding.
    fn pixel_under(&self, out_row: usize, out_column: usize, tap: usize) -> Option<usize> {
        let row = (out_row * self.stride + tap / self.kernel).checked_sub(self.padding)?;
        let column = (out_column * self.stride + tap % self.kernel).checked_sub(self.padding)?;
        (row < self.height && column < self.width).then_some(row * self.width + column)
    }

    /// Every output of a picture with every place of the kernel.
    fn places(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let (width, taps) = (self.out_width(), self.kernel * self.kernel);
        (0..self.out_height() * width * taps).map(move |i| (i / taps / width, i / taps % width, i % taps))
    }
}
