//! Several networks of one shape on the same batch: the heads of a critic.

use plaudit_core::Seed;

use super::backward::Gradients;
use super::mlp::Mlp;
use super::tape::{Scratch, Tape};

/// So many networks of one shape. Their parameters lie one after the other.
#[derive(Debug, Clone)]
pub struct Ensemble {
    head: Mlp,
    heads: usize,
}

/// What the heads are given.
#[derive(Debug, Clone, Copy)]
pub enum HeadInputs<'a> {
    /// One batch `[batch, inputs]` for all of them.
    Shared(&'a [f32]),
    /// A batch for each: `[heads, batch, inputs]`.
    PerHead(&'a [f32]),
}

/// What a forward pass of all heads leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub struct EnsembleTape(Tape);

/// Memory of a forward pass of some heads that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct EnsembleScratch(Scratch);

impl Ensemble {
    /// `heads` networks of the shape of `head`.
    pub fn new(head: Mlp, heads: usize) -> Self {
        assert!(heads > 0, "an ensemble needs a head");
        Self { head, heads }
    }

    /// The shape of one head.
    pub fn head(&self) -> &Mlp {
        &self.head
    }

    /// How many heads there are.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Length of the parameters of all heads.
    #[allow(clippy::len_without_is_empty)] // an ensemble without parameters cannot be made
    pub fn len(&self) -> usize {
        self.heads * self.head.len()
    }

    /// Where the parameters of one head lie.
    pub fn range(&self, head: usize) -> std::ops::Range<usize> {
        assert!(head < self.heads, "there are {} heads", self.heads);
        head * self.head.len()..(head + 1) * self.head.len()
    }

    /// Parameters to begin with, other ones for each head.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        (0..self.heads).flat_map(|head| self.head.init(seed.purpose("head").index(head as u64))).collect()
    }

    /// Outputs `[heads, batch, outputs]`. Batch norms use the statistics of the batch.
    pub fn forward<'t>(
        &self,
        params: &[f32],
        inputs: HeadInputs,
        batch: usize,
        tape: &'t mut EnsembleTape,
    ) -> &'t [f32] {
        self.run(params, inputs, batch, true, tape)
    }

    /// As [`Self::forward`], but batch norms use their running statistics.
    pub fn forward_eval<'t>(
        &self,
        params: &[f32],
        inputs: HeadInputs,
        batch: usize,
        tape: &'t mut EnsembleTape,
    ) -> &'t [f32] {
        self.run(params, inputs, batch, false, tape)
    }

    /// Outputs `[chosen, batch, outputs]` of the chosen heads alone, for one shared batch.
    pub fn infer<'s>(
        &self,
        params: &[f32],
        chosen: &[usize],
        inputs: &[f32],
        batch: usize,
        scratch: &'s mut EnsembleScratch,
    ) -> &'s [f32] {
        assert_eq!(params.len(), self.len(), "parameters of another ensemble");
        self.head.infer_heads(params, chosen, inputs, batch, &mut scratch.0)
    }

    /// Adds the gradients of all heads to `grads`. Where asked, writes those of the inputs: their sum over the heads
    /// for a shared batch, `[heads, batch, inputs]` for batches of their own.
    pub fn backward(
        &self,
        params: &[f32],
        tape: &mut EnsembleTape,
        grad_out: &[f32],
        grads: &mut [f32],
        grad_inputs: Option<&mut [f32]>,
    ) {
        self.head.backward_heads(params, &mut tape.0, grad_out, Gradients::Add(grads), grad_inputs);
    }

    /// As [`Self::backward`], but writes the gradients over whatever was in `grads`.
    pub fn backward_overwrite(
        &self,
        params: &[f32],
        tape: &mut EnsembleTape,
        grad_out: &[f32],
        grads: &mut [f32],
        grad_inputs: Option<&mut [f32]>,
    ) {
        self.head.backward_heads(params, &mut tape.0, grad_out, Gradients::Write(grads), grad_inputs);
    }

    /// Writes the gradients of the inputs, and computes no others; rows whose outputs have gradients of zero cost
    /// nothing.
    pub fn backward_inputs(
        &self,
        params: &[f32],
        tape: &mut EnsembleTape,
        grad_out: &[f32],
        grad_inputs: &mut [f32],
    ) {
        self.head.backward_heads(params, &mut tape.0, grad_out, Gradients::None, Some(grad_inputs));
    }

    /// Moves the running statistics of every head towards those of the last forward pass.
    pub fn update_statistics(&self, params: &mut [f32], tape: &EnsembleTape) {
        self.head.update_heads_statistics(params, &tape.0);
    }

    fn run<'t>(
        &self,
        params: &[f32],
        inputs: HeadInputs,
        batch: usize,
        batch_stats: bool,
        tape: &'t mut EnsembleTape,
    ) -> &'t [f32] {
        self.head.forward_heads(params, self.heads, inputs, batch, batch_stats, &mut tape.0);
        &tape.0.outputs[..self.heads * batch * self.head.outputs()]
    }
}
