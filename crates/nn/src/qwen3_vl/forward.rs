//! The forward pass that inference and training have in common, and batches for it.

use rayon::prelude::*;

use super::cache::{FramePairCache, ScoreCache};
use super::config::Config;
use super::error::VlmError;
use super::layers::AttentionMask;
use super::network::Network;
use super::param_source::ParamSource;
use super::patches::Visual;
use super::processor::{Inputs, Processor};
use super::text::{self, Batch, KvCache, TokenSelection};
use super::vision::{VisualEmbeds, vision_forward};
use crate::tensor::Tensor;

/// The shortest shared prefix that is worth caching, in tokens.
pub(super) const MIN_SHARED_PREFIX: usize = 16;

/// The network without its parameters.
#[derive(Clone, Debug)]
pub(super) struct Architecture {
    pub(super) config: Config,
    pub(super) processor: Processor,
    pub(super) network: Network,
}

/// Where padding goes in a batch of sequences of several lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Before the shorter ones.
    Left,
    /// After them.
    Right,
}

impl Architecture {
    /// Tokens a visual becomes.
    pub(super) fn tokens_of(&self, visual: &Visual) -> usize {
        visual.grid.iter().product::<usize>() / self.config.vision.merged()
    }

    /// Sequences as one batch, padded to the longest, with the embeddings of their images and videos.
    pub(super) fn batch<P: ParamSource>(
        &self,
        params: &P,
        inputs: &[Inputs],
        padding: Padding,
    ) -> Result<Batch, VlmError> {
        let visual_embeds = self.encode_visuals(params, inputs.iter().flat_map(|input| &input.visuals));
        self.batch_from(0, inputs, padding, visual_embeds)
    }

    /// The same from a token on, with given visual embeddings.
    pub(super) fn batch_from(
        &self,
        from: usize,
        inputs: &[Inputs],
        padding: Padding,
        visual_embeds: Option<VisualEmbeds>,
    ) -> Result<Batch, VlmError> {
        if let Some(i) = inputs.iter().position(|input| input.len() <= from) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let lengths: Vec<usize> = inputs.iter().map(|input| input.len() - from).collect();
        let tokens = lengths.iter().copied().max().unwrap_or(0);
        let fill = self.processor.tokenizer().special().end_of_text;
        let (mut ids, mut positions, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (input, length)) in inputs.iter().zip(&lengths).enumerate() {
            let missing = tokens - length;
            let before = if padding == Padding::Left { missing } else { 0 };
            ids.extend(std::iter::repeat_n(fill, before).chain(input.ids[from..].iter().copied()));
            ids.extend(std::iter::repeat_n(fill, missing - before));
            let axes = input.positions.axes[from..].iter().copied();
            positions.extend(std::iter::repeat_n([0; 3], before).chain(axes));
            positions.extend(std::iter::repeat_n([0; 3], missing - before));
            let visual_tokens =
                input.ids[from..].iter().enumerate().filter(|(_, id)| self.is_visual_token(**id));
            rows.extend(visual_tokens.map(|(token, _)| i * tokens + before + token));
        }
        let rope = text::rope(&self.config.text, &positions);
        let attend = match padding {
            // Attention is causal, so padding after a sequence does not matter to it.
            Padding::Right => AttentionMask::Causal,
            Padding::Left if lengths.iter().all(|length| *length == tokens) => AttentionMask::Causal,
            Padding::Left => AttentionMask::left_padded(&lengths, tokens, tokens),
        };
        Ok(Batch {
            size: inputs.len(),
            tokens,
            ids,
            rope,
            attend,
            visual_embeds: visual_embeds.map(|visual_embeds| (rows, visual_embeds)),
        })
    }

    /// Whether a token stands for a piece of an image or video.
    pub(super) fn is_visual_token(&self, id: u32) -> bool {
        id == self.config.image_token || id == self.config.video_token
    }

    /// The length of the prefix that all prompts share, before the first visual token.
    pub(super) fn shared_prefix(&self, inputs: &[Inputs]) -> usize {
        let Some(first) = inputs.first() else { return 0 };
        let words = first.ids.iter().position(|id| self.is_visual_token(*id)).unwrap_or(first.len() - 1);
        let alike = |input: &Inputs| {
            first.ids[..words].iter().zip(&input.ids).take_while(|(own, other)| own == other).count()
        };
        inputs.iter().map(|input| alike(input).min(input.len() - 1)).min().unwrap_or(0)
    }

