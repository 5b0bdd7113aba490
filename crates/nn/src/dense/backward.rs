//! From gradients of outputs to those of parameters and inputs.
//!
//! First blocks of rows go back through the layers side by side, and leave the gradient of each product in their
//! records. Then the gradients of the weights are summed over the blocks, panels of weights side by side. Every sum
//! is taken in the order of the blocks, so that the threads that happen to work on it make no difference.

use std::ops::Range;

use rayon::prelude::*;

use super::mlp::Mlp;
use super::plan::{BLOCK, LayerPlan, parts};
use super::rows::{self, ColumnsBack, Rows};
use super::tape::{BatchColumns, Tape};
use super::weights::Blocks;

/// Panels of weights that one task sums: few enough for all threads to have some, enough to share what they read.
const TASK_PANELS: usize = 2;

/// Blocks summed in registers before the sum is added to memory.
const BLOCKS_AT_ONCE: usize = 2;

/// A part of the gradients of one head.
#[derive(Debug, Clone)]
pub(super) struct GradientTask {
    layer: usize,
    part: Part,
    /// Its place in the parameters.
    place: Range<usize>,
}

#[derive(Debug, Clone)]
enum Part {
    Panels(Range<usize>),
    /// Bias and layer norm, whose sums the blocks have left.
    Sums,
}

impl Mlp {
    /// All parts of the gradients of one head, in the order of the parameters.
    pub(super) fn gradient_tasks(layers: &[super::layout::LayerPlaces]) -> Vec<GradientTask> {
        let mut tasks = Vec::new();
        for (layer, places) in layers.iter().enumerate() {
            let shape = places.shape();
            for first in (0..shape.panels()).step_by(TASK_PANELS) {
                let panels = first..(first + TASK_PANELS).min(shape.panels());
                let range = shape.panel_range(panels.clone());
                let place = places.weight.start + range.start..places.weight.start + range.end;
                tasks.push(GradientTask { layer, part: Part::Panels(panels), place });
            }
            tasks.push(GradientTask { layer, part: Part::Sums, place: places.after_weight() });
        }
        tasks
    }

    /// The way back of all heads. Gradients of parameters are added, those of inputs written.
    pub(super) fn backward_heads(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        mut grads: Option<&mut [f32]>,
        grad_inputs: Option<&mut [f32]>,
    ) {
        let expected = tape.heads * tape.batch * self.outputs();
        assert_eq!(grad_out.len(), expected, "gradients must be [batch, outputs] of the last forward pass");
        assert_eq!(params.len(), tape.heads * self.len(), "parameters of another network");
        if let Some(grads) = &grads {
            assert_eq!(grads.len(), params.len(), "gradients of another network");
        }
        tape.fit_backward(&self.plan);
        self.transpose_weights(params, tape);
        for layers in self.segments().rev() {
            let (first, normed) = (layers.start, self.spec.layers[layers.start].input_norm.is_some());
            let wants_input = first > 0 || normed || grad_inputs.is_some();
            self.backward_blocks(params, layers, grad_out, wants_input, tape);
            if normed {
                self.gradient_statistics(params, first, tape, grads.as_deref_mut());
            }
        }
        if let Some(grads) = grads {
            self.sum_gradients(tape, grads);
        }
        if let Some(grad_inputs) = grad_inputs {
            self.write_input_gradients(tape, grad_inputs);
        }
    }

    fn transpose_weights(&self, params: &[f32], tape: &mut Tape) {
        let each = self.plan.transposed;
        if each == 0 {
            return;
        }
        let fewest = self.fewest_blocks(tape.heads, tape.batch);
        let heads = tape.transposed[..tape.heads * each].par_chunks_mut(each);
        heads.with_min_len(fewest).zip(params.par_chunks(self.len())).for_each(|(into, params)| {
            for (plan, places) in self.plan.layers.iter().zip(&self.layout.layers) {
                let into = &mut into[plan.transposed.clone()];
                places.shape().transposed(self.isa, &params[places.weight.clone()], into);
            }
        });
    }

    fn backward_blocks(
        &self,
        params: &[f32],
        layers: Range<usize>,
        grad_out: &[f32],
        wants_input: bool,
        tape: &mut Tape,
    ) {
        let mut backward = std::mem::take(&mut tape.backward);
        let (heads, batch, blocks) = (tape.heads, tape.batch, tape.blocks());
        let fewest = self.fewest_blocks(heads, batch);
        let each = self.plan.backward;
        let records = backward[..heads * blocks * each].par_chunks_mut(blocks * each);
        records.with_min_len(fewest).enumerate().for_each(|(head, records)| {
            records.par_chunks_mut(each).with_min_len(fewest).enumerate().for_each(|(block, record)| {
                let place = BlockPlace { head, block };
                self.backward_block(params, layers.clone(), grad_out, wants_input, tape, place, record);
            });
        });
        tape.backward = backward;
    }

