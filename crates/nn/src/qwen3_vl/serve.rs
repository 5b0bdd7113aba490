//! The pass that answers: parameters that stay as they are, adapters merged into them.

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};

use super::adapter::{Adapter, Low};
use super::layers::indices;
use super::network::{Linear, Network};
use super::pass::Pass;
use crate::classifier::{Id, Spec};
use crate::weights::{Array, DType, Weights};

/// All parameters on a device.
pub(super) struct Frozen {
    /// By their specifications, without axes.
    values: Vec<Tensor<1>>,
    /// The weights `[outputs, inputs]` of each linear layer.
    linears: Vec<Tensor<2>>,
    device: Device,
}

impl Frozen {
    /// From weights and an adapter that were checked.
    pub(super) fn new(
        network: &Network,
        specs: &[Spec],
        weights: &Weights,
        adapter: Option<&Adapter>,
        dtype: FloatDType,
        device: &Device,
    ) -> Self {
        let stored = |id: Id| {
            let stored = weights.get(&specs[id.0].name);
            stored.unwrap_or_else(|| unreachable!("weights were checked"))
        };
        let values: Vec<Tensor<1>> = (0..specs.len()).map(|i| upload(stored(Id(i)), dtype, device)).collect();
        let linear = |layer: &&Linear| {
            let low = adapter.and_then(|adapter| adapter.layers.get(&layer.name));
            let flat = match low {
                Some(low) => merged(low, layer, stored(layer.weight), device).cast(dtype),
                None => values[layer.weight.0].clone(),
            };
            flat.reshape([layer.outputs, layer.inputs])
        };
        let linears = network.all_linears().iter().map(linear).collect();
        Self { values, linears, device: device.clone() }
    }
}

fn merged(low: &Low, layer: &Linear, stored: &Array, device: &Device) -> Tensor<1> {
    let mut numbers = stored.to_f32().unwrap_or_default();
    low.merge_into(&mut numbers, layer);
    let count = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [count]), device)
}

/// A stored tensor on a device. Numbers that are stored in the wanted type are not converted.
pub(super) fn upload(stored: &Array, dtype: FloatDType, device: &Device) -> Tensor<1> {
    let count = stored.len();
    if stored.dtype() == DType::Bf16 && dtype == FloatDType::BF16 {
        let numbers = stored.elements::<half::bf16>().unwrap_or_default().into_owned();
        return Tensor::from_data(TensorData::new(numbers, [count]), (device, burn::tensor::DType::BF16));
    }
    let numbers = stored.to_f32().unwrap_or_default();
    Tensor::<1>::from_data(TensorData::new(numbers, [count]), device).cast(dtype)
}

impl Pass for Frozen {
    fn vector(&self, id: Id) -> Tensor<1> {
        self.values[id.0].clone()
    }

    fn rows(&self, table: Id, width: usize, indices: Tensor<1, Int>) -> Tensor<2> {
        let table = self.values[table.0].clone();
        let count = table.dims()[0] / width;
        table.reshape([count, width]).select(0, indices)
    }

    fn linear(&self, layer: &Linear, x: Tensor<2>) -> Tensor<2> {
        let y = x.matmul(self.linears[layer.index].clone().transpose());
        match layer.bias {
            Some(bias) => y + self.vector(bias).unsqueeze::<2>(),
            None => y,
        }
    }

    fn outputs(&self, layer: &Linear, x: Tensor<2>, outputs: &[u32]) -> Tensor<2> {
        let rows = indices(outputs.iter().map(|output| *output as usize), &self.device);
        x.matmul(self.linears[layer.index].clone().select(0, rows).transpose())
    }
}
