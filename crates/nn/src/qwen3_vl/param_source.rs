//! Where layers get their parameters from: one implementation of the network serves inference and training.

use super::network::Linear;
use crate::classifier::Id;
use crate::tensor::Tensor;

/// Gives parameters, and says what a linear layer does with them.
pub(super) trait ParamSource {
    /// A parameter without axes.
    fn vector(&self, id: Id) -> Tensor<1>;

    /// Rows of a table.
    fn rows(&self, table: Id, width: usize, indices: &[usize]) -> Tensor<2>;

    /// A linear layer.
    fn linear(&self, layer: &Linear, x: Tensor<2>) -> Tensor<2>;

    /// Some outputs of a linear layer without bias.
    fn outputs(&self, layer: &Linear, x: Tensor<2>, outputs: &[u32]) -> Tensor<2>;
}
