//! The language model in training: forward, loss and backward.

use super::super::super::config::TextConfig;
use super::super::batch::Batch;
use super::super::engine::{Attention, heads_of};
use super::super::lists::List;
use super::TrainEngine;
use super::activations::{Activations, Keep, LOGIT_ROWS, LayerActivations, Place, Scratch};
use super::attention::AttentionBackward;
use super::linear::{LoraLinear, Output, ProductNames, Rows};
use crate::gpu::{Address, Arg, Epilogue, GpuError, LaunchShape, Moment, Side};

const QKV: ProductNames = ProductNames { forward: "qkv matmul", backward: "qkv matmul backward" };
const OUT: ProductNames = ProductNames { forward: "o matmul", backward: "o matmul backward" };
const GATE_UP: ProductNames =
    ProductNames { forward: "gate and up matmul", backward: "gate and up matmul backward" };
const DOWN: ProductNames = ProductNames { forward: "down matmul", backward: "down matmul backward" };
const HEAD: ProductNames = ProductNames { forward: "head matmul", backward: "head matmul backward" };

/// A layer of the language model.
#[derive(Clone, Debug)]
pub(super) struct TextLayer {
    pub(super) norm1: Address,
    pub(super) qkv: LoraLinear,
    pub(super) q_norm: Address,
    pub(super) k_norm: Address,
    pub(super) o: LoraLinear,
    pub(super) norm2: Address,
    pub(super) gate_up: LoraLinear,
    pub(super) down: LoraLinear,
}

impl TextLayer {
    pub(super) fn has_adapters(&self) -> bool {
        [&self.qkv, &self.o, &self.gate_up, &self.down].iter().any(|layer| layer.base.extra > 0)
    }
}

/// A batch on the GPU.
pub(super) struct TextPass<'a> {
    pub(super) batch: &'a Batch,
    /// Where the batch's lists are, and the memory of activations.
    pub(super) lists: Address,
    pub(super) memory: Address,
    pub(super) activations: &'a Activations,
    cos_sin: Address,
    pub(super) visual_embeds: Address,
    pub(super) visual_rows: usize,
}

/// Whether a layer is computed for what comes out of it, or once more for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    First,
    Again,
}

/// Rows that have targets, and the targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Targets {
    pub(super) rows: List,
    pub(super) tokens: List,
}

impl TextPass<'_> {
    fn layer(&self, i: usize) -> &LayerActivations {
        &self.activations.text.layers[i]
    }

    fn scratch(&self) -> &Scratch {
        &self.activations.text.scratch
    }

    /// What comes out of layer `i`.
    fn output(&self, i: usize) -> Address {
        let text = &self.activations.text;
        text.layers.get(i + 1).map_or(text.last, |layer| layer.x).at(self.memory)
    }

    fn last(&self) -> Address {
        self.activations.text.last.at(self.memory)
    }
}

