//! Answers on a GPU: prompts fill a KV cache, then one token after another of each sequence goes through the layers.

use std::sync::PoisonError;

use super::super::cache::ScoreCache;
use super::super::config::TextConfig;
use super::super::error::VlmError;
use super::super::forward::Architecture;
use super::super::processor::Inputs;
use super::batch::Batch;
use super::engine::Engine;
use super::kv_cache::{CacheRows, DecodeStep, KvCache, NextToken, kv_width, sequences_at_once};
use super::text::HiddenStates;
use super::{GpuModel, Reuse, prompts_per_batch};
use crate::gpu::{Address, Arg, Epilogue, GpuError, LaunchShape};

/// Threads of a block that attends to kept keys; each takes one key at a time.
const DECODE_THREADS: usize = 128;
/// Parts that the keys of a sequence are split into at most, and numbers that each leaves beside its values: as `decode.cu` has it.
const MAX_SPLITS: usize = 32;
const SPLIT_EXTRA: usize = 2;

/// Prompts that are answered together, and what is kept of them on the GPU.
pub(in super::super) struct Answers {
    kv_cache: KvCache,
}

impl Answers {
    /// How many prompts they are.
    pub(in super::super) fn len(&self) -> usize {
        self.kv_cache.sequences()
    }
}

impl GpuModel {
    /// Begins the answers of the first prompts, as many as memory holds with answers of so many tokens; and gives the logits of all
    /// tokens after each.
    pub(in super::super) fn begin_answers(
        &self,
        architecture: &Architecture,
        inputs: &[Inputs],
        max_new_tokens: usize,
    ) -> Result<(Answers, Vec<Vec<f32>>), VlmError> {
        if let Some(i) = inputs.iter().position(Inputs::is_empty) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = &mut *engine;
        let (config, lengths) = (&engine.config.text, inputs.iter().map(Inputs::len));
        let count = sequences_at_once(config, lengths.clone(), max_new_tokens, engine.gpu.memory()?)?;
        let lengths: Vec<usize> = lengths.take(count).collect();
        let kv_cache = KvCache::new(&engine.gpu, config, &lengths, max_new_tokens)?;
        let (mut logits, mut first) = (Vec::with_capacity(count), 0);
        while first < count {
            let now = first + prompts_per_batch(&inputs[first..count], self.most_tokens);
            logits.extend(engine.prefill(architecture, &inputs[first..now], &kv_cache, first)?);
            first = now;
        }
        Ok((Answers { kv_cache }, logits))
    }

    /// Appends tokens to sequences under way, one to each of those named: the logits of all tokens after each.
    pub(in super::super) fn next_logits(
        &self,
        answers: &mut Answers,
        next: &[NextToken],
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(engine.decode(&mut answers.kv_cache, next)?)
    }
}

impl Engine {
    /// Runs prompts and keeps their keys and values; they are sequences of the cache from `first` on.
    fn prefill(
        &mut self,
        architecture: &Architecture,
        inputs: &[Inputs],
        kv_cache: &KvCache,
        first: usize,
    ) -> Result<Vec<Vec<f32>>, GpuError> {
        // Prompts may share frames; nothing is kept of those beyond this call.
        let mut frames = ScoreCache::new(0);
        let (visual_embeds, visual_rows) =
            self.encode_visuals(architecture, inputs, &mut Reuse::Cached(&mut frames))?;
        let sequences = self.sequences(inputs, 0, visual_embeds);
        let mut batch = Batch::new(&sequences, &[], |id| architecture.is_visual_token(id));
        let rows = batch.lists.add(kv_cache.prompt_rows(first..first + inputs.len()));
        let kept = kv_cache.at_rows(&self.gpu, rows);
        let x = self.text_forward(&batch, 0, visual_rows, Some(kept))?;
        let logits = self.all_logits(x, inputs.len())?;
        Ok(self.per_sequence(&logits))
    }

    /// Runs one more token of some sequences.
    fn decode(&mut self, kv_cache: &mut KvCache, next: &[NextToken]) -> Result<Vec<Vec<f32>>, GpuError> {
        let step = kv_cache.append(next);
        let kept = kv_cache.at_rows(&self.gpu, step.rows);
        let lists = self.buffers.lists.put(&self.gpu, step.lists.numbers())?;
        let hidden = self.embed_tokens(step.sources, step.positions, lists)?;
        for i in 0..self.parameters.layers.len() {
            self.decode_layer(i, &step, hidden, &kept, lists)?;
        }
        let logits = self.all_logits(hidden.x, step.tokens)?;
        Ok(self.per_sequence(&logits))
    }

