//! From inputs to outputs: blocks of rows side by side, each through all layers.

use std::ops::Range;

use super::ensemble::HeadInputs;
use super::layout::LayerLayout;
use super::memory_plan::{BLOCK, parts, stride};
use super::mlp::Mlp;
use super::spec::{BatchNorm, Norm};
use super::tape::{BatchColumns, Scratch, Tape};
use super::weights::{BiasActivation, Operands, OutputRows};
use crate::kernels::gemm::pack_rows;
use crate::kernels::layer_ops::{self, Affine, BatchNormColumns, LayerNorm, StridedRows};
use crate::kernels::spin_pool::{Parallelism, parallel_for_slice, parallel_for_slices};

/// Added to the variances of layer norms, as PyTorch does.
const LAYER_NORM_EPS: f32 = 1e-5;

/// Parts of a batch that each thread gets, so that one that comes late has less to do.
const TASKS_PER_THREAD: usize = 2;

/// Rows of such a part are a multiple of this.
const ROWS_MULTIPLE: usize = 16;

/// What one head computes with.
#[derive(Clone, Copy)]
struct Head<'a> {
    params: &'a [f32],
    packed: &'a [f32],
    norms: &'a [BatchColumns],
}

/// Which heads run.
#[derive(Clone, Copy)]
enum Heads<'a> {
    All(usize),
    Chosen(&'a [usize]),
}

impl Heads<'_> {
    fn count(self) -> usize {
        match self {
            Self::All(count) => count,
            Self::Chosen(heads) => heads.len(),
        }
    }

    fn at(self, place: usize) -> usize {
        match self {
            Self::All(_) => place,
            Self::Chosen(heads) => heads[place],
        }
    }
}

