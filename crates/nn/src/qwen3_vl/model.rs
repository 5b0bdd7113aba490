//! A model for inference.

use std::path::Path;
use std::sync::Arc;

use super::adapter::Adapter;
use super::cache::ScoreCache;
use super::config::Config;
use super::error::VlmError;
use super::forward::{Architecture, Padding};
use super::gpu::{GpuModel, KernelTime, Reuse};
use super::inference::FrozenParams;
use super::load;
use super::network;
use super::param_source::ParamSource;
use super::processor::{Inputs, Processor};
use super::text::TokenSelection;
use crate::classifier::{Device, Precision};
use crate::gpu::GpuError;
use crate::tensor::Tensor;

/// How many bits the weights of linear layers have in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantization {
    /// All of the precision; weights that were stored in eight bits or fewer stay in eight on a GPU.
    #[default]
    None,
    /// Eight, with a scale for each 128 of a row; on a GPU. Products are those of bf16.
    Int8,
}

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
    pub(super) architecture: Architecture,
    pub(super) backend: Backend,
}

/// Where the parameters are, and what computes with them.
pub(super) enum Backend {
    /// On the CPU.
    Cpu(FrozenParams),
    /// On a GPU, forward pass only.
    Gpu(Box<GpuModel>),
}

impl Inner {
    /// The parameters, for what only the CPU does.
    pub(super) fn frozen(&self, what: &'static str) -> Result<&FrozenParams, VlmError> {
        match &self.backend {
            Backend::Cpu(frozen) => Ok(frozen),
            Backend::Gpu(_) => Err(GpuError::Unsupported { what }.into()),
        }
    }
}

/// All logits of a sequence, and the vision tower's embeddings; for comparison with other programs.
#[derive(Clone, Debug)]
pub struct Trace {
    /// `[tokens, vocabulary]`
    pub logits: Vec<f32>,
    /// `[visual tokens, width]`
    pub visual_embeds: Vec<f32>,
    /// The same for each deepstack level, which is added in the first layers.
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
        Self::open_quantized(folder, adapter, device, precision, Quantization::None)
    }

    /// The same with weights of fewer bits.
    ///
    /// # Errors
    /// Also when there are to be fewer bits on the CPU.
    pub fn open_quantized(
        folder: impl AsRef<Path>,
        adapter: Option<&Adapter>,
        device: Device,
        precision: Precision,
        quantization: Quantization,
    ) -> Result<Self, VlmError> {
        let folder = folder.as_ref();
        load::refuse_gguf(folder)?;
        let mut config = Config::read(&folder.join("config.json"))?;
        let processor = Processor::open(folder, &config)?;
        let (mut network, mut specs) = network::build(&config);
        if let Some(adapter) = adapter {
            adapter.check(&network)?;
        }
        let mut weights = load::model_weights(folder, &specs, config.tied)?;
        if let Some(adapter) = adapter {
            adapter.apply(&mut config, &specs, &mut weights)?;
            (network, specs) = network::build(&config);
        }
        let backend = match device {
            Device::Cpu if quantization != Quantization::None => {
                let problem = "weights of eight bits are unpacked by a GPU; keep all bits on the CPU";
                return Err(VlmError::Input(problem.into()));
            }
            Device::Cpu => Backend::Cpu(FrozenParams::new(&network, &specs, &weights, adapter, precision)),
            Device::Cuda(index) => {
                let numbers = (precision, quantization);
                let model = GpuModel::open(index, numbers, &config, (&network, &specs), &weights, adapter)?;
                Backend::Gpu(Box::new(model))
            }
        };
        let architecture = Architecture { config, processor, network };
        Ok(Self { inner: Arc::new(Inner { architecture, backend }) })
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.architecture.config
    }

    /// The preprocessing of prompts and images.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.inner.architecture.processor
    }

    /// For each prompt, the logits of these tokens as the next one.
    ///
    /// One pass without generation: nothing is cached, and only the last token of each prompt goes through the last
    /// layer and the head.
    ///
    /// # Errors
    /// When a prompt is empty, or a token is not in the vocabulary.
    pub fn label_logits(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<Vec<f32>>, VlmError> {
        let Inner { architecture, backend } = &*self.inner;
        match backend {
            Backend::Cpu(frozen) => architecture.label_logits(frozen, inputs, labels),
            Backend::Gpu(gpu_model) => gpu_model.score(architecture, inputs, labels, Reuse::Nothing),
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
        let Inner { architecture, backend } = &*self.inner;
        match backend {
            Backend::Cpu(frozen) => architecture.score(frozen, inputs, labels, cache),
            Backend::Gpu(gpu_model) => gpu_model.score(architecture, inputs, labels, Reuse::Cached(cache)),
        }
    }

    /// What each kernel and each kind of matrix product takes when these are scored on a GPU, the longest first.
    ///
    /// # Errors
    /// As [`label_logits`](Self::label_logits), and when the model is not on a GPU.
    pub fn kernel_times(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<KernelTime>, VlmError> {
        match &self.inner.backend {
            Backend::Gpu(gpu_model) => gpu_model.times(&self.inner.architecture, inputs, labels),
            Backend::Cpu(_) => Err(VlmError::Input("kernels are timed on a GPU only".into())),
        }
    }

    /// All logits of a batch, as transformers returns them, for each sequence without its padding.
    ///
    /// # Errors
    /// When a prompt is empty, or the model is on a GPU, which only scores.
    pub fn trace(&self, inputs: &[Inputs], padding: Padding) -> Result<Vec<Trace>, VlmError> {
        let (architecture, frozen) = (&self.inner.architecture, self.inner.frozen("a trace of all logits")?);
        let batch = architecture.batch(frozen, inputs, padding)?;
        let hidden = architecture.text_forward(frozen, &batch, None, TokenSelection::All);
        let logits = frozen.linear(&architecture.network.text.head, hidden);
        let (mut traces, mut visual_tokens_before) = (Vec::with_capacity(inputs.len()), 0);
        for (i, input) in inputs.iter().enumerate() {
            let before = if padding == Padding::Left { batch.tokens - input.len() } else { 0 };
            let own = logits.clone().narrow(0, i * batch.tokens + before, input.len());
            let tokens = input.visuals.iter().map(|visual| architecture.tokens_of(visual)).sum();
            let visual_embeds = batch
                .visual_embeds
                .as_ref()
                .filter(|_| tokens > 0)
                .map(|(_, visual_embeds)| visual_embeds.rows(visual_tokens_before, tokens));
            visual_tokens_before += tokens;
            let deepstack = visual_embeds
                .as_ref()
                .map(|visual_embeds| visual_embeds.deepstack.iter().cloned().map(Tensor::into_vec).collect());
            traces.push(Trace {
                logits: own.into_vec(),
                deepstack: deepstack.unwrap_or_default(),
                visual_embeds: visual_embeds
                    .map(|visual_embeds| visual_embeds.tokens.into_vec())
                    .unwrap_or_default(),
            });
        }
        Ok(traces)
    }
}