    fn decode_layer(
        &mut self,
        index: usize,
        step: &DecodeStep,
        hidden: HiddenStates,
        kept: &CacheRows,
        lists: Address,
    ) -> Result<(), GpuError> {
        let layer = self.parameters.layers[index];
        let (qkv, stride) = self.keys_and_queries(&layer, hidden, false)?;
        self.put_in_cache(kept, lists, index, (qkv, stride))?;
        let mixed = self.attend_cached(index, step, (qkv, stride), kept, lists)?;
        self.linear("o matmul", layer.o, mixed, hidden.tokens, Epilogue::Add, hidden.x)?;
        self.feed_forward(&layer, hidden.x, hidden.tokens)
    }

    /// Copies keys and values, which are last in rows of so many numbers, to the rows of layer `index` that they are kept in.
    pub(super) fn put_in_cache(
        &mut self,
        kept: &CacheRows,
        lists: Address,
        index: usize,
        (qkv, stride): (Address, usize),
    ) -> Result<(), GpuError> {
        let width = kv_width(&self.config.text);
        let args = [
            Arg::At(qkv.plus(stride - width)),
            Arg::Int(stride as i32),
            Arg::At(kept.to.at(lists)),
            Arg::At(kept.layer(index, width)),
            Arg::Int(width as i32),
            Arg::Int(width as i32),
        ];
        self.gpu.run("put_rows", LaunchShape::rows(kept.to.len, width), &args)
    }

    /// Attention of queries, which are first in rows of so many numbers, over what is kept of layer `index`.
    fn attend_cached(
        &mut self,
        index: usize,
        step: &DecodeStep,
        (queries, stride): (Address, usize),
        kept: &CacheRows,
        lists: Address,
    ) -> Result<Address, GpuError> {
        let TextConfig { heads, kv_heads, head_width, .. } = self.config.text;
        let width = kv_width(&self.config.text);
        let (splits, keys_per_split) = splits(step.longest);
        let numbers = step.tokens * heads * splits * (head_width + SPLIT_EXTRA);
        let parts = self.buffers.split_attention.of(&self.gpu, numbers)?;
        let keys = kept.layer(index, width);
        let args = [
            Arg::At(queries),
            Arg::Int(stride as i32),
            Arg::At(keys),
            Arg::At(keys.plus(kv_heads * head_width)),
            Arg::Int(width as i32),
            Arg::Int((heads / kv_heads) as i32),
            Arg::At(step.starts.at(lists)),
            Arg::At(step.lengths.at(lists)),
            Arg::Int(keys_per_split as i32),
            Arg::Float(std::f32::consts::LOG2_E / (head_width as f32).sqrt()),
            Arg::At(parts),
        ];
        let blocks = [splits, heads, step.tokens];
        self.gpu.run("attend_cached", LaunchShape { blocks, threads: DECODE_THREADS, shared: 0 }, &args)?;
        let mixed = self.buffers.mixed.of(&self.gpu, step.tokens * heads * head_width)?;
        let args =
            [Arg::At(parts), Arg::Int(splits as i32), Arg::At(mixed), Arg::Int((heads * head_width) as i32)];
        let threads = (head_width / 2).next_multiple_of(32).min(DECODE_THREADS);
        let shape = LaunchShape { blocks: [heads, step.tokens, 1], threads, shared: 0 };
        self.gpu.run("join_splits", shape, &args)?;
        Ok(mixed)
    }

    /// Logits of all tokens, sequence by sequence.
    fn per_sequence(&self, logits: &[f32]) -> Vec<Vec<f32>> {
        logits.chunks_exact(self.config.text.vocab).map(<[f32]>::to_vec).collect()
    }
}

impl CacheRows {
    /// Where layer `index` begins; rows are of so many numbers.
    fn layer(&self, index: usize, width: usize) -> Address {
        self.at.plus(index * self.per_layer * width)
    }
}

/// Into how many parts the keys of the longest sequence are split, and how many keys a part has.
fn splits(longest: usize) -> (usize, usize) {
    let tiles = longest.div_ceil(DECODE_THREADS);
    let per_split = tiles.div_ceil(MAX_SPLITS).max(1);
    (tiles.div_ceil(per_split).max(1), per_split * DECODE_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_have_all_keys_and_are_no_more_than_their_memory_is_for() {
        for longest in [1, 127, 128, 129, 1000, 4096, 4097, 8192, 40_000, 262_144] {
            let (count, keys) = splits(longest);
            assert!(count * keys >= longest && (count - 1) * keys < longest, "{longest}: {count} of {keys}");
            assert!(
                count <= MAX_SPLITS && keys.is_multiple_of(DECODE_THREADS),
                "{longest}: {count} of {keys}"
            );
        }
    }
}
