//! Where the tensors of a network lie in its flat slice of parameters.

use std::ops::Range;

use super::spec::{Bias, MlpSpec, Norm};
use super::weights::WeightShape;

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TensorKind {
    /// The matrix of the product, `[outputs, inputs]` when exported.
    Weight,
    /// What is added to the product.
    Bias,
    /// The scale of the layer norm.
    NormWeight,
    /// The shift of the layer norm.
    NormBias,
    /// The scale of the batch norm of the input.
    InputNormWeight,
    /// The shift of the batch norm of the input.
    InputNormBias,
    /// Running mean of the batch norm: moved by [`super::Mlp::update_statistics`], never by an optimiser.
    RunningMean,
    /// Running variance of the batch norm.
    RunningVar,
}

impl TensorKind {
    /// Whether gradients reach it.
    pub fn is_trainable(self) -> bool {
        !matches!(self, Self::RunningMean | Self::RunningVar)
    }
}

/// One tensor of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The layer it belongs to, counted from the input.
    pub layer: usize,
    /// What it is for.
    pub kind: TensorKind,
    /// `[outputs, inputs]` of a weight, `[n]` of all others.
    pub shape: Vec<usize>,
    /// Its place in the parameters. Weights lie there in an order of our own: read them with `export`.
    pub range: Range<usize>,
}

/// Places of one layer's tensors.
#[derive(Debug, Clone)]
pub(super) struct LayerLayout {
    pub(super) inputs: usize,
    pub(super) width: usize,
    pub(super) shape: WeightShape,
    pub(super) weight: Range<usize>,
    pub(super) bias: Option<Range<usize>>,
    /// Scale and shift, one after the other.
    pub(super) norm: Option<[Range<usize>; 2]>,
    pub(super) input_norm: Option<InputNormLayout>,
}

#[derive(Debug, Clone)]
pub(super) struct InputNormLayout {
    pub(super) weight: Range<usize>,
    pub(super) bias: Range<usize>,
    pub(super) mean: Range<usize>,
    pub(super) var: Range<usize>,
}

/// Places of all tensors. What is trained comes first, running statistics last.
#[derive(Debug, Clone)]
pub(super) struct ParameterLayout {
    pub(super) layers: Vec<LayerLayout>,
    pub(super) trainable: usize,
    pub(super) len: usize,
    /// Multiplications that a row takes on its way forward.
    pub(super) products: usize,
}

impl ParameterLayout {
    /// `shape(inputs, outputs)` says how a layer's weights are multiplied.
    pub(super) fn new(spec: &MlpSpec, shape: impl Fn(usize, usize) -> WeightShape) -> Self {
        assert!(spec.inputs > 0 && !spec.layers.is_empty(), "a network needs inputs and layers");
        let mut end = 0;
        let mut take = |n: usize| {
            end += n;
            end - n..end
        };
        let mut inputs = spec.inputs;
        let mut layers = Vec::with_capacity(spec.layers.len());
        for layer in &spec.layers {
            assert!(layer.width > 0, "a layer needs a width");
            let nowhere = 0..0;
            layers.push(LayerLayout {
                inputs,
                width: layer.width,
                shape: shape(inputs, layer.width),
                weight: take(inputs * layer.width),
                bias: (layer.bias != Bias::None).then(|| take(layer.width)),
                norm: (layer.norm == Norm::Layer).then(|| [take(layer.width), take(layer.width)]),
                input_norm: layer.input_norm.map(|_| InputNormLayout {
                    weight: take(inputs),
                    bias: take(inputs),
                    mean: nowhere.clone(),
                    var: nowhere.clone(),
                }),
            });
            inputs = layer.width;
        }
        let trainable = take(0).start;
        for layer in &mut layers {
            if let Some(norm) = &mut layer.input_norm {
                norm.mean = take(layer.inputs);
                norm.var = take(layer.inputs);
            }
        }
        let len = take(0).start;
        let products = layers.iter().map(|layer| layer.shape.len()).sum();
        Self { layers, trainable, len, products }
    }

    /// All tensors, layer by layer.
    pub(super) fn tensors(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.layers.iter().enumerate().flat_map(|(index, layer)| layer.tensors(index))
    }
}

impl LayerLayout {
    /// What the gradients of everything but the weights take.
    pub(super) fn after_weight(&self) -> Range<usize> {
        let ends = [
            Some(self.weight.end),
            self.bias.as_ref().map(|place| place.end),
            self.norm.as_ref().map(|[_, bias]| bias.end),
            self.input_norm.as_ref().map(|places| places.bias.end),
        ];
        self.weight.end..ends.into_iter().flatten().max().unwrap_or(self.weight.end)
    }

    fn tensors(&self, layer: usize) -> Vec<Tensor> {
        let mut found = Vec::new();
        let mut add = |kind, shape: Vec<usize>, range: &Range<usize>| {
            found.push(Tensor { layer, kind, shape, range: range.clone() });
        };
        if let Some(norm) = &self.input_norm {
            add(TensorKind::InputNormWeight, vec![self.inputs], &norm.weight);
            add(TensorKind::InputNormBias, vec![self.inputs], &norm.bias);
            add(TensorKind::RunningMean, vec![self.inputs], &norm.mean);
            add(TensorKind::RunningVar, vec![self.inputs], &norm.var);
        }
        add(TensorKind::Weight, vec![self.width, self.inputs], &self.weight);
        if let Some(bias) = &self.bias {
            add(TensorKind::Bias, vec![self.width], bias);
        }
        if let Some([weight, bias]) = &self.norm {
            add(TensorKind::NormWeight, vec![self.width], weight);
            add(TensorKind::NormBias, vec![self.width], bias);
        }
        found
    }
}
