//! A model that answers.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::{Device as Backend, FloatDType, Tensor, TensorData};

use super::config::Config;
use super::error::VlmError;
use super::layers::Attend;
use super::load;
use super::network::{self, Network};
use super::patches::Visual;
use super::processor::{Inputs, Processor};
use super::serve::Frozen;
use super::text::{self, Batch, Memory, Wanted};
use super::vision::{Seen, see};
use crate::classifier::{Device, Precision, download, is_processor, number_type};
use crate::weights::Weights;

/// A Qwen3-VL model ready to be asked. Cloning it shares the weights.
#[derive(Clone, Debug)]
pub struct QwenVl {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) processor: Processor,
    pub(super) network: Network,
    pub(super) frozen: Frozen,
    pub(super) dtype: FloatDType,
    pub(super) device: Backend,
}

/// All logits of a sequence, and what the vision tower made of its pictures; for comparison with other programs.
#[derive(Clone, Debug)]
pub struct Trace {
    /// `[tokens, vocabulary]`
    pub logits: Vec<f32>,
    /// `[picture tokens, width]`
    pub seen: Vec<f32>,
    /// The same per level that is added in the first layers.
    pub deepstack: Vec<Vec<f32>>,
}

/// Where filling goes in a batch of sequences of several lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Before the shorter ones.
    Left,
    /// After them.
    Right,
}

impl QwenVl {
    /// Opens a Hugging Face folder: `config.json`, `tokenizer.json`, processor settings, safetensors in one or several
    /// files.
    ///
    /// # Errors
    /// When something is missing, belongs to another model, or the device is not there.
    pub fn open(folder: impl AsRef<Path>, device: Device, precision: Precision) -> Result<Self, VlmError> {
        let folder = folder.as_ref();
        let config = Config::read(&folder.join("config.json"))?;
        let processor = Processor::open(folder, &config)?;
        let weights = load::weights(folder)?;
        Self::from_weights(folder, config, processor, &weights, device, precision)
    }