impl Mlp {
    /// Runs all heads on a batch and leaves everything on the tape.
    pub(super) fn forward_heads(
        &self,
        params: &[f32],
        heads: usize,
        inputs: HeadInputs,
        batch: usize,
        batch_stats: bool,
        tape: &mut Tape,
    ) {
        assert_eq!(params.len(), heads * self.len(), "parameters of another network");
        let shared = matches!(inputs, HeadInputs::Shared(_));
        let (HeadInputs::Shared(inputs) | HeadInputs::PerHead(inputs)) = inputs;
        let input_heads = if shared { 1 } else { heads };
        assert_eq!(inputs.len(), input_heads * batch * self.inputs(), "inputs must be [batch, inputs]");
        (tape.batch, tape.heads, tape.shared, tape.batch_stats) = (batch, heads, shared, batch_stats);
        tape.fit_forward(&self.plan, self.inputs(), self.outputs());
        tape.inputs[..inputs.len()].copy_from_slice(inputs);
        self.pack_weights(params, Heads::All(heads), batch, &mut tape.packed);
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

    /// Whether so many rows are worth more than one thread.
    pub(super) fn parallelism(&self, rows: usize) -> Parallelism {
        const ONE_THREAD: usize = 500_000; // products: some ten microseconds
        if rows * self.layout.products < ONE_THREAD {
            Parallelism::OneThread
        } else {
            Parallelism::AllThreads
        }
    }

    /// Packs the weights of some heads whose products are to be of words.
    fn pack_weights(&self, params: &[f32], heads: Heads<'_>, batch: usize, into: &mut [f32]) {
        let count = self.packed_panels.len();
        let of = |index: usize| {
            let (layer, panel) = self.packed_panels[index % count];
            (layer, panel, self.layout.layers[layer].shape)
        };
        let place = |index: usize| {
            let (layer, panel, shape) = of(index);
            let start = index / count * self.plan.packed + self.plan.layers[layer].packed.start;
            let range = shape.packed_panel(panel);
            start + range.start..start + range.end
        };
        let parallelism = self.parallelism(heads.count() * batch);
        parallel_for_slice(parallelism, into, heads.count() * count, place, |index, into| {
            let (layer, panel, shape) = of(index);
            let params = &params[heads.at(index / count) * self.len()..];
            shape.pack_panel(&params[self.layout.layers[layer].weight.clone()], panel, into);
        });
    }

    fn forward_blocks(&self, params: &[f32], layers: Range<usize>, tape: &mut Tape) {
        let grid = tape.grid();
        let Tape { inputs, outputs, forward, batch_norms, packed, .. } = tape;
        let places = |index: usize| [grid.record(index, self.plan.forward), grid.part(index, self.outputs())];
        let parallelism = self.parallelism(grid.heads * grid.batch);
        parallel_for_slices(
            parallelism,
            [forward, outputs],
            grid.count(),
            places,
            |index, [record, outputs]| {
                let head = grid.head(index);
                let head = Head {
                    params: &params[head * self.len()..][..self.len()],
                    packed: &packed[head * self.plan.packed..],
                    norms: &batch_norms[head * self.plan.layers.len()..][..self.plan.layers.len()],
                };
                let inputs = &inputs[grid.input_part(index, self.inputs())];
                self.forward_block(head, layers.clone(), inputs, record, outputs);
            },
        );
    }

    fn forward_block(
        &self,
        head: Head<'_>,
        layers: Range<usize>,
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
                self.normalise_input(head, index, before, rows, normed, hat);
            }
            let input = if plan.normed_input.is_empty() { before } else { plan.normed_input.clone() };
            let from_outside = input.is_empty();
            let places = [plan.operands.clone(), plan.output.clone(), plan.hat.clone(), plan.inv_std.clone()];
            let [operands, output, hat, inv_std] = places;
            let [input, operands, output, hat, inv_std] =
                parts(record, [input, operands, output, hat, inv_std]);
            let input = if from_outside { inputs } else { input };
            let output = if plan.output.is_empty() { &mut *outputs } else { output };
            let rows = StridedRows { count: rows, width: self.spec.layers[index].width, stride: plan.stride };
            self.layer(head, index, input, operands, output, rows, hat, inv_std);
        }
    }

    /// Product, norm and activation of one layer for a block.
    #[allow(clippy::too_many_arguments)]
    fn layer(
        &self,
        head: Head<'_>,
        index: usize,
        input: &[f32],
        operands: &mut [f32],
        output: &mut [f32],
        rows: StridedRows,
        hat: &mut [f32],
        inv_std: &mut [f32],
    ) {
        let (spec, places, plan) =
            (&self.spec.layers[index], &self.layout.layers[index], &self.plan.layers[index]);
        let (params, shape) = (head.params, places.shape);
        let bias = places.bias.as_ref().map_or(&[][..], |place| &params[place.clone()]);
        let activation = match spec.norm {
            Norm::None => spec.activation,
            Norm::Layer => super::Activation::None,
        };
        let (weights, x) = match shape.is_half() {
            true => {
                let input_rows =
                    StridedRows { count: rows.count, width: places.inputs, stride: plan.input_stride };
                pack_rows(shape.isa, input, input_rows, operands, plan.operand_words);
                (&head.packed[plan.packed.clone()], Operands::new(operands, plan.operand_words))
            }
            false => (&params[places.weight.clone()], Operands::new(input, plan.input_stride)),
        };
        let out = OutputRows { memory: output, rows: rows.count, stride: rows.stride };
        shape.product(weights, x, out, BiasActivation { bias, activation, isa: self.isa });
        if let Some([weight, bias]) = &places.norm {
            let affine = Affine { weight: &params[weight.clone()], bias: &params[bias.clone()] };
            let norm = LayerNorm { eps: LAYER_NORM_EPS, affine, activation: spec.activation };
            layer_ops::layer_norm(self.isa, output, rows, norm, hat, inv_std);
        }
    }

    fn normalise_input(
        &self,
        Head { params, norms, .. }: Head<'_>,
        index: usize,
        inputs: &[f32],
        rows: usize,
        normed: &mut [f32],
        hat: &mut [f32],
    ) {
        let (Some(places), norm) = (&self.layout.layers[index].input_norm, &norms[index]) else { return };
        let width = self.layout.layers[index].inputs;
        let rows = StridedRows { count: rows, width, stride: self.stride_before(index) };
        let columns = BatchNormColumns { center: &norm.center, scale: &norm.scale, shift: &norm.shift };
        let affine = Affine { weight: &params[places.weight.clone()], bias: &params[places.bias.clone()] };
        layer_ops::batch_norm(self.isa, inputs, rows, columns, affine, hat, normed, stride(width));
    }

    /// Row stride of what comes into a layer, before any norm of it.
    fn stride_before(&self, index: usize) -> usize {
        if index == 0 { self.inputs() } else { self.plan.layers[index - 1].stride }
    }

    /// Finds the columns of the batch norm in front of a layer, from the batch or from what has been running.
    fn batch_statistics(&self, params: &[f32], index: usize, tape: &mut Tape) {
        let mut norms = std::mem::take(&mut tape.batch_norms);
        for head in 0..tape.heads {
            let places = &self.layout.layers[index];
            let norm = &mut norms[head * self.plan.layers.len() + index];
            norm.fit(places.inputs);
            if tape.batch_stats {
                self.measure(tape, head, index, norm);
            }
            if let Some(spec) = self.spec.layers[index].input_norm {
                set_columns(&params[head * self.len()..][..self.len()], places, spec, tape.batch_stats, norm);
            }
        }
        tape.batch_norms = norms;
    }

    /// Mean and variance of each column, block after block.
    fn measure(&self, tape: &Tape, head: usize, layer: usize, norm: &mut BatchColumns) {
        let (grid, width) = (tape.grid(), self.layout.layers[layer].inputs);
        let share = 1.0 / tape.batch as f32;
        let blocks = || head * grid.blocks()..(head + 1) * grid.blocks();
        let rows = |block| StridedRows { count: grid.rows(block), width, stride: self.stride_before(layer) };
        let BatchColumns { mean, var, center: sums, .. } = norm;
        mean.fill(0.0);
        for block in blocks() {
            layer_ops::column_sums(self.isa, self.before(tape, layer, block), rows(block), sums);
            mean.iter_mut().zip(&*sums).for_each(|(m, s)| *m += s * share);
        }
        var.fill(0.0);
        for block in blocks() {
            layer_ops::column_squares(self.isa, self.before(tape, layer, block), rows(block), mean, sums);
            var.iter_mut().zip(&*sums).for_each(|(v, s)| *v += s * share);
        }
    }

    /// What comes into a layer for one block, before any norm of it.
    fn before<'t>(&self, tape: &'t Tape, layer: usize, block: usize) -> &'t [f32] {
        let grid = tape.grid();
        if layer == 0 {
            &tape.inputs[grid.input_part(block, self.inputs())]
        } else {
            &tape.forward[grid.record(block, self.plan.forward)][self.plan.layers[layer - 1].output.clone()]
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
        let parallelism = self.parallelism(chosen.len() * batch);
        let tasks = match parallelism {
            Parallelism::OneThread => 1,
            Parallelism::AllThreads => TASKS_PER_THREAD * rayon::current_num_threads().div_ceil(chosen.len()),
        };
        let rows = batch.div_ceil(tasks).next_multiple_of(ROWS_MULTIPLE).min(batch).max(1);
        let (tasks, each) = (batch.div_ceil(rows), self.infer_memory());
        scratch.memory.fit(chosen.len() * tasks * each);
        scratch.outputs.fit(chosen.len() * batch * self.outputs());
        scratch.packed.fit(chosen.len() * self.plan.packed);
        self.pack_weights(params, Heads::Chosen(chosen), batch, &mut scratch.packed);
        self.running_columns(params, chosen, &mut scratch.batch_norms);
        let Scratch { memory, outputs, packed, batch_norms } = scratch;
        let layers = self.plan.layers.len();
        let rows_of = |index: usize| {
            let start = index % tasks * rows;
            start..(start + rows).min(batch)
        };
        let places = |index: usize| {
            let (head, rows) = (index / tasks, rows_of(index));
            let output = |row: usize| (head * batch + row) * self.outputs();
            [index * each..(index + 1) * each, output(rows.start)..output(rows.end)]
        };
        parallel_for_slices(
            parallelism,
            [memory, outputs],
            chosen.len() * tasks,
            places,
            |index, [memory, outputs]| {
                let (head, rows) = (index / tasks, rows_of(index));
                let head = Head {
                    params: &params[chosen[head] * self.len()..][..self.len()],
                    packed: &packed[head * self.plan.packed..],
                    norms: &batch_norms[head * layers..][..layers],
                };
                let inputs = inputs[rows.start * self.inputs()..rows.end * self.inputs()]
                    .chunks(BLOCK * self.inputs());
                for (inputs, outputs) in inputs.zip(outputs.chunks_mut(BLOCK * self.outputs())) {
                    self.infer_block(head, inputs, memory, outputs);
                }
            },
        );
        &scratch.outputs[..chosen.len() * batch * self.outputs()]
    }

    /// Two layers' outputs, a normed input, and a rounded one.
    fn infer_memory(&self) -> usize {
        4 * self.infer_part()
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

    fn infer_block(&self, head: Head<'_>, inputs: &[f32], memory: &mut [f32], outputs: &mut [f32]) {
        let rows = inputs.len() / self.inputs();
        let (mut even, rest) = memory.split_at_mut(self.infer_part());
        let (mut odd, rest) = rest.split_at_mut(self.infer_part());
        let (normed, operands) = rest.split_at_mut(self.infer_part());
        for (index, spec) in self.spec.layers.iter().enumerate() {
            let plan = &self.plan.layers[index];
            let mut input = if index == 0 { inputs } else { &*even };
            if spec.input_norm.is_some() {
                self.normalise_input(head, index, input, rows, normed, &mut []);
                input = normed;
            }
            let output = if plan.output.is_empty() { &mut *outputs } else { &mut *odd };
            let rows = StridedRows { count: rows, width: spec.width, stride: plan.stride };
            self.layer(head, index, input, operands, output, rows, &mut [], &mut []);
            std::mem::swap(&mut even, &mut odd);
        }
    }
}

/// How each column is to be normalised, given the statistics of the batch where those count.
fn set_columns(
    params: &[f32],
    places: &LayerLayout,
    spec: BatchNorm,
    batch_stats: bool,
    norm: &mut BatchColumns,
) {
    let Some(places) = &places.input_norm else { return };
    let (running_mean, running_var) = (&params[places.mean.clone()], &params[places.var.clone()]);
    for j in 0..running_mean.len() {
        let running_std = (running_var[j] + spec.eps).sqrt();
        if !batch_stats {
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
