//! Convolution for scoring: weights arranged once for the kernels; bias, residual and ReLU in the same pass.

use super::direct::Taps;
use super::pack::{Panels, padded_to_tiles};
use super::winograd::int16::{self, Int16Weights};
use super::winograd::{self, Factors, RawWeights};
use super::{ConvEpilogue, ConvShape, check, direct};
use crate::kernels::norm::{GroupNorm, group_norm_act_forward};
use crate::kernels::pool::{PoolShape, max_pool_3x3_s2_p1};
use crate::kernels::{Isa, Precision, unfilled};
use std::borrow::Cow;
use std::sync::OnceLock;

/// The batch by which a kernel is chosen. Were it the batch at hand, an image would score differently, in its last
/// digits, alone and among others.
pub(super) const USUAL_BATCH: usize = 8;

/// A convolution with fixed weights and bias (batch norm folded into them by the caller). Threads share it.
///
/// What a kernel wants of the weights is made when it first runs, since which kernel runs depends on the images.
pub struct PackedConv {
    kernel: usize,
    stride: usize,
    padding: usize,
    in_channels: usize,
    out_channels: usize,
    isa: Isa,
    weights: Arranged,
    /// Whole tiles of it.
    bias: Vec<f32>,
    panels: OnceLock<Panels>,
    factors: OnceLock<Factors>,
    int16: OnceLock<Int16Weights>,
}

