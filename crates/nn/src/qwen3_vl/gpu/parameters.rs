//! The parameters of a model in the GPU's memory.
//!
//! Layers that take the same numbers are one matrix: queries, keys and values; gate and up. Matrices and biases are bf16,
//! scales and shifts of normalisations floats.

use cudarc::driver::CudaSlice;
use half::bf16;
use rayon::prelude::*;

use super::super::adapter::Adapter;
use super::super::load::{ModelTensor, ModelWeights};
use super::super::model::Quantization;
use super::super::network::{self, Network};
use super::super::quantized::{PackedKind, PackedMatrix};
use super::quantized::quantize;
use crate::classifier::{Id, Spec};
use crate::gpu::Address;
use crate::gpu::Epilogue;
use crate::gpu::Gpu;
use crate::gpu::GpuError;
use crate::weights::DType;

/// A linear layer, or several on the same numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Linear {
    pub(super) weight: Address,
    pub(super) bias: Address,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Columns after those of the inputs, where adapters in training have a matrix of theirs; none for scoring.
    pub(super) extra: usize,
    /// The weights if they have eight bits; `weight` is nowhere then.
    pub(super) packed: Option<PackedWeights>,
}

/// Weights of eight bits, and their scales.
#[derive(Clone, Copy, Debug)]
pub(super) struct PackedWeights {
    pub(super) kind: PackedKind,
    pub(super) bytes: Address,
    /// `[outputs, blocks]`
    pub(super) scales: Address,
    /// Numbers of a row that share a scale.
    pub(super) block: usize,
}

/// How the matrices of linear layers lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatrixBits {
    /// bf16, whatever they were stored as; training needs them so.
    Bf16,
    /// bf16, or eight bits with the same scales where they were stored in eight or fewer.
    AsStored,
    /// Eight.
    Eight,
}

impl From<Quantization> for MatrixBits {
    fn from(quantization: Quantization) -> Self {
        match quantization {
            Quantization::None => Self::AsStored,
            Quantization::Int8 => Self::Eight,
        }
    }
}

impl Linear {
    /// What follows the product of its outputs from one on: the bias, if there is one.
    pub(super) fn with_bias(&self, first: usize) -> Epilogue {
        match self.bias {
            Address::NONE => Epilogue::Plain,
            bias => Epilogue::Bias(bias.plus(first)),
        }
    }

    /// Numbers from row to row of the weights, and of what is multiplied with them.
    pub(super) fn stride(&self) -> usize {
        self.inputs + self.extra
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNorm {
    pub(super) scale: Address,
    pub(super) shift: Address,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) norm1: LayerNorm,
    pub(super) qkv: Linear,
    pub(super) proj: Linear,
    pub(super) norm2: LayerNorm,
    /// With what it gates below it, if the network is gated.
    pub(super) fc1: Linear,
    pub(super) is_gated: bool,
    pub(super) fc2: Linear,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Merger {
    pub(super) norm: LayerNorm,
    pub(super) fc1: Linear,
    pub(super) fc2: Linear,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub(super) norm1: Address,
    pub(super) qkv: Linear,
    pub(super) o: Linear,
    pub(super) q_norm: Address,
    pub(super) k_norm: Address,
    pub(super) norm2: Address,
    pub(super) gate_up: Linear,
    pub(super) down: Linear,
}

/// All parameters.
pub(super) struct Parameters {
    pub(super) patch: Linear,
    /// Learned positions `[positions, width]`, which the CPU interpolates; none, if the tower has none.
    pub(super) positions: Vec<f32>,
    pub(super) blocks: Vec<Block>,
    pub(super) merger: Merger,
    pub(super) deepstack: Vec<Merger>,
    pub(super) embed: Address,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Address,
    /// Its weights may be the table of embeddings.
    pub(super) head: Linear,
    /// Numbers from row to row of the embeddings.
    pub(super) embed_stride: usize,
    /// What the addresses point to.
    _held: Allocations,
}

#[derive(Default)]
struct Allocations {
    numbers: Vec<CudaSlice<u16>>,
    bytes: Vec<CudaSlice<u8>>,
    floats: Vec<CudaSlice<f32>>,
}

/// Puts parameters on a GPU.
struct Loader<'a> {
    gpu: &'a Gpu,
    specs: &'a [Spec],
    weights: &'a ModelWeights,
    adapter: Option<&'a Adapter>,
    /// How many columns adapters in training have beside those of a layer's inputs.
    extra: &'a dyn Fn(&network::Linear) -> usize,
    bits: MatrixBits,
    held: Allocations,
}

impl Parameters {
    /// From weights and an adapter that were checked.
    pub(super) fn load(
        gpu: &Gpu,
        network: &Network,
        specs: &[Spec],
        weights: &ModelWeights,
        adapter: Option<&Adapter>,
        quantization: Quantization,
    ) -> Result<Self, GpuError> {
        Self::load_with(gpu, network, specs, weights, adapter, &|_| 0, quantization.into())
    }

