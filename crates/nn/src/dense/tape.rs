//! Memory of a pass, kept between calls so that nothing is allocated in the loop.

use super::plan::{BLOCK, Plan};

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    pub(super) batch: usize,
    pub(super) heads: usize,
    /// Whether all heads were given the same inputs.
    pub(super) shared: bool,
    /// Whether batch norms used the statistics of the batch.
    pub(super) by_batch: bool,
    /// `[batch, inputs]`, for each head unless shared.
    pub(super) inputs: Vec<f32>,
    /// `[heads, batch, outputs]`
    pub(super) outputs: Vec<f32>,
    /// Records of the forward and of the backward pass: `[heads, blocks, record]`.
    pub(super) forward: Vec<f32>,
    pub(super) backward: Vec<f32>,
    /// `[heads, transposed]`
    pub(super) transposed: Vec<f32>,
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
    /// A gradient becomes `slope * (g - grad_mean - (hat - hat_mean) * along)`.
    pub(super) slope: Vec<f32>,
    pub(super) grad_mean: Vec<f32>,
    pub(super) hat_mean: Vec<f32>,
    pub(super) along: Vec<f32>,
}

impl BatchColumns {
    pub(super) fn fit(&mut self, width: usize) {
        let Self { mean, var, center, scale, shift, slope, grad_mean, hat_mean, along } = self;
        for column in [mean, var, center, scale, shift, slope, grad_mean, hat_mean, along] {
            column.resize(width, 0.0);
        }
    }
}

impl Tape {
    /// Blocks that the batch takes.
    pub(super) fn blocks(&self) -> usize {
        self.batch.div_ceil(BLOCK)
    }

    /// Rows of one block: all but the last are full.
    pub(super) fn rows(&self, block: usize) -> usize {
        BLOCK.min(self.batch - block * BLOCK)
    }

    pub(super) fn fit_forward(&mut self, plan: &Plan, inputs: usize, outputs: usize) {
        let input_heads = if self.shared { 1 } else { self.heads };
        let records = self.heads * self.blocks();
        fit(&mut self.inputs, input_heads * self.batch * inputs);
        fit(&mut self.outputs, self.heads * self.batch * outputs);
        fit(&mut self.forward, records * plan.forward);
        self.batch_norms.resize_with(self.heads * plan.layers.len(), BatchColumns::default);
    }

    pub(super) fn fit_backward(&mut self, plan: &Plan) {
        let records = self.heads * self.blocks();
        fit(&mut self.backward, records * plan.backward);
        fit(&mut self.transposed, self.heads * plan.transposed);
    }
}

/// Makes room; what was there stays there, so that batches of changing size cost nothing.
pub(super) fn fit(memory: &mut Vec<f32>, len: usize) {
    if memory.len() < len {
        memory.resize(len, 0.0);
    }
}

/// Memory of a forward pass that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(super) memory: Vec<f32>,
    pub(super) outputs: Vec<f32>,
    pub(super) batch_norms: Vec<BatchColumns>,
}
