//! Networks under the names that RLinf gives their tensors.

use plaudit_nn::Weights;
use plaudit_nn::dense::{Mlp, Tensor, TensorKind};
use thiserror::Error;

/// Weights that do not fit a network.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WeightsMismatch {
    /// A tensor that should be there.
    #[error("there is no tensor `{name}` {expected:?}; there are {}", present.join(", "))]
    Missing {
        /// Its name.
        name: String,
        /// The shape it should have.
        expected: Vec<usize>,
        /// Some of those that are there.
        present: Vec<String>,
    },
    /// A tensor of another shape.
    #[error("`{name}` is {found:?} where this network has {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// The shape it should have.
        expected: Vec<usize>,
        /// The shape it has.
        found: Vec<usize>,
    },
    /// A tensor whose elements are no plain numbers.
    #[error("`{name}` holds {kind}, which is no kind of number that weights are made of")]
    Kind {
        /// Its name.
        name: String,
        /// What it holds.
        kind: String,
    },
    /// A weight that is no number.
    #[error("`{name}` holds {value}")]
    NotFinite {
        /// Its name.
        name: String,
        /// What it holds.
        value: f32,
    },
}

/// A tensor's numbers, if it is there and of that shape.
pub fn take(from: &Weights, name: &str, expected: &[usize]) -> Result<Vec<f32>, WeightsMismatch> {
    let Some(tensor) = from.get(name) else {
        let present = from.names().take(6).map(String::from).collect();
        return Err(WeightsMismatch::Missing { name: name.into(), expected: expected.into(), present });
    };
    if tensor.shape() != expected {
        let found = tensor.shape().to_vec();
        return Err(WeightsMismatch::Shape { name: name.into(), expected: expected.into(), found });
    }
    let kind = || WeightsMismatch::Kind { name: name.into(), kind: tensor.dtype().to_string() };
    let values = tensor.to_f32().ok_or_else(kind)?;
    match values.iter().find(|value| !value.is_finite()) {
        Some(&value) => Err(WeightsMismatch::NotFinite { name: name.into(), value }),
        None => Ok(values),
    }
}

/// What the tensor of a layer is called.
pub type Naming<'a> = &'a dyn Fn(usize, TensorKind) -> String;

/// Puts a network's tensors among the weights.
pub fn export(mlp: &Mlp, params: &[f32], naming: Naming<'_>, into: &mut Weights) {
    for tensor in mlp.tensors() {
        let Tensor { layer, kind, ref shape, .. } = tensor;
        into.insert_f32(naming(layer, kind), shape, &mlp.export(params, &tensor));
    }
}

/// Takes a network's tensors from the weights.
pub fn import(
    mlp: &Mlp,
    params: &mut [f32],
    naming: Naming<'_>,
    from: &Weights,
) -> Result<(), WeightsMismatch> {
    for tensor in mlp.tensors() {
        let values = take(from, &naming(tensor.layer, tensor.kind), &tensor.shape)?;
        mlp.import(params, &tensor, &values);
    }
    Ok(())
}

/// `weight`, `bias`: what PyTorch calls a tensor within its module. Norms are modules of their own.
pub fn leaf(kind: TensorKind) -> &'static str {
    match kind {
        TensorKind::Weight | TensorKind::NormWeight | TensorKind::InputNormWeight => "weight",
        TensorKind::Bias | TensorKind::NormBias | TensorKind::InputNormBias => "bias",
        TensorKind::RunningMean => "running_mean",
        TensorKind::RunningVar => "running_var",
    }
}
