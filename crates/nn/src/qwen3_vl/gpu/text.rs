//! The language model on a GPU.

use cudarc::driver::CudaSlice;

use super::super::config::TextConfig;
use super::batch::{Batch, Rows};
use super::device::{Arg, Shape};
use super::engine::{Attention, Engine, heads_of};
use super::error::GpuError;
use super::memory::Address;
use super::parameters::Layer;
use super::product::{Finish, Product};

/// Keys and values of words that prompts begin with.
pub(super) struct Prefix {
    pub(super) ids: Vec<u32>,
    /// `[layers, tokens, keys and values]`
    kept: CudaSlice<u16>,
}

/// What a pass over a batch has at hand.
struct Reading<'a> {
    batch: &'a Batch,
    /// Where the batch's lists are.
    lists: Address,
    x: Address,
    turns: Address,
    /// Rows that were seen.
    seen: Address,
    seen_rows: usize,
    /// Where the keys and values before all sequences are, and of how many tokens.
    prefix: (Address, usize),
}

impl Engine {
    /// Reads words that prompts begin with, and keeps their keys and values.
    pub(super) fn remember(&mut self, ids: &[u32], batch: &Batch) -> Result<(), GpuError> {
        self.prefix = None; // its memory first
        let TextConfig { kv_heads, head_width, layers, .. } = self.config.text;
        let width = 2 * kv_heads * head_width;
        let kept = self.gpu.room(layers * batch.tokens * width)?;
        let store = self.gpu.address(&kept);
        let reading = self.begin(batch, 0, 0)?;
        for i in 0..layers {
            let layer = self.parameters.layers[i];
            let is_last = i + 1 == layers;
            let (qkv, stride) = self.keys_and_queries(&layer, &reading, is_last)?;
            let args = [
                Arg::At(qkv.plus(stride - width)),
                Arg::Int(stride as i32),
                Arg::At(Address::NONE),
                Arg::At(store.plus(i * batch.tokens * width)),
                Arg::Int(width as i32),
                Arg::Int(width as i32),
            ];
            self.gpu.run("take_rows", Shape::rows(batch.tokens, width), &args)?;
            if !is_last {
                self.rest_of_layer(&layer, &reading, i, qkv)?;
            }
        }
        self.prefix = Some(Prefix { ids: ids.to_vec(), kept });
        Ok(())
    }

    /// The logits of the batch's labels after each sequence, one sequence after another. The first `prefix` tokens of all
    /// of them were read by [`remember`](Self::remember).
    pub(super) fn read(
        &mut self,
        batch: &Batch,
        prefix: usize,
        seen_rows: usize,
    ) -> Result<Vec<f32>, GpuError> {
        let reading = self.begin(batch, prefix, seen_rows)?;
        let layers = self.parameters.layers.len();
        for i in 0..layers - 1 {
            let layer = self.parameters.layers[i];
            let (qkv, _) = self.keys_and_queries(&layer, &reading, false)?;
            self.rest_of_layer(&layer, &reading, i, qkv)?;
        }
        let layer = self.parameters.layers[layers - 1];
        let x = self.last_rows(&layer, &reading, layers - 1)?;
        self.logits(x, &reading)
    }

