//! Tensors, and the gradients of what is computed with them.
//!
//! A [`Tensor<D>`] is `D` axes of single precision, contiguous, on the CPU. Image models and the vision-language model are
//! written over them; what takes time are kernels (`crate::kernels`), of which this module and `crate::ops` make operations.
//!
//! ```text
//! let weights = Tensor::new(numbers, [outputs, inputs]).require_grad();   // a leaf: it wants a gradient
//! let y = relu(linear(x, weights.clone()).add_bias(bias));                // [rows, inputs] to [rows, outputs]
//! let mut gradients = cross_entropy(y, &targets).backward(Tensor::new(vec![1.0], [1]));
//! let gradient = gradients.take(&weights);                                // [outputs, inputs]
//! ```
//!
//! - **Memory** (`numbers.rs`). Tensors share buffers and copy them on write; an operation whose argument nobody else
//!   holds writes its result over it. Buffers are plain vectors: the caching allocator (`crate::alloc`) recycles them.
//!   Reshaping and the first axis of [`Tensor::narrow`] are views; every other change of shape copies.
//! - **Gradients** (`tape.rs`). An operation with an argument that wants a gradient enters a node: what it saved, and how the
//!   gradient of its output becomes those of its arguments. [`Tensor::backward`] visits nodes from the youngest to the
//!   oldest, and each frees what it saved when it is done. Without such an argument there is no node, and nothing is kept.
//! - **Operations**. Shapes (`shape.rs`), sums, products and activations of single numbers (`arithmetic.rs`), products of
//!   matrices (`matmul.rs`), sums over rows and the loss (`reductions.rs`). Those of one kind of network are in `crate::ops`.
//!
//! Results depend neither on the number of threads nor on their timing: work is divided by shape, and sums that several
//! threads share are cut into parts that are always the same. There is no broadcasting but that of a bias, no other
//! type of number, no other device, and no gradient of a gradient. A wrong shape is a bug in a network and panics.

mod arithmetic;
mod matmul;
mod numbers;
mod reductions;
mod shape;
mod tape;

use std::sync::Arc;

pub(crate) use arithmetic::{gelu, relu, tanh};
pub(crate) use matmul::linear;
pub(crate) use numbers::Numbers;
pub(crate) use reductions::{cross_entropy, weighted_row_sums};
pub(crate) use tape::Gradients;

use tape::Node;

/// Numbers with `D` axes, the last one contiguous. Cloning shares them.
#[derive(Clone)]
pub(crate) struct Tensor<const D: usize> {
    numbers: Numbers,
    shape: [usize; D],
    /// Where the gradient goes, if one is wanted.
    node: Option<Arc<Node>>,
}

impl<const D: usize> std::fmt::Debug for Tensor<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tensor{:?}", self.shape)
    }
}

impl<const D: usize> Tensor<D> {
    /// Numbers in rows, the last axis contiguous.
    pub(crate) fn new(numbers: impl Into<Numbers>, shape: [usize; D]) -> Self {
        let numbers = numbers.into();
        assert_eq!(numbers.len(), shape.iter().product::<usize>(), "as many numbers as {shape:?} has");
        Self { numbers, shape, node: None }
    }

    pub(crate) fn zeros(shape: [usize; D]) -> Self {
        Self::new(vec![0.0; shape.iter().product()], shape)
    }

    /// The output of an operation. From its gradient, and which inputs want one, `backward` finds those of the inputs;
    /// it is kept if one does, with all that it captured.
    pub(crate) fn from_operation<const N: usize>(
        output: impl Into<Numbers>,
        shape: [usize; D],
        inputs: [Option<Arc<Node>>; N],
        backward: impl FnOnce(Numbers, [bool; N]) -> [Option<Numbers>; N] + Send + 'static,
    ) -> Self {
        let wanted = inputs.each_ref().map(Option::is_some);
        let node = Node::record(inputs.into(), move |gradient| backward(gradient, wanted).into());
        Self { node, ..Self::new(output, shape) }
    }

    pub(crate) fn dims(&self) -> [usize; D] {
        self.shape
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The numbers, to be changed; of a tensor without gradient.
    pub(crate) fn numbers_mut(&mut self) -> &mut [f32] {
        debug_assert!(self.node.is_none(), "the gradient would not know");
        self.numbers.make_mut()
    }

    /// The numbers, without a copy if nobody else holds them.
    pub(crate) fn into_vec(self) -> Vec<f32> {
        self.numbers.into_vec()
    }

    /// The only number.
    pub(crate) fn item(&self) -> f32 {
        assert_eq!(self.numbers.len(), 1, "one number, not {:?}", self.shape);
        self.numbers[0]
    }

    /// The node that takes this tensor's gradient.
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        self.node.clone()
    }

    /// Whether a gradient will be asked for.
    pub(crate) fn is_tracked(&self) -> bool {
        self.node.is_some()
    }

    /// The same numbers as a leaf, whose gradient [`Gradients::take`] gives.
    pub(crate) fn require_grad(self) -> Self {
        Self { node: Some(Node::leaf()), ..self }
    }

    /// The gradients of leaves, from that of this tensor.
    pub(crate) fn backward(self, gradient: Self) -> Gradients {
        Gradients::of([(self, gradient)])
    }
}

impl From<Vec<f32>> for Tensor<1> {
    fn from(numbers: Vec<f32>) -> Self {
        let count = numbers.len();
        Self::new(numbers, [count])
    }
}

#[cfg(test)]
pub(crate) mod gradient_check;
#[cfg(test)]
mod tests;
