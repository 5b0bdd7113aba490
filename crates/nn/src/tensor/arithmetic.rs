//! Functions of each number alone.

use std::ops::{Add, Mul};

use super::{Numbers, Tensor};
use crate::kernels::layer_ops::Activation;
use crate::kernels::norm_rope_softmax::{self, column_sums};
use crate::kernels::{adam, elementwise, unfilled};

impl<const D: usize> Add for Tensor<D> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        assert_eq!(self.shape, other.shape, "a sum of tensors of one shape");
        let sum = self.numbers.plus(other.numbers);
        Self::from_operation(sum, self.shape, [self.node, other.node], |gradient, _| {
            [Some(gradient.clone()), Some(gradient)]
        })
    }
}

impl<const D: usize> Mul for Tensor<D> {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        assert_eq!(self.shape, other.shape, "a product of tensors of one shape");
        let saved = [&self, &other].map(|factor| factor.numbers.clone());
        // Each is the other's gradient; what nobody will ask for is let go, and its memory used.
        let saved = [other.is_tracked(), self.is_tracked()].into_iter().zip(saved);
        let saved: Vec<Option<Numbers>> = saved.map(|(wanted, numbers)| wanted.then_some(numbers)).collect();
        let product = times(self.numbers, &other.numbers);
        Self::from_operation(product, self.shape, [self.node, other.node], move |gradient, _| {
            let of = |factor: &Option<Numbers>| Some(times(gradient.clone(), factor.as_deref()?));
            [of(&saved[1]), of(&saved[0])]
        })
    }
}

fn times(mut numbers: Numbers, factors: &[f32]) -> Numbers {
    elementwise::multiply(numbers.make_mut(), factors);
    numbers
}

impl<const D: usize> Mul<f64> for Tensor<D> {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        let scale = move |mut numbers: Numbers| {
            adam::scale(numbers.make_mut(), factor as f32);
            numbers
        };
        Self::from_operation(scale(self.numbers), self.shape, [self.node], move |gradient, _| {
            [Some(scale(gradient))]
        })
    }
}

impl Tensor<2> {
    /// Adds a vector to each row.
    pub(crate) fn add_bias(self, bias: Tensor<1>) -> Self {
        let Self { mut numbers, shape, node } = self;
        let [width] = bias.shape;
        assert_eq!(shape[1], width, "a bias as long as a row");
        elementwise::add_bias(numbers.make_mut(), &bias.numbers);
        Self::from_operation(numbers, shape, [node, bias.node], move |gradient, wanted| {
            let of_bias = wanted[1].then(|| column_sums(&gradient, width).into());
            [Some(gradient), of_bias]
        })
    }
}

/// The larger of each number and zero.
pub(crate) fn relu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activate(x, Activation::Relu)
}

/// Hyperbolic tangent.
pub(crate) fn tanh<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    activate(x, Activation::Tanh)
}

/// An activation whose gradient can be told from its output.
fn activate<const D: usize>(x: Tensor<D>, activation: Activation) -> Tensor<D> {
    let Tensor { mut numbers, shape, node } = x;
    elementwise::activate(numbers.make_mut(), activation);
    let output = numbers.clone();
    Tensor::from_operation(numbers, shape, [node], move |mut gradient, _| {
        elementwise::activate_backward(gradient.make_mut(), &output, activation);
        [Some(gradient)]
    })
}

/// GELU, by the error function.
pub(crate) fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let Tensor { numbers: x, shape, node } = x;
    let mut output = unfilled(x.len());
    norm_rope_softmax::erf_gelu(&x, &mut output);
    Tensor::from_operation(output, shape, [node], move |gradient, _| {
        [Some(norm_rope_softmax::erf_gelu_backward(&x, &gradient).into())]
    })
}
