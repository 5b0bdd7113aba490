//! Weights made by the formula.

use super::formula;
use plaudit_nn::Weights;
use plaudit_nn::weights::Array;

/// Weights of the names and shapes of `like`.
pub(crate) fn weights(like: &Weights) -> Weights {
    let mut weights = Weights::new();
    for (name, tensor) in like.iter() {
        if name.ends_with("num_batches_tracked") {
            weights.insert(name, Array::from_number(0i64));
        } else {
            let numbers: Vec<f32> = formula::fractions(name, tensor.len())
                .map(|u| formula::number(name, tensor.shape(), u) as f32)
                .collect();
            weights.insert_f32(name, tensor.shape(), &numbers);
        }
    }
    weights
}
