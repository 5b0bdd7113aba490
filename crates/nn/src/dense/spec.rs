//! What a network looks like, and how its parameters begin.

use crate::kernels::layer_ops::Activation;

/// A multilayer perceptron: so many inputs, then one layer after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct MlpSpec {
    /// Numbers per row of the input.
    pub inputs: usize,
    /// From the input to the output.
    pub layers: Vec<LayerSpec>,
}

/// One layer: batch norm of its input if any, linear, norm, activation, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// Numbers per row of its output.
    pub width: usize,
    /// Whether something is added after the product, and what it begins with.
    pub bias: Bias,
    /// Between product and activation.
    pub norm: Norm,
    /// The last thing a layer does.
    pub activation: Activation,
    /// What the weights begin with.
    pub init: Init,
    /// Before the product, over the rows of the batch: what CrossQ puts in front of each layer of a critic.
    pub input_norm: Option<BatchNorm>,
}

impl LayerSpec {
    /// A product and a bias, as PyTorch's `Linear` begins; a start for others: `LayerSpec { norm, ..linear(256) }`.
    pub fn linear(width: usize) -> Self {
        Self {
            width,
            bias: Bias::TorchDefault,
            norm: Norm::None,
            activation: Activation::None,
            init: Init::TorchDefault,
            input_norm: None,
        }
    }
}

/// What is added to a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// Nothing.
    None,
    /// A bias that begins at zero.
    Zero,
    /// A bias that begins uniform within one over the square root of the inputs.
    TorchDefault,
}

/// How the outputs of a product are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// Not at all.
    None,
    /// Each row by its own mean and variance (`eps` 1e-5), then scaled and shifted.
    Layer,
}

/// Normalisation of each column by statistics of the batch; by running statistics where the network is frozen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub eps: f32,
    /// The share of a new batch in the running statistics.
    pub momentum: f32,
    /// Batch renormalisation: the batch's statistics are corrected towards the running ones.
    pub renorm: Option<Renorm>,
}

/// How far batch renormalisation may correct.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Renorm {
    /// The largest ratio of standard deviations, and one over the smallest.
    pub r_max: f32,
    /// The largest shift, in running standard deviations.
    pub d_max: f32,
}

impl BatchNorm {
    /// Batch renormalisation as RLinf's CrossQ head has it.
    pub fn crossq() -> Self {
        Self { eps: 1e-3, momentum: 1e-3, renorm: Some(Renorm { r_max: 3.0, d_max: 5.0 }) }
    }
}

/// What weights begin with. All but the last are PyTorch's `nn.init` functions of that name.
#[derive(Debug, Clone, PartialEq)]
pub enum Init {
    /// Rows (or columns, whichever are fewer) at right angles, of length `gain`.
    Orthogonal {
        /// Length of the rows or columns.
        gain: f32,
    },
    /// Normal with standard deviation `gain / sqrt(outputs)`.
    KaimingNormalFanOut {
        /// `5/3` for tanh, `sqrt(2)` for ReLU.
        gain: f32,
    },
    /// Uniform within `gain * sqrt(6 / (inputs + outputs))`.
    XavierUniform {
        /// `5/3` for tanh.
        gain: f32,
    },
    /// Normal with this standard deviation.
    Normal {
        /// The standard deviation.
        std: f32,
    },
    /// What `nn.Linear` does by itself: uniform within `1 / sqrt(inputs)`.
    TorchDefault,
    /// Groups of outputs, each by its own rule: two heads that share a layer. The counts add up to the width.
    Rows(Vec<(usize, Init)>),
}
