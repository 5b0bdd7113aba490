//! What answering and learning have in common: the network, and batches for it.

use burn::tensor::{Device, FloatDType, Tensor, TensorData};

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

    /// Sequences side by side, filled to the longest.
    pub(super) fn batch<P: Pass>(
        &self,
        pass: &P,
        inputs: &[Inputs],
        padding: Padding,
    ) -> Result<Batch, VlmError> {
        if let Some(i) = inputs.iter().position(Inputs::is_empty) {
            return Err(VlmError::Input(format!("prompt {i} is empty")));
        }
        let tokens = inputs.iter().map(Inputs::len).max().unwrap_or(0);
        let fill = self.processor.tokenizer().special().end_of_text;
        let (mut ids, mut places, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (i, input) in inputs.iter().enumerate() {
            let missing = tokens - input.len();
            let before = if padding == Padding::Left { missing } else { 0 };
            ids.extend(std::iter::repeat_n(fill, before).chain(input.ids.iter().copied()));
            ids.extend(std::iter::repeat_n(fill, missing - before));
            places.extend(std::iter::repeat_n([0; 3], before).chain(input.positions.axes.iter().copied()));
            places.extend(std::iter::repeat_n([0; 3], missing - before));
            let shown = |id: &u32| *id == self.config.image_token || *id == self.config.video_token;
            let shown = input.ids.iter().enumerate().filter(|(_, id)| shown(id));
            rows.extend(shown.map(|(token, _)| i * tokens + before + token));
        }
        let rope = text::rope(&self.config.text, &places, inputs.len(), self.dtype, &self.device);
        let lengths: Vec<usize> = inputs.iter().map(Inputs::len).collect();
        let attend = match padding {
            // Nobody looks ahead, so what follows a sequence does not matter to it.
            Padding::Right => Attend::Causal,
            Padding::Left if lengths.iter().all(|length| *length == tokens) => Attend::Causal,
            Padding::Left => Attend::Masked(Box::new(self.mask(&lengths, tokens, tokens))),
        };
        let seen =
            self.see_all(pass, inputs.iter().flat_map(|input| &input.visuals)).map(|seen| (rows, seen));
        Ok(Batch { size: inputs.len(), tokens, ids, rope, attend, seen })
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
        let numbers: Vec<f32> = visuals.iter().flat_map(|visual| self.numbers(visual)).collect();
        let count = numbers.len() / width;
        let patches = Tensor::<2>::from_data(TensorData::new(numbers, [count, width]), &self.device);
        see(pass, &self.network.vision, &self.config.vision, patches.cast(self.dtype), size)
    }

    /// The numbers of a visual's bytes.
    fn numbers(&self, visual: &Visual) -> Vec<f32> {
        let table = self.processor.numbers(visual.kind);
        let colour = self.config.vision.patch_len() / 3;
        let colours = visual.patches.chunks_exact(colour).enumerate();
        colours
            .flat_map(|(c, bytes)| {
                bytes.iter().map(|byte| table[c % 3][usize::from(*byte)]).collect::<Vec<_>>()
            })
            .collect()
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
        if labels.iter().any(|label| *label as usize >= self.config.text.vocab) {
            return Err(VlmError::Input(format!("labels {labels:?} are not all tokens of the model")));
        }
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        let batch = self.batch(pass, inputs, Padding::Right)?;
        let last: Vec<usize> = inputs.iter().map(|input| input.len() - 1).collect();
        let rows = self.read(pass, &batch, None, Wanted::LastOf(&last));
        let logits = download(pass.outputs(&self.network.text.head, rows, labels));
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }
}
