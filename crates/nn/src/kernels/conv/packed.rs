//! Convolution for scoring: weights arranged once for the kernels, bias, residual and ReLU in the same pass.

use super::{ConvShape, check, plain};
use crate::kernels::Precision;

/// A convolution with fixed weights and bias (batch norm folded into them by the caller). Threads share it.
#[derive(Debug, Clone)]
pub struct PackedConv {
    kernel: usize,
    stride: usize,
    padding: usize,
    in_channels: usize,
    out_channels: usize,
    weights: Vec<f32>,
    bias: Vec<f32>,
    precision: Precision,
}

impl PackedConv {
    /// Arranges `weights` (`[row, column, in, out]`) for the kernels of this processor.
    ///
    /// # Panics
    /// When `weights` or `bias` has another length than the sizes say.
    #[expect(
        clippy::too_many_arguments,
        reason = "the sizes of a convolution, each once in the whole program"
    )]
    #[must_use]
    pub fn new(
        kernel: usize,
        stride: usize,
        padding: usize,
        in_channels: usize,
        out_channels: usize,
        weights: &[f32],
        bias: &[f32],
        precision: Precision,
    ) -> Self {
        check("weights", weights.len(), kernel * kernel * in_channels * out_channels);
        check("bias", bias.len(), out_channels);
        let (weights, bias) = (weights.to_vec(), bias.to_vec());
        Self { kernel, stride, padding, in_channels, out_channels, weights, bias, precision }
    }

    /// The sizes of this convolution on pictures of a size.
    #[must_use]
    pub fn shape(&self, batch: usize, height: usize, width: usize) -> ConvShape {
        let Self { kernel, stride, padding, in_channels, out_channels, .. } = *self;
        ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding }
    }

    /// What the multiplications were asked to be done in.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Writes `relu(convolution + bias + residual)`, the last two if asked for, to the whole of `output`.
    ///
    /// # Panics
    /// When a slice has another length than the sizes say.
    #[expect(clippy::too_many_arguments, reason = "a picture's sizes and what to add to it")]
    pub fn run(
        &self,
        input: &[f32],
        batch: usize,
        height: usize,
        width: usize,
        residual: Option<&[f32]>,
        relu: bool,
        output: &mut [f32],
    ) {
        let shape = self.shape(batch, height, width);
        check("input", input.len(), shape.input_len());
        check("output", output.len(), shape.output_len());
        plain::forward(&shape, input, &self.weights, output);
        for (pixel, sums) in output.chunks_mut(self.out_channels).enumerate() {
            for (channel, sum) in sums.iter_mut().enumerate() {
                *sum += self.bias[channel];
                *sum += residual.map_or(0.0, |residual| residual[pixel * self.out_channels + channel]);
                *sum = if relu { sum.max(0.0) } else { *sum };
            }
        }
    }
}