    /// The logits of a few tokens after each prompt, without computing again what is in the cache.
    pub(super) fn score<P: ParamSource>(
        &self,
        params: &P,
        inputs: &[Inputs],
        labels: &[u32],
        cache: &mut ScoreCache,
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        self.check_labels(labels)?;
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        if let Some(i) = inputs.iter().position(Inputs::is_empty) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let prefix =
            Some(self.shared_prefix(inputs)).filter(|prefix| *prefix >= MIN_SHARED_PREFIX).unwrap_or(0);
        let mut kv_cache = self
            .cache_prefix(params, &inputs[0], prefix, cache)?
            .map(|kv_cache| kv_cache.repeat_for_batch(inputs.len()));
        let visuals = inputs.iter().flat_map(|input| &input.visuals);
        let visual_embeds = self.encode_uncached(params, visuals, &mut cache.pairs);
        let batch = self.batch_from(prefix, inputs, Padding::Right, visual_embeds)?;
        let last: Vec<usize> = inputs.iter().map(|input| input.len() - prefix - 1).collect();
        let rows = self.text_forward(params, &batch, kv_cache.as_mut(), TokenSelection::LastOf(&last));
        let logits = params.outputs(&self.network.text.head, rows, labels);
        Ok(logits.numbers().chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    /// The KV cache of the first tokens of a prompt, which are text.
    fn cache_prefix<P: ParamSource>(
        &self,
        params: &P,
        input: &Inputs,
        prefix: usize,
        cache: &mut ScoreCache,
    ) -> Result<Option<KvCache>, VlmError> {
        if prefix == 0 {
            return Ok(None);
        }
        let ids = &input.ids[..prefix];
        if let Some((kept, kv_cache)) = &cache.prefix
            && kept == ids
        {
            return Ok(Some(kv_cache.clone()));
        }
        let mut words = input.clone();
        words.ids.truncate(prefix);
        words.positions.axes.truncate(prefix);
        words.visuals.clear();
        let batch = self.batch_from(0, &[words], Padding::Right, None)?;
        let mut kv_cache = KvCache::default();
        let _ = self.text_forward(params, &batch, Some(&mut kv_cache), TokenSelection::LastOf(&[prefix - 1]));
        cache.prefix = Some((ids.to_vec(), kv_cache.clone()));
        Ok(Some(kv_cache))
    }

    /// The tokens of visuals, in their order; only pairs of frames that are new go through the tower.
    fn encode_uncached<'a, P: ParamSource>(
        &self,
        params: &P,
        visuals: impl Iterator<Item = &'a Visual>,
        kept: &mut FramePairCache,
    ) -> Option<VisualEmbeds> {
        let pairs: Vec<(&Visual, &[u8])> =
            visuals.flat_map(|visual| visual.pairs().map(move |bytes| (visual, bytes))).collect();
        let sides = |visual: &Visual| [visual.grid[1], visual.grid[2]];
        let mut parts: Vec<Option<VisualEmbeds>> =
            pairs.iter().map(|(visual, bytes)| kept.get(bytes, sides(visual))).collect();
        // Windows of one batch share pairs too.
        let mut new: Vec<usize> = Vec::new();
        let twin = |new: &[usize], i: usize| {
            new.iter().position(|j| pairs[*j].1 == pairs[i].1 && sides(pairs[*j].0) == sides(pairs[i].0))
        };
        for (i, part) in parts.iter().enumerate() {
            if part.is_none() && twin(&new, i).is_none() {
                new.push(i);
            }
        }
        let single: Vec<Visual> = new.iter().map(|i| single_pair(pairs[*i].0, pairs[*i].1)).collect();
        if let Some(visual_embeds) = self.encode_visuals(params, single.iter()) {
            let mut from = 0;
            let mut found = Vec::with_capacity(new.len());
            for (i, visual) in new.iter().zip(&single) {
                let count = self.tokens_of(visual);
                let part = visual_embeds.rows(from, count);
                kept.keep(pairs[*i].1, sides(visual), part.clone());
                found.push(part);
                from += count;
            }
            for (i, part) in parts.iter_mut().enumerate().filter(|(_, part)| part.is_none()) {
                *part = twin(&new, i).map(|place| found[place].clone());
            }
        }
        VisualEmbeds::join(parts.into_iter().flatten().collect())
    }

    /// The tokens of visuals, in their order. Pairs of frames of one size go through the tower together.
    fn encode_visuals<'a, P: ParamSource>(
        &self,
        params: &P,
        visuals: impl Iterator<Item = &'a Visual>,
    ) -> Option<VisualEmbeds> {
        let visuals: Vec<&Visual> = visuals.collect();
        let mut parts: Vec<Option<VisualEmbeds>> = vec![None; visuals.len()];
        while let Some(first) = parts.iter().position(Option::is_none) {
            let size = [visuals[first].grid[1], visuals[first].grid[2]];
            let alike = |i: &usize| parts[*i].is_none() && visuals[*i].grid[1..] == size;
            let alike: Vec<usize> = (first..visuals.len()).filter(alike).collect();
            let same_size: Vec<&Visual> = alike.iter().map(|i| visuals[*i]).collect();
            let visual_embeds = self.encode_same_size(params, &same_size, size);
            let mut from = 0;
            for i in alike {
                let count = self.tokens_of(visuals[i]);
                parts[i] = Some(visual_embeds.rows(from, count));
                from += count;
            }
        }
        VisualEmbeds::join(parts.into_iter().flatten().collect())
    }