    /// The same with columns for adapters in training, which are zeros at first.
    pub(super) fn load_with(
        gpu: &Gpu,
        network: &Network,
        specs: &[Spec],
        weights: &ModelWeights,
        adapter: Option<&Adapter>,
        extra: &dyn Fn(&network::Linear) -> usize,
        bits: MatrixBits,
    ) -> Result<Self, GpuError> {
        let held = Allocations::default();
        let mut loader = Loader { gpu, specs, weights, adapter, extra, bits, held };
        let (vision, text) = (&network.vision, &network.text);
        let is_tied = text.head.weight == text.embed;
        let is_changed = adapter.is_some_and(|adapter| adapter.layers.contains_key(&text.head.name));
        let head = loader.full_linear(&[&text.head])?;
        let (embed, embed_stride) = match is_tied && !is_changed {
            true => (head.weight, head.stride()),
            false => (loader.table(text.embed)?, text.head.inputs),
        };
        let parameters = Self {
            patch: loader.linear(&[&vision.patch])?,
            positions: vision.positions.map(|positions| loader.floats(positions)).unwrap_or_default(),
            blocks: vision.blocks.iter().map(|block| loader.block(block)).collect::<Result<_, _>>()?,
            merger: loader.merger(&vision.merger)?,
            deepstack: vision
                .deepstack
                .iter()
                .map(|merger| loader.merger(merger))
                .collect::<Result<_, _>>()?,
            embed,
            embed_stride,
            layers: text.layers.iter().map(|layer| loader.layer(layer)).collect::<Result<_, _>>()?,
            norm: loader.scale(text.norm)?,
            head,
            _held: loader.held,
        };
        gpu.wait()?;
        Ok(parameters)
    }

    /// Whether some matrices have eight bits, and are unpacked before each product.
    pub(super) fn are_packed(&self) -> bool {
        !self._held.bytes.is_empty()
    }
}

impl Loader<'_> {
    fn block(&mut self, block: &network::Block) -> Result<Block, GpuError> {
        let (width, inner) = (block.fc1.inputs, block.fc1.outputs);
        // Kernels take eight numbers at a time.
        let filled = inner.next_multiple_of(8);
        let (fc1, fc2) = match &block.up {
            Some(up) if filled > inner => (
                self.filled_linear(&[&block.fc1, up], [filled, width])?,
                self.filled_linear(&[&block.fc2], [width, filled])?,
            ),
            Some(up) => (self.linear(&[&block.fc1, up])?, self.linear(&[&block.fc2])?),
            None => (self.linear(&[&block.fc1])?, self.linear(&[&block.fc2])?),
        };
        Ok(Block {
            norm1: self.layer_norm(&block.norm1)?,
            qkv: self.linear(&[&block.qkv])?,
            proj: self.linear(&[&block.proj])?,
            norm2: self.layer_norm(&block.norm2)?,
            fc1,
            is_gated: block.up.is_some(),
            fc2,
        })
    }

    /// Layers below one another, each filled up with zeros to so many outputs and inputs.
    fn filled_linear(
        &mut self,
        layers: &[&network::Linear],
        [outputs, inputs]: [usize; 2],
    ) -> Result<Linear, GpuError> {
        let part = |layer: &&network::Linear| {
            let mut filled = vec![0u16; outputs * inputs];
            let numbers = self.numbers(layer.weight, Some(layer));
            for (to, row) in filled.chunks_exact_mut(inputs).zip(numbers.chunks_exact(layer.inputs)) {
                to[..layer.inputs].copy_from_slice(row);
            }
            filled
        };
        let bias = |layer: &&network::Linear| {
            let mut bias = layer.bias.map(|bias| self.numbers(bias, None)).unwrap_or_default();
            bias.resize(outputs, 0);
            bias
        };
        let (parts, biases): (Vec<_>, Vec<_>) = layers.iter().map(|layer| (part(layer), bias(layer))).unzip();
        Ok(Linear {
            weight: self.keep(&parts)?,
            bias: self.keep(&biases)?,
            inputs,
            outputs: layers.len() * outputs,
            extra: 0,
            packed: None,
        })
    }

