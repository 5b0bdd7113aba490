//! From inputs to outputs: blocks of rows side by side, each through all layers.

use std::ops::Range;

use rayon::prelude::*;

use super::ensemble::HeadInputs;
use super::layout::LayerPlaces;
use super::mlp::Mlp;
use super::plan::{BLOCK, parts, stride};
use super::rows::{self, Affine, Columns, Rows};
use super::spec::{BatchNorm, Norm};
use super::tape::{BatchColumns, Scratch, Tape};

impl Mlp {
    /// Runs all heads on a batch and leaves everything on the tape.
    pub(super) fn forward_heads(
        &self,
        params: &[f32],
        heads: usize,
        inputs: HeadInputs,
        batch: usize,
        by_batch: bool,
        tape: &mut Tape,
    ) {
        assert_eq!(params.len(), heads * self.len(), "parameters of another network");
        let shared = matches!(inputs, HeadInputs::Shared(_));
        let (HeadInputs::Shared(inputs) | HeadInputs::PerHead(inputs)) = inputs;
        let input_heads = if shared { 1 } else { heads };
        assert_eq!(inputs.len(), input_heads * batch * self.inputs(), "inputs must be [batch, inputs]");
        (tape.batch, tape.heads, tape.shared, tape.by_batch) = (batch, heads, shared, by_batch);
        tape.fit_forward(&self.plan, self.inputs(), self.outputs());
        tape.inputs[..inputs.len()].copy_from_slice(inputs);
        for layers in self.segments() {
            if self.spec.layers[layers.start].input_norm.is_some() {
                self.batch_statistics(params, layers.start, tape);
            }
            self.forward_blocks(params, layers, tape);
        }
    }

    /// The layers between batch norms: rows depend on each other only there.
    pub(super) fn segments(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + '_ {
        let count = self.spec.layers.len();
        let starts = move |layer: &usize| *layer == 0 || self.spec.layers[*layer].input_norm.is_some();
        (0..count).filter(starts).map(move |start| {
            let end = (start + 1..count).find(starts).unwrap_or(count);
            start..end
        })
    }

    /// Blocks and heads are shared out only where that is worth waking a thread.
    pub(super) fn fewest_blocks(&self, heads: usize, batch: usize) -> usize {
        const WORTH_A_THREAD: usize = 500_000; // products: some ten microseconds
        if heads * batch * self.layout.products < WORTH_A_THREAD { usize::MAX } else { 1 }
    }

    fn forward_blocks(&self, params: &[f32], layers: Range<usize>, tape: &mut Tape) {
        let (heads, batch, blocks) = (tape.heads, tape.batch, tape.blocks());
        let fewest = self.fewest_blocks(heads, batch);
        let input_step = if tape.shared { 0 } else { batch * self.inputs() };
        let Tape { inputs, outputs, forward, batch_norms, .. } = tape;
        let records =
            forward[..heads * blocks * self.plan.forward].par_chunks_mut(blocks * self.plan.forward);
        let outputs = outputs[..heads * batch * self.outputs()].par_chunks_mut(batch * self.outputs());
        records.zip(outputs).with_min_len(fewest).enumerate().for_each(|(head, (records, outputs))| {
            let params = &params[head * self.len()..][..self.len()];
            let inputs = &inputs[head * input_step..][..batch * self.inputs()];
            let norms = &batch_norms[head * self.plan.layers.len()..][..self.plan.layers.len()];
            let records = records.par_chunks_mut(self.plan.forward);
            let outputs = outputs.par_chunks_mut(BLOCK * self.outputs());
            let inputs = inputs.par_chunks(BLOCK * self.inputs());
            let blocks = records.zip(outputs).zip(inputs);
            blocks.with_min_len(fewest).for_each(|((record, outputs), inputs)| {
                self.forward_block(params, layers.clone(), norms, inputs, record, outputs);
            });
        });
    }

    fn forward_block(
        &self,
        params: &[f32],
        layers: Range<usize>,
        norms: &[BatchColumns],
        inputs: &[f32],
        record: &mut [f32],
        outputs: &mut [f32],
    ) {
        let rows = inputs.len() / self.inputs();
        for index in layers {
            let plan = &self.plan.layers[index];
            let before = if index == 0 { 0..0 } else { self.plan.layers[index - 1].output.clone() };
            if !plan.normed_input.is_empty() {
                let [before, normed, hat] =
                    parts(record, [before.clone(), plan.normed_input.clone(), plan.input_hat.clone()]);
                let before = if index == 0 { inputs } else { before };
                self.normalise_input(params, index, &norms[index], before, rows, normed, hat);
            }
            let input = if plan.normed_input.is_empty() { before } else { plan.normed_input.clone() };
            let from_outside = input.is_empty();
            let [input, output, hat, inv_std] =
                parts(record, [input, plan.output.clone(), plan.hat.clone(), plan.inv_std.clone()]);
            let input = if from_outside { inputs } else { input };
            let output = if plan.output.is_empty() { &mut *outputs } else { output };
            let rows = Rows { count: rows, width: self.spec.layers[index].width, stride: plan.stride };
            self.layer(params, index, input, plan.input_stride, output, rows, hat, inv_std);
        }
    }

