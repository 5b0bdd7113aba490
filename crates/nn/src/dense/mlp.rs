//! A multilayer perceptron over flat slices of parameters.

use std::ops::Range;

use plaudit_core::Seed;

use super::backward::{GradientTask, Gradients};
use super::ensemble::HeadInputs;
use super::init;
use super::layout::{ParameterLayout, Tensor, TensorKind};
use super::memory_plan::MemoryPlan;
use super::spec::MlpSpec;
use super::tape::{Scratch, Tape};
use super::weights::WeightShape;
use crate::kernels::spin_pool::with_spinning_threads;
use crate::kernels::{Isa, Precision};

/// The shape of a network and what it computes. Cheap to clone; holds no parameters.
#[derive(Debug, Clone)]
pub struct Mlp {
    pub(super) spec: MlpSpec,
    pub(super) layout: ParameterLayout,
    pub(super) plan: MemoryPlan,
    pub(super) tasks: Vec<GradientTask>,
    /// Layer and panel of all weights that are packed for their products.
    pub(super) packed_panels: Vec<(usize, usize)>,
    /// Layer and panel of inputs of all weights that the backward pass needs transposed.
    pub(super) transposed_panels: Vec<(usize, usize)>,
    pub(super) isa: Isa,
}

impl Mlp {
    /// A network of this shape.
    ///
    /// # Panics
    /// Without inputs, without layers, or with a layer of no width.
    pub fn new(spec: MlpSpec) -> Self {
        Self::with_isa(spec, Isa::best(Precision::F32))
    }

    /// The same with other instructions than the best, to compare them.
    pub fn with_isa(spec: MlpSpec, isa: Isa) -> Self {
        Self::build(spec, isa, Precision::F32)
    }

    /// The same with the products of its hidden layers in this precision. Parameters, sums and everything else stay in
    /// single precision. Where the CPU has no faster products, nothing changes.
    #[must_use]
    pub fn with_precision(self, precision: Precision) -> Self {
        Self::build(self.spec, self.isa, precision)
    }

    fn build(spec: MlpSpec, isa: Isa, precision: Precision) -> Self {
        let layout =
            ParameterLayout::new(&spec, |inputs, outputs| WeightShape::new(inputs, outputs, isa, precision));
        let plan = MemoryPlan::new(&spec, |index| layout.layers[index].shape);
        let tasks = Self::gradient_tasks(&layout.layers);
        let panels = layout.layers.iter().enumerate().filter(|(_, places)| places.shape.is_half());
        let panels =
            panels.flat_map(|(layer, places)| (0..places.shape.panels()).map(move |panel| (layer, panel)));
        let packed_panels = panels.collect();
        let panels = layout.layers.iter().map(|places| places.shape.input_panels()).enumerate();
        let transposed_panels =
            panels.flat_map(|(layer, panels)| (0..panels).map(move |panel| (layer, panel))).collect();
        Self { packed_panels, transposed_panels, spec, layout, plan, tasks, isa }
    }

    /// The shape it was made from.
    pub fn spec(&self) -> &MlpSpec {
        &self.spec
    }

    /// Numbers per row of the input.
    pub fn inputs(&self) -> usize {
        self.spec.inputs
    }

    /// Numbers per row of the output.
    pub fn outputs(&self) -> usize {
        self.spec.layers[self.spec.layers.len() - 1].width
    }

    /// Length of its parameters, running statistics included.
    #[allow(clippy::len_without_is_empty)] // a network without parameters cannot be made
    pub fn len(&self) -> usize {
        self.layout.len
    }

    /// Length of what is trained: `params[..trainable_len()]`. The rest are running statistics of batch norms.
    pub fn trainable_len(&self) -> usize {
        self.layout.trainable
    }

    /// Every tensor, layer by layer.
    pub fn tensors(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.layout.tensors()
    }