    fn merger(&mut self, merger: &network::Merger) -> Result<Merger, GpuError> {
        Ok(Merger {
            norm: self.layer_norm(&merger.norm)?,
            fc1: self.linear(&[&merger.fc1])?,
            fc2: self.linear(&[&merger.fc2])?,
        })
    }

    fn layer(&mut self, layer: &network::Layer) -> Result<Layer, GpuError> {
        let mlp = layer.dense();
        Ok(Layer {
            norm1: self.scale(layer.norm1)?,
            qkv: self.linear(&[&layer.q, &layer.k, &layer.v])?,
            o: self.linear(&[&layer.o])?,
            q_norm: self.scale_if(layer.q_norm)?,
            k_norm: self.scale_if(layer.k_norm)?,
            norm2: self.scale(layer.norm2)?,
            gate_up: self.linear(&[&mlp.gate, &mlp.up])?,
            down: self.linear(&[&mlp.down])?,
        })
    }

    fn layer_norm(&mut self, norm: &network::VisionNorm) -> Result<LayerNorm, GpuError> {
        Ok(LayerNorm { scale: self.scale(norm.scale)?, shift: self.scale_if(norm.shift)? })
    }

    /// A parameter as floats, or nowhere.
    fn scale_if(&mut self, id: Option<Id>) -> Result<Address, GpuError> {
        id.map_or(Ok(Address::NONE), |id| self.scale(id))
    }

    fn floats(&self, id: Id) -> Vec<f32> {
        self.weights.numbers(self.specs, id)
    }

    /// A parameter as floats.
    fn scale(&mut self, id: Id) -> Result<Address, GpuError> {
        let numbers = self.floats(id);
        let put = self
            .gpu
            .stream
            .clone_htod(&numbers)
            .map_err(GpuError::failed("copying parameters to the GPU"))?;
        let address = self.gpu.address(&put);
        self.held.floats.push(put);
        Ok(address)
    }

    /// A parameter as bf16.
    fn table(&mut self, id: Id) -> Result<Address, GpuError> {
        let numbers = self.numbers(id, None);
        self.keep(&[numbers])
    }

    /// Layers below one another, in eight bits if they were stored so or that is asked for.
    fn linear(&mut self, layers: &[&network::Linear]) -> Result<Linear, GpuError> {
        match self.packed(layers) {
            Some(packed) => self.packed_linear(layers, packed),
            None => self.full_linear(layers),
        }
    }

    /// Layers in eight bits each: as they were stored, if all of them share kinds and blocks, or quantised here if that is asked for.
    fn packed(&self, layers: &[&network::Linear]) -> Option<Vec<PackedMatrix>> {
        if self.bits == MatrixBits::Bf16 {
            return None;
        }
        let is_changed = |layer: &network::Linear| {
            self.adapter.is_some_and(|adapter| adapter.layers.contains_key(&layer.name))
        };
        let stored = |layer: &&network::Linear| match self.weights.of(self.specs, layer.weight) {
            ModelTensor::Quantized(quantized) if !is_changed(layer) => quantized.packed(),
            _ => None,
        };
        let stored: Option<Vec<PackedMatrix>> = layers.iter().map(stored).collect();
        let alike = |parts: &Vec<PackedMatrix>| {
            let first = (parts[0].kind, parts[0].block);
            parts.iter().all(|part| (part.kind, part.block) == first)
        };
        if let Some(stored) = stored.filter(alike) {
            return Some(stored);
        }
        let quantized = |layer: &&network::Linear| quantize(&self.merged(layer), layer.inputs);
        (self.bits == MatrixBits::Eight).then(|| layers.iter().map(quantized).collect())
    }

