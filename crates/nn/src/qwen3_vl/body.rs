//! What answering and learning have in common: the network, and batches for it.

use burn::tensor::{Device, FloatDType, Tensor, TensorData};
use rayon::prelude::*;

use super::cache::{Pairs, ScoreCache};
use super::config::Config;
use super::error::VlmError;
use super::layers::Attend;
use super::network::Network;
use super::pass::Pass;
use super::patches::Visual;
use super::processor::{Inputs, Processor};
use super::text::{self, Batch, Memory, Wanted};
use super::vision::{Seen, see};
use crate::classifier::download;

/// Fewer tokens that prompts begin with alike are read again with each of them.
pub(super) const WORTH_SHARING: usize = 16;

/// A network without its parameters.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) config: Config,
    pub(super) processor: Processor,
    pub(super) network: Network,
    /// The numbers that go through the network.
    pub(super) dtype: FloatDType,
    pub(super) device: Device,
}

/// Where filling goes in a batch of sequences of several lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Before the shorter ones.
    Left,
    /// After them.
    Right,
}

impl Body {
    /// Tokens a visual becomes.
    pub(super) fn tokens_of(&self, visual: &Visual) -> usize {
        visual.grid.iter().product::<usize>() / self.config.vision.merged()
    }

    /// Sequences side by side, filled to the longest, with what is seen in their pictures.
    pub(super) fn batch<P: Pass>(
        &self,
        pass: &P,
        inputs: &[Inputs],
        padding: Padding,
    ) -> Result<Batch, VlmError> {
        let seen = self.see_all(pass, inputs.iter().flat_map(|input| &input.visuals));
        self.batch_from(0, inputs, padding, seen)
    }

