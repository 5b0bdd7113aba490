//! Parameters for inference: frozen, with adapters merged into them.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::adapter::Adapter;
use super::load::ModelWeights;
use super::network::{Linear, Network};
use super::param_source::ParamSource;
use crate::classifier::{Id, Precision, Spec};
use crate::ops::tokens::FixedLinear;
use crate::tensor::{self, Tensor};

/// All parameters.
pub(super) struct FrozenParams {
    /// By their specifications, without axes; those of linear layers are with the layers.
    values: Vec<Option<Tensor<1>>>,
    linears: Vec<LinearWeights>,
    precision: Precision,
}

/// The weights of a linear layer.
enum LinearWeights {
    /// Packed, bias included.
    Fixed(Arc<FixedLinear>),
    /// `[outputs, inputs]` of the head, of which mostly a few rows are needed; packed when all are.
    Head(Tensor<2>, OnceLock<Arc<FixedLinear>>),
}

impl FrozenParams {
    /// From weights and an adapter that were checked.
    pub(super) fn new(
        network: &Network,
        specs: &[Spec],
        weights: &ModelWeights,
        adapter: Option<&Adapter>,
        precision: Precision,
    ) -> Self {
        let all = network.all_linears();
        let vector = |id: Id| Tensor::from(weights.numbers(specs, id));
        let in_layers: HashSet<usize> = all.iter().map(|layer| layer.weight.0).collect();
        let in_a_layer = |id: Id| id != network.text.embed && in_layers.contains(&id.0);
        let value = |i| (!in_a_layer(Id(i))).then(|| vector(Id(i)));
        let values: Vec<Option<Tensor<1>>> = (0..specs.len()).map(value).collect();
        let linear_weights = |layer: &&Linear| {
            let lora = adapter.and_then(|adapter| adapter.layers.get(&layer.name));
            let merged = || {
                let mut numbers = weights.numbers(specs, layer.weight);
                if let Some(lora) = lora {
                    lora.merge_into(&mut numbers, layer);
                }
                numbers
            };
            let is_head = layer.index == network.text.head.index;
            if !is_head {
                let bias = layer.bias.map(|bias| weights.numbers(specs, bias));
                let own = precision.on_cpu();
                return LinearWeights::Fixed(Arc::new(FixedLinear::new(
                    &merged(),
                    layer.outputs,
                    layer.inputs,
                    bias,
                    own,
                )));
            }
            let flat = match (&values[layer.weight.0], lora) {
                (Some(shared), None) => shared.clone(),
                (None, None) => vector(layer.weight),
                (_, Some(_)) => merged().into(),
            };
            LinearWeights::Head(flat.reshape([layer.outputs, layer.inputs]), OnceLock::new())
        };
        let linears = all.iter().map(linear_weights).collect();
        Self { values, linears, precision }
    }

    fn packed_head(&self, plain: &Tensor<2>) -> Arc<FixedLinear> {
        let [outputs, inputs] = plain.dims();
        Arc::new(FixedLinear::new(plain.numbers(), outputs, inputs, None, self.precision.on_cpu()))
    }
}

impl ParamSource for FrozenParams {
    fn vector(&self, id: Id) -> Tensor<1> {
        self.values[id.0].clone().unwrap_or_else(|| unreachable!("a parameter outside linear layers"))
    }

    fn rows(&self, table: Id, width: usize, indices: &[usize]) -> Tensor<2> {
        let table = self.vector(table);
        let count = table.dims()[0] / width;
        table.reshape([count, width]).select(0, indices)
    }

    fn linear(&self, layer: &Linear, x: Tensor<2>) -> Tensor<2> {
        match &self.linears[layer.index] {
            LinearWeights::Fixed(fixed) => fixed.forward(x),
            LinearWeights::Head(plain, packed) => packed.get_or_init(|| self.packed_head(plain)).forward(x),
        }
    }

    fn outputs(&self, layer: &Linear, x: Tensor<2>, outputs: &[u32]) -> Tensor<2> {
        let rows: Vec<usize> = outputs.iter().map(|output| *output as usize).collect();
        match &self.linears[layer.index] {
            LinearWeights::Head(plain, _) => tensor::linear(x, plain.clone().select(0, &rows)),
            LinearWeights::Fixed(_) => self.linear(layer, x).select(1, &rows),
        }
    }
}
