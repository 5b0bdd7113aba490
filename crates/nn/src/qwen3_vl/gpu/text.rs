//! The language model on a GPU.

use cudarc::driver::CudaSlice;

use super::super::config::TextConfig;
use super::batch::{Batch, Rows};
use super::engine::{Attention, Engine, heads_of};
use super::kv_cache::CacheRows;
use super::lists::List;
use super::parameters::Layer;
use crate::gpu::Address;
use crate::gpu::GpuError;
use crate::gpu::{Arg, LaunchShape};
use crate::gpu::{Epilogue, Matmul};

/// Keys and values (KV cache) of the prefix that prompts share.
pub(super) struct PrefixCache {
    pub(super) ids: Vec<u32>,
    /// `[layers, tokens, keys and values]`
    kept: CudaSlice<u16>,
}

/// Tokens as a layer takes them.
#[derive(Clone, Copy)]
pub(super) struct HiddenStates {
    pub(super) tokens: usize,
    /// `[tokens, width]`
    pub(super) x: Address,
    /// Cosine and sine of each token's angles.
    pub(super) cos_sin: Address,
}

/// What the layers of a forward pass share.
struct ForwardState<'a> {
    batch: &'a Batch,
    /// Where the batch's lists are.
    lists: Address,
    hidden: HiddenStates,
    /// Visual embeddings.
    visual_embeds: Address,
    visual_rows: usize,
    /// Where the keys and values before all sequences are, and of how many tokens.
    prefix: (Address, usize),
    /// Where keys and values are kept for tokens to come, if they are.
    kept: Option<CacheRows>,
}

impl Engine {
    /// Runs the prefix that prompts share, and keeps its keys and values.
    pub(super) fn cache_prefix(&mut self, ids: &[u32], batch: &Batch) -> Result<(), GpuError> {
        self.prefix = None; // its memory first
        let TextConfig { kv_heads, head_width, layers, .. } = self.config.text;
        let width = 2 * kv_heads * head_width;
        let kept = self.gpu.alloc(layers * batch.tokens * width)?;
        let store = self.gpu.address(&kept);
        let state = self.embed_batch(batch, 0, 0, None)?;
        for i in 0..layers {
            let layer = self.parameters.layers[i];
            let is_last = i + 1 == layers;
            let (qkv, stride) = self.keys_and_queries(&layer, state.hidden, is_last)?;
            let args = [
                Arg::At(qkv.plus(stride - width)),
                Arg::Int(stride as i32),
                Arg::At(Address::NONE),
                Arg::At(store.plus(i * batch.tokens * width)),
                Arg::Int(width as i32),
                Arg::Int(width as i32),
            ];
            self.gpu.run("take_rows", LaunchShape::rows(batch.tokens, width), &args)?;
            if !is_last {
                self.rest_of_layer(&layer, &state, i, qkv)?;
            }
        }
        self.prefix = Some(PrefixCache { ids: ids.to_vec(), kept });
        Ok(())
    }

    /// The last hidden state of each sequence, `[sequences, width]`. The first `prefix` tokens of all of them were cached by
    /// [`cache_prefix`](Self::cache_prefix); keys and values of the others go to `kept`, if that is given.
    pub(super) fn text_forward(
        &mut self,
        batch: &Batch,
        prefix: usize,
        visual_rows: usize,
        kept: Option<CacheRows>,
    ) -> Result<Address, GpuError> {
        let state = self.embed_batch(batch, prefix, visual_rows, kept)?;
        let layers = self.parameters.layers.len();
        for i in 0..layers - 1 {
            let layer = self.parameters.layers[i];
            let (qkv, stride) = self.keys_and_queries(&layer, state.hidden, false)?;
            self.keep_keys(&state, i, qkv, stride)?;
            self.rest_of_layer(&layer, &state, i, qkv)?;
        }
        let layer = self.parameters.layers[layers - 1];
        self.last_rows(&layer, &state, layers - 1)
    }

    /// Keeps the keys and values of a layer, if tokens to come need them.
    fn keep_keys(
        &mut self,
        state: &ForwardState<'_>,
        index: usize,
        qkv: Address,
        stride: usize,
    ) -> Result<(), GpuError> {
        match state.kept {
            Some(kept) => self.put_in_cache(&kept, state.lists, index, (qkv, stride)),
            None => Ok(()),
        }
    }