    /// Product, norm and activation of one layer for a block.
    #[allow(clippy::too_many_arguments)]
    fn layer(
        &self,
        params: &[f32],
        index: usize,
        input: &[f32],
        input_stride: usize,
        output: &mut [f32],
        rows: Rows,
        hat: &mut [f32],
        inv_std: &mut [f32],
    ) {
        let (spec, places) = (&self.spec.layers[index], &self.layout.layers[index]);
        let bias = places.bias.as_ref().map_or(&[][..], |place| &params[place.clone()]);
        let activation = match spec.norm {
            Norm::None => spec.activation,
            Norm::Layer => super::Activation::None,
        };
        let finish = |output: &mut [f32], column: usize, width: usize| {
            let bias = bias.get(column..column + width).unwrap_or_default();
            rows::bias_activate(self.isa, output, Rows { width, ..rows }, bias, activation);
        };
        let weights = &params[places.weight.clone()];
        places.shape().product(
            self.isa,
            weights,
            input,
            input_stride,
            rows.count,
            output,
            rows.stride,
            finish,
        );
        if let Some([weight, bias]) = &places.norm {
            let affine = Affine { weight: &params[weight.clone()], bias: &params[bias.clone()] };
            rows::layer_norm(self.isa, output, rows, affine, spec.activation, hat, inv_std);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn normalise_input(
        &self,
        params: &[f32],
        index: usize,
        norm: &BatchColumns,
        inputs: &[f32],
        rows: usize,
        normed: &mut [f32],
        hat: &mut [f32],
    ) {
        let Some(places) = &self.layout.layers[index].input_norm else { return };
        let width = self.layout.layers[index].inputs;
        let rows = Rows { count: rows, width, stride: self.stride_before(index) };
        let columns = Columns { center: &norm.center, scale: &norm.scale, shift: &norm.shift };
        let affine = Affine { weight: &params[places.weight.clone()], bias: &params[places.bias.clone()] };
        rows::batch_norm(self.isa, inputs, rows, columns, affine, hat, normed, stride(width));
    }

    /// Row stride of what comes into a layer, before any norm of it.
    fn stride_before(&self, index: usize) -> usize {
        if index == 0 { self.inputs() } else { self.plan.layers[index - 1].stride }
    }

    /// Finds the columns of the batch norm in front of a layer, from the batch or from what has been running.
    fn batch_statistics(&self, params: &[f32], index: usize, tape: &mut Tape) {
        let layers = self.plan.layers.len();
        let mut norms = std::mem::take(&mut tape.batch_norms);
        norms[..tape.heads * layers].par_chunks_mut(layers).enumerate().for_each(|(head, norms)| {
            let (norm, places) = (&mut norms[index], &self.layout.layers[index]);
            norm.fit(places.inputs);
            if tape.by_batch {
                self.measure(tape, head, index, norm);
            }
            if let Some(spec) = self.spec.layers[index].input_norm {
                set_columns(&params[head * self.len()..][..self.len()], places, spec, tape.by_batch, norm);
            }
        });
        tape.batch_norms = norms;
    }

    /// Mean and variance of each column, block after block.
    fn measure(&self, tape: &Tape, head: usize, index: usize, norm: &mut BatchColumns) {
        let width = self.layout.layers[index].inputs;
        let share = 1.0 / tape.batch as f32;
        let BatchColumns { mean, var, center: sums, .. } = norm;
        mean.fill(0.0);
        for block in 0..tape.blocks() {
            let rows = Rows { count: tape.rows(block), width, stride: self.stride_before(index) };
            rows::column_sums(self.isa, self.before(tape, head, index, block), rows, sums);
            mean.iter_mut().zip(&*sums).for_each(|(m, s)| *m += s * share);
        }
        var.fill(0.0);
        for block in 0..tape.blocks() {
            let rows = Rows { count: tape.rows(block), width, stride: self.stride_before(index) };
            rows::column_squares(self.isa, self.before(tape, head, index, block), rows, mean, sums);
            var.iter_mut().zip(&*sums).for_each(|(v, s)| *v += s * share);
        }
    }

    /// What comes into a layer for one block, before any norm of it.
    fn before<'t>(&self, tape: &'t Tape, head: usize, index: usize, block: usize) -> &'t [f32] {
        if index == 0 {
            let head = if tape.shared { 0 } else { head };
            &tape.inputs[(head * tape.batch + block * BLOCK) * self.inputs()..]
        } else {
            let record = (head * tape.blocks() + block) * self.plan.forward;
            &tape.forward[record..][self.plan.layers[index - 1].output.clone()]
        }
    }

