//! Memory of a pass, kept between calls so that nothing is allocated in the loop.

use std::ops::Range;

use super::memory_plan::{BLOCK, MemoryPlan};
use crate::kernels::memory::AlignedBuffer;

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    pub(super) batch: usize,
    pub(super) heads: usize,
    /// Whether all heads were given the same inputs.
    pub(super) shared: bool,
    /// Whether batch norms used the statistics of the batch.
    pub(super) batch_stats: bool,
    /// `[batch, inputs]`, for each head unless shared.
    pub(super) inputs: AlignedBuffer,
    /// `[heads, batch, outputs]`
    pub(super) outputs: AlignedBuffer,
    /// Records of the forward and of the backward pass: `[heads, blocks, record]`.
    pub(super) forward: AlignedBuffer,
    pub(super) backward: AlignedBuffer,
    /// Sums of groups of blocks, on their way into gradients.
    pub(super) group_sums: AlignedBuffer,
    /// `[batch, outputs]`, where the tape keeps them for its user.
    pub(super) grad_out: AlignedBuffer,
    /// `[heads, packed]`, `[heads, transposed]`
    pub(super) packed: AlignedBuffer,
    pub(super) transposed: AlignedBuffer,
    /// `[heads, layers]`; without numbers where a layer has no batch norm.
    pub(super) batch_norms: Vec<BatchColumns>,
}

/// What a batch norm knows of each column.
#[derive(Debug, Clone, Default)]
pub(super) struct BatchColumns {
    /// Of the batch.
    pub(super) mean: Vec<f32>,
    pub(super) var: Vec<f32>,
    /// An input becomes `(x - center) * scale + shift`.
    pub(super) center: Vec<f32>,
    pub(super) scale: Vec<f32>,
    pub(super) shift: Vec<f32>,
    /// A gradient becomes `grad_scale * (g - grad_mean - (hat - hat_mean) * along)`.
    pub(super) grad_scale: Vec<f32>,
    pub(super) grad_mean: Vec<f32>,
    pub(super) hat_mean: Vec<f32>,
    pub(super) along: Vec<f32>,
}

impl BatchColumns {
    pub(super) fn fit(&mut self, width: usize) {
        let Self { mean, var, center, scale, shift, grad_scale, grad_mean, hat_mean, along } = self;
        for column in [mean, var, center, scale, shift, grad_scale, grad_mean, hat_mean, along] {
            column.resize(width, 0.0);
        }
    }
}

/// The blocks of all heads: block `b` of head `h` has the index `h * blocks + b`.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockGrid {
    pub(super) heads: usize,
    pub(super) batch: usize,
    /// Whether all heads have the same inputs.
    pub(super) shared: bool,
}

impl BlockGrid {
    /// Blocks that the batch takes.
    pub(super) fn blocks(self) -> usize {
        self.batch.div_ceil(BLOCK)
    }

    /// Blocks of all heads.
    pub(super) fn count(self) -> usize {
        self.heads * self.blocks()
    }

    pub(super) fn head(self, index: usize) -> usize {
        index / self.blocks()
    }

    /// Rows of one block: all but the last are full.
    pub(super) fn rows(self, index: usize) -> usize {
        BLOCK.min(self.batch - index % self.blocks() * BLOCK)
    }

    /// The part of a block in `[heads, batch, width]`.
    pub(super) fn part(self, index: usize, width: usize) -> Range<usize> {
        let start = (self.head(index) * self.batch + index % self.blocks() * BLOCK) * width;
        start..start + self.rows(index) * width
    }

    /// The part of a block in the inputs, `[heads, batch, width]` or `[batch, width]` where they are shared.
    pub(super) fn input_part(self, index: usize, width: usize) -> Range<usize> {
        self.part(if self.shared { index % self.blocks() } else { index }, width)
    }

    /// The record of a block among records of this length.
    pub(super) fn record(self, index: usize, len: usize) -> Range<usize> {
        index * len..(index + 1) * len
    }
}

impl Tape {
    pub(super) fn grid(&self) -> BlockGrid {
        BlockGrid { heads: self.heads, batch: self.batch, shared: self.shared }
    }

    pub(super) fn fit_forward(&mut self, plan: &MemoryPlan, inputs: usize, outputs: usize) {
        let input_heads = if self.shared { 1 } else { self.heads };
        let records = self.grid().count();
        self.inputs.fit(input_heads * self.batch * inputs);
        self.outputs.fit(self.heads * self.batch * outputs);
        self.forward.fit(records * plan.forward);
        self.packed.fit(self.heads * plan.packed);
        self.batch_norms.resize_with(self.heads * plan.layers.len(), BatchColumns::default);
    }
}

/// Memory of a forward pass that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(super) memory: AlignedBuffer,
    pub(super) packed: AlignedBuffer,
    pub(super) outputs: AlignedBuffer,
    pub(super) batch_norms: Vec<BatchColumns>,
}
