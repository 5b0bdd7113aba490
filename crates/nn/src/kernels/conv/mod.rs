//! Two-dimensional convolution, for training ([`forward`], [`backward`]) and for scoring ([`PackedConv`]).

mod direct;
mod epilogue;
mod gather;
mod operands;
mod pack;
mod packed;
mod stem;
pub(super) mod tile;
mod winograd;

use super::{Isa, Precision};
use epilogue::ConvEpilogue;
pub use packed::PackedConv;
use winograd::RawWeights;

/// The sizes of one convolution: a square kernel, the same stride and zero padding on every side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// Images.
    pub batch: usize,
    /// Rows of an input image.
    pub height: usize,
    /// Columns of an input image.
    pub width: usize,
    /// Channels of the input.
    pub in_channels: usize,
    /// Channels of the output.
    pub out_channels: usize,
    /// Rows and columns of the kernel.
    pub kernel: usize,
    /// Step between neighbouring outputs.
    pub stride: usize,
    /// Rows and columns of zeros around the input.
    pub padding: usize,
}

impl ConvShape {
    /// Rows of an output image.
    #[must_use]
    pub fn out_height(&self) -> usize {
        outputs(self.height, self.kernel, self.stride, self.padding)
    }

    /// Columns of an output image.
    #[must_use]
    pub fn out_width(&self) -> usize {
        outputs(self.width, self.kernel, self.stride, self.padding)
    }

    /// Numbers in the input.
    #[must_use]
    pub fn input_len(&self) -> usize {
        self.batch * self.height * self.width * self.in_channels
    }

    /// Numbers in the weights.
    #[must_use]
    pub fn weights_len(&self) -> usize {
        self.kernel * self.kernel * self.in_channels * self.out_channels
    }

    /// Numbers in the output.
    #[must_use]
    pub fn output_len(&self) -> usize {
        self.batch * self.out_height() * self.out_width() * self.out_channels
    }
}

/// How many outputs fit along one side; none when the padded input is smaller than the kernel.
fn outputs(size: usize, kernel: usize, stride: usize, padding: usize) -> usize {
    (size + 2 * padding).checked_sub(kernel).map_or(0, |room| room / stride + 1)
}

/// What [`forward`] keeps for [`backward`], beside the input and the weights that the caller keeps.
#[derive(Debug, Clone)]
pub struct ConvSaved {
    precision: Precision,
}

/// Convolves. Every number of `output` is written.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn forward(
    shape: &ConvShape,
    precision: Precision,
    input: &[f32],
    weights: &[f32],
    output: &mut [f32],
) -> ConvSaved {
    forward_on(Isa::best(precision), shape, input, weights, output);
    ConvSaved { precision }
}

fn forward_on(isa: Isa, shape: &ConvShape, input: &[f32], weights: &[f32], output: &mut [f32]) {
    check("input", input.len(), shape.input_len());
    check("weights", weights.len(), shape.weights_len());
    check("output", output.len(), shape.output_len());
    if winograd::suits(isa, shape) {
        let weights = RawWeights::of(isa.single(), shape, weights);
        winograd::forward(isa.single(), shape, input, weights, ConvEpilogue::default(), output);
    } else {
        direct::forward(
            isa,
            shape,
            input,
            &direct::pack(isa, shape, weights),
            ConvEpilogue::default(),
            output,
        );
    }
}

/// The gradients of [`forward`]: of its input, its weights, or both. Every number of what is asked for is written.
///
/// # Panics
/// When a slice has another length than `shape` says.
pub fn backward(
    shape: &ConvShape,
    input: &[f32],
    weights: &[f32],
    saved: &ConvSaved,
    grad_output: &[f32],
    grad_input: Option<&mut [f32]>,
    grad_weights: Option<&mut [f32]>,
) {
    backward_on(Isa::best(saved.precision), shape, input, weights, grad_output, grad_input, grad_weights);
}

fn backward_on(
    isa: Isa,
    shape: &ConvShape,
    input: &[f32],
    weights: &[f32],
    grad_output: &[f32],
    grad_input: Option<&mut [f32]>,
    grad_weights: Option<&mut [f32]>,
) {
    check("input", input.len(), shape.input_len());
    check("weights", weights.len(), shape.weights_len());
    check("grad_output", grad_output.len(), shape.output_len());
    check("grad_input", grad_input.as_deref().map_or(input.len(), <[f32]>::len), input.len());
    check("grad_weights", grad_weights.as_deref().map_or(weights.len(), <[f32]>::len), weights.len());
    if winograd::suits(isa, shape) {
        winograd::backward::backward(
            isa.single(),
            shape,
            input,
            weights,
            grad_output,
            grad_input,
            grad_weights,
        );
        return;
    }
    if let Some(grad_input) = grad_input {
        direct::backward_input(isa, shape, weights, grad_output, grad_input);
    }
    if let Some(grad_weights) = grad_weights {
        direct::backward_weights(isa.single(), shape, input, grad_output, grad_weights);
    }
}

fn check(what: &str, got: usize, wanted: usize) {
    assert_eq!(got, wanted, "{what} of a convolution has {got} numbers instead of {wanted}");
}

#[cfg(test)]
mod tests;