    /// Parameters to begin with. Each tensor has its own stream of random numbers.
    pub fn init(&self, seed: Seed) -> Vec<f32> {
        let mut params = vec![0.0; self.len()];
        for tensor in self.tensors() {
            let spec = &self.spec.layers[tensor.layer];
            let inputs = self.layout.layers[tensor.layer].inputs;
            let seed = seed.purpose("layer").index(tensor.layer as u64);
            let values = match tensor.kind {
                TensorKind::Weight => init::weights(&spec.init, spec.width, inputs, seed.purpose("weight")),
                TensorKind::Bias => init::bias(spec.bias, spec.width, inputs, seed.purpose("bias")),
                TensorKind::NormWeight | TensorKind::InputNormWeight | TensorKind::RunningVar => {
                    vec![1.0; tensor.range.len()]
                }
                TensorKind::NormBias | TensorKind::InputNormBias | TensorKind::RunningMean => {
                    vec![0.0; tensor.range.len()]
                }
            };
            self.import(&mut params, &tensor, &values);
        }
        params
    }

    /// Sets the outputs from `first` on to constants, whatever the inputs. The last layer must be linear, with a bias.
    pub fn set_constant_outputs(&self, params: &mut [f32], first: usize, held: &[f32]) {
        let last = self.spec.layers.len() - 1;
        for tensor in self.tensors().filter(|tensor| tensor.layer == last) {
            let mut values = self.export(params, &tensor);
            let each = values.len() / self.outputs();
            let rows = &mut values[first * each..(first + held.len()) * each];
            match tensor.kind {
                TensorKind::Bias => rows.copy_from_slice(held),
                _ => rows.fill(0.0),
            }
            self.import(params, &tensor, &values);
        }
    }

    /// One tensor as PyTorch keeps it, row by row.
    pub fn export(&self, params: &[f32], tensor: &Tensor) -> Vec<f32> {
        let values = &params[tensor.range.clone()];
        match tensor.kind {
            TensorKind::Weight => self.layout.layers[tensor.layer].shape.export(values),
            _ => values.to_vec(),
        }
    }

    /// Puts one tensor, as PyTorch keeps it, into the parameters.
    ///
    /// # Panics
    /// If `values` has another length than the tensor.
    pub fn import(&self, params: &mut [f32], tensor: &Tensor, values: &[f32]) {
        let into = &mut params[tensor.range.clone()];
        match tensor.kind {
            TensorKind::Weight => self.layout.layers[tensor.layer].shape.import(values, into),
            _ => into.copy_from_slice(values),
        }
    }