    /// Runs the chosen heads on one batch and keeps only the outputs `[chosen, batch, outputs]`.
    pub(super) fn infer_heads<'s>(
        &self,
        params: &[f32],
        chosen: &[usize],
        inputs: &[f32],
        batch: usize,
        scratch: &'s mut Scratch,
    ) -> &'s [f32] {
        assert_eq!(inputs.len(), batch * self.inputs(), "inputs must be [batch, inputs]");
        let fewest = self.fewest_blocks(chosen.len(), batch);
        let tasks = if fewest == 1 { rayon::current_num_threads().div_ceil(chosen.len()) } else { 1 };
        let rows = batch.div_ceil(tasks).next_multiple_of(16).min(batch).max(1);
        let tasks = batch.div_ceil(rows);
        let each = self.infer_memory();
        scratch.memory.fit(chosen.len() * tasks * each);
        scratch.outputs.fit(chosen.len() * batch * self.outputs());
        self.running_columns(params, chosen, &mut scratch.batch_norms);
        let (layers, norms) = (self.plan.layers.len(), &scratch.batch_norms);
        let outputs = &mut scratch.outputs[..chosen.len() * batch * self.outputs()];
        let memory = &mut scratch.memory[..chosen.len() * tasks * each];
        let heads = outputs.par_chunks_mut(batch * self.outputs()).zip(memory.par_chunks_mut(tasks * each));
        heads.enumerate().with_min_len(fewest).for_each(|(place, (outputs, memory))| {
            let params = &params[chosen[place] * self.len()..][..self.len()];
            let norms = &norms[place * layers..][..layers];
            let outputs = outputs.par_chunks_mut(rows * self.outputs());
            let tasks = outputs.zip(memory.par_chunks_mut(each)).zip(inputs.par_chunks(rows * self.inputs()));
            tasks.with_min_len(fewest).for_each(|((outputs, memory), inputs)| {
                let blocks =
                    outputs.chunks_mut(BLOCK * self.outputs()).zip(inputs.chunks(BLOCK * self.inputs()));
                blocks.for_each(|(outputs, inputs)| self.infer_block(params, norms, inputs, memory, outputs));
            });
        });
        outputs
    }

    /// Two layers' outputs, and a normed input.
    fn infer_memory(&self) -> usize {
        3 * self.infer_part()
    }

    fn infer_part(&self) -> usize {
        let widths = self.layout.layers.iter().map(|layer| layer.width.max(layer.inputs));
        BLOCK * stride(widths.max().unwrap_or_default())
    }

    /// The columns of all batch norms of the chosen heads, by their running statistics.
    fn running_columns(&self, params: &[f32], chosen: &[usize], norms: &mut Vec<BatchColumns>) {
        norms.resize_with(chosen.len() * self.plan.layers.len(), BatchColumns::default);
        for (norms, head) in norms.chunks_exact_mut(self.plan.layers.len()).zip(chosen) {
            let params = &params[head * self.len()..][..self.len()];
            for ((norm, spec), places) in norms.iter_mut().zip(&self.spec.layers).zip(&self.layout.layers) {
                if let Some(spec) = spec.input_norm {
                    norm.fit(places.inputs);
                    set_columns(params, places, spec, false, norm);
                }
            }
        }
    }

    fn infer_block(
        &self,
        params: &[f32],
        norms: &[BatchColumns],
        inputs: &[f32],
        memory: &mut [f32],
        outputs: &mut [f32],
    ) {
        let rows = inputs.len() / self.inputs();
        let (mut even, rest) = memory.split_at_mut(self.infer_part());
        let (mut odd, normed) = rest.split_at_mut(self.infer_part());
        for (index, spec) in self.spec.layers.iter().enumerate() {
            let plan = &self.plan.layers[index];
            let mut input = if index == 0 { inputs } else { &*even };
            if spec.input_norm.is_some() {
                self.normalise_input(params, index, &norms[index], input, rows, normed, &mut []);
                input = normed;
            }
            let output = if plan.output.is_empty() { &mut *outputs } else { &mut *odd };
            let rows = Rows { count: rows, width: spec.width, stride: plan.stride };
            self.layer(params, index, input, plan.input_stride, output, rows, &mut [], &mut []);
            std::mem::swap(&mut even, &mut odd);
        }
    }
}

/// How each column is to be normalised, given the statistics of the batch where those count.
fn set_columns(
    params: &[f32],
    places: &LayerPlaces,
    spec: BatchNorm,
    by_batch: bool,
    norm: &mut BatchColumns,
) {
    let Some(places) = &places.input_norm else { return };
    let (running_mean, running_var) = (&params[places.mean.clone()], &params[places.var.clone()]);
    for j in 0..running_mean.len() {
        let running_std = (running_var[j] + spec.eps).sqrt();
        if !by_batch {
            (norm.center[j], norm.scale[j], norm.shift[j]) = (running_mean[j], 1.0 / running_std, 0.0);
            continue;
        }
        let std = (norm.var[j] + spec.eps).sqrt();
        norm.center[j] = norm.mean[j];
        (norm.scale[j], norm.shift[j]) = match spec.renorm {
            None => (1.0 / std, 0.0),
            Some(limit) => {
                let r = (std / running_std).clamp(1.0 / limit.r_max, limit.r_max);
                let d = ((norm.mean[j] - running_mean[j]) / running_std).clamp(-limit.d_max, limit.d_max);
                (r / std, d)
            }
        };
    }
}