    #[allow(clippy::too_many_arguments)]
    fn backward_block(
        &self,
        params: &[f32],
        layers: Range<usize>,
        grad_out: &[f32],
        wants_input: bool,
        tape: &Tape,
        place: BlockPlace,
        record: &mut [f32],
    ) {
        let params = &params[place.head * self.len()..][..self.len()];
        let count = tape.rows(place.block);
        self.enter(layers.end, grad_out, tape, place, record);
        for index in layers.rev() {
            let plan = &self.plan.layers[index];
            let rows = Rows { count, width: self.spec.layers[index].width, stride: plan.grad_stride };
            self.backward_through_layer(params, index, tape, place, record, rows);
            if index == 0 && !wants_input {
                return;
            }
            let (into, into_stride) = self.input_grad(index);
            let [into, grad] = parts(record, [into, plan.grad.clone()]);
            let places = &self.layout.layers[index];
            let transposed = &tape.transposed[place.head * self.plan.transposed..][plan.transposed.clone()];
            let weights = &params[places.weight.clone()];
            places.shape().product_back(
                self.isa,
                weights,
                transposed,
                grad,
                plan.grad_stride,
                count,
                into,
                into_stride,
            );
        }
    }

    /// Where the gradient of a layer's input is kept, and its row stride.
    fn input_grad(&self, index: usize) -> (Range<usize>, usize) {
        if index == 0 {
            (self.plan.input_grad.clone(), self.inputs())
        } else {
            let LayerPlan { grad, grad_stride, .. } = &self.plan.layers[index - 1];
            (grad.clone(), *grad_stride)
        }
    }

    /// Puts the gradient of the output of a segment of layers in place: from outside, or through a batch norm.
    fn enter(&self, end: usize, grad_out: &[f32], tape: &Tape, place: BlockPlace, record: &mut [f32]) {
        let count = tape.rows(place.block);
        if end < self.spec.layers.len() {
            self.backward_through_norm(end, tape, place, record);
            return;
        }
        let (width, plan) = (self.outputs(), &self.plan.layers[end - 1]);
        let from = &grad_out[(place.head * tape.batch + place.block * BLOCK) * width..][..count * width];
        let into = record[plan.grad.clone()].chunks_mut(plan.grad_stride);
        into.zip(from.chunks(width)).for_each(|(into, from)| into[..width].copy_from_slice(from));
    }

    /// Activation and layer norm; leaves the gradient of the product, and the sums for bias and norm.
    fn backward_through_layer(
        &self,
        params: &[f32],
        index: usize,
        tape: &Tape,
        place: BlockPlace,
        record: &mut [f32],
        rows: Rows,
    ) {
        let (plan, places) = (&self.plan.layers[index], &self.layout.layers[index]);
        let forward = &tape.forward[place.record(tape, self.plan.forward)];
        let outputs = match plan.output.is_empty() {
            true => &tape.outputs[(place.head * tape.batch + place.block * BLOCK) * rows.width..],
            false => &forward[plan.output.clone()],
        };
        let [grad, bias_sums, weight_sums, shift_sums] = parts(
            record,
            [plan.grad.clone(), plan.bias_sums.clone(), plan.norm_sums[0].clone(), plan.norm_sums[1].clone()],
        );
        let activation = self.spec.layers[index].activation;
        rows::activation_back(self.isa, activation, outputs, plan.stride, grad, rows);
        if let Some([weight, _]) = &places.norm {
            let (weight, hat) = (&params[weight.clone()], &forward[plan.hat.clone()]);
            let inv_std = &forward[plan.inv_std.clone()];
            rows::layer_norm_back(
                self.isa,
                grad,
                rows,
                weight,
                hat,
                plan.stride,
                inv_std,
                [weight_sums, shift_sums],
            );
        }
        rows::column_sums(self.isa, grad, rows, bias_sums);
    }

    /// The batch norm in front of a layer, for one block, in place.
    fn backward_through_norm(&self, index: usize, tape: &Tape, place: BlockPlace, record: &mut [f32]) {
        let (plan, width) = (&self.plan.layers[index], self.layout.layers[index].inputs);
        let hat = &tape.forward[place.record(tape, self.plan.forward)][plan.input_hat.clone()];
        let BatchColumns { slope, grad_mean, hat_mean, along, .. } =
            &tape.batch_norms[place.head * self.plan.layers.len() + index];
        let columns = ColumnsBack { slope, mean: grad_mean, center: hat_mean, along };
        let (grad, stride) = self.input_grad(index);
        let rows = Rows { count: tape.rows(place.block), width, stride };
        rows::batch_norm_back(self.isa, &mut record[grad], rows, hat, plan.input_stride, columns);
    }