    /// Token embeddings and visual embeddings, and the angles of positions.
    fn embed_batch<'a>(
        &mut self,
        batch: &'a Batch,
        prefix: usize,
        visual_rows: usize,
        kept: Option<CacheRows>,
    ) -> Result<ForwardState<'a>, GpuError> {
        let lists = self.buffers.lists.put(&self.gpu, batch.lists.numbers())?;
        let hidden = self.embed_tokens(batch.sources, batch.positions, lists)?;
        let visual_embeds = self.buffers.visual_embeds.address(&self.gpu);
        let before = self.prefix.as_ref().filter(|_| prefix > 0).map(|prefix| self.gpu.address(&prefix.kept));
        Ok(ForwardState {
            batch,
            lists,
            hidden,
            visual_embeds,
            visual_rows,
            prefix: (before.unwrap_or(Address::NONE), prefix),
            kept,
        })
    }

    /// Embeddings of tokens by their sources, and the angles of their positions.
    pub(super) fn embed_tokens(
        &mut self,
        sources: List,
        positions: List,
        lists: Address,
    ) -> Result<HiddenStates, GpuError> {
        let TextConfig { width, head_width, .. } = self.config.text;
        let (tokens, half) = (sources.len, head_width / 2);
        let x = self.buffers.x.of(&self.gpu, tokens * width)?;
        let visual_embeds = self.buffers.visual_embeds.of(&self.gpu, 0)?;
        let embed = self.parameters.embed;
        let args = [
            Arg::At(sources.at(lists)),
            Arg::At(embed),
            Arg::Int(self.parameters.embed_stride as i32),
            Arg::At(visual_embeds),
            Arg::At(x),
            Arg::Int(width as i32),
        ];
        self.gpu.run("embed", LaunchShape::rows(tokens, width), &args)?;
        let cos_sin = self.buffers.cos_sin.of(&self.gpu, tokens * half * 2)?;
        let args = [
            Arg::At(positions.at(lists)),
            Arg::At(self.frequencies.of(&self.gpu, 0)?),
            Arg::At(self.axes.of(&self.gpu, 0)?),
            Arg::At(cos_sin),
        ];
        let shape = LaunchShape { blocks: [tokens, 1, 1], threads: half, shared: 0 };
        self.gpu.run("angles", shape, &args)?;
        Ok(HiddenStates { tokens, x, cos_sin })
    }

    /// Queries, keys and values of all tokens, side by side, normalised and turned; and how far rows are apart. In the last
    /// layer there are no queries among them.
    pub(super) fn keys_and_queries(
        &mut self,
        layer: &Layer,
        hidden: HiddenStates,
        is_last: bool,
    ) -> Result<(Address, usize), GpuError> {
        let TextConfig { width, heads, kv_heads, head_width, epsilon, .. } = self.config.text;
        let HiddenStates { tokens, x, cos_sin } = hidden;
        let normal = self.buffers.normal.of(&self.gpu, tokens * width)?;
        self.rms_norm(x, layer.norm1, normal, tokens, Address::NONE)?;
        let asking = if is_last { 0 } else { heads };
        let outputs = (asking + 2 * kv_heads) * head_width;
        let skipped = (heads - asking) * head_width;
        let qkv = self.buffers.qkv.of(&self.gpu, tokens * outputs)?;
        let matmul = Matmul {
            x: normal,
            weight: self.weight(layer.qkv)?.plus(skipped * width),
            epilogue: layer.qkv.with_bias(skipped),
            y: qkv,
            stride: outputs,
            rows: tokens,
            inputs: width,
            outputs,
        };
        self.cublas.run(&mut self.gpu, "qkv matmul", &matmul)?;
        let rotated = asking + kv_heads;
        let args = [
            Arg::At(qkv),
            Arg::Int(outputs as i32),
            Arg::At(qkv),
            Arg::Int(outputs as i32),
            Arg::Int(asking as i32),
            Arg::Int(rotated as i32),
            Arg::At(layer.q_norm),
            Arg::At(layer.k_norm),
            Arg::Float(epsilon as f32),
            Arg::At(cos_sin),
            Arg::At(Address::NONE),
        ];
        self.gpu.run("turn_text", heads_of(tokens, rotated), &args)?;
        Ok((qkv, outputs))
    }

    /// Attention, the feed-forward network, and deepstack embeddings.
    fn rest_of_layer(
        &mut self,
        layer: &Layer,
        state: &ForwardState<'_>,
        index: usize,
        qkv: Address,
    ) -> Result<(), GpuError> {
        let TextConfig { heads, kv_heads, head_width, .. } = self.config.text;
        let ForwardState { batch, lists, hidden: HiddenStates { x, .. }, .. } = *state;
        let stride = (heads + 2 * kv_heads) * head_width;
        let mixed = self.buffers.mixed.of(&self.gpu, batch.tokens * heads * head_width)?;
        let (starts, lengths) = (batch.starts.at(lists), batch.lengths.at(lists));
        self.attend(&Attention {
            kernel: "attend_text",
            q: qkv,
            q_stride: stride,
            k: qkv.plus(heads * head_width),
            v: qkv.plus((heads + kv_heads) * head_width),
            k_stride: stride,
            v_stride: stride,
            out: mixed,
            out_stride: heads * head_width,
            log_sums: Address::NONE,
            heads,
            kv_heads,
            head_width,
            lists: [starts, lengths, starts, lengths],
            sequences: batch.sequences,
            longest: batch.longest,
            prefix: self.before(state, index),
        })?;
        self.linear("o matmul", layer.o, mixed, batch.tokens, Epilogue::Add, x)?;
        self.feed_forward(layer, x, batch.tokens)?;
        self.add_deepstack(state, index, x, batch.visual_tokens)
    }

    /// Keys and values of layer `index` that come before all sequences.
    fn before(&self, state: &ForwardState<'_>, index: usize) -> (Address, Address, usize, usize) {
        let TextConfig { kv_heads, head_width, .. } = self.config.text;
        let (kept, tokens) = state.prefix;
        let width = 2 * kv_heads * head_width;
        let keys = kept.plus(index * tokens * width);
        (keys, keys.plus(kv_heads * head_width), width, tokens)
    }

    pub(super) fn feed_forward(&mut self, layer: &Layer, x: Address, rows: usize) -> Result<(), GpuError> {
        let TextConfig { width, inner, .. } = self.config.text;
        let normal = self.buffers.normal.of(&self.gpu, rows * width)?;
        self.rms_norm(x, layer.norm2, normal, rows, Address::NONE)?;
        let both = self.buffers.inner.of(&self.gpu, rows * 2 * inner)?;
        self.linear("gate and up matmul", layer.gate_up, normal, rows, Epilogue::Plain, both)?;
        let gated = self.buffers.gated.of(&self.gpu, rows * inner)?;
        let args = [Arg::At(both), Arg::At(gated), Arg::Int(inner as i32), Arg::Int(inner as i32)];
        self.gpu.run("swiglu", LaunchShape::rows(rows, inner), &args)?;
        self.linear("down matmul", layer.down, gated, rows, Epilogue::Add, x)
    }

    /// Adds the deepstack embeddings of this layer, if it has some.
    fn add_deepstack(
        &mut self,
        state: &ForwardState<'_>,
        index: usize,
        x: Address,
        rows: Rows,
    ) -> Result<(), GpuError> {
        if index >= self.config.vision.deepstack.len() || rows.to.len == 0 {
            return Ok(());
        }
        let width = self.config.text.width;
        let level = state.visual_embeds.plus((index + 1) * state.visual_rows * width);
        let args = [
            Arg::At(x),
            Arg::At(rows.to.at(state.lists)),
            Arg::At(level),
            Arg::At(rows.from.at(state.lists)),
            Arg::Int(width as i32),
        ];
        self.gpu.run("add_rows", LaunchShape::rows(rows.to.len, width), &args)
    }

    /// The last layer, with queries of the last token of each sequence only.
    fn last_rows(
        &mut self,
        layer: &Layer,
        state: &ForwardState<'_>,
        index: usize,
    ) -> Result<Address, GpuError> {
        let TextConfig { width, heads, kv_heads, head_width, epsilon, .. } = self.config.text;
        let ForwardState { batch, lists, hidden, .. } = *state;
        let (count, last) = (batch.sequences, batch.last.at(lists));
        let (kv, stride) = self.keys_and_queries(layer, hidden, true)?;
        self.keep_keys(state, index, kv, stride)?;
        // The normalised rows were needed for keys; now only the last of them are.
        let normal = self.buffers.normal.of(&self.gpu, count * width)?;
        self.rms_norm(hidden.x, layer.norm1, normal, count, last)?;
        let asking = heads * head_width;
        let queries = self.buffers.last_queries.of(&self.gpu, count * asking)?;
        let matmul = Matmul {
            x: normal,
            weight: self.weight(layer.qkv)?,
            epilogue: layer.qkv.with_bias(0),
            y: queries,
            stride: asking,
            rows: count,
            inputs: width,
            outputs: asking,
        };
        self.cublas.run(&mut self.gpu, "matmuls of last rows", &matmul)?;
        let args = [
            Arg::At(queries),
            Arg::Int(asking as i32),
            Arg::At(queries),
            Arg::Int(asking as i32),
            Arg::Int(heads as i32),
            Arg::Int(heads as i32),
            Arg::At(layer.q_norm),
            Arg::At(layer.q_norm),
            Arg::Float(epsilon as f32),
            Arg::At(hidden.cos_sin),
            Arg::At(last),
        ];
        self.gpu.run("turn_text", heads_of(count, heads), &args)?;
        let mixed = self.buffers.mixed.of(&self.gpu, count * asking)?;
        self.attend(&Attention {
            kernel: "attend_text",
            q: queries,
            q_stride: asking,
            k: kv,
            v: kv.plus(kv_heads * head_width),
            k_stride: stride,
            v_stride: stride,
            out: mixed,
            out_stride: heads * head_width,
            log_sums: Address::NONE,
            heads,
            kv_heads,
            head_width,
            lists: [
                batch.single_starts.at(lists),
                batch.single_lengths.at(lists),
                batch.starts.at(lists),
                batch.lengths.at(lists),
            ],
            sequences: count,
            longest: 1,
            prefix: self.before(state, index),
        })?;
        let x = self.buffers.last.of(&self.gpu, count * width)?;
        let args = [
            Arg::At(hidden.x),
            Arg::Int(width as i32),
            Arg::At(last),
            Arg::At(x),
            Arg::Int(width as i32),
            Arg::Int(width as i32),
        ];
        self.gpu.run("take_rows", LaunchShape::rows(count, width), &args)?;
        self.linear("matmuls of last rows", layer.o, mixed, count, Epilogue::Add, x)?;
        self.feed_forward(layer, x, count)?;
        self.add_deepstack(state, index, x, batch.last_visual_tokens)?;
        Ok(x)
    }

    /// The logits of the batch's labels after each sequence, one sequence after another, by their last hidden states. The
    /// batch's lists are still on the GPU.
    pub(super) fn label_logits(&mut self, x: Address, batch: &Batch) -> Result<Vec<f32>, GpuError> {
        let labels = batch.labels.at(self.buffers.lists.address(&self.gpu));
        self.logits(x, batch.sequences, labels, batch.labels.len)
    }

    /// The logits of all tokens after each of `count` sequences.
    pub(super) fn all_logits(&mut self, x: Address, count: usize) -> Result<Vec<f32>, GpuError> {
        self.logits(x, count, Address::NONE, self.config.text.vocab)
    }

    /// The logits of so many labels, or of the first tokens, if there is no list of labels.
    fn logits(
        &mut self,
        x: Address,
        count: usize,
        labels: Address,
        outputs: usize,
    ) -> Result<Vec<f32>, GpuError> {
        let width = self.config.text.width;
        let normal = self.buffers.normal.of(&self.gpu, count * width)?;
        let (norm, head) = (self.parameters.norm, self.parameters.head.weight);
        self.rms_norm(x, norm, normal, count, Address::NONE)?;
        let logits = self.buffers.logits.of(&self.gpu, count * outputs)?;
        let args = [
            Arg::At(normal),
            Arg::At(head),
            Arg::Int(width as i32),
            Arg::At(labels),
            Arg::Int(outputs as i32),
            Arg::At(logits),
            Arg::Int(width as i32),
        ];
        let shape = LaunchShape { blocks: [outputs.div_ceil(8), count, 1], threads: 256, shared: 0 };
        self.gpu.run("label_logits", shape, &args)?;
        self.buffers.logits.get(&self.gpu, count * outputs)
    }
}
