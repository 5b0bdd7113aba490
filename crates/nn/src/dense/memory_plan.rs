//! Where a pass keeps what it computes for one block of rows.
//!
//! The rows of a batch go through a network in blocks, each with a record of its own: one piece of memory that holds
//! all that a block leaves behind. Blocks are then independent, and fit the cache.

use std::ops::Range;

use super::backward::GROUP;
use super::spec::{MlpSpec, Norm};
use super::weights::WeightShape;
use crate::kernels::gemm::row_words;
use crate::kernels::memory::LINE;

/// Rows of a block. A constant, because gradients are summed block by block: how many threads there are must not
/// change the order of sums.
pub(super) const BLOCK: usize = 64;

/// Rows of a record are this far apart. The odd line keeps the rows of a power of two in width from falling into the
/// same few places of the cache.
pub(super) fn stride(width: usize) -> usize {
    width.next_multiple_of(LINE) + LINE
}

/// Places within the records of a block, for each layer.
#[derive(Debug, Clone)]
pub(super) struct MemoryPlan {
    pub(super) layers: Vec<LayerMemory>,
    /// Length of the record of a forward pass.
    pub(super) forward: usize,
    /// Length of the record of a backward pass.
    pub(super) backward: usize,
    /// Gradient of the input of the network, in the record of the backward pass.
    pub(super) input_grad: Range<usize>,
    /// Packed weights, for each head.
    pub(super) packed: usize,
    /// Transposed weights, for each head.
    pub(super) transposed: usize,
}

/// Places of one layer. Empty where there is nothing to keep.
#[derive(Debug, Clone)]
pub(super) struct LayerMemory {
    /// Row stride of what the product takes and of what the layer before gave.
    pub(super) input_stride: usize,
    /// The input after batch norm, and before its scale and shift.
    pub(super) normed_input: Range<usize>,
    pub(super) input_hat: Range<usize>,
    /// Rounded inputs of the product, side by side in rows of so many words.
    pub(super) operands: Range<usize>,
    pub(super) operand_words: usize,
    /// Row stride of the output.
    pub(super) stride: usize,
    /// The output; that of the last layer lies with the outputs of the tape instead.
    pub(super) output: Range<usize>,
    /// Layer norm before scale and shift, and one over the standard deviation of each row.
    pub(super) hat: Range<usize>,
    pub(super) inv_std: Range<usize>,
    /// Backward: the gradient of the output, then of the product; and its row stride.
    pub(super) grad: Range<usize>,
    pub(super) grad_stride: usize,
    /// Backward: this gradient rounded, side by side in rows of so many words, and in pairs of rows; and pairs of rows of
    /// the rounded inputs.
    pub(super) grad_operands: Range<usize>,
    pub(super) grad_words: usize,
    pub(super) grad_pairs: Range<usize>,
    pub(super) input_pairs: Range<usize>,
    /// Backward: sums over the block for the bias, and for scale and shift of the layer norm.
    pub(super) bias_sums: Range<usize>,
    pub(super) norm_sums: [Range<usize>; 2],
    /// For each head: the packed weights, and the weights in panels of inputs.
    pub(super) packed: Range<usize>,
    pub(super) transposed: Range<usize>,
}

impl MemoryPlan {
    /// Rows that so many threads do best at once: as many groups of blocks as there are threads, or a few more where
    /// records are small.
    pub(super) fn rows_in_cache(&self, threads: usize) -> usize {
        /// What the second cache of a core holds, or nearly.
        const FLOATS: usize = 3 << 18;
        let groups = FLOATS / (self.forward + self.backward) / GROUP;
        threads * groups.clamp(1, 16) * GROUP * BLOCK
    }
}

/// Several parts of a record at once.
pub(super) fn parts<const N: usize>(record: &mut [f32], places: [Range<usize>; N]) -> [&mut [f32]; N] {
    record.get_disjoint_mut(places).expect("places within a record do not overlap")
}

/// Counts upwards, in lines of the cache.
#[derive(Default)]
struct BumpOffset(usize);

impl BumpOffset {
    fn take(&mut self, count: usize) -> Range<usize> {
        let start = self.0;
        self.0 += count.next_multiple_of(LINE);
        start..start + count
    }

    fn take_if(&mut self, wanted: bool, count: usize) -> Range<usize> {
        self.take(if wanted { count } else { 0 })
    }
}

impl MemoryPlan {
    pub(super) fn new(spec: &MlpSpec, weights: impl Fn(usize) -> WeightShape) -> Self {
        let [mut forward, mut backward, mut packed, mut transposed] = <[BumpOffset; 4]>::default();
        let mut input = (spec.inputs, spec.inputs);
        let layers = spec.layers.iter().enumerate();
        let layers = layers.map(|(index, layer)| {
            let (inputs, input_stride) = input;
            let batch_norm = layer.input_norm.is_some();
            let layer_norm = layer.norm == Norm::Layer;
            let (is_last, stride) = (index + 1 == spec.layers.len(), stride(layer.width));
            let normed_stride = if batch_norm { self::stride(inputs) } else { input_stride };
            input = (layer.width, stride);
            let weights = weights(index);
            let (half, operand_words, grad_words) =
                (weights.is_half(), row_words(inputs), row_words(layer.width));
            LayerMemory {
                input_stride: normed_stride,
                normed_input: forward.take_if(batch_norm, BLOCK * normed_stride),
                input_hat: forward.take_if(batch_norm, BLOCK * normed_stride),
                operands: forward.take_if(half, BLOCK * operand_words),
                operand_words,
                stride: if is_last { layer.width } else { stride },
                output: forward.take_if(!is_last, BLOCK * stride),
                hat: forward.take_if(layer_norm, BLOCK * stride),
                inv_std: forward.take_if(layer_norm, BLOCK),
                grad: backward.take(BLOCK * stride),
                grad_stride: stride,
                grad_operands: backward.take_if(half, BLOCK * grad_words),
                grad_words,
                grad_pairs: backward.take_if(half, BLOCK / 2 * stride),
                input_pairs: backward.take_if(half, BLOCK / 2 * self::stride(inputs)),
                bias_sums: backward.take(layer.width),
                norm_sums: [(); 2].map(|()| backward.take_if(layer_norm, layer.width)),
                packed: packed.take(weights.packed_len()),
                transposed: transposed.take(weights.transposed_len()),
            }
        });
        let layers = layers.collect();
        let input_grad = backward.take(BLOCK * spec.inputs);
        let [packed, transposed] = [packed.0, transposed.0];
        Self { layers, forward: forward.0, backward: backward.0, input_grad, packed, transposed }
    }
}