    /// Sums over the batch that the way back through a batch norm needs, which are the gradients of its scale and
    /// shift.
    fn gradient_statistics(
        &self,
        params: &[f32],
        index: usize,
        tape: &mut Tape,
        mut grads: Option<&mut [f32]>,
    ) {
        let mut norms = std::mem::take(&mut tape.batch_norms);
        for head in 0..tape.heads {
            let norm = &mut norms[head * self.plan.layers.len() + index];
            let range = head * self.len()..(head + 1) * self.len();
            let grads = grads.as_deref_mut().map(|grads| &mut grads[range.clone()]);
            self.head_gradient_statistics(&params[range.clone()], index, tape, head, norm, grads);
        }
        tape.batch_norms = norms;
    }

    fn head_gradient_statistics(
        &self,
        params: &[f32],
        index: usize,
        tape: &Tape,
        head: usize,
        norm: &mut BatchColumns,
        grads: Option<&mut [f32]>,
    ) {
        let (plan, width) = (&self.plan.layers[index], self.layout.layers[index].inputs);
        let (Some(places), Some(spec)) =
            (&self.layout.layers[index].input_norm, self.spec.layers[index].input_norm)
        else {
            return;
        };
        let share = 1.0 / tape.batch as f32;
        let BatchColumns { var, scale, slope: sums, grad_mean, hat_mean, along, .. } = norm;
        for column in [&mut *grad_mean, hat_mean, along] {
            column.fill(0.0);
        }
        let (grad_place, stride) = self.input_grad(index);
        let add =
            |to: &mut Vec<f32>, sums: &[f32]| to.iter_mut().zip(sums).for_each(|(t, s)| *t += s * share);
        for block in 0..tape.blocks() {
            let place = BlockPlace { head, block };
            let hat = &tape.forward[place.record(tape, self.plan.forward)][plan.input_hat.clone()];
            let grad = &tape.backward[place.record(tape, self.plan.backward)][grad_place.clone()];
            let rows = Rows { count: tape.rows(block), width, stride };
            let hat_rows = Rows { stride: plan.input_stride, ..rows };
            rows::column_sums(self.isa, grad, rows, sums);
            add(grad_mean, sums);
            rows::column_sums(self.isa, hat, hat_rows, sums);
            add(hat_mean, sums);
            rows::column_products(self.isa, grad, rows, hat, plan.input_stride, sums);
            add(along, sums);
        }
        if let Some(grads) = grads {
            let batch = tape.batch as f32;
            grads[places.weight.clone()].iter_mut().zip(&*along).for_each(|(g, a)| *g += a * batch);
            grads[places.bias.clone()].iter_mut().zip(&*grad_mean).for_each(|(g, m)| *g += m * batch);
        }
        let weight = &params[places.weight.clone()];
        for j in 0..width {
            sums[j] = scale[j] * weight[j];
            if tape.by_batch {
                // The corrections of a renorm carry no gradient: what counts is the plain normed value,
                // `(hat - hat_mean) / r`, which enters twice.
                let r = scale[j] * (var[j] + spec.eps).sqrt();
                along[j] = (along[j] - hat_mean[j] * grad_mean[j]) / (r * r);
            } else {
                (grad_mean[j], along[j]) = (0.0, 0.0);
            }
        }
    }

    /// Sums the gradients of all heads over the blocks.
    fn sum_gradients(&self, tape: &Tape, grads: &mut [f32]) {
        let fewest = self.fewest_blocks(tape.heads, tape.batch);
        grads.par_chunks_mut(self.len()).with_min_len(fewest).enumerate().for_each(|(head, grads)| {
            self.sum_tasks(tape, head, &self.tasks, grads, 0, fewest == 1);
        });
    }

    /// Halves the tasks until one is left; `grads` starts at `start` of the parameters.
    fn sum_tasks(
        &self,
        tape: &Tape,
        head: usize,
        tasks: &[GradientTask],
        grads: &mut [f32],
        start: usize,
        parallel: bool,
    ) {
        if let [task] = tasks {
            let grads = &mut grads[task.place.start - start..task.place.end - start];
            return self.sum_task(tape, head, task, grads);
        }
        let (left, right) = tasks.split_at(tasks.len() / 2);
        let middle = right[0].place.start;
        let (left_grads, right_grads) = grads.split_at_mut(middle - start);
        let mut left = || self.sum_tasks(tape, head, left, left_grads, start, parallel);
        let mut right = || self.sum_tasks(tape, head, right, right_grads, middle, parallel);
        if parallel {
            rayon::join(left, right);
        } else {
            left();
            right();
        }
    }

    fn sum_task(&self, tape: &Tape, head: usize, task: &GradientTask, grads: &mut [f32]) {
        match &task.part {
            Part::Panels(panels) => self.sum_panels(tape, head, task.layer, panels.clone(), grads),
            Part::Sums => self.sum_sums(tape, head, task, grads),
        }
    }

