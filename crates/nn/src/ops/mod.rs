//! The operations that decide how fast a network of Burn's tensors is, on our kernels.
//!
//! Burn composes batch normalisation, a shortcut and ReLU from a dozen passes over memory, and its products and
//! convolutions know no prepared weights; that takes four times as long as it could. So these few operations take the
//! numbers out of Burn's tensors and put the results of our kernels into new ones. Those that are trained through write
//! their gradients by hand and enter them into Burn's graph (`graph.rs`); a network calls them like any other operation.

mod graph;
pub(crate) mod images;
pub(crate) mod tokens;

use burn_tensor::Tensor;

use self::graph::{numbers, numbers_mut, plain, wrap};
use crate::kernels::adam::{self, AdamStep};

/// Parameters and the two moments of their gradients, moved by one step of AdamW.
pub(crate) fn adamw(
    step: AdamStep,
    [parameters, first, second]: [Tensor<1>; 3],
    gradients: Tensor<1>,
) -> [Tensor<1>; 3] {
    let [mut parameters, mut first, mut second] = [parameters, first, second].map(plain);
    let gradients = plain(gradients);
    let moments = (numbers_mut(&mut first), numbers_mut(&mut second));
    adam::step(&step, numbers_mut(&mut parameters), numbers(&gradients), moments.0, moments.1);
    [parameters, first, second].map(wrap)
}

/// The sum of squares, rounded to single precision as a tensor of it would be.
pub(crate) fn sum_of_squares(tensor: Tensor<1>) -> f64 {
    f64::from(adam::sum_of_squares(numbers(&plain(tensor))) as f32)
}
