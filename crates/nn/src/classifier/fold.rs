//! Layers whose weights stay as they are: batch normalisation multiplied into the convolution before it.

use half::f16;
use rayon::prelude::*;

use super::network::{ConvNorm, EPSILON, Linear, Network, Norm};
use super::parameters::Id;
use super::settings::Precision;
use crate::ops::images::{self, FixedConv, Geometry};
use crate::tensor::Tensor;

/// The numbers of parameters, in the order of memory.
pub(super) trait ParameterSource: Sync {
    fn numbers(&self, id: Id) -> Vec<f32>;
    fn shape(&self, id: Id) -> [usize; 4];
}

/// A convolution and its normalisation.
#[derive(Clone, Debug)]
pub(super) enum Folded {
    /// The normalisation is in the weights.
    Batch(FixedConv),
    /// The normalisation depends on the image and comes after.
    Group { conv: FixedConv, groups: usize, scale: Tensor<1>, shift: Tensor<1> },
}

impl Folded {
    pub(super) fn forward(&self, input: Tensor<4>, residual: Option<Tensor<4>>, relu: bool) -> Tensor<4> {
        match self {
            Self::Batch(conv) => conv.forward(input, residual, relu),
            Self::Group { conv, groups, scale, shift } => {
                let output = conv.forward(input, None, false);
                let parameters = [scale.clone(), shift.clone()];
                images::group_norm_act(output, *groups, parameters, residual, relu, EPSILON)
            }
        }
    }

    /// [`Self::forward`] with ReLU, then the pool.
    pub(super) fn forward_pooled(&self, input: Tensor<4>) -> Tensor<4> {
        match self {
            Self::Batch(conv) => conv.forward_pooled(input),
            Self::Group { conv, groups, scale, shift } => {
                conv.forward_group_norm_pooled(input, *groups, scale.clone(), shift.clone(), EPSILON)
            }
        }
    }
}

/// All convolutions of a network, folded.
pub(super) fn fold(network: &Network, numbers: &impl ParameterSource, precision: Precision) -> Vec<Folded> {
    network.convolutions.par_iter().map(|layer| fold_layer(layer, numbers, precision)).collect()
}

/// All linear layers of a network as convolutions of single pixels, whose weights are arranged once.
pub(super) fn fix_linears(network: &Network, numbers: &impl ParameterSource) -> Vec<FixedConv> {
    let geometry = Geometry { stride: 1, padding: 0 };
    let fix = |layer: &Linear| {
        let (weights, bias) = (numbers.numbers(layer.weight), numbers.numbers(layer.bias));
        let (outputs, inputs) = (bias.len(), weights.len() / bias.len());
        let transposed: Vec<f32> =
            (0..weights.len()).map(|i| weights[i % outputs * inputs + i / outputs]).collect();
        let dims = [1, 1, inputs, outputs];
        FixedConv::new(&transposed, dims, &bias, geometry, Precision::Fp32.on_cpu())
    };
    network.linears.iter().map(fix).collect()
}

/// The numbers of a convolution, with what can be multiplied into them.
pub(super) struct FoldedNumbers {
    /// Rows, columns, inputs, outputs.
    pub(super) weights: Vec<f32>,
    pub(super) shape: [usize; 4],
    pub(super) bias: Vec<f32>,
    /// Groups, scale and shift of a normalisation that depends on the image.
    pub(super) group_norm: Option<(usize, Vec<f32>, Vec<f32>)>,
}

impl FoldedNumbers {
    pub(super) fn of(layer: &ConvNorm, numbers: &impl ParameterSource) -> Self {
        let (mut weights, shape) = (numbers.numbers(layer.weight), numbers.shape(layer.weight));
        let (mut scale, mut shift) = (numbers.numbers(layer.scale), numbers.numbers(layer.shift));
        let (mean, variance) = match layer.norm {
            Norm::Batch { mean, variance, .. } => (numbers.numbers(mean), numbers.numbers(variance)),
            Norm::Group { groups } => {
                let group_norm = Some((groups, scale, shift));
                return Self { weights, shape, bias: vec![0.0; shape[3]], group_norm };
            }
        };
        for c in 0..scale.len() {
            let factor = f64::from(scale[c]) / (f64::from(variance[c]) + EPSILON).sqrt();
            shift[c] = (f64::from(shift[c]) - f64::from(mean[c]) * factor) as f32;
            scale[c] = factor as f32;
        }
        for row in weights.chunks_exact_mut(scale.len()) {
            row.iter_mut().zip(&scale).for_each(|(weight, scale)| *weight *= scale);
        }
        Self { weights, shape, bias: shift, group_norm: None }
    }
}

fn fold_layer(layer: &ConvNorm, numbers: &impl ParameterSource, precision: Precision) -> Folded {
    let FoldedNumbers { mut weights, shape, bias, group_norm } = FoldedNumbers::of(layer, numbers);
    if precision == Precision::Fp16 {
        weights.iter_mut().for_each(|weight| *weight = f16::from_f32(*weight).to_f32());
    }
    let conv = FixedConv::new(&weights, shape, &bias, layer.geometry(), precision.on_cpu());
    match group_norm {
        None => Folded::Batch(conv),
        Some((groups, scale, shift)) => {
            Folded::Group { conv, groups, scale: scale.into(), shift: shift.into() }
        }
    }
}