    fn sum_panels(&self, tape: &Tape, head: usize, layer: usize, panels: Range<usize>, grads: &mut [f32]) {
        let shape = self.layout.layers[layer].shape();
        let mut block = 0;
        while block < tape.blocks() {
            let place = BlockPlace { head, block };
            let rows = tape.rows(block);
            let full = (tape.batch - block * BLOCK) / BLOCK;
            let at_once = full.clamp(1, BLOCKS_AT_ONCE);
            let (x, grad) = (self.products_input(tape, layer, place), self.products_grad(tape, layer, place));
            shape.add_gradients(self.isa, panels.clone(), x, grad, rows, at_once, grads);
            block += at_once;
        }
    }

    /// What the product of a layer took, from one block on.
    fn products_input<'t>(&self, tape: &'t Tape, layer: usize, place: BlockPlace) -> Blocks<'t> {
        let plan = &self.plan.layers[layer];
        if layer == 0 && plan.normed_input.is_empty() {
            let head = if tape.shared { 0 } else { place.head };
            let start = (head * tape.batch + place.block * BLOCK) * self.inputs();
            return Blocks {
                data: &tape.inputs[start..],
                stride: self.inputs(),
                block: BLOCK * self.inputs(),
            };
        }
        let within = match plan.normed_input.is_empty() {
            true => self.plan.layers[layer - 1].output.start,
            false => plan.normed_input.start,
        };
        let start = place.record(tape, self.plan.forward).start + within;
        Blocks { data: &tape.forward[start..], stride: plan.input_stride, block: self.plan.forward }
    }

    /// The gradient of the product of a layer, from one block on.
    fn products_grad<'t>(&self, tape: &'t Tape, layer: usize, place: BlockPlace) -> Blocks<'t> {
        let plan = &self.plan.layers[layer];
        let start = place.record(tape, self.plan.backward).start + plan.grad.start;
        Blocks { data: &tape.backward[start..], stride: plan.grad_stride, block: self.plan.backward }
    }

    fn sum_sums(&self, tape: &Tape, head: usize, task: &GradientTask, grads: &mut [f32]) {
        let (plan, places) = (&self.plan.layers[task.layer], &self.layout.layers[task.layer]);
        let bias = places.bias.clone().zip(Some(plan.bias_sums.clone()));
        let norms = places.norm.clone().map(|places| places.into_iter().zip(plan.norm_sums.clone()));
        for (place, sums) in bias.into_iter().chain(norms.into_iter().flatten()) {
            let grads = &mut grads[place.start - task.place.start..place.end - task.place.start];
            for block in 0..tape.blocks() {
                let record = BlockPlace { head, block }.record(tape, self.plan.backward);
                let sums = &tape.backward[record][sums.clone()];
                grads.iter_mut().zip(sums).for_each(|(g, s)| *g += s);
            }
        }
    }

    /// Gradients of the inputs: of each head, or their sum over the heads where those shared the inputs.
    fn write_input_gradients(&self, tape: &mut Tape, grad_inputs: &mut [f32]) {
        let groups = if tape.shared { 1 } else { tape.heads };
        assert_eq!(
            grad_inputs.len(),
            groups * tape.batch * self.inputs(),
            "gradients must be [batch, inputs]"
        );
        if self.spec.layers[0].input_norm.is_some() {
            let mut backward = std::mem::take(&mut tape.backward);
            for head in 0..tape.heads {
                for block in 0..tape.blocks() {
                    let place = BlockPlace { head, block };
                    let record = &mut backward[place.record(tape, self.plan.backward)];
                    self.backward_through_norm(0, tape, place, record);
                }
            }
            tape.backward = backward;
        }
        for (group, into) in grad_inputs.chunks_exact_mut(tape.batch * self.inputs()).enumerate() {
            let heads = if tape.shared { 0..tape.heads } else { group..group + 1 };
            for (block, into) in into.chunks_mut(BLOCK * self.inputs()).enumerate() {
                for head in heads.clone() {
                    let record = BlockPlace { head, block }.record(tape, self.plan.backward);
                    let from = &tape.backward[record][self.plan.input_grad.clone()];
                    if head == heads.start {
                        into.copy_from_slice(&from[..into.len()]);
                    } else {
                        into.iter_mut().zip(from).for_each(|(i, f)| *i += f);
                    }
                }
            }
        }
    }
}

/// One block of one head.
#[derive(Debug, Clone, Copy)]
struct BlockPlace {
    head: usize,
    block: usize,
}

impl BlockPlace {
    /// Its record, among records of this length.
    fn record(self, tape: &Tape, len: usize) -> Range<usize> {
        let start = (self.head * tape.blocks() + self.block) * len;
        start..start + len
    }
}
