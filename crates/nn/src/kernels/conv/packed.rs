//! Convolution for scoring: weights arranged once for the kernels; bias, residual and ReLU in the same pass.

use super::pack::{Panels, whole_tiles};
use super::winograd::{self, Factors, RawWeights};
use super::{ConvShape, Finish, check, direct};
use crate::kernels::{Isa, Precision};
use std::sync::OnceLock;

/// The batch by which a kernel is chosen. Were it the batch at hand, a picture would score differently, in its last
/// digits, alone and among others.
const USUAL_BATCH: usize = 8;

/// A convolution with fixed weights and bias (batch norm folded into them by the caller). Threads share it.
///
/// What a kernel wants of the weights is made when it first runs, since which kernel runs depends on the pictures.
pub struct PackedConv {
    kernel: usize,
    stride: usize,
    padding: usize,
    in_channels: usize,
    out_channels: usize,
    isa: Isa,
    weights: Vec<f32>,
    /// Whole tiles of it.
    bias: Vec<f32>,
    panels: OnceLock<Panels>,
    factors: OnceLock<Factors>,
}

impl std::fmt::Debug for PackedConv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kernel, stride, in_channels, out_channels, .. } = self;
        write!(f, "PackedConv({kernel}x{kernel}, stride {stride}, {in_channels} to {out_channels})")
    }
}

impl PackedConv {
    /// Takes `weights` (`[row, column, in, out]`) and `bias`.
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
        let isa = Isa::best(precision);
        let (weights, bias) = (weights.to_vec(), whole_tiles(isa, bias));
        let (panels, factors) = (OnceLock::new(), OnceLock::new());
        Self { kernel, stride, padding, in_channels, out_channels, isa, weights, bias, panels, factors }
    }

    /// The same on another instruction set.
    #[cfg(test)]
    pub(super) fn on(mut self, isa: Isa) -> Self {
        self.bias = whole_tiles(isa, &self.bias[..self.out_channels]);
        self.isa = isa;
        self
    }

    /// The sizes of this convolution on pictures of a size.
    #[must_use]
    pub fn shape(&self, batch: usize, height: usize, width: usize) -> ConvShape {
        let Self { kernel, stride, padding, in_channels, out_channels, .. } = *self;
        ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding }
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
        check("residual", residual.map_or(output.len(), <[f32]>::len), output.len());
        let finish = Finish { bias: Some(&self.bias), residual, relu };
        let usual = ConvShape { batch: USUAL_BATCH, ..shape };
        if !winograd::suits(self.isa, &usual) {
            let panels = self.panels.get_or_init(|| direct::pack(self.isa, &shape, &self.weights));
            return direct::forward(self.isa, &shape, input, panels, finish, output);
        }
        let isa = self.isa.single();
        let weights = RawWeights::of(isa, &shape, &self.weights);
        if winograd::wants_factors(isa, &usual) {
            let factors = self.factors.get_or_init(|| Factors::of(isa, &shape, weights));
            winograd::by_tiles(isa, &shape, input, factors, finish, output);
        } else {
            winograd::by_panels(isa, &shape, input, weights, finish, output);
        }
    }
}
