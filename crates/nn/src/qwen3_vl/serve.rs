//! The pass that answers: parameters that stay as they are.

use burn::tensor::{Device, FloatDType, Int, Tensor, TensorData};

use super::layers::indices;
use super::network::Linear;
use super::pass::Pass;
use crate::classifier::{Id, Spec};
use crate::weights::{Array, DType, Weights};

/// All parameters on a device, in the order of their specifications.
#[derive(Debug)]
pub(super) struct Frozen {
    /// Without axes.
    values: Vec<Tensor<1>>,
    device: Device,
}

impl Frozen {
    /// From weights that were checked.
    pub(super) fn new(specs: &[Spec], weights: &Weights, dtype: FloatDType, device: &Device) -> Self {
        let value = |spec: &Spec| {
            let stored = weights.get(&spec.name);
            upload(stored.unwrap_or_else(|| unreachable!("weights were checked")), dtype, device)
        };
        Self { values: specs.iter().map(value).collect(), device: device.clone() }
    }

    #[allow(dead_code)]
    pub(super) fn value(&self, id: Id) -> &Tensor<1> {
        &self.values[id.0]
    }

    fn weight(&self, layer: &Linear) -> Tensor<2> {
        self.values[layer.weight.0].clone().reshape([layer.outputs, layer.inputs])
    }
}

/// A stored tensor on a device. Numbers that are stored in the wanted type are not converted.
fn upload(stored: &Array, dtype: FloatDType, device: &Device) -> Tensor<1> {
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
        let y = x.matmul(self.weight(layer).transpose());
        match layer.bias {
            Some(bias) => y + self.vector(bias).unsqueeze::<2>(),
            None => y,
        }
    }

    fn outputs(&self, layer: &Linear, x: Tensor<2>, outputs: &[u32]) -> Tensor<2> {
        let rows = indices(outputs.iter().map(|output| *output as usize), &self.device);
        x.matmul(self.weight(layer).select(0, rows).transpose())
    }
}