    fn packed_linear(
        &mut self,
        layers: &[&network::Linear],
        parts: Vec<PackedMatrix>,
    ) -> Result<Linear, GpuError> {
        let (kind, block) = (parts[0].kind, parts[0].block);
        let (mut bytes, mut scales) = (Vec::new(), Vec::new());
        for part in parts {
            bytes.extend(part.bytes);
            scales.extend(part.scales);
        }
        let failed = || GpuError::failed("copying parameters to the GPU");
        let bytes = self.gpu.stream.clone_htod(&bytes).map_err(failed())?;
        let scales = self.gpu.stream.clone_htod(&scales).map_err(failed())?;
        let packed =
            PackedWeights { kind, bytes: self.gpu.address(&bytes), scales: self.gpu.address(&scales), block };
        self.held.bytes.push(bytes);
        self.held.floats.push(scales);
        self.gpu.wait()?; // what was copied goes away here
        Ok(Linear { packed: Some(packed), ..self.linear_with(layers, Address::NONE, 0)? })
    }

    /// The same in bf16.
    fn full_linear(&mut self, layers: &[&network::Linear]) -> Result<Linear, GpuError> {
        let extra: usize = layers.iter().map(|layer| (self.extra)(layer)).sum();
        let part = |layer: &&network::Linear| {
            let numbers = self.numbers(layer.weight, Some(layer));
            if extra == 0 { numbers } else { with_columns(&numbers, layer.inputs, extra) }
        };
        let parts: Vec<Vec<u16>> = layers.iter().map(part).collect();
        let weight = self.keep(&parts)?;
        self.linear_with(layers, weight, extra)
    }

    fn linear_with(
        &mut self,
        layers: &[&network::Linear],
        weight: Address,
        extra: usize,
    ) -> Result<Linear, GpuError> {
        let biases: Vec<Vec<u16>> =
            layers.iter().filter_map(|layer| layer.bias).map(|bias| self.numbers(bias, None)).collect();
        Ok(Linear {
            weight,
            bias: if biases.is_empty() { Address::NONE } else { self.keep(&biases)? },
            inputs: layers[0].inputs,
            outputs: layers.iter().map(|layer| layer.outputs).sum(),
            extra,
            packed: None,
        })
    }

    /// The bits of a parameter, of a layer with its adapter in it.
    fn numbers(&self, id: Id, layer: Option<&network::Linear>) -> Vec<u16> {
        let lora = layer
            .zip(self.adapter)
            .and_then(|(layer, adapter)| adapter.layers.get(&layer.name).map(|lora| (lora, layer)));
        if let ModelTensor::Plain(stored) = self.weights.of(self.specs, id)
            && stored.dtype() == DType::Bf16
            && lora.is_none()
        {
            let numbers = stored.elements::<bf16>().unwrap_or_default();
            return bytemuck::cast_slice(&numbers).to_vec();
        }
        let numbers = match lora {
            Some((_, layer)) => self.merged(layer),
            None => self.floats(id),
        };
        numbers.par_iter().map(|number| bf16::from_f32(*number).to_bits()).collect()
    }

    /// The weights of a layer with its adapter in them.
    fn merged(&self, layer: &network::Linear) -> Vec<f32> {
        let mut numbers = self.floats(layer.weight);
        if let Some(lora) = self.adapter.and_then(|adapter| adapter.layers.get(&layer.name)) {
            lora.merge_into(&mut numbers, layer);
        }
        numbers
    }

    fn keep(&mut self, parts: &[Vec<u16>]) -> Result<Address, GpuError> {
        let mut room = self.gpu.alloc(parts.iter().map(Vec::len).sum())?;
        let mut from = 0;
        for part in parts {
            let mut place = room.slice_mut(from..from + part.len());
            let copied = self.gpu.stream.memcpy_htod(part, &mut place);
            copied.map_err(GpuError::failed("copying parameters to the GPU"))?;
            from += part.len();
        }
        let address = self.gpu.address(&room);
        self.held.numbers.push(room);
        Ok(address)
    }
}

/// Rows with so many zeros after each.
fn with_columns(numbers: &[u16], width: usize, extra: usize) -> Vec<u16> {
    let mut wider = vec![0; numbers.len() / width * (width + extra)];
    wider.par_chunks_exact_mut(width + extra).zip(numbers.par_chunks_exact(width)).for_each(|(wide, row)| {
        wide[..width].copy_from_slice(row);
    });
    wider
}