    /// Words from the table and what is seen, and the angles of positions.
    fn begin<'a>(
        &mut self,
        batch: &'a Batch,
        prefix: usize,
        seen_rows: usize,
    ) -> Result<Reading<'a>, GpuError> {
        let TextConfig { width, head_width, .. } = self.config.text;
        let half = head_width / 2;
        let lists = self.space.lists.put(&self.gpu, batch.lists.numbers())?;
        let x = self.space.x.of(&self.gpu, batch.tokens * width)?;
        let seen = self.space.seen.of(&self.gpu, 0)?;
        let embed = self.parameters.embed;
        let args = [
            Arg::At(batch.sources.at(lists)),
            Arg::At(embed),
            Arg::At(seen),
            Arg::At(x),
            Arg::Int(width as i32),
        ];
        self.gpu.run("embed", Shape::rows(batch.tokens, width), &args)?;
        let turns = self.space.turns.of(&self.gpu, batch.tokens * half * 2)?;
        let args = [
            Arg::At(batch.positions.at(lists)),
            Arg::At(self.frequencies.of(&self.gpu, 0)?),
            Arg::At(self.axes.of(&self.gpu, 0)?),
            Arg::At(turns),
        ];
        self.gpu.run("angles", Shape { blocks: [batch.tokens, 1, 1], threads: half, shared: 0 }, &args)?;
        let kept = self.prefix.as_ref().filter(|_| prefix > 0).map(|prefix| self.gpu.address(&prefix.kept));
        Ok(Reading {
            batch,
            lists,
            x,
            turns,
            seen,
            seen_rows,
            prefix: (kept.unwrap_or(Address::NONE), prefix),
        })
    }

    /// Queries, keys and values of all tokens, side by side, normalised and turned; and how far rows are apart. In the last
    /// layer there are no queries among them.
    fn keys_and_queries(
        &mut self,
        layer: &Layer,
        reading: &Reading<'_>,
        is_last: bool,
    ) -> Result<(Address, usize), GpuError> {
        let TextConfig { width, heads, kv_heads, head_width, epsilon, .. } = self.config.text;
        let tokens = reading.batch.tokens;
        let normal = self.space.normal.of(&self.gpu, tokens * width)?;
        self.rms_norm(reading.x, layer.norm1, normal, tokens, Address::NONE)?;
        let asking = if is_last { 0 } else { heads };
        let outputs = (asking + 2 * kv_heads) * head_width;
        let skipped = (heads - asking) * head_width;
        let qkv = self.space.qkv.of(&self.gpu, tokens * outputs)?;
        let product = Product {
            x: normal,
            weight: layer.qkv.weight.plus(skipped * width),
            finish: Finish::Plain,
            y: qkv,
            stride: outputs,
            rows: tokens,
            inputs: width,
            outputs,
        };
        self.products.run(&mut self.gpu, "qkv product", &product)?;
        let turned = asking + kv_heads;
        let args = [
            Arg::At(qkv),
            Arg::Int(outputs as i32),
            Arg::Int(asking as i32),
            Arg::Int(turned as i32),
            Arg::At(layer.q_norm),
            Arg::At(layer.k_norm),
            Arg::Float(epsilon as f32),
            Arg::At(reading.turns),
            Arg::At(Address::NONE),
        ];
        self.gpu.run("turn_text", heads_of(tokens, turned), &args)?;
        Ok((qkv, outputs))
    }

    /// Attention, the feed-forward part, and what is seen.
    fn rest_of_layer(
        &mut self,
        layer: &Layer,
        reading: &Reading<'_>,
        index: usize,
        qkv: Address,
    ) -> Result<(), GpuError> {
        let TextConfig { heads, kv_heads, head_width, .. } = self.config.text;
        let Reading { batch, lists, x, .. } = *reading;
        let stride = (heads + 2 * kv_heads) * head_width;
        let mixed = self.space.mixed.of(&self.gpu, batch.tokens * heads * head_width)?;
        let (starts, lengths) = (batch.starts.at(lists), batch.lengths.at(lists));
        self.attend(&Attention {
            kernel: "attend_text",
            q: qkv,
            q_stride: stride,
            k: qkv.plus(heads * head_width),
            v: qkv.plus((heads + kv_heads) * head_width),
            kv_stride: stride,
            out: mixed,
            heads,
            kv_heads,
            head_width,
            lists: [starts, lengths, starts, lengths],
            sequences: batch.sequences,
            longest: batch.longest,
            prefix: self.before(reading, index),
        })?;
        self.linear("o product", layer.o, mixed, batch.tokens, Finish::Add, x)?;
        self.feed_forward(layer, x, batch.tokens)?;
        self.add_seen(reading, index, x, batch.shown)
    }

    /// Keys and values of layer `index` that come before all sequences.
    fn before(&self, reading: &Reading<'_>, index: usize) -> (Address, Address, usize, usize) {
        let TextConfig { kv_heads, head_width, .. } = self.config.text;
        let (kept, tokens) = reading.prefix;
        let width = 2 * kv_heads * head_width;
        let keys = kept.plus(index * tokens * width);
        (keys, keys.plus(kv_heads * head_width), width, tokens)
    }

    fn feed_forward(&mut self, layer: &Layer, x: Address, rows: usize) -> Result<(), GpuError> {
        let TextConfig { width, inner, .. } = self.config.text;
        let normal = self.space.normal.of(&self.gpu, rows * width)?;
        self.rms_norm(x, layer.norm2, normal, rows, Address::NONE)?;
        let both = self.space.inner.of(&self.gpu, rows * 2 * inner)?;
        self.linear("gate and up product", layer.gate_up, normal, rows, Finish::Plain, both)?;
        let gated = self.space.gated.of(&self.gpu, rows * inner)?;
        let args = [Arg::At(both), Arg::At(gated), Arg::Int(inner as i32)];
        self.gpu.run("swiglu", Shape::rows(rows, inner), &args)?;
        self.linear("down product", layer.down, gated, rows, Finish::Add, x)
    }

    /// Adds a level of what is seen, if there is one for this layer.
    fn add_seen(
        &mut self,
        reading: &Reading<'_>,
        index: usize,
        x: Address,
        rows: Rows,
    ) -> Result<(), GpuError> {
        if index >= self.config.vision.deepstack.len() || rows.to.len == 0 {
            return Ok(());
        }
        let width = self.config.text.width;
        let level = reading.seen.plus((index + 1) * reading.seen_rows * width);
        let args = [
            Arg::At(x),
            Arg::At(rows.to.at(reading.lists)),
            Arg::At(level),
            Arg::At(rows.from.at(reading.lists)),
            Arg::Int(width as i32),
        ];
        self.gpu.run("add_rows", Shape::rows(rows.to.len, width), &args)
    }

    /// The last layer, in which only the last token of each sequence asks.
    fn last_rows(&mut self, layer: &Layer, reading: &Reading<'_>, index: usize) -> Result<Address, GpuError> {
        let TextConfig { width, heads, kv_heads, head_width, epsilon, .. } = self.config.text;
        let Reading { batch, lists, .. } = *reading;
        let (count, last) = (batch.sequences, batch.last.at(lists));
        let (kv, stride) = self.keys_and_queries(layer, reading, true)?;
        // The normalised rows were needed for keys; now only the last of them are.
        let normal = self.space.normal.of(&self.gpu, count * width)?;
        self.rms_norm(reading.x, layer.norm1, normal, count, last)?;
        let asking = heads * head_width;
        let queries = self.space.last_queries.of(&self.gpu, count * asking)?;
        let product = Product {
            x: normal,
            weight: layer.qkv.weight,
            finish: Finish::Plain,
            y: queries,
            stride: asking,
            rows: count,
            inputs: width,
            outputs: asking,
        };
        self.products.run(&mut self.gpu, "products of last rows", &product)?;
        let args = [
            Arg::At(queries),
            Arg::Int(asking as i32),
            Arg::Int(heads as i32),
            Arg::Int(heads as i32),
            Arg::At(layer.q_norm),
            Arg::At(layer.q_norm),
            Arg::Float(epsilon as f32),
            Arg::At(reading.turns),
            Arg::At(last),
        ];
        self.gpu.run("turn_text", heads_of(count, heads), &args)?;
        let mixed = self.space.mixed.of(&self.gpu, count * asking)?;
        self.attend(&Attention {
            kernel: "attend_text",
            q: queries,
            q_stride: asking,
            k: kv,
            v: kv.plus(kv_heads * head_width),
            kv_stride: stride,
            out: mixed,
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
            prefix: self.before(reading, index),
        })?;
        let x = self.space.last.of(&self.gpu, count * width)?;
        let args = [
            Arg::At(reading.x),
            Arg::Int(width as i32),
            Arg::At(last),
            Arg::At(x),
            Arg::Int(width as i32),
            Arg::Int(width as i32),
        ];
        self.gpu.run("take_rows", Shape::rows(count, width), &args)?;
        self.linear("products of last rows", layer.o, mixed, count, Finish::Add, x)?;
        self.feed_forward(layer, x, count)?;
        self.add_seen(reading, index, x, batch.last_shown)?;
        Ok(x)
    }

    /// The logits of the batch's labels.
    fn logits(&mut self, x: Address, reading: &Reading<'_>) -> Result<Vec<f32>, GpuError> {
        let width = self.config.text.width;
        let (count, labels) = (reading.batch.sequences, reading.batch.labels);
        let normal = self.space.normal.of(&self.gpu, count * width)?;
        let (norm, head) = (self.parameters.norm, self.parameters.head);
        self.rms_norm(x, norm, normal, count, Address::NONE)?;
        let logits = self.space.logits.of(&self.gpu, count * labels.len)?;
        let args = [
            Arg::At(normal),
            Arg::At(head),
            Arg::At(labels.at(reading.lists)),
            Arg::Int(labels.len as i32),
            Arg::At(logits),
            Arg::Int(width as i32),
        ];
        self.gpu.run(
            "label_logits",
            Shape { blocks: [labels.len.div_ceil(8), count, 1], threads: 256, shared: 0 },
            &args,
        )?;
        self.space.logits.get(&self.gpu, count * labels.len)
    }
}
