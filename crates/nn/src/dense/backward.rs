//! From gradients of outputs to those of parameters and inputs.
//!
//! First blocks of rows go back through the layers side by side, and leave the gradient of each product in their
//! records. Then the gradients of the weights are summed over groups of blocks, and these sums added up, panels of weights
//! side by side. Every sum is taken in the order of the blocks, so that the threads that happen to work on it make no
//! difference.

use std::ops::Range;

use super::memory_plan::{BLOCK, LayerMemory, parts, stride};
use super::mlp::Mlp;
use super::tape::{BatchColumns, Tape};
use super::weights::{BlockRows, Operands, OutputRows};
use crate::kernels::gemm::GemmEpilogue;
use crate::kernels::gemm::{pack_pairs, pack_rows};
use crate::kernels::layer_ops::{self, BatchNormBackward, SavedNorm, SavedOutputs, StridedRows};
use crate::kernels::spin_pool::{parallel_for_slice, with_spinning_threads};

/// Panels of weights that one task sums: few enough for all threads to have some, enough to share what they read.
const TASK_PANELS: usize = 1;

/// Blocks summed in registers before the sum is added to memory.
const BLOCKS_AT_ONCE: usize = 2;

/// Blocks of a group. The sums of groups are added up, so that each can be another thread's: a constant, because the number
/// of threads must not change the order of sums.
pub(super) const GROUP: usize = 4;

/// Groups whose sums are kept at a time.
const GROUPS_AT_ONCE: usize = 8;

/// What a backward pass is to find.
#[derive(Debug, Clone, Copy)]
struct WantedGradients {
    /// Gradients of what the first layer takes.
    input: bool,
    weights: bool,
}