    /// The same of sequences from a token on, with what was seen.
    pub(super) fn batch_from(
        &self,
        from: usize,
        inputs: &[Inputs],
        padding: Padding,
        seen: Option<Seen>,
    ) -> Result<Batch, VlmError> {
        if let Some(i) = inputs.iter().position(|input| input.len() <= from) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let lengths: Vec<usize> = inputs.iter().map(|input| input.len() - from).collect();
        let tokens = lengths.iter().copied().max().unwrap_or(0);
        let fill = self.processor.tokenizer().special().end_of_text;
        let (mut ids, mut places, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (i, (input, length)) in inputs.iter().zip(&lengths).enumerate() {
            let missing = tokens - length;
            let before = if padding == Padding::Left { missing } else { 0 };
            ids.extend(std::iter::repeat_n(fill, before).chain(input.ids[from..].iter().copied()));
            ids.extend(std::iter::repeat_n(fill, missing - before));
            let axes = input.positions.axes[from..].iter().copied();
            places.extend(std::iter::repeat_n([0; 3], before).chain(axes));
            places.extend(std::iter::repeat_n([0; 3], missing - before));
            let shown = input.ids[from..].iter().enumerate().filter(|(_, id)| self.is_shown(**id));
            rows.extend(shown.map(|(token, _)| i * tokens + before + token));
        }
        let rope = text::rope(&self.config.text, &places, inputs.len(), self.dtype, &self.device);
        let attend = match padding {
            // Nobody looks ahead, so what follows a sequence does not matter to it.
            Padding::Right => Attend::Causal,
            Padding::Left if lengths.iter().all(|length| *length == tokens) => Attend::Causal,
            Padding::Left => Attend::Masked(Box::new(self.mask(&lengths, tokens, tokens))),
        };
        Ok(Batch { size: inputs.len(), tokens, ids, rope, attend, seen: seen.map(|seen| (rows, seen)) })
    }

    /// Whether a token stands for a piece of a picture.
    pub(super) fn is_shown(&self, id: u32) -> bool {
        id == self.config.image_token || id == self.config.video_token
    }

    /// How many tokens all prompts begin with alike, before any of them shows a picture.
    pub(super) fn shared_prefix(&self, inputs: &[Inputs]) -> usize {
        let Some(first) = inputs.first() else { return 0 };
        let words = first.ids.iter().position(|id| self.is_shown(*id)).unwrap_or(first.len() - 1);
        let alike = |input: &Inputs| {
            first.ids[..words].iter().zip(&input.ids).take_while(|(own, other)| own == other).count()
        };
        inputs.iter().map(|input| alike(input).min(input.len() - 1)).min().unwrap_or(0)
    }

    /// The logits of a few tokens after each prompt, without computing again what is in the cache.
    pub(super) fn score<P: Pass>(
        &self,
        pass: &P,
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
        let prefix = Some(self.shared_prefix(inputs)).filter(|prefix| *prefix >= WORTH_SHARING).unwrap_or(0);
        let mut memory = self
            .remember_prefix(pass, &inputs[0], prefix, cache)?
            .map(|memory| memory.shared_by(inputs.len()));
        let visuals = inputs.iter().flat_map(|input| &input.visuals);
        let seen = self.see_new(pass, visuals, &mut cache.pairs);
        let batch = self.batch_from(prefix, inputs, Padding::Right, seen)?;
        let last: Vec<usize> = inputs.iter().map(|input| input.len() - prefix - 1).collect();
        let rows = self.read(pass, &batch, memory.as_mut(), Wanted::LastOf(&last));
        let logits = download(pass.outputs(&self.network.text.head, rows, labels));
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    /// What the model remembers of the first tokens of a prompt, which are words.
    fn remember_prefix<P: Pass>(
        &self,
        pass: &P,
        input: &Inputs,
        prefix: usize,
        cache: &mut ScoreCache,
    ) -> Result<Option<Memory>, VlmError> {
        if prefix == 0 {
            return Ok(None);
        }
        let ids = &input.ids[..prefix];
        if let Some((kept, memory)) = &cache.prefix
            && kept == ids
        {
            return Ok(Some(memory.clone()));
        }
        let mut words = input.clone();
        words.ids.truncate(prefix);
        words.positions.axes.truncate(prefix);
        words.visuals.clear();
        let batch = self.batch_from(0, &[words], Padding::Right, None)?;
        let mut memory = Memory::default();
        let _ = self.read(pass, &batch, Some(&mut memory), Wanted::LastOf(&[prefix - 1]));
        cache.prefix = Some((ids.to_vec(), memory.clone()));
        Ok(Some(memory))
    }

    /// The tokens of visuals, in their order; only pairs of frames that are new go through the tower.
    fn see_new<'a, P: Pass>(
        &self,
        pass: &P,
        visuals: impl Iterator<Item = &'a Visual>,
        kept: &mut Pairs,
    ) -> Option<Seen> {
        let pairs: Vec<(&Visual, &[u8])> =
            visuals.flat_map(|visual| visual.pairs().map(move |bytes| (visual, bytes))).collect();
        let sides = |visual: &Visual| [visual.grid[1], visual.grid[2]];
        let mut parts: Vec<Option<Seen>> =
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
        let single: Vec<Visual> = new.iter().map(|i| alone(pairs[*i].0, pairs[*i].1)).collect();
        if let Some(seen) = self.see_all(pass, single.iter()) {
            let mut from = 0;
            let mut found = Vec::with_capacity(new.len());
            for (i, visual) in new.iter().zip(&single) {
                let count = self.tokens_of(visual);
                let part = seen.rows(from, count);
                kept.keep(pairs[*i].1, sides(visual), part.clone());
                found.push(part);
                from += count;
            }
            for (i, part) in parts.iter_mut().enumerate().filter(|(_, part)| part.is_none()) {
                *part = twin(&new, i).map(|place| found[place].clone());
            }
        }
        Seen::join(parts.into_iter().flatten().collect())
    }

    /// What each of the last `asking` tokens must not look at, in sequences of these lengths filled on the left up to
    /// `tokens`. A token that fills looks at itself, so that its numbers stay finite.
    pub(super) fn mask(
        &self,
        lengths: &[usize],
        asking: usize,
        tokens: usize,
    ) -> Tensor<4, burn::tensor::Bool> {
        let hidden = lengths.iter().flat_map(|length| {
            let fill = tokens - length;
            (tokens - asking..tokens).flat_map(move |token| {
                (0..tokens).map(move |key| key > token || (key < fill && key != token))
            })
        });
        let data = TensorData::new(hidden.collect::<Vec<bool>>(), [lengths.len(), 1, asking, tokens]);
        Tensor::from_data(data, &self.device)
    }

    /// The tokens of visuals, in their order. Pairs of frames of one size go through the tower together.
    fn see_all<'a, P: Pass>(&self, pass: &P, visuals: impl Iterator<Item = &'a Visual>) -> Option<Seen> {
        let visuals: Vec<&Visual> = visuals.collect();
        let mut parts: Vec<Option<Seen>> = vec![None; visuals.len()];
        while let Some(first) = parts.iter().position(Option::is_none) {
            let size = [visuals[first].grid[1], visuals[first].grid[2]];
            let alike = |i: &usize| parts[*i].is_none() && visuals[*i].grid[1..] == size;
            let alike: Vec<usize> = (first..visuals.len()).filter(alike).collect();
            let together: Vec<&Visual> = alike.iter().map(|i| visuals[*i]).collect();
            let seen = self.see_alike(pass, &together, size);
            let mut from = 0;
            for i in alike {
                let count = self.tokens_of(visuals[i]);
                parts[i] = Some(seen.rows(from, count));
                from += count;
            }
        }
        Seen::join(parts.into_iter().flatten().collect())
    }