    /// A model from its parts; `folder` is for messages.
    pub(super) fn from_weights(
        folder: &Path,
        config: Config,
        processor: Processor,
        weights: &Weights,
        device: Device,
        precision: Precision,
    ) -> Result<Self, VlmError> {
        let device = device.open()?;
        let (network, specs) = network::build(&config);
        load::check(folder, &specs, weights, config.tied)?;
        let dtype = number_type(precision, &device);
        let frozen = Frozen::new(&specs, weights, dtype, &device);
        Ok(Self { inner: Arc::new(Inner { config, processor, network, frozen, dtype, device }) })
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// What makes prompts and pictures ready for the model.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.inner.processor
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// For each prompt, the logits of these tokens as the next one.
    ///
    /// One pass without generation: nothing is remembered, and only the last token of each prompt goes through the last
    /// layer and the head.
    ///
    /// # Errors
    /// When a prompt is empty, or a token is not in the vocabulary.
    pub fn label_logits(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<Vec<f32>>, VlmError> {
        let inner = &*self.inner;
        if labels.iter().any(|label| *label as usize >= inner.config.text.vocab) {
            return Err(VlmError::Input(format!("labels {labels:?} are not all tokens of the model")));
        }
        if inputs.is_empty() || labels.is_empty() {
            return Ok(vec![Vec::new(); inputs.len()]);
        }
        let batch = inner.batch(inputs, Padding::Right)?;
        let last: Vec<usize> = inputs.iter().map(|input| input.len() - 1).collect();
        let rows = inner.read(&batch, None, Wanted::LastOf(&last));
        let logits = download(inner.outputs(rows, labels));
        Ok(logits.chunks_exact(labels.len()).map(<[f32]>::to_vec).collect())
    }

    /// All logits of a batch, as transformers returns them, for each sequence without its filling.
    ///
    /// # Errors
    /// When a prompt is empty.
    pub fn trace(&self, inputs: &[Inputs], padding: Padding) -> Result<Vec<Trace>, VlmError> {
        use super::pass::Pass;
        let inner = &*self.inner;
        let batch = inner.batch(inputs, padding)?;
        let hidden = inner.read(&batch, None, Wanted::All);
        let logits = inner.frozen.linear(&inner.network.text.head, hidden);
        let (mut traces, mut seen_before) = (Vec::with_capacity(inputs.len()), 0);
        for (i, input) in inputs.iter().enumerate() {
            let before = if padding == Padding::Left { batch.tokens - input.len() } else { 0 };
            let own = logits.clone().narrow(0, i * batch.tokens + before, input.len());
            let tokens = input.visuals.iter().map(|visual| inner.tokens_of(visual)).sum();
            let seen =
                batch.seen.as_ref().filter(|_| tokens > 0).map(|(_, seen)| seen.rows(seen_before, tokens));
            seen_before += tokens;
            traces.push(Trace {
                logits: download(own),
                seen: seen.as_ref().map(|seen| download(seen.tokens.clone())).unwrap_or_default(),
                deepstack: seen
                    .map(|seen| seen.deepstack.into_iter().map(download).collect())
                    .unwrap_or_default(),
            });
        }
        Ok(traces)
    }
}

impl Inner {
    /// Tokens a visual becomes.
    fn tokens_of(&self, visual: &Visual) -> usize {
        visual.grid.iter().product::<usize>() / self.config.vision.merged()
    }

    /// Sequences side by side, filled to the longest.
    pub(super) fn batch(&self, inputs: &[Inputs], padding: Padding) -> Result<Batch, VlmError> {
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
            Padding::Left => Attend::Masked(self.mask(&lengths, tokens, tokens)),
        };
        let seen = self.see_all(inputs.iter().flat_map(|input| &input.visuals)).map(|seen| (rows, seen));
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
    fn see_all<'a>(&self, visuals: impl Iterator<Item = &'a Visual>) -> Option<Seen> {
        let visuals: Vec<&Visual> = visuals.collect();
        let mut parts: Vec<Option<Seen>> = vec![None; visuals.len()];
        while let Some(first) = parts.iter().position(Option::is_none) {
            let size = [visuals[first].grid[1], visuals[first].grid[2]];
            let alike = |i: &usize| parts[*i].is_none() && visuals[*i].grid[1..] == size;
            let alike: Vec<usize> = (first..visuals.len()).filter(alike).collect();
            let together: Vec<&Visual> = alike.iter().map(|i| visuals[*i]).collect();
            let seen = self.see_alike(&together, size);
            let mut from = 0;
            for i in alike {
                let count = self.tokens_of(visuals[i]);
                parts[i] = Some(seen.rows(from, count));
                from += count;
            }
        }
        Seen::join(parts.into_iter().flatten().collect())
    }

    fn see_alike(&self, visuals: &[&Visual], size: [usize; 2]) -> Seen {
        let width = self.config.vision.patch_len();
        let numbers: Vec<f32> = visuals.iter().flat_map(|visual| self.numbers(visual)).collect();
        let count = numbers.len() / width;
        let patches = Tensor::<2>::from_data(TensorData::new(numbers, [count, width]), &self.device);
        see(&self.frozen, &self.network.vision, &self.config.vision, patches.cast(self.dtype), size)
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

    pub(super) fn read(&self, batch: &Batch, memory: Option<&mut Memory>, wanted: Wanted<'_>) -> Tensor<2> {
        let _awake = is_processor(&self.device).then(crate::crew::awake);
        text::read(&self.frozen, &self.network.text, &self.config.text, batch, memory, wanted, &self.device)
    }

    pub(super) fn outputs(&self, rows: Tensor<2>, tokens: &[u32]) -> Tensor<2> {
        use super::pass::Pass;
        self.frozen.outputs(&self.network.text.head, rows, tokens)
    }

    pub(super) fn head(&self, rows: Tensor<2>) -> Tensor<2> {
        use super::pass::Pass;
        self.frozen.linear(&self.network.text.head, rows)
    }
}