/// What becomes of the gradients of parameters.
pub(super) enum Gradients<'a> {
    /// They are not found.
    None,
    /// They are written over what was there.
    Write(&'a mut [f32]),
    /// They are added to what is there.
    Add(&'a mut [f32]),
}

/// The rows of a block that gradients go back through: those that do not begin with zeros, one after the other.
struct ActiveRows {
    rows: [usize; BLOCK],
    count: usize,
}

impl ActiveRows {
    /// The first rows of a block.
    fn first(count: usize) -> Self {
        Self { rows: std::array::from_fn(|row| row), count }
    }

    fn rows(&self) -> &[usize] {
        &self.rows[..self.count]
    }
}

/// A part of the gradients of one head.
#[derive(Debug, Clone)]
pub(super) struct GradientTask {
    layer: usize,
    part: GradientPart,
    /// Its place in the parameters.
    place: Range<usize>,
}

#[derive(Debug, Clone)]
enum GradientPart {
    Panels(Range<usize>),
    /// Bias and layer norm, whose sums the blocks have left.
    Sums,
}

impl Mlp {
    /// All parts of the gradients of one head, in the order of the parameters.
    pub(super) fn gradient_tasks(layers: &[super::layout::LayerLayout]) -> Vec<GradientTask> {
        let mut tasks = Vec::new();
        for (layer, places) in layers.iter().enumerate() {
            let shape = places.shape;
            for first in (0..shape.panels()).step_by(TASK_PANELS) {
                let panels = first..(first + TASK_PANELS).min(shape.panels());
                let range = shape.panel_range(panels.clone());
                let place = places.weight.start + range.start..places.weight.start + range.end;
                tasks.push(GradientTask { layer, part: GradientPart::Panels(panels), place });
            }
            tasks.push(GradientTask { layer, part: GradientPart::Sums, place: places.after_weight() });
        }
        tasks
    }

    /// The backward pass of all heads. Gradients of parameters are added, those of inputs written.
    pub(super) fn backward_heads(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        grads: Gradients<'_>,
        grad_inputs: Option<&mut [f32]>,
    ) {
        with_spinning_threads(|| {
            self.transpose_weights(params, tape);
            self.backward_transposed(params, tape, grad_out, grads, grad_inputs);
        });
    }

    /// The same with weights that are transposed already.
    pub(super) fn backward_transposed(
        &self,
        params: &[f32],
        tape: &mut Tape,
        grad_out: &[f32],
        mut grads: Gradients<'_>,
        grad_inputs: Option<&mut [f32]>,
    ) {
        let expected = tape.heads * tape.batch * self.outputs();
        assert_eq!(grad_out.len(), expected, "gradients must be [batch, outputs] of the last forward pass");
        assert_eq!(params.len(), tape.heads * self.len(), "parameters of another network");
        if let Gradients::Write(grads) | Gradients::Add(grads) = &grads {
            assert_eq!(grads.len(), params.len(), "gradients of another network");
        }
        if self.has_batch_norms()
            && let Gradients::Write(written) = grads
        {
            // Its own gradients are added on the way, and statistics have none.
            written.fill(0.0);
            grads = Gradients::Add(written);
        }
        tape.backward.fit(tape.grid().count() * self.plan.backward);
        for layers in self.segments().rev() {
            let (first, normed) = (layers.start, self.spec.layers[layers.start].input_norm.is_some());
            let wants_input = first > 0 || normed || grad_inputs.is_some();
            let wanted = WantedGradients { input: wants_input, weights: !matches!(grads, Gradients::None) };
            self.backward_blocks(params, layers, grad_out, wanted, tape);
            if normed {
                let grads = if let Gradients::Add(grads) = &mut grads { Some(&mut **grads) } else { None };
                self.gradient_statistics(params, first, tape, grads);
            }
        }
        match grads {
            Gradients::None => {}
            Gradients::Write(grads) => self.sum_gradients(tape, GemmEpilogue::Write, grads),
            Gradients::Add(grads) => self.sum_gradients(tape, GemmEpilogue::Add, grads),
        }
        if let Some(grad_inputs) = grad_inputs {
            self.write_input_gradients(tape, grad_inputs);
        }
    }

    fn has_batch_norms(&self) -> bool {
        self.spec.layers.iter().any(|layer| layer.input_norm.is_some())
    }

    /// Panel by panel and head by head.
    pub(super) fn transpose_weights(&self, params: &[f32], tape: &mut Tape) {
        let (count, each) = (self.transposed_panels.len(), self.plan.transposed);
        tape.transposed.fit(tape.heads * each);
        let place = |index: usize| {
            let (layer, panel) = self.transposed_panels[index % count];
            let start = index / count * each + self.plan.layers[layer].transposed.start;
            let range = self.layout.layers[layer].shape.transposed_panel(panel);
            start + range.start..start + range.end
        };
        let parallelism = self.parallelism(tape.heads * tape.batch);
        parallel_for_slice(parallelism, &mut tape.transposed, tape.heads * count, place, |index, into| {
            let (layer, panel) = self.transposed_panels[index % count];
            let places = &self.layout.layers[layer];
            let params = &params[index / count * self.len()..];
            places.shape.transpose_panel(&params[places.weight.clone()], panel, into);
        });
    }

    fn backward_blocks(
        &self,
        params: &[f32],
        layers: Range<usize>,
        grad_out: &[f32],
        wanted: WantedGradients,
        tape: &mut Tape,
    ) {
        let mut backward = std::mem::take(&mut tape.backward);
        let (grid, each) = (tape.grid(), self.plan.backward);
        let parallelism = self.parallelism(grid.heads * grid.batch);
        parallel_for_slice(
            parallelism,
            &mut backward,
            grid.count(),
            |index| grid.record(index, each),
            |index, record| {
                self.backward_block(params, layers.clone(), grad_out, wanted, tape, index, record);
            },
        );
        tape.backward = backward;
    }

    #[allow(clippy::too_many_arguments)]
    fn backward_block(
        &self,
        params: &[f32],
        layers: Range<usize>,
        grad_out: &[f32],
        wanted: WantedGradients,
        tape: &Tape,
        block: usize,
        record: &mut [f32],
    ) {
        let (grid, head) = (tape.grid(), tape.grid().head(block));
        let params = &params[head * self.len()..][..self.len()];
        let active = self.load_output_gradient(layers.end, grad_out, wanted, tape, block, record);
        for index in layers.clone().rev() {
            self.backward_through_layer(params, index, wanted, tape, block, &active, record);
            if wanted.weights {
                self.pack_for_weights(index, tape, block, record);
            }
            if index > 0 || wanted.input {
                self.backward_through_product(params, index, tape, block, active.count, record);
            }
        }
        if layers.start == 0 && active.count < grid.rows(block) {
            let grads = &mut record[self.plan.input_grad.clone()];
            spread(grads, self.inputs(), active.rows(), grid.rows(block));
        }
    }

    /// From the gradient of a product to that of what it took.
    fn backward_through_product(
        &self,
        params: &[f32],
        index: usize,
        tape: &Tape,
        block: usize,
        rows: usize,
        record: &mut [f32],
    ) {
        let (plan, places) = (&self.plan.layers[index], &self.layout.layers[index]);
        let shape = places.shape;
        if rows == 0 {
            return;
        }
        let (into, stride) = self.input_grad(index);
        let [into, grad, operands] = parts(record, [into, plan.grad.clone(), plan.grad_operands.clone()]);
        let grad = match shape.is_half() {
            true => {
                let grad_rows = StridedRows { count: rows, width: places.width, stride: plan.grad_stride };
                pack_rows(shape.isa, grad, grad_rows, operands, plan.grad_words);
                Operands::new(operands, plan.grad_words)
            }
            false => Operands::new(grad, plan.grad_stride),
        };
        let transposed =
            &tape.transposed[tape.grid().head(block) * self.plan.transposed..][plan.transposed.clone()];
        let weights = &params[places.weight.clone()];
        shape.product_back(weights, transposed, grad, OutputRows { memory: into, rows, stride });
    }

    /// What a layer gave for the rows of a block that gradients go back through.
    fn saved<'t>(
        &self,
        index: usize,
        tape: &'t Tape,
        block: usize,
        active: &'t ActiveRows,
    ) -> SavedOutputs<'t> {
        let plan = &self.plan.layers[index];
        let outputs = match plan.output.is_empty() {
            true => &tape.outputs[tape.grid().part(block, self.outputs())],
            false => &tape.forward[tape.grid().record(block, self.plan.forward)][plan.output.clone()],
        };
        SavedOutputs { outputs, stride: plan.stride, rows: active.rows() }
    }

    /// Rounds what the gradients of the weights are products of, where those are of words.
    fn pack_for_weights(&self, index: usize, tape: &Tape, block: usize, record: &mut [f32]) {
        let (plan, places) = (&self.plan.layers[index], &self.layout.layers[index]);
        if !places.shape.is_half() {
            return;
        }
        let (count, isa) = (tape.grid().rows(block), places.shape.isa);
        let pairs = [plan.grad.clone(), plan.grad_pairs.clone(), plan.input_pairs.clone()];
        let [grad, grad_pairs, input_pairs] = parts(record, pairs);
        let rows = StridedRows { count, width: places.width, stride: plan.grad_stride };
        pack_pairs(isa, grad, rows, grad_pairs, plan.grad_stride);
        let (input, input_stride) = self.products_input(tape, index, block);
        let rows = StridedRows { count, width: places.inputs, stride: input_stride };
        pack_pairs(isa, input, rows, input_pairs, stride(places.inputs));
    }

    /// Where the gradient of a layer's input is kept, and its row stride.
    fn input_grad(&self, index: usize) -> (Range<usize>, usize) {
        if index == 0 {
            (self.plan.input_grad.clone(), self.inputs())
        } else {
            let LayerMemory { grad, grad_stride, .. } = &self.plan.layers[index - 1];
            (grad.clone(), *grad_stride)
        }
    }

    /// Puts the gradient of the output of a segment of layers in place: from outside, or through a batch norm. Where
    /// only gradients of inputs are wanted, rows of zeros are left out.
    fn load_output_gradient(
        &self,
        end: usize,
        grad_out: &[f32],
        wanted: WantedGradients,
        tape: &Tape,
        block: usize,
        record: &mut [f32],
    ) -> ActiveRows {
        let mut active = ActiveRows::first(tape.grid().rows(block));
        if end < self.spec.layers.len() {
            self.backward_through_norm(end, tape, block, record);
            return active;
        }
        let (width, plan) = (self.outputs(), &self.plan.layers[end - 1]);
        let from = grad_out[tape.grid().part(block, width)].chunks(width).enumerate();
        let all = wanted.weights || self.has_batch_norms();
        let from = from.filter(|(_, row)| all || row.iter().any(|gradient| *gradient != 0.0));
        active.count = 0;
        for ((row, from), into) in from.zip(record[plan.grad.clone()].chunks_mut(plan.grad_stride)) {
            into[..width].copy_from_slice(from);
            active.rows[active.count] = row;
            active.count += 1;
        }
        active
    }

    /// Activation and layer norm; leaves the gradient of the product, and the sums for bias and norm where wanted.
    #[allow(clippy::too_many_arguments)]
    fn backward_through_layer(
        &self,
        params: &[f32],
        index: usize,
        wanted: WantedGradients,
        tape: &Tape,
        block: usize,
        active: &ActiveRows,
        record: &mut [f32],
    ) {
        let (plan, places) = (&self.plan.layers[index], &self.layout.layers[index]);
        let [weight_sums, shift_sums] = plan.norm_sums.clone();
        let sums = [plan.bias_sums.clone(), weight_sums, shift_sums];
        let [bias_sums, weight_sums, shift_sums] = sums.map(|sums| if wanted.weights { sums } else { 0..0 });
        let [grad, bias_sums, weight_sums, shift_sums] =
            parts(record, [plan.grad.clone(), bias_sums, weight_sums, shift_sums]);
        let activation = self.spec.layers[index].activation;
        let saved = self.saved(index, tape, block, active);
        let rows = StridedRows { count: active.count, width: places.width, stride: plan.grad_stride };
        match &places.norm {
            None => layer_ops::activation_back(self.isa, activation, saved, grad, rows, bias_sums),
            Some([weight, _]) => {
                let forward = &tape.forward[tape.grid().record(block, self.plan.forward)];
                let normed = SavedNorm {
                    weight: &params[weight.clone()],
                    hat: &forward[plan.hat.clone()],
                    inv_std: &forward[plan.inv_std.clone()],
                };
                let sums = [bias_sums, weight_sums, shift_sums];
                layer_ops::layer_norm_back(self.isa, activation, saved, normed, grad, rows, sums);
            }
        }
    }

    /// The batch norm in front of a layer, for one block, in place.
    fn backward_through_norm(&self, index: usize, tape: &Tape, block: usize, record: &mut [f32]) {
        let grid = tape.grid();
        let (plan, width) = (&self.plan.layers[index], self.layout.layers[index].inputs);
        let hat = &tape.forward[grid.record(block, self.plan.forward)][plan.input_hat.clone()];
        let BatchColumns { grad_scale, grad_mean, hat_mean, along, .. } =
            &tape.batch_norms[grid.head(block) * self.plan.layers.len() + index];
        let columns = BatchNormBackward { grad_scale, mean: grad_mean, center: hat_mean, along };
        let (grad, stride) = self.input_grad(index);
        let rows = StridedRows { count: grid.rows(block), width, stride };
        layer_ops::batch_norm_back(self.isa, &mut record[grad], rows, hat, plan.input_stride, columns);
    }

    /// Sums over the batch that the backward pass of a batch norm needs, which are the gradients of its scale and
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
        let BatchColumns { var, scale, grad_scale: sums, grad_mean, hat_mean, along, .. } = norm;
        for column in [&mut *grad_mean, hat_mean, along] {
            column.fill(0.0);
        }
        let (grad_place, stride) = self.input_grad(index);
        let add =
            |to: &mut Vec<f32>, sums: &[f32]| to.iter_mut().zip(sums).for_each(|(t, s)| *t += s * share);
        let grid = tape.grid();
        for block in head * grid.blocks()..(head + 1) * grid.blocks() {
            let hat = &tape.forward[grid.record(block, self.plan.forward)][plan.input_hat.clone()];
            let grad = &tape.backward[grid.record(block, self.plan.backward)][grad_place.clone()];
            let rows = StridedRows { count: grid.rows(block), width, stride };
            let hat_rows = StridedRows { stride: plan.input_stride, ..rows };
            layer_ops::column_sums(self.isa, grad, rows, sums);
            add(grad_mean, sums);
            layer_ops::column_sums(self.isa, hat, hat_rows, sums);
            add(hat_mean, sums);
            layer_ops::column_products(self.isa, grad, rows, hat, plan.input_stride, sums);
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
            if tape.batch_stats {
                // The corrections of a renorm carry no gradient: what counts is the plain normed value,
                // `(hat - hat_mean) / r`, which enters twice.
                let r = scale[j] * (var[j] + spec.eps).sqrt();
                along[j] = (along[j] - hat_mean[j] * grad_mean[j]) / (r * r);
            } else {
                (grad_mean[j], along[j]) = (0.0, 0.0);
            }
        }
    }

    /// Sums the gradients of all heads over the blocks: groups of blocks side by side, each mostly by the thread that has
    /// them in its cache, then the groups in their order.
    fn sum_gradients(&self, tape: &mut Tape, end: GemmEpilogue<'_>, grads: &mut [f32]) {
        let groups = tape.grid().blocks().div_ceil(GROUP);
        // What is added is added group by group, however a batch is cut.
        if groups == 1 && matches!(end, GemmEpilogue::Write) {
            return self.sum_groups(tape, 0..1, end, grads);
        }
        let mut sums = std::mem::take(&mut tape.group_sums);
        for first in (0..groups).step_by(GROUPS_AT_ONCE) {
            let some = first..groups.min(first + GROUPS_AT_ONCE);
            let end = if first == 0 { end } else { GemmEpilogue::Add };
            sums.fit(some.len() * grads.len());
            self.sum_groups(tape, some.clone(), GemmEpilogue::Write, &mut sums);
            self.add_groups(tape, some.len(), &sums, end, grads);
        }
        tape.group_sums = sums;
    }

    /// Sums some groups: `[heads, groups, parameters]`.
    fn sum_groups(&self, tape: &Tape, groups: Range<usize>, end: GemmEpilogue<'_>, sums: &mut [f32]) {
        let (count, blocks) = (self.tasks.len(), tape.grid().blocks());
        // Head by head, group by group, as blocks are numbered.
        let place = |index: usize| self.task_place(index);
        let parallelism = self.parallelism(tape.heads * tape.batch);
        parallel_for_slice(parallelism, sums, tape.heads * groups.len() * count, place, |index, sums| {
            let (head, group) = (index / count / groups.len(), groups.start + index / count % groups.len());
            let task = &self.tasks[index % count];
            let start = head * blocks + group * GROUP;
            let blocks = start..(start + GROUP).min((head + 1) * blocks);
            match &task.part {
                GradientPart::Panels(panels) => {
                    self.sum_panels(tape, blocks, task.layer, panels.clone(), end, sums)
                }
                GradientPart::Sums => self.sum_sums(tape, blocks, task, end, sums),
            }
        });
    }

    /// Adds the sums of groups in their order.
    fn add_groups(&self, tape: &Tape, groups: usize, sums: &[f32], end: GemmEpilogue<'_>, grads: &mut [f32]) {
        let count = self.tasks.len();
        let parallelism = self.parallelism(tape.heads * tape.batch);
        let place = |index: usize| self.task_place(index);
        parallel_for_slice(parallelism, grads, tape.heads * count, place, |index, grads| {
            if matches!(end, GemmEpilogue::Write) {
                grads.fill(0.0);
            }
            let head = &sums[index / count * groups * self.len()..][..groups * self.len()];
            for group in head.chunks_exact(self.len()) {
                layer_ops::add(self.isa, grads, &group[self.tasks[index % count].place.clone()]);
            }
        });
    }

    /// The place of a task among parameters, one set of which comes after the other.
    fn task_place(&self, index: usize) -> Range<usize> {
        let (set, task) = (index / self.tasks.len(), &self.tasks[index % self.tasks.len()]);
        set * self.len() + task.place.start..set * self.len() + task.place.end
    }

    fn sum_panels(
        &self,
        tape: &Tape,
        blocks: Range<usize>,
        layer: usize,
        panels: Range<usize>,
        mut end: GemmEpilogue<'_>,
        grads: &mut [f32],
    ) {
        let (shape, grid) = (self.layout.layers[layer].shape, tape.grid());
        let mut block = blocks.start;
        while block < blocks.end {
            let rows = grid.rows(block);
            // Only whole blocks are summed with others: the last may be shorter.
            let whole = blocks.end - block - usize::from(grid.rows(blocks.end - 1) < BLOCK);
            let at_once = whole.clamp(1, BLOCKS_AT_ONCE);
            let (x, grad) = self.gradient_operands(tape, layer, block);
            let depth = BlockRows { rows, blocks: at_once };
            shape.sum_gradients(panels.clone(), x, grad, depth, end, grads);
            end = GemmEpilogue::Add;
            block += at_once;
        }
    }

    /// What the gradients of a layer's weights are products of, from one block on: what the product took, and its
    /// gradient.
    fn gradient_operands<'t>(
        &self,
        tape: &'t Tape,
        layer: usize,
        block: usize,
    ) -> (Operands<'t>, Operands<'t>) {
        let (plan, places) = (&self.plan.layers[layer], &self.layout.layers[layer]);
        let record = tape.grid().record(block, self.plan.backward).start;
        let saved = |place: &Range<usize>, stride: usize| {
            Operands::new(&tape.backward[record + place.start..], stride).in_blocks(self.plan.backward)
        };
        if places.shape.is_half() {
            return (
                saved(&plan.input_pairs, stride(places.inputs)),
                saved(&plan.grad_pairs, plan.grad_stride),
            );
        }
        let (input, stride) = self.products_input(tape, layer, block);
        let from_outside = layer == 0 && plan.normed_input.is_empty();
        let input_block = if from_outside { BLOCK * self.inputs() } else { self.plan.forward };
        (Operands::new(input, stride).in_blocks(input_block), saved(&plan.grad, plan.grad_stride))
    }

    /// What the product of a layer took, from one block on, and its row stride.
    fn products_input<'t>(&self, tape: &'t Tape, layer: usize, block: usize) -> (&'t [f32], usize) {
        let plan = &self.plan.layers[layer];
        if layer == 0 && plan.normed_input.is_empty() {
            let start = tape.grid().input_part(block, self.inputs()).start;
            return (&tape.inputs[start..], self.inputs());
        }
        let within = match plan.normed_input.is_empty() {
            true => self.plan.layers[layer - 1].output.start,
            false => plan.normed_input.start,
        };
        let start = tape.grid().record(block, self.plan.forward).start + within;
        (&tape.forward[start..], plan.input_stride)
    }

    fn sum_sums(
        &self,
        tape: &Tape,
        blocks: Range<usize>,
        task: &GradientTask,
        end: GemmEpilogue<'_>,
        grads: &mut [f32],
    ) {
        if matches!(end, GemmEpilogue::Write) {
            grads.fill(0.0);
        }
        let (plan, places) = (&self.plan.layers[task.layer], &self.layout.layers[task.layer]);
        let bias = places.bias.clone().zip(Some(plan.bias_sums.clone()));
        let norms = places.norm.clone().map(|places| places.into_iter().zip(plan.norm_sums.clone()));
        for (place, sums) in bias.into_iter().chain(norms.into_iter().flatten()) {
            let grads = &mut grads[place.start - task.place.start..place.end - task.place.start];
            for block in blocks.clone() {
                let record = tape.grid().record(block, self.plan.backward);
                layer_ops::add(self.isa, grads, &tape.backward[record][sums.clone()]);
            }
        }
    }

    /// Gradients of the inputs: of each head, or their sum over the heads where those shared the inputs.
    fn write_input_gradients(&self, tape: &mut Tape, grad_inputs: &mut [f32]) {
        let grid = tape.grid();
        let groups = if tape.shared { 1 } else { tape.heads };
        assert_eq!(
            grad_inputs.len(),
            groups * tape.batch * self.inputs(),
            "gradients must be [batch, inputs]"
        );
        if self.spec.layers[0].input_norm.is_some() {
            let mut backward = std::mem::take(&mut tape.backward);
            for block in 0..grid.count() {
                let record = &mut backward[grid.record(block, self.plan.backward)];
                self.backward_through_norm(0, tape, block, record);
            }
            tape.backward = backward;
        }
        for (group, into) in grad_inputs.chunks_exact_mut(tape.batch * self.inputs()).enumerate() {
            let heads = if tape.shared { 0..tape.heads } else { group..group + 1 };
            for (block, into) in into.chunks_mut(BLOCK * self.inputs()).enumerate() {
                for head in heads.clone() {
                    let record = grid.record(head * grid.blocks() + block, self.plan.backward);
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

/// Puts rows that lie one after the other in the places they belong to, and zeros in all others.
fn spread(values: &mut [f32], width: usize, places: &[usize], rows: usize) {
    let mut next = places.len();
    for row in (0..rows).rev() {
        match next.checked_sub(1).filter(|last| places[*last] == row) {
            Some(last) => {
                values.copy_within(last * width..(last + 1) * width, row * width);
                next = last;
            }
            None => values[row * width..(row + 1) * width].fill(0.0),
        }
    }
}
