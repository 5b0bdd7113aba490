//! Several networks of one shape on the same batch: the heads of a critic.

use plaudit_core::Seed;

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
pub struct EnsembleTape {
    heads: Vec<Tape>,
    shared: bool,
    outputs: Vec<f32>,
    grad_inputs: Vec<f32>,
}

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
        self.run(params, inputs, batch, tape, Mlp::forward)
    }

    /// As [`Self::forward`], but batch norms use their running statistics.
    pub fn forward_frozen<'t>(
        &self,
        params: &[f32],
        inputs: HeadInputs,
        batch: usize,
        tape: &'t mut EnsembleTape,
    ) -> &'t [f32] {
        self.run(params, inputs, batch, tape, Mlp::forward_frozen)
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
        scratch.outputs.clear();
        for &head in chosen {
            let outputs = self.head.infer(&params[self.range(head)], inputs, batch, &mut scratch.head);
            scratch.outputs.extend_from_slice(outputs);
        }
        &scratch.outputs
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
        self.go_back(params, tape, grad_out, Some(grads), grad_inputs);
    }

    /// Writes the gradients of the inputs, and computes no others.
    pub fn backward_inputs(
        &self,
        params: &[f32],
        tape: &mut EnsembleTape,
        grad_out: &[f32],
        grad_inputs: &mut [f32],
    ) {
        self.go_back(params, tape, grad_out, None, Some(grad_inputs));
    }

    /// Moves the running statistics of every head towards those of the last forward pass.
    pub fn update_statistics(&self, params: &mut [f32], tape: &EnsembleTape) {
        for (params, tape) in params.chunks_exact_mut(self.head.len()).zip(&tape.heads) {
            self.head.update_statistics(params, tape);
        }
    }

    fn run<'t>(
        &self,
        params: &[f32],
        inputs: HeadInputs,
        batch: usize,
        tape: &'t mut EnsembleTape,
        forward: impl for<'a> Fn(&Mlp, &[f32], &[f32], usize, &'a mut Tape) -> &'a [f32],
    ) -> &'t [f32] {
        let EnsembleTape { heads, shared, outputs, .. } = tape;
        heads.resize_with(self.heads, Tape::default);
        *shared = matches!(inputs, HeadInputs::Shared(_));
        outputs.clear();
        for (head, tape) in heads.iter_mut().enumerate() {
            let inputs = match inputs {
                HeadInputs::Shared(inputs) => inputs,
                HeadInputs::PerHead(inputs) => {
                    &inputs[head * inputs.len() / self.heads..][..inputs.len() / self.heads]
                }
            };
            outputs.extend_from_slice(forward(&self.head, &params[self.range(head)], inputs, batch, tape));
        }
        outputs
    }

    fn go_back(
        &self,
        params: &[f32],
        tape: &mut EnsembleTape,
        grad_out: &[f32],
        mut grads: Option<&mut [f32]>,
        mut grad_inputs: Option<&mut [f32]>,
    ) {
        let EnsembleTape { heads, shared, grad_inputs: own, .. } = tape;
        let each_out = grad_out.len() / self.heads;
        for (head, tape) in heads.iter_mut().enumerate() {
            let (params, grad_out) = (&params[self.range(head)], &grad_out[head * each_out..][..each_out]);
            own.resize(tape.batch * self.head.inputs(), 0.0);
            let wanted = grad_inputs.is_some().then_some(own.as_mut_slice());
            match (grads.as_deref_mut(), wanted) {
                (Some(grads), wanted) => {
                    self.head.backward(params, tape, grad_out, &mut grads[self.range(head)], wanted);
                }
                (None, Some(wanted)) => self.head.backward_inputs(params, tape, grad_out, wanted),
                (None, None) => {}
            }
            match grad_inputs.as_deref_mut() {
                Some(all) if *shared && head > 0 => all.iter_mut().zip(&*own).for_each(|(a, o)| *a += o),
                Some(all) if *shared => all.copy_from_slice(own),
                Some(all) => all[head * own.len()..][..own.len()].copy_from_slice(own),
                None => {}
            }
        }
    }
}

/// Memory of a forward pass of some heads that leaves nothing behind.
#[derive(Debug, Clone, Default)]
pub struct EnsembleScratch {
    head: Scratch,
    outputs: Vec<f32>,
}
