//! A model that answers.

use std::path::Path;
use std::sync::Arc;

use super::adapter::Adapter;
use super::body::{Body, Padding};
use super::cache::ScoreCache;
use super::config::Config;
use super::error::VlmError;
#[cfg(feature = "cuda-judge")]
use super::gpu::{GpuError, Judge, PartTime, Share};
use super::load;
use super::network;
use super::pass::Pass;
use super::processor::{Inputs, Processor};
use super::serve::Frozen;
use super::text::Wanted;
use crate::classifier::{Device, Precision, download, number_type};

/// A Qwen3-VL model ready to be asked. Cloning it shares the weights.
#[derive(Clone)]
pub struct QwenVl {
    pub(super) inner: Arc<Inner>,
}

impl std::fmt::Debug for QwenVl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QwenVl({:?})", self.config())
    }
}

pub(super) struct Inner {
    pub(super) body: Body,
    pub(super) place: Place,
}

/// Where the parameters are, and with them the arithmetic.
pub(super) enum Place {
    /// With Burn, mostly on the processor.
    Burn(Frozen),
    /// On a GPU, forwards only.
    #[cfg(feature = "cuda-judge")]
    Gpu(Box<Judge>),
}

impl Inner {
    /// The parameters, for what cannot be done without Burn.
    #[cfg_attr(not(feature = "cuda-judge"), expect(unused_variables, reason = "only a GPU refuses"))]
    pub(super) fn frozen(&self, what: &'static str) -> Result<&Frozen, VlmError> {
        match &self.place {
            Place::Burn(frozen) => Ok(frozen),
            #[cfg(feature = "cuda-judge")]
            Place::Gpu(_) => Err(GpuError::Unsupported { what }.into()),
        }
    }
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

impl QwenVl {
    /// Opens a Hugging Face folder: `config.json`, `tokenizer.json`, processor settings, safetensors in one or several
    /// files.
    ///
    /// # Errors
    /// When something is missing, belongs to another model, or the device is not there.
    pub fn open(folder: impl AsRef<Path>, device: Device, precision: Precision) -> Result<Self, VlmError> {
        Self::open_with(folder, None, device, precision)
    }

    /// The same with an adapter merged into the weights.
    ///
    /// # Errors
    /// Also when the adapter is for another model.
    pub fn open_with(
        folder: impl AsRef<Path>,
        adapter: Option<&Adapter>,
        device: Device,
        precision: Precision,
    ) -> Result<Self, VlmError> {
        let folder = folder.as_ref();
        let config = Config::read(&folder.join("config.json"))?;
        let processor = Processor::open(folder, &config)?;
        let (network, specs) = network::build(&config);
        if let Some(adapter) = adapter {
            adapter.check(&network)?;
        }
        let weights = load::weights(folder)?;
        load::check(folder, &specs, &weights, config.tied)?;
        #[cfg(feature = "cuda-judge")]
        if let Device::Cuda(index) = device
            && (precision == Precision::Bf16 || !cfg!(feature = "cuda"))
        {
            let judge = Judge::open(index, precision, &config, (&network, &specs), &weights, adapter)?;
            let device = Device::Cpu.open()?;
            let body = Body { config, processor, network, dtype: number_type(precision, &device), device };
            return Ok(Self { inner: Arc::new(Inner { body, place: Place::Gpu(Box::new(judge)) }) });
        }
        let device = device.open()?;
        let dtype = number_type(precision, &device);
        let frozen = Frozen::new(&network, &specs, &weights, adapter, precision, &device);
        let body = Body { config, processor, network, dtype, device };
        Ok(Self { inner: Arc::new(Inner { body, place: Place::Burn(frozen) }) })
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.body.config
    }

    /// What makes prompts and pictures ready for the model.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.inner.body.processor
    }

    /// For each prompt, the logits of these tokens as the next one.
    ///
    /// One pass without generation: nothing is remembered, and only the last token of each prompt goes through the last
    /// layer and the head.
    ///
    /// # Errors
    /// When a prompt is empty, or a token is not in the vocabulary.
    pub fn label_logits(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<Vec<f32>>, VlmError> {
        let Inner { body, place } = &*self.inner;
        match place {
            Place::Burn(frozen) => body.label_logits(frozen, inputs, labels),
            #[cfg(feature = "cuda-judge")]
            Place::Gpu(judge) => judge.score(body, inputs, labels, Share::Nothing),
        }
    }

    /// The same without computing again what is in the cache: pairs of frames that windows share, and words that all
    /// prompts begin with (many, if they are of the layout
    /// [`SharedPrefix`](super::PromptLayout::SharedPrefix)).
    ///
    /// # Errors
    /// As [`label_logits`](Self::label_logits).
    pub fn score(
        &self,
        inputs: &[Inputs],
        labels: &[u32],
        cache: &mut ScoreCache,
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        let Inner { body, place } = &*self.inner;
        match place {
            Place::Burn(frozen) => body.score(frozen, inputs, labels, cache),
            #[cfg(feature = "cuda-judge")]
            Place::Gpu(judge) => judge.score(body, inputs, labels, Share::Alike(cache)),
        }
    }

    /// What each kernel and each kind of matrix product takes when these are scored on a GPU, the longest first.
    ///
    /// # Errors
    /// As [`label_logits`](Self::label_logits), and when the model is not on a GPU.
    #[cfg(feature = "cuda-judge")]
    pub fn part_times(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<PartTime>, VlmError> {
        match &self.inner.place {
            Place::Gpu(judge) => judge.times(&self.inner.body, inputs, labels),
            Place::Burn(_) => Err(VlmError::Input("only a GPU's parts are timed".into())),
        }
    }

    /// All logits of a batch, as transformers returns them, for each sequence without its filling.
    ///
    /// # Errors
    /// When a prompt is empty, or the model is on a GPU, which only scores.
    pub fn trace(&self, inputs: &[Inputs], padding: Padding) -> Result<Vec<Trace>, VlmError> {
        let (body, frozen) = (&self.inner.body, self.inner.frozen("a trace of all logits")?);
        let batch = body.batch(frozen, inputs, padding)?;
        let hidden = body.read(frozen, &batch, None, Wanted::All);
        let logits = frozen.linear(&body.network.text.head, hidden);
        let (mut traces, mut seen_before) = (Vec::with_capacity(inputs.len()), 0);
        for (i, input) in inputs.iter().enumerate() {
            let before = if padding == Padding::Left { batch.tokens - input.len() } else { 0 };
            let own = logits.clone().narrow(0, i * batch.tokens + before, input.len());
            let tokens = input.visuals.iter().map(|visual| body.tokens_of(visual)).sum();
            let seen =
                batch.seen.as_ref().filter(|_| tokens > 0).map(|(_, seen)| seen.rows(seen_before, tokens));
            seen_before += tokens;
            let deepstack = seen.as_ref().map(|seen| seen.deepstack.iter().cloned().map(download).collect());
            traces.push(Trace {
                logits: download(own),
                deepstack: deepstack.unwrap_or_default(),
                seen: seen.map(|seen| download(seen.tokens)).unwrap_or_default(),
            });
        }
        Ok(traces)
    }
}