    /// Outputs `[batch, outputs]` for `inputs` `[batch, inputs]`, with what [`Self::backward`] needs left on the tape.
    /// Batch norms use the statistics of the batch.
    pub fn forward<'t>(&self, params: &[f32], inputs: &[f32], batch: usize, tape: &'t mut Tape) -> &'t [f32] {
        self.forward_heads(params, 1, HeadInputs::Shared(inputs), batch, true, tape);
        &tape.outputs[..batch * self.outputs()]
    }

    /// As [`Self::forward`], but batch norms use their running statistics.
    pub fn forward_eval<'t>(
        &self,
        params: &[f32],
        inputs: &[f32],
        batch: usize,
        tape: &'t mut Tape,
    ) -> &'t [f32] {
        self.forward_heads(params, 1, HeadInputs::Shared(inputs), batch, false, tape);
        &tape.outputs[..batch * self.outputs()]
    }

    /// Outputs alone; batch norms use their running statistics.
    pub fn infer<'s>(
        &self,
        params: &[f32],
        inputs: &[f32],
        batch: usize,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        assert_eq!(params.len(), self.len(), "parameters of another network");
        self.infer_heads(params, &[0], inputs, batch, scratch)
    }

    /// Adds the gradients of the parameters to `grads`, given those of the outputs of the last forward pass on this
    /// tape. Writes those of the inputs where asked.
    pub fn backward(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grads: &mut [f32],
        grad_inputs: Option<&mut [f32]>,
    ) {
        self.backward_heads(params, tape, grad_out, Gradients::Add(grads), grad_inputs);
    }

    /// As [`Self::backward`], but writes the gradients over whatever was in `grads`.
    pub fn backward_overwrite(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grads: &mut [f32],
        grad_inputs: Option<&mut [f32]>,
    ) {
        self.backward_heads(params, tape, grad_out, Gradients::Write(grads), grad_inputs);
    }

    /// As [`Self::backward`], for parameters that are the same as in the last backward pass on this tape: what was made of
    /// them then is used again.
    pub fn backward_same_params(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grads: &mut [f32],
        grad_inputs: Option<&mut [f32]>,
    ) {
        with_spinning_threads(|| {
            self.backward_transposed(params, tape, grad_out, Gradients::Add(grads), grad_inputs);
        });
    }

    /// Rows of the micro-batch that a forward and a backward pass are quickest for: what they leave behind stays in the
    /// cache. Gradients of such micro-batches, added one after the other, are bit-exact with those of the batch.
    pub fn micro_batch_rows(&self) -> usize {
        self.plan.rows_in_cache(rayon::current_num_threads())
    }

    /// Forward and backward over a batch of any size, in pieces that stay in the cache: faster than the two calls where
    /// a batch is large. `grad_out(rows, outputs, into)` writes the gradients of the outputs of some rows.
    ///
    /// The gradients of the parameters are added to `grads`, piece after piece. Batch norms would see the pieces as
    /// batches of their own.
    ///
    /// # Panics
    /// For a network with batch norms.
    pub fn forward_backward(
        &self,
        params: &[f32],
        inputs: &[f32],
        tape: &mut Tape,
        grads: &mut [f32],
        mut grad_out: impl FnMut(Range<usize>, &[f32], &mut [f32]),
    ) {
        assert!(self.trainable_len() == self.len(), "a batch with batch norm cannot be cut");
        let rows = self.micro_batch_rows();
        with_spinning_threads(|| {
            for (piece, inputs) in inputs.chunks(rows * self.inputs()).enumerate() {
                let batch = inputs.len() / self.inputs();
                self.forward_heads(params, 1, HeadInputs::Shared(inputs), batch, true, tape);
                let len = batch * self.outputs();
                let mut gradient = std::mem::take(&mut tape.grad_out);
                gradient.fit(len);
                let place = piece * rows..piece * rows + batch;
                grad_out(place, &tape.outputs[..len], &mut gradient[..len]);
                if piece == 0 {
                    self.transpose_weights(params, tape);
                }
                self.backward_transposed(params, tape, &gradient[..len], Gradients::Add(grads), None);
                tape.grad_out = gradient;
            }
        });
    }

    /// Writes the gradients of the inputs, and computes no others: a critic's gradient by its action.
    pub fn backward_inputs(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grad_inputs: &mut [f32],
    ) {
        self.backward_heads(params, tape, grad_out, Gradients::None, Some(grad_inputs));
    }

    /// Moves the running statistics of batch norms towards those of the last forward pass on this tape.
    pub fn update_statistics(&self, params: &mut [f32], tape: &Tape) {
        self.update_heads_statistics(params, tape);
    }

    pub(super) fn update_heads_statistics(&self, params: &mut [f32], tape: &Tape) {
        assert!(tape.batch_stats, "the pass used running statistics: there are none of a batch");
        let heads =
            params.chunks_exact_mut(self.len()).zip(tape.batch_norms.chunks(self.layout.layers.len()));
        for (params, norms) in heads {
            for ((spec, places), norm) in self.spec.layers.iter().zip(&self.layout.layers).zip(norms) {
                let (Some(spec), Some(places)) = (spec.input_norm, &places.input_norm) else { continue };
                for (place, new) in [(&places.mean, &norm.mean), (&places.var, &norm.var)] {
                    let running = params[place.clone()].iter_mut().zip(new);
                    running.for_each(|(r, n)| *r += spec.momentum * (n - *r));
                }
            }
        }
    }
}
