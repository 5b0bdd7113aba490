//! The parameters of a model in the GPU's memory.
//!
//! Layers that take the same numbers are one matrix: queries, keys and values; gate and up. Matrices and biases are bf16,
//! scales and shifts of normalisations floats.

use cudarc::driver::CudaSlice;
use half::bf16;
use rayon::prelude::*;

use super::super::adapter::Adapter;
use super::super::model::Quantization;
use super::super::network::{self, Network};
use super::quantized::Quantized;
use crate::classifier::{Id, Spec};
use crate::gpu::Address;
use crate::gpu::Gpu;
use crate::gpu::GpuError;
use crate::weights::{DType, Weights};

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
    pub(super) numbers: Address,
    pub(super) scales: Address,
}

impl Linear {
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
    pub(super) fc1: Linear,
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
    /// Learned positions `[positions, width]`, which the CPU interpolates.
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
    bytes: Vec<CudaSlice<i8>>,
    floats: Vec<CudaSlice<f32>>,
}

/// Puts parameters on a GPU.
struct Loader<'a> {
    gpu: &'a Gpu,
    specs: &'a [Spec],
    weights: &'a Weights,
    adapter: Option<&'a Adapter>,
    /// How many columns adapters in training have beside those of a layer's inputs.
    extra: &'a dyn Fn(&network::Linear) -> usize,
    quantization: Quantization,
    held: Allocations,
}

impl Parameters {
    /// From weights and an adapter that were checked.
    pub(super) fn load(
        gpu: &Gpu,
        network: &Network,
        specs: &[Spec],
        weights: &Weights,
        adapter: Option<&Adapter>,
        quantization: Quantization,
    ) -> Result<Self, GpuError> {
        Self::load_with(gpu, network, specs, weights, adapter, &|_| 0, quantization)
    }

    /// The same with columns for adapters in training, which are zeros at first.
    pub(super) fn load_with(
        gpu: &Gpu,
        network: &Network,
        specs: &[Spec],
        weights: &Weights,
        adapter: Option<&Adapter>,
        extra: &dyn Fn(&network::Linear) -> usize,
        quantization: Quantization,
    ) -> Result<Self, GpuError> {
        let held = Allocations::default();
        let mut loader = Loader { gpu, specs, weights, adapter, extra, quantization, held };
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
            positions: loader.floats(vision.positions),
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
}

impl Loader<'_> {
    fn block(&mut self, block: &network::Block) -> Result<Block, GpuError> {
        Ok(Block {
            norm1: self.layer_norm(&block.norm1)?,
            qkv: self.linear(&[&block.qkv])?,
            proj: self.linear(&[&block.proj])?,
            norm2: self.layer_norm(&block.norm2)?,
            fc1: self.linear(&[&block.fc1])?,
            fc2: self.linear(&[&block.fc2])?,
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
        Ok(Layer {
            norm1: self.scale(layer.norm1)?,
            qkv: self.linear(&[&layer.q, &layer.k, &layer.v])?,
            o: self.linear(&[&layer.o])?,
            q_norm: self.scale(layer.q_norm)?,
            k_norm: self.scale(layer.k_norm)?,
            norm2: self.scale(layer.norm2)?,
            gate_up: self.linear(&[&layer.gate, &layer.up])?,
            down: self.linear(&[&layer.down])?,
        })
    }

    fn layer_norm(&mut self, norm: &network::LayerNorm) -> Result<LayerNorm, GpuError> {
        Ok(LayerNorm { scale: self.scale(norm.scale)?, shift: self.scale(norm.shift)? })
    }

    fn floats(&self, id: Id) -> Vec<f32> {
        let stored = self.weights.get(&self.specs[id.0].name).and_then(crate::weights::Array::to_f32);
        stored.unwrap_or_else(|| unreachable!("weights were checked"))
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

    /// Layers below one another, in eight bits if that is asked for.
    fn linear(&mut self, layers: &[&network::Linear]) -> Result<Linear, GpuError> {
        if self.quantization == Quantization::None {
            return self.full_linear(layers);
        }
        let (mut numbers, mut scales) = (Vec::new(), Vec::new());
        for layer in layers {
            let weights: Vec<f32> = self.merged(layer);
            let quantized = Quantized::of(&weights, layer.inputs);
            numbers.extend(quantized.numbers);
            scales.extend(quantized.scales);
        }
        let failed = || GpuError::failed("copying parameters to the GPU");
        let numbers = self.gpu.stream.clone_htod(&numbers).map_err(failed())?;
        let scales = self.gpu.stream.clone_htod(&scales).map_err(failed())?;
        let packed = PackedWeights { numbers: self.gpu.address(&numbers), scales: self.gpu.address(&scales) };
        self.held.bytes.push(numbers);
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
        let stored = self.weights.get(&self.specs[id.0].name).filter(|_| lora.is_none());
        if let Some(stored) = stored.filter(|stored| stored.dtype() == DType::Bf16) {
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
