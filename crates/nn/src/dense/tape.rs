//! Memory of a forward pass, kept between calls so that nothing is allocated in the loop.

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct Tape {
    pub(super) batch: usize,
    /// Whether batch norms used the statistics of the batch.
    pub(super) by_batch: bool,
    pub(super) layers: Vec<LayerTape>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct LayerTape {
    /// What the product took.
    pub(super) input: Vec<f32>,
    /// The batch-normed input before scale and shift; its means and standard deviations.
    pub(super) input_hat: Vec<f32>,
    pub(super) input_mean: Vec<f32>,
    pub(super) input_var: Vec<f32>,
    /// One over the standard deviation times the correction of a renorm, by column.
    pub(super) input_scale: Vec<f32>,
    /// The normed product before scale and shift, and one over the standard deviation by row.
    pub(super) hat: Vec<f32>,
    pub(super) inv_std: Vec<f32>,
    pub(super) output: Vec<f32>,
}

/// Memory of a forward pass that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    pub(super) tape: Tape,
}