impl TrainEngine {
    /// Token embeddings and visual embeddings, and the angles of positions.
    pub(super) fn embed<'a>(
        &mut self,
        batch: &'a Batch,
        activations: &'a Activations,
        memory: Address,
        visual_rows: usize,
    ) -> Result<TextPass<'a>, GpuError> {
        let TextConfig { width, head_width, .. } = self.engine.config.text;
        let engine = &mut self.engine;
        let half = head_width / 2;
        let lists = engine.buffers.lists.put(&engine.gpu, batch.lists.numbers())?;
        let visual_embeds = engine.buffers.visual_embeds.of(&engine.gpu, 0)?;
        let args = [
            Arg::At(batch.sources.at(lists)),
            Arg::At(engine.parameters.embed),
            Arg::Int(engine.parameters.embed_stride as i32),
            Arg::At(visual_embeds),
            Arg::At(activations.text.layers[0].x.at(memory)),
            Arg::Int(width as i32),
        ];
        engine.gpu.run("embed", LaunchShape::rows(batch.tokens, width), &args)?;
        let cos_sin = engine.buffers.cos_sin.of(&engine.gpu, batch.tokens * half * 2)?;
        let args = [
            Arg::At(batch.positions.at(lists)),
            Arg::At(engine.frequencies.of(&engine.gpu, 0)?),
            Arg::At(engine.axes.of(&engine.gpu, 0)?),
            Arg::At(cos_sin),
        ];
        let shape = LaunchShape { blocks: [batch.tokens, 1, 1], threads: half, shared: 0 };
        engine.gpu.run("angles", shape, &args)?;
        Ok(TextPass { batch, lists, memory, activations, cos_sin, visual_embeds, visual_rows })
    }

    /// All layers.
    pub(super) fn text_forward(&mut self, pass: &TextPass<'_>) -> Result<(), GpuError> {
        for i in 0..self.layers.len() {
            let layer = self.layers[i].clone();
            self.layer_forward(&layer, pass, i, Run::First)?;
            self.add_deepstack(pass, i)?;
        }
        self.wait_for_copies()
    }

    fn layer_forward(
        &mut self,
        layer: &TextLayer,
        pass: &TextPass<'_>,
        i: usize,
        run: Run,
    ) -> Result<(), GpuError> {
        let (stored, scratch, memory) = (*pass.layer(i), *pass.scratch(), pass.memory);
        let (tokens, at) = (pass.batch.tokens, |place: Place| place.at(memory));
        let TextConfig { heads, kv_heads, head_width, inner, .. } = self.engine.config.text;
        let normal = at(scratch.normal);
        let none = Address::NONE;
        // Attention.
        self.wait_for_copies()?; // which read what is written next
        self.rms_norm(at(stored.x), layer.norm1, Rows::new(normal, layer.qkv.base.stride()), tokens, none)?;
        self.forward(QKV, &layer.qkv, normal, tokens, Output::new(Epilogue::Plain, at(stored.qkv)))?;
        self.store_h(pass, &layer.qkv, normal, at(stored.h_qkv))?;
        self.turn(layer, pass, at(stored.qkv), at(scratch.turned))?;
        let (q, qk) = (heads * head_width, (heads + kv_heads) * head_width);
        let (starts, lengths) = (pass.batch.starts.at(pass.lists), pass.batch.lengths.at(pass.lists));
        self.engine.attend(&Attention {
            kernel: "attend_text",
            q: at(scratch.turned),
            q_stride: qk,
            k: at(scratch.turned).plus(q),
            k_stride: qk,
            v: at(stored.qkv).plus(qk),
            v_stride: layer.qkv.base.outputs,
            out: at(stored.mixed),
            out_stride: layer.o.base.stride(),
            log_sums: at(stored.log_sums),
            heads,
            kv_heads,
            head_width,
            lists: [starts, lengths, starts, lengths],
            sequences: pass.batch.sequences,
            longest: pass.batch.longest,
            prefix: (none, none, 0, 0),
        })?;
        let middle = at(stored.middle);
        self.forward(
            OUT,
            &layer.o,
            at(stored.mixed),
            tokens,
            Output::add(Epilogue::Add, at(stored.x), middle),
        )?;
        // The feed-forward network.
        self.wait_for_copies()?;
        self.rms_norm(middle, layer.norm2, Rows::new(normal, layer.gate_up.base.stride()), tokens, none)?;
        self.forward(
            GATE_UP,
            &layer.gate_up,
            normal,
            tokens,
            Output::new(Epilogue::Plain, at(stored.inner)),
        )?;
        self.store_h(pass, &layer.gate_up, normal, at(stored.h_inner))?;
        let gated = at(scratch.gated);
        let stride = layer.down.base.stride();
        let args =
            [Arg::At(at(stored.inner)), Arg::At(gated), Arg::Int(stride as i32), Arg::Int(inner as i32)];
        self.engine.gpu.run("swiglu", LaunchShape::rows(tokens, inner), &args)?;
        let down = match run {
            Run::First => layer.down.clone(),
            Run::Again => layer.down.without_outputs(),
        };
        self.forward(DOWN, &down, gated, tokens, Output::add(Epilogue::Add, middle, pass.output(i)))?;
        self.store_h(pass, &layer.down, gated, at(stored.h_down))?;
        if run == Run::Again { self.wait_for_copies() } else { Ok(()) }
    }

    /// Keeps the columns of adapters for the backward pass, while what comes next is computed.
    fn store_h(
        &mut self,
        pass: &TextPass<'_>,
        layer: &LoraLinear,
        x: Address,
        to: Address,
    ) -> Result<(), GpuError> {
        if pass.activations.keep == Keep::Nothing {
            return Ok(());
        }
        let rows = pass.batch.tokens;
        self.copied = Some(self.aside(Side::Soon, |engine| engine.copy_h(layer, x, to, rows))?);
        Ok(())
    }

    /// What comes after waits for the copies of adapters' columns.
    fn wait_for_copies(&mut self) -> Result<(), GpuError> {
        let copied = self.copied.take();
        self.wait_until(copied.as_ref())
    }

    /// Copies the columns of adapters to a place of their own.
    pub(super) fn copy_h(
        &mut self,
        layer: &LoraLinear,
        x: Address,
        to: Address,
        rows: usize,
    ) -> Result<(), GpuError> {
        let (base, extra) = (&layer.base, layer.base.extra);
        let from = Rows::new(x, base.stride()).columns_from(base.inputs);
        self.copy_rows(from, Address::NONE, Rows::new(to, extra), rows, extra)
    }

    fn rms_norm(
        &mut self,
        x: Address,
        scale: Address,
        y: Rows,
        count: usize,
        rows: Address,
    ) -> Result<(), GpuError> {
        let args = [
            Arg::At(x),
            Arg::At(scale),
            Arg::At(y.at),
            Arg::Int(y.stride as i32),
            Arg::Int(count as i32),
            Arg::Float(self.engine.config.text.epsilon as f32),
            Arg::At(rows),
        ];
        self.engine.gpu.run("rms_norm", LaunchShape::warps(count), &args)
    }

    /// Queries and keys, normalised and turned.
    fn turn(
        &mut self,
        layer: &TextLayer,
        pass: &TextPass<'_>,
        qkv: Address,
        turned: Address,
    ) -> Result<(), GpuError> {
        let TextConfig { heads, kv_heads, head_width, epsilon, .. } = self.engine.config.text;
        let both = heads + kv_heads;
        let args = [
            Arg::At(qkv),
            Arg::Int(layer.qkv.base.outputs as i32),
            Arg::At(turned),
            Arg::Int((both * head_width) as i32),
            Arg::Int(heads as i32),
            Arg::Int(both as i32),
            Arg::At(layer.q_norm),
            Arg::At(layer.k_norm),
            Arg::Float(epsilon as f32),
            Arg::At(pass.cos_sin),
            Arg::At(Address::NONE),
        ];
        self.engine.gpu.run("turn_text", heads_of(pass.batch.tokens, both), &args)
    }

    fn add_deepstack(&mut self, pass: &TextPass<'_>, i: usize) -> Result<(), GpuError> {
        let rows = pass.batch.visual_tokens;
        if i >= self.engine.config.vision.deepstack.len() || rows.to.len == 0 {
            return Ok(());
        }
        let width = self.engine.config.text.width;
        let args = [
            Arg::At(pass.output(i)),
            Arg::At(rows.to.at(pass.lists)),
            Arg::At(pass.visual_embeds.plus((i + 1) * pass.visual_rows * width)),
            Arg::At(rows.from.at(pass.lists)),
            Arg::Int(width as i32),
        ];
        self.engine.gpu.run("add_rows", LaunchShape::rows(rows.to.len, width), &args)
    }

    /// The logits of labels after the tokens that `rows` names.
    pub(super) fn label_logits(
        &mut self,
        pass: &TextPass<'_>,
        rows: List,
        labels: List,
    ) -> Result<Vec<f32>, GpuError> {
        let head = self.head.clone();
        let (count, stride) = (rows.len, head.base.stride());
        let normal = pass.activations.text.head.at(pass.memory);
        let (last, norm) = (pass.last(), self.engine.parameters.norm);
        self.rms_norm(last, norm, Rows::new(normal, stride), count, rows.at(pass.lists))?;
        // Only the columns of the adapter; the few rows of the table are multiplied below.
        self.forward(HEAD, &head.without_outputs(), normal, count, Output::new(Epilogue::Plain, normal))?;
        let engine = &mut self.engine;
        let logits = engine.buffers.logits.of(&engine.gpu, count * labels.len)?;
        let args = [
            Arg::At(normal),
            Arg::At(head.base.weight),
            Arg::Int(stride as i32),
            Arg::At(labels.at(pass.lists)),
            Arg::Int(labels.len as i32),
            Arg::At(logits),
            Arg::Int(stride as i32),
        ];
        let blocks = [labels.len.div_ceil(8), count, 1];
        engine.gpu.run("label_logits", LaunchShape { blocks, threads: 256, shared: 0 }, &args)?;
        engine.buffers.logits.get(&engine.gpu, count * labels.len)
    }

    /// The loss of each target. With `gradient_factor`, also that many times the gradients of the losses: those of the head's
    /// adapter are added, that of the last layer's output is left in `dx`.
    pub(super) fn losses(
        &mut self,
        pass: &TextPass<'_>,
        targets: Targets,
        gradient_factor: Option<f32>,
    ) -> Result<Vec<f32>, GpuError> {
        let head = self.head.clone();
        let text = &pass.activations.text;
        let at = |place: Place| place.at(pass.memory);
        let (count, stride) = (targets.rows.len, head.base.stride());
        let (vocab, padded) = (head.base.outputs, head.base.outputs.next_multiple_of(8));
        let (normal, gradient) = (at(text.head), at(text.head_gradient));
        let (last, norm) = (pass.last(), self.engine.parameters.norm);
        let rows = targets.rows.at(pass.lists);
        let losses = self.engine.buffers.logits.of(&self.engine.gpu, count)?;
        self.rms_norm(last, norm, Rows::new(normal, stride), count, rows)?;
        for first in (0..count).step_by(LOGIT_ROWS) {
            let some = (count - first).min(LOGIT_ROWS);
            let (normal, gradient) = (normal.plus(first * stride), gradient.plus(first * stride));
            let logits = at(text.logits);
            self.forward_floats(HEAD, &head, normal, some, logits, padded)?;
            let args = [
                Arg::At(logits),
                Arg::At(targets.tokens.at(pass.lists).plus_ints(first)),
                Arg::At(losses.plus_ints(first)),
                Arg::At(at(text.logit_gradient)),
                Arg::Int(padded as i32),
                Arg::Int(vocab as i32),
                Arg::Float(gradient_factor.unwrap_or(0.0)),
            ];
            let shape = LaunchShape { blocks: [some, 1, 1], threads: 512, shared: 0 };
            self.engine.gpu.run("cross_entropy", shape, &args)?;
            if gradient_factor.is_none() {
                continue;
            }
            let dy = Rows::new(at(text.logit_gradient), padded);
            self.backward_input(HEAD, &head, dy, some, gradient, true)?;
            let (x, dh) = (Rows::new(normal, stride), Rows::new(gradient, stride));
            let inputs = head.base.inputs;
            self.backward_adapters(&head, x, x.columns_from(inputs), dh.columns_from(inputs), dy, some)?;
        }
        if gradient_factor.is_some() {
            let dx = at(text.scratch.dx);
            let width = self.engine.config.text.width;
            let numbers = pass.batch.tokens * width;
            let args = [Arg::At(dx), Arg::Count(numbers as u64)];
            self.engine.gpu.run("clear", LaunchShape::eights(numbers), &args)?;
            self.rms_norm_backward(last, norm, Rows::new(gradient, stride), dx, count, rows)?;
        }
        self.engine.buffers.logits.get(&self.engine.gpu, count)
    }

    /// `dx` of the rows of a norm, added to what is there.
    fn rms_norm_backward(
        &mut self,
        x: Address,
        scale: Address,
        dy: Rows,
        dx: Address,
        count: usize,
        rows: Address,
    ) -> Result<(), GpuError> {
        let args = [
            Arg::At(x),
            Arg::At(scale),
            Arg::At(dy.at),
            Arg::Int(dy.stride as i32),
            Arg::At(dx),
            Arg::Int(1),
            Arg::Int(count as i32),
            Arg::Float(self.engine.config.text.epsilon as f32),
            Arg::At(rows),
        ];
        self.engine.gpu.run("rms_norm_backward", LaunchShape::warps(count), &args)
    }

    /// From the gradient of the last layer's output, in `dx`, to those of all adapters. If the vision tower is trained, the gradients
    /// of visual embeddings go to `d_visual`.
    pub(super) fn text_backward(
        &mut self,
        pass: &TextPass<'_>,
        d_visual: Option<Address>,
    ) -> Result<(), GpuError> {
        let first_trained = self.layers.iter().position(TextLayer::has_adapters);
        let dx = pass.scratch().dx.at(pass.memory);
        let mut above = None;
        for i in (0..self.layers.len()).rev() {
            if d_visual.is_none() && first_trained.is_none_or(|first| i < first) {
                break;
            }
            let layer = self.layers[i].clone();
            if let Some(d_visual) = d_visual {
                self.take_deepstack_gradient(pass, i, dx, d_visual)?;
            }
            if pass.activations.keep == Keep::LayerInputs {
                // Layers share the memory that this fills.
                self.wait_until(above.as_ref())?;
                self.layer_forward(&layer, pass, i, Run::Again)?;
            }
            let is_input_needed = d_visual.is_some() || first_trained.is_some_and(|first| i > first);
            let inner = self.feed_forward_backward(&layer, pass, i, above.as_ref())?;
            above = Some(self.attention_backward(&layer, pass, i, is_input_needed, &inner)?);
        }
        self.wait_until(above.as_ref())?;
        match d_visual {
            Some(d_visual) => self.take_visual_gradient(pass, dx, d_visual),
            None => Ok(()),
        }
    }

    /// The feed-forward network: `dx` of its output becomes that of its input. The gradients of adapters run beside the rest, in one
    /// order; `above` is when those of the layer above are done, the answer when these are.
    fn feed_forward_backward(
        &mut self,
        layer: &TextLayer,
        pass: &TextPass<'_>,
        i: usize,
        above: Option<&Moment>,
    ) -> Result<Moment, GpuError> {
        let (stored, scratch, memory) = (*pass.layer(i), *pass.scratch(), pass.memory);
        let (tokens, at) = (pass.batch.tokens, |place: Place| place.at(memory));
        let TextConfig { width, inner, .. } = self.engine.config.text;
        let (dx, gated) = (Rows::new(at(scratch.dx), width), at(scratch.gated));
        let down_stride = layer.down.base.stride();
        self.backward_input(DOWN, &layer.down, dx, tokens, gated, true)?;
        let both = at(stored.inner);
        let args = [Arg::At(both), Arg::At(gated), Arg::Int(down_stride as i32), Arg::Int(inner as i32)];
        self.engine.gpu.run("swiglu_backward", LaunchShape::rows(tokens, inner), &args)?;
        let gated = Rows::new(gated, down_stride);
        let down = self.aside(Side::Late, |engine| {
            let h = Rows::new(at(stored.h_down), layer.down.base.extra);
            engine.backward_adapters(&layer.down, gated, h, gated.columns_from(inner), dx, tokens)
        })?;
        let (normal, middle, d_normal) = (at(scratch.normal), at(stored.middle), at(scratch.d_normal));
        let (dy, stride) = (Rows::new(both, 2 * inner), layer.gate_up.base.stride());
        self.wait_until(above)?; // which reads the gradient of a norm
        self.backward_input(GATE_UP, &layer.gate_up, dy, tokens, d_normal, true)?;
        let d_normal = Rows::new(d_normal, stride);
        let done = self.aside(Side::Late, |engine| {
            if layer.gate_up.base.extra == 0 {
                return Ok(());
            }
            engine.rms_norm(middle, layer.norm2, Rows::new(normal, width), tokens, Address::NONE)?;
            let h = Rows::new(at(stored.h_inner), layer.gate_up.base.extra);
            let (x, dh) = (Rows::new(normal, width), d_normal.columns_from(width));
            engine.backward_adapters(&layer.gate_up, x, h, dh, dy, tokens)
        })?;
        self.wait_until(Some(&down))?; // which reads `dx`
        self.rms_norm_backward(middle, layer.norm2, d_normal, dx.at, tokens, Address::NONE)?;
        Ok(done)
    }

    /// Attention: `dx` of its output becomes that of its input, if it is needed. `inner` is when the gradients of the feed-forward
    /// network's adapters are done, the answer when these are.
    fn attention_backward(
        &mut self,
        layer: &TextLayer,
        pass: &TextPass<'_>,
        i: usize,
        is_input_needed: bool,
        inner: &Moment,
    ) -> Result<Moment, GpuError> {
        let (stored, scratch, memory) = (*pass.layer(i), *pass.scratch(), pass.memory);
        let (tokens, at) = (pass.batch.tokens, |place: Place| place.at(memory));
        let TextConfig { width, heads, kv_heads, head_width, epsilon, .. } = self.engine.config.text;
        let (q, qk) = (heads * head_width, (heads + kv_heads) * head_width);
        let (qkv, turned, d_qkv) = (at(stored.qkv), at(scratch.turned), at(scratch.d_qkv));
        let met = self.aside(Side::Soon, |engine| engine.turn(layer, pass, qkv, turned))?;
        let dx = Rows::new(at(scratch.dx), width);
        let o_stride = layer.o.base.stride();
        let (mixed, d_mixed) =
            (Rows::new(at(stored.mixed), o_stride), Rows::new(at(scratch.d_mixed), o_stride));
        self.backward_input(OUT, &layer.o, dx, tokens, d_mixed.at, true)?;
        let out = self.aside(Side::Late, |engine| {
            let (h, dh) = (mixed.columns_from(q), d_mixed.columns_from(q));
            engine.backward_adapters(&layer.o, mixed, h, dh, dx, tokens)
        })?;
        self.wait_until(Some(&met))?;
        if layer.qkv.base.extra == 0 && !is_input_needed {
            return Ok(out);
        }
        let stride = layer.qkv.base.outputs;
        self.attend_backward(&AttentionBackward {
            kernels: ["multiply_heads_text", "attend_text_backward_queries", "attend_text_backward_keys"],
            q: Rows::new(turned, qk),
            k: Rows::new(turned.plus(q), qk),
            v: Rows::new(qkv.plus(qk), stride),
            out: mixed,
            d_out: d_mixed,
            log_sums: at(stored.log_sums),
            products: at(scratch.products),
            gradients: [d_qkv, d_qkv.plus(q), d_qkv.plus(qk)],
            stride,
            heads,
            kv_heads,
            head_width,
            lists: [pass.batch.starts.at(pass.lists), pass.batch.lengths.at(pass.lists)],
            sequences: pass.batch.sequences,
            longest: pass.batch.longest,
            tokens,
        })?;
        let args = [
            Arg::At(qkv),
            Arg::At(d_qkv),
            Arg::Int(stride as i32),
            Arg::Int(heads as i32),
            Arg::Int((heads + kv_heads) as i32),
            Arg::At(layer.q_norm),
            Arg::At(layer.k_norm),
            Arg::Float(epsilon as f32),
            Arg::At(pass.cos_sin),
        ];
        self.engine.gpu.run("turn_text_backward", heads_of(tokens, heads + kv_heads), &args)?;
        let (dy, normal) = (Rows::new(d_qkv, stride), at(scratch.normal));
        let d_normal = Rows::new(at(scratch.d_normal), layer.qkv.base.stride());
        self.wait_until(Some(inner))?; // which reads the gradient of a norm
        self.backward_input(QKV, &layer.qkv, dy, tokens, d_normal.at, is_input_needed)?;
        let done = self.aside(Side::Late, |engine| {
            if layer.qkv.base.extra == 0 {
                return Ok(());
            }
            engine.rms_norm(at(stored.x), layer.norm1, Rows::new(normal, width), tokens, Address::NONE)?;
            let h = Rows::new(at(stored.h_qkv), layer.qkv.base.extra);
            let (x, dh) = (Rows::new(normal, width), d_normal.columns_from(width));
            engine.backward_adapters(&layer.qkv, x, h, dh, dy, tokens)
        })?;
        if is_input_needed {
            self.wait_until(Some(&out))?; // which reads `dx`
            self.rms_norm_backward(at(stored.x), layer.norm1, d_normal, dx.at, tokens, Address::NONE)?;
        }
        Ok(done)
    }

    /// The gradient of a deepstack level, which was added to the output of layer `i`.
    fn take_deepstack_gradient(
        &mut self,
        pass: &TextPass<'_>,
        i: usize,
        dx: Address,
        d_visual: Address,
    ) -> Result<(), GpuError> {
        if i >= self.engine.config.vision.deepstack.len() {
            return Ok(());
        }
        let width = self.engine.config.text.width;
        self.take_visual_gradient(pass, dx, d_visual.plus((i + 1) * pass.visual_rows * width))
    }

    /// Rows of visual tokens, in the order of visual embeddings: each of these was used once.
    fn take_visual_gradient(
        &mut self,
        pass: &TextPass<'_>,
        dx: Address,
        to: Address,
    ) -> Result<(), GpuError> {
        let (width, rows) = (self.engine.config.text.width, pass.batch.visual_tokens);
        let args = [
            Arg::At(dx),
            Arg::At(rows.to.at(pass.lists)),
            Arg::At(to),
            Arg::At(rows.from.at(pass.lists)),
            Arg::Int(width as i32),
        ];
        self.engine.gpu.run("move_rows", LaunchShape::rows(rows.to.len, width), &args)
    }
}