    fn encode_same_size<P: ParamSource>(
        &self,
        params: &P,
        visuals: &[&Visual],
        size: [usize; 2],
    ) -> VisualEmbeds {
        let width = self.config.vision.patch_len();
        let mut numbers = vec![0.0; visuals.iter().map(|visual| visual.patches.len()).sum()];
        let mut rest = &mut numbers[..];
        for visual in visuals {
            let (own, others) = rest.split_at_mut(visual.patches.len());
            self.normalize_pixels(visual, own);
            rest = others;
        }
        let count = numbers.len() / width;
        let patches = Tensor::new(numbers, [count, width]);
        vision_forward(params, &self.network.vision, &self.config.vision, patches, size)
    }

    /// Normalizes the bytes of a visual.
    fn normalize_pixels(&self, visual: &Visual, numbers: &mut [f32]) {
        let mean_and_std = self.processor.mean_and_std(visual.kind);
        let colour = self.config.vision.patch_len() / 3;
        let colours = visual.patches.par_chunks(colour).zip(numbers.par_chunks_mut(colour));
        colours.enumerate().with_min_len(64).for_each(|(i, (bytes, numbers))| {
            let [mean, std_dev] = mean_and_std[i % 3];
            for (number, byte) in numbers.iter_mut().zip(bytes) {
                *number = (f32::from(*byte) - mean) / std_dev;
            }
        });
    }

    /// Runs the language model on a batch; see [`text::text_forward`].
    pub(super) fn text_forward<P: ParamSource>(
        &self,
        params: &P,
        batch: &Batch,
        kv_cache: Option<&mut KvCache>,
        selection: TokenSelection<'_>,
    ) -> Tensor<2> {
        text::text_forward(params, &self.network.text, &self.config.text, batch, kv_cache, selection)
    }

    /// The logits of a few tokens after each prompt.
    pub(super) fn label_logits<P: ParamSource>(
        &self,
        params: &P,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        self.check_labels(labels)?;
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        let batch = self.batch(params, inputs, Padding::Right)?;
        let last: Vec<usize> = inputs.iter().map(|input| input.len() - 1).collect();
        let rows = self.text_forward(params, &batch, None, TokenSelection::LastOf(&last));
        let logits = params.outputs(&self.network.text.head, rows, labels);
        Ok(logits.numbers().chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    pub(super) fn check_labels(&self, labels: &[u32]) -> Result<(), VlmError> {
        match labels.iter().find(|label| **label as usize >= self.config.text.vocab) {
            Some(label) => Err(VlmError::Input(format!("label {label} is no token of the model"))),
            None => Ok(()),
        }
    }
}

/// One pair of frames as a visual of its own.
fn single_pair(visual: &Visual, bytes: &[u8]) -> Visual {
    let [_, rows, columns] = visual.grid;
    Visual {
        kind: visual.kind,
        grid: [1, rows, columns],
        times: Vec::new(),
        seconds_per_pair: visual.seconds_per_pair,
        patches: bytes.to_vec(),
    }
}