/// Weights, as they lie until a kernel wants them.
enum Arranged {
    /// `[row, column, in, out]`
    Plain(Vec<f32>),
    /// `[panel, in, row, column, out]`, as many outputs as a tile has columns: what Winograd's kernels read in one run.
    Panels(Vec<f32>),
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
        let bias = padded_to_tiles(isa, bias);
        let weights = match winograd::may_suit(kernel, stride, padding, in_channels, out_channels) {
            true => Arranged::Panels(in_panels(isa, weights, in_channels, out_channels)),
            false => Arranged::Plain(weights.to_vec()),
        };
        let (panels, factors, int16) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self {
            kernel,
            stride,
            padding,
            in_channels,
            out_channels,
            isa,
            weights,
            bias,
            panels,
            factors,
            int16,
        }
    }

    /// The same on another instruction set.
    #[cfg(test)]
    pub(super) fn on(mut self, isa: Isa) -> Self {
        let plain = self.plain_weights().into_owned();
        if let Arranged::Panels(weights) = &mut self.weights {
            *weights = in_panels(isa, &plain, self.in_channels, self.out_channels);
        }
        self.bias = padded_to_tiles(isa, &self.bias[..self.out_channels]);
        self.isa = isa;
        self
    }

    fn plain_weights(&self) -> Cow<'_, [f32]> {
        match &self.weights {
            Arranged::Plain(weights) => Cow::Borrowed(weights),
            Arranged::Panels(panels) => {
                let (ins, outs, columns) = (self.in_channels, self.out_channels, self.isa.tile().columns);
                let mut plain = vec![0.0; TAPS * ins * outs];
                for (i, run) in panels.chunks_exact(columns).enumerate() {
                    let (panel, inner, tap) = (i / TAPS / ins, i / TAPS % ins, i % TAPS);
                    let here = panel * columns..outs.min((panel + 1) * columns);
                    let row = (tap * ins + inner) * outs;
                    plain[row + here.start..row + here.end].copy_from_slice(&run[..here.len()]);
                }
                Cow::Owned(plain)
            }
        }
    }

    /// The weights for summing tap by tap, and the instructions for that. Where colours come in, 8 bits would cost more
    /// than in all later layers together; integers of 16 are as quick there.
    fn panels(&self, shape: &ConvShape) -> (Isa, &Panels) {
        let isa = match Taps::of(self.kernel, self.in_channels).full_rows {
            true => self.isa.int16().unwrap_or(self.isa),
            false => self.isa,
        };
        (isa, self.panels.get_or_init(|| direct::pack(isa, shape, &self.plain_weights())))
    }

    /// The weights as Winograd's kernels read them.
    fn raw(&self, shape: &ConvShape) -> RawWeights {
        match &self.weights {
            Arranged::Plain(weights) => RawWeights::of(self.isa.single(), shape, weights),
            Arranged::Panels(panels) => RawWeights::in_panels(self.isa.single(), shape, panels),
        }
    }

    /// The sizes of this convolution on images of a size.
    #[must_use]
    pub fn shape(&self, batch: usize, height: usize, width: usize) -> ConvShape {
        let Self { kernel, stride, padding, in_channels, out_channels, .. } = *self;
        ConvShape { batch, height, width, in_channels, out_channels, kernel, stride, padding }
    }

    /// Writes `relu(convolution + bias + residual)`, the last two if asked for, to the whole of `output`.
    ///
    /// # Panics
    /// When a slice has another length than the sizes say.
    #[expect(clippy::too_many_arguments, reason = "an image's sizes and what to add to it")]
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
        let epilogue = ConvEpilogue { bias: Some(&self.bias), residual, relu };
        let usual = ConvShape { batch: USUAL_BATCH, ..shape };
        // Its products are as quick as others in either precision.
        if !winograd::suits(self.isa.single(), &usual) {
            let (isa, panels) = self.panels(&shape);
            return direct::forward(isa, &shape, input, panels, epilogue, output);
        }
        let isa = self.isa.single();
        let weights = self.raw(&shape);
        if let Some(isa) = self.isa.int16() {
            let known = self.int16.get_or_init(|| Int16Weights::of(isa, &shape, weights));
            return int16::forward(isa, &shape, input, weights, known, epilogue, output);
        }
        if winograd::wants_factors(isa, &usual) {
            let factors = self.factors.get_or_init(|| Factors::of(isa, &shape, weights));
            winograd::by_tiles(isa, &shape, input, factors, epilogue, output);
        } else {
            winograd::by_panels(isa, &shape, input, weights, epilogue, output);
        }
    }

    /// Writes the largest of 3x3 at every other pixel (padding 1) of `relu(convolution + bias)` to the whole of `output`.
    ///
    /// # Panics
    /// When a slice has another length than the sizes say.
    pub fn run_pooled(&self, input: &[f32], batch: usize, height: usize, width: usize, output: &mut [f32]) {
        let shape = self.shape(batch, height, width);
        let (height, width) = (shape.out_height(), shape.out_width());
        let pooled = PoolShape { batch, height, width, channels: self.out_channels };
        check("input", input.len(), shape.input_len());
        check("output", output.len(), pooled.output_len());
        if Taps::of(self.kernel, self.in_channels).full_rows {
            let (isa, panels) = self.panels(&shape);
            return direct::forward_pooled(isa, &shape, input, panels, &self.bias, output);
        }
        let mut conv_output = unfilled(shape.output_len());
        self.run(input, batch, shape.height, shape.width, None, true, &mut conv_output);
        max_pool_3x3_s2_p1(&pooled, &conv_output, output, None);
    }

    /// Writes the largest of 3x3 at every other pixel (padding 1) of the convolution, normalised and with ReLU, to the
    /// whole of `output`. There must be no bias.
    ///
    /// # Panics
    /// When a slice has another length than the sizes say.
    pub fn run_normed_pooled(
        &self,
        input: &[f32],
        batch: usize,
        height: usize,
        width: usize,
        norm: &GroupNorm,
        output: &mut [f32],
    ) {
        let shape = self.shape(batch, height, width);
        let (height, width) = (shape.out_height(), shape.out_width());
        let pooled = PoolShape { batch, height, width, channels: self.out_channels };
        check("input", input.len(), shape.input_len());
        check("output", output.len(), pooled.output_len());
        check("scale", norm.gamma.len(), self.out_channels);
        check("shift", norm.beta.len(), self.out_channels);
        debug_assert!(self.bias.iter().all(|&bias| bias == 0.0), "no bias");
        // However few images there are: the other way sums in another order, and an image's score is its own.
        if Taps::of(self.kernel, self.in_channels).full_rows {
            let (isa, panels) = self.panels(&shape);
            return direct::forward_normed_pooled(isa, &shape, input, panels, norm, output);
        }
        let mut conv_output = unfilled(shape.output_len());
        self.run(input, batch, shape.height, shape.width, None, false, &mut conv_output);
        let mut normed = unfilled(conv_output.len());
        let GroupNorm { groups, gamma, beta, eps } = *norm;
        group_norm_act_forward(batch, groups, &conv_output, gamma, beta, None, true, eps, &mut normed);
        max_pool_3x3_s2_p1(&pooled, &normed, output, None);
    }
}

/// Taps of a 3x3 kernel.
const TAPS: usize = 9;

/// Weights of a 3x3 kernel as [`Arranged::Panels`], with zeros where there is no output.
fn in_panels(isa: Isa, weights: &[f32], ins: usize, outs: usize) -> Vec<f32> {
    let columns = isa.tile().columns;
    let mut panels = vec![0.0; outs.div_ceil(columns) * ins * TAPS * columns];
    for (i, row) in weights.chunks_exact(outs).enumerate() {
        let (tap, inner) = (i / ins, i % ins);
        for (panel, run) in row.chunks(columns).enumerate() {
            let start = ((panel * ins + inner) * TAPS + tap) * columns;
            panels[start..start + run.len()].copy_from_slice(run);
        }
    }
    panels
}