    fn see_alike<P: Pass>(&self, pass: &P, visuals: &[&Visual], size: [usize; 2]) -> Seen {
        let width = self.config.vision.patch_len();
        let mut numbers = vec![0.0; visuals.iter().map(|visual| visual.patches.len()).sum()];
        let mut rest = &mut numbers[..];
        for visual in visuals {
            let (own, others) = rest.split_at_mut(visual.patches.len());
            self.to_numbers(visual, own);
            rest = others;
        }
        let count = numbers.len() / width;
        let patches = Tensor::<2>::from_data(TensorData::new(numbers, [count, width]), &self.device);
        see(pass, &self.network.vision, &self.config.vision, patches.cast(self.dtype), size)
    }

    /// The numbers of a visual's bytes.
    fn to_numbers(&self, visual: &Visual, numbers: &mut [f32]) {
        let rules = self.processor.numbers(visual.kind);
        let colour = self.config.vision.patch_len() / 3;
        let colours = visual.patches.par_chunks(colour).zip(numbers.par_chunks_mut(colour));
        colours.enumerate().with_min_len(64).for_each(|(i, (bytes, numbers))| {
            let [mean, spread] = rules[i % 3];
            for (number, byte) in numbers.iter_mut().zip(bytes) {
                *number = (f32::from(*byte) - mean) / spread;
            }
        });
    }

    /// Reads a batch; see [`text::read`].
    pub(super) fn read<P: Pass>(
        &self,
        pass: &P,
        batch: &Batch,
        memory: Option<&mut Memory>,
        wanted: Wanted<'_>,
    ) -> Tensor<2> {
        text::read(pass, &self.network.text, &self.config.text, batch, memory, wanted, &self.device)
    }

    /// The logits of a few tokens after each prompt.
    pub(super) fn label_logits<P: Pass>(
        &self,
        pass: &P,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        self.check_labels(labels)?;
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        let batch = self.batch(pass, inputs, Padding::Right)?;
        let last: Vec<usize> = inputs.iter().map(|input| input.len() - 1).collect();
        let rows = self.read(pass, &batch, None, Wanted::LastOf(&last));
        let logits = download(pass.outputs(&self.network.text.head, rows, labels));
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    pub(super) fn check_labels(&self, labels: &[u32]) -> Result<(), VlmError> {
        match labels.iter().find(|label| **label as usize >= self.config.text.vocab) {
            Some(label) => Err(VlmError::Input(format!("label {label} is no token of the model"))),
            None => Ok(()),
        }
    }
}

/// One pair of frames as a visual of its own.
fn alone(visual: &Visual, bytes: &[u8]) -> Visual {
    let [_, rows, columns] = visual.grid;
    Visual { kind: visual.kind, grid: [1, rows, columns], times: Vec::new(), patches: bytes.to_vec() }
}
