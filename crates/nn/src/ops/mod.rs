//! The operations that decide how fast a network is, as our kernels do them.
//!
//! Batch normalisation, a shortcut and ReLU would be a dozen passes over memory if they were composed of sums and products, and
//! weights that stay as they are can be prepared for their products; together that is a factor of four. So these few
//! operations hand the numbers of tensors to a kernel each. Those that are trained through say what their gradient needs
//! ([`Tensor::from_operation`]); a network calls them like any other operation.

pub(crate) mod images;
pub(crate) mod tokens;

use crate::kernels::adam::{self, AdamStep};
use crate::tensor::Tensor;

/// Moves parameters and the two moments of their gradients by one step of AdamW; in place if nobody else holds them.
pub(crate) fn adamw(step: AdamStep, [parameters, first, second]: [&mut Tensor<1>; 3], gradients: &Tensor<1>) {
    let [parameters, first, second] = [parameters, first, second].map(Tensor::numbers_mut);
    adam::step(&step, parameters, gradients.numbers(), first, second);
}

/// The sum of squares, rounded to single precision as a tensor of it would be.
pub(crate) fn sum_of_squares(tensor: &Tensor<1>) -> f64 {
    f64::from(adam::sum_of_squares(tensor.numbers()) as f32)
}

#[cfg(test)]
mod tests;
