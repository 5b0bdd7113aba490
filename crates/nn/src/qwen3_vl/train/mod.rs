//! Training: adapters on a frozen base, or all weights.
//!
//! | file | what |
//! |---|---|
//! | `lora.rs` | which layers get adapters |
//! | `cpu.rs` | on the CPU, in single precision: adapters or all weights |
//! | `../gpu/train` | on a GPU: adapters, on a base in bf16 |

mod cpu;
mod lora;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::{GradientSync, Seed, SyncError};
use serde::{Deserialize, Serialize};

use super::adapter::{Adapter, LoraWeights};
use super::config::Config;
use super::error::VlmError;
use super::forward::Architecture;
use super::gpu::{GpuTrainer, KernelTime, TrainerParts};
use super::load::{self, ModelWeights, full_name};
use super::network;
use super::processor::{Inputs, Processor};
use crate::classifier::{AdamW, Device, Id, Parameters, Role, Sharding, Spec, StepOutcome, Value};
use crate::gpu::GpuError;
use crate::weights::Weights;
use cpu::CpuTrainer;
pub use lora::LoraConfig;
pub(super) use lora::LoraLayer;
#[cfg(test)]
pub(super) use lora::add_adapters;

/// Which weights are trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FineTuning {
    /// All of them.
    Full,
    /// Low-rank adapters; the rest is frozen.
    Lora(LoraConfig),
}

/// A prompt, and which tokens are to follow some of its tokens.
#[derive(Clone, Debug)]
pub struct Example {
    /// The prompt; with the answer, if more than its first token is to be learned.
    pub inputs: Inputs,
    /// Token `.1` is to follow the token at position `.0`.
    pub targets: Vec<(usize, u32)>,
}

/// Gradient checkpointing: whether only the activations between layers are kept, and layers computed again in the backward pass. Less
/// memory for a third more work; the same gradients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// On a GPU, if its memory does not hold all activations; on the CPU, never.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Where the initial weights come from.
#[derive(Clone, Copy)]
enum InitialWeights<'a> {
    Pretrained(&'a ModelWeights),
    Random { init_std: f64 },
}

/// A model in training.
///
/// A step is one or more calls of [`accumulate`](Self::accumulate), then [`step`](Self::step). Trained weights and
/// their optimizer are always kept in 32 bits; on a GPU the frozen base is in bf16, and products read the adapters rounded to it.
pub struct VlmTrainer {
    architecture: Architecture,
    /// All parameters; the adapters' are the last.
    specs: Vec<Spec>,
    /// By linear layer, if it has an adapter.
    lora_layers: Vec<Option<LoraLayer>>,
    backend: TrainBackend,
}

/// Where a model is trained.
enum TrainBackend {
    Cpu(Box<CpuTrainer>),
    Gpu(Box<GpuTrainer>),
}

impl std::fmt::Debug for VlmTrainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VlmTrainer({} parameters of {:?})", self.trainable_parameters(), self.config())
    }
}

impl VlmTrainer {
    /// Starts from a model's folder.
    ///
    /// # Errors
    /// As [`QwenVl::open`](super::QwenVl::open), when no layer matches the targets of the adapters, and when all weights are to be
    /// trained on a GPU.
    pub fn open(
        folder: impl AsRef<Path>,
        device: Device,
        fine_tuning: &FineTuning,
        adamw: AdamW,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let folder = folder.as_ref();
        load::refuse_gguf(folder)?;
        let config = Config::read(&folder.join("config.json"))?;
        let processor = Processor::open(folder, &config)?;
        let weights = load::model_weights(folder, &network::build(&config).1, config.tied)?;
        let first = InitialWeights::Pretrained(&weights);
        Self::build(config, processor, first, device, fine_tuning, adamw, seed)
    }

    /// A model with random weights, all of which are trained, on the CPU. `init_std` is their standard deviation.
    ///
    /// # Errors
    /// When a layer asks for what is not there.
    pub fn from_scratch(
        config: Config,
        processor: Processor,
        init_std: f64,
        adamw: AdamW,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let first = InitialWeights::Random { init_std };
        Self::build(config, processor, first, Device::Cpu, &FineTuning::Full, adamw, seed)
    }

    fn build(
        config: Config,
        processor: Processor,
        first: InitialWeights<'_>,
        device: Device,
        fine_tuning: &FineTuning,
        adamw: AdamW,
        seed: u64,
    ) -> Result<Self, VlmError> {
        if config.text.experts.is_some() {
            let problem = "models with experts (Qwen3-VL-MoE) cannot be trained here; train a dense one";
            return Err(VlmError::Input(problem.into()));
        }
        let (network, mut specs) = network::build(&config);
        let base = specs.len();
        if let InitialWeights::Random { init_std } = first {
            specs.iter_mut().for_each(|spec| spec.init = spec.init.with_spread(init_std));
        }
        let lora_layers: Vec<Option<LoraLayer>> = match fine_tuning {
            FineTuning::Full => network.all_linears().iter().map(|_| None).collect(),
            FineTuning::Lora(lora) => {
                specs.iter_mut().for_each(|spec| spec.role = Role::Frozen);
                lora::add_adapters(&network, lora, &mut specs)?
            }
        };
        let seed = Seed::new(seed).purpose("weights");
        let sample = |spec: &Spec| spec.init.sample(spec.len(), &mut seed.purpose(&spec.name).rng());
        let architecture = Architecture { config, processor, network };
        let backend = match (device, first) {
            (Device::Cpu, _) => {
                let value = |(i, spec): (usize, &Spec)| match first {
                    InitialWeights::Pretrained(weights) if i < base => weights.numbers(&specs, Id(i)).into(),
                    _ => sample(spec).into(),
                };
                let values = specs.iter().enumerate().map(value).map(Value::Numbers).collect();
                let parameters = Parameters { specs: specs.clone(), values };
                TrainBackend::Cpu(Box::new(CpuTrainer::new(parameters, lora_layers.clone(), adamw)))
            }
            (Device::Cuda(index), InitialWeights::Pretrained(weights))
                if *fine_tuning != FineTuning::Full =>
            {
                let (specs, lora_layers) = (specs.clone(), &lora_layers[..]);
                let parts = TrainerParts {
                    architecture: &architecture,
                    weights,
                    specs,
                    lora_layers,
                    settings: adamw,
                };
                TrainBackend::Gpu(Box::new(GpuTrainer::open(index, parts, sample)?))
            }
            (Device::Cuda(_), _) => {
                let what = "training of all weights of a vision-language model";
                return Err(GpuError::Unsupported { what }.into());
            }
        };
        Ok(Self { architecture, specs, lora_layers, backend })
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.architecture.config
    }

    /// The preprocessing of prompts and images.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.architecture.processor
    }

    /// How many parameters are trained.
    #[must_use]
    pub fn trainable_parameters(&self) -> usize {
        self.specs.iter().filter(|spec| spec.role == Role::Trained).map(Spec::len).sum()
    }

    /// Whether layers are computed twice to save memory.
    pub fn set_recompute(&mut self, recompute: Recompute) {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => cpu.recomputes = recompute == Recompute::Always,
            TrainBackend::Gpu(gpu) => gpu.set_recompute(recompute),
        }
    }

    /// On a GPU, makes room for batches of so many examples like this one, so that too little memory shows before the first step; says
    /// whether layers are computed twice to save it. On the CPU, nothing.
    ///
    /// # Errors
    /// When the GPU has too little memory.
    pub fn reserve(&mut self, example: &Example, batch: usize) -> Result<bool, VlmError> {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.recomputes),
            TrainBackend::Gpu(gpu) => Ok(gpu.reserve(&self.architecture, example, batch)?),
        }
    }

    /// Forward and backward pass: accumulates `scale` times the gradient of the batch's loss. Returns the loss:
    /// the cross-entropy, averaged over all targets.
    ///
    /// # Errors
    /// When an example is empty, has no targets, or one outside of it; or the GPU refuses.
    pub fn accumulate(&mut self, examples: &[Example], scale: f64) -> Result<f64, VlmError> {
        check_examples(examples, self.architecture.config.text.vocab)?;
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => cpu.accumulate(&self.architecture, examples, scale),
            TrainBackend::Gpu(gpu) => gpu.accumulate(&self.architecture, examples, scale),
        }
    }

    /// An optimizer step with the accumulated gradients, clipped to norm `clip`; then they are zero. A gradient
    /// that is not finite changes nothing.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn step(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, VlmError> {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.step(lr, clip)),
            TrainBackend::Gpu(gpu) => Ok(gpu.step(lr, clip)?),
        }
    }

    /// Learns together with other ranks from now on, beginning with the trained weights and the optimizer's state of rank 0.
    ///
    /// A step is then one or more times [`accumulate`](Self::accumulate) and [`reduce`](Self::reduce), and
    /// [`step_over_ranks`](Self::step_over_ranks). It is bit-exact with the step of one rank that accumulates the batches of all:
    /// first those of the first call, in the order of ranks, then those of the second.
    ///
    /// # Errors
    /// When another rank is gone, or was given other frozen weights; and on a GPU.
    pub fn join_ranks(&mut self, sync: Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), VlmError> {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.join_ranks(sync, sharding)?),
            TrainBackend::Gpu(_) => Err(GpuError::Unsupported { what: "training by several ranks" }.into()),
        }
    }

    /// After [`accumulate`](Self::accumulate) on every rank: sums what was accumulated.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn reduce(&mut self) -> Result<(), SyncError> {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => cpu.reduce(),
            TrainBackend::Gpu(_) => Ok(()),
        }
    }

    /// [`step`](Self::step) along what all ranks accumulated.
    ///
    /// # Errors
    /// When another rank is gone, or the GPU refuses.
    pub fn step_over_ranks(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, VlmError> {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.step_over_ranks(lr, clip)?),
            TrainBackend::Gpu(_) => self.step(lr, clip),
        }
    }

    /// For each prompt, the logits of these tokens as the next one, by the model as it is now.
    ///
    /// # Errors
    /// As [`QwenVl::label_logits`](super::QwenVl::label_logits).
    pub fn label_logits(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<Vec<f32>>, VlmError> {
        match &self.backend {
            TrainBackend::Cpu(cpu) => cpu.label_logits(&self.architecture, inputs, labels),
            TrainBackend::Gpu(gpu) => gpu.label_logits(&self.architecture, inputs, labels),
        }
    }

    /// The loss of examples, by the model as it is now; nothing is trained.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate).
    pub fn loss(&self, examples: &[Example]) -> Result<f64, VlmError> {
        check_examples(examples, self.architecture.config.text.vocab)?;
        match &self.backend {
            TrainBackend::Cpu(cpu) => cpu.loss(&self.architecture, examples),
            TrainBackend::Gpu(gpu) => gpu.loss(&self.architecture, examples),
        }
    }

    /// The adapters as they are now; nothing if all weights are trained.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn adapter(&self) -> Result<Option<Adapter>, VlmError> {
        let lora_layers: Vec<&LoraLayer> = self.lora_layers.iter().flatten().collect();
        if lora_layers.is_empty() {
            return Ok(None);
        }
        let mut numbers: HashMap<usize, Vec<f32>> = match &self.backend {
            TrainBackend::Cpu(cpu) => {
                let ids = lora_layers.iter().flat_map(|lora_layer| [lora_layer.down, lora_layer.up]);
                ids.map(|id| (id.0, cpu.numbers(id))).collect()
            }
            TrainBackend::Gpu(gpu) => {
                gpu.values()?.into_iter().map(|(id, numbers)| (id.0, numbers)).collect()
            }
        };
        let mut lora = |lora_layer: &LoraLayer| {
            let ids = [lora_layer.down, lora_layer.up];
            let [down, up] = ids.map(|id| numbers.remove(&id.0).unwrap_or_default());
            let shapes = ids.map(|id| self.specs[id.0].shape.clone());
            let LoraLayer { rank, scale, .. } = *lora_layer;
            (lora_layer.layer.clone(), LoraWeights { rank, scale, down, up, shapes, magnitude: None })
        };
        let layers: BTreeMap<_, _> = lora_layers.into_iter().map(&mut lora).collect();
        Ok(Some(Adapter::of_layers(PathBuf::from("training"), layers)))
    }

    /// Replaces the adapters by others of the same layers and rank.
    ///
    /// # Errors
    /// When they are for other layers or of another rank; nothing is changed then.
    pub fn load_adapter(&mut self, adapter: &Adapter) -> Result<(), VlmError> {
        adapter.check(&self.architecture.network)?;
        adapter.check_plain(&|name| self.base_tensor(name))?;
        self.check_adapter(adapter)?;
        let (mut numbers, mut scales) = (HashMap::new(), Vec::new());
        for lora_layer in self.lora_layers.iter_mut().flatten() {
            let lora = &adapter.layers[&lora_layer.layer];
            lora_layer.scale = lora.scale;
            scales.push((lora_layer.down, lora.scale));
            numbers.insert(lora_layer.down.0, lora.down.clone());
            numbers.insert(lora_layer.up.0, lora.up.clone());
        }
        self.put(numbers, &scales)
    }

    /// Whether an adapter is for the layers in training, and of their rank.
    fn check_adapter(&self, adapter: &Adapter) -> Result<(), VlmError> {
        let wrong = |problem| Err(VlmError::Adapter { file: adapter.source.clone(), problem });
        for lora_layer in self.lora_layers.iter().flatten() {
            match adapter.layers.get(&lora_layer.layer) {
                Some(lora) if lora.rank != lora_layer.rank => {
                    return wrong(format!(
                        "is of rank {}, the one in training of {}",
                        lora.rank, lora_layer.rank
                    ));
                }
                Some(_) => {}
                None => return wrong(format!("does not change `{}`", full_name(&lora_layer.layer))),
            }
        }
        let known =
            |name: &String| self.lora_layers.iter().flatten().any(|lora_layer| lora_layer.layer == *name);
        match adapter.layers.keys().find(|name| !known(name)) {
            Some(name) => wrong(format!("changes `{}`, which has no adapter here", full_name(name))),
            None => Ok(()),
        }
    }

    /// A tensor of the base, by the network's name. A GPU's copy is rounded, so that nothing can be compared with it.
    fn base_tensor(&self, name: &str) -> Option<Vec<f32>> {
        let is_tied_head = self.architecture.config.tied && name == "lm_head.weight";
        let name = if is_tied_head { "language_model.embed_tokens.weight" } else { name };
        let found = self.specs.iter().position(|spec| spec.name == name)?;
        match &self.backend {
            TrainBackend::Cpu(cpu) => Some(cpu.numbers(Id(found))),
            TrainBackend::Gpu(_) => None,
        }
    }

    fn put(&mut self, numbers: HashMap<usize, Vec<f32>>, scales: &[(Id, f64)]) -> Result<(), VlmError> {
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => cpu.put(numbers, scales),
            TrainBackend::Gpu(gpu) => gpu.put(&numbers, scales)?,
        }
        Ok(())
    }

    /// The weights of the base, as Hugging Face's files have them.
    ///
    /// # Errors
    /// On a GPU, where the base is frozen and its files are elsewhere.
    pub fn weights(&self) -> Result<Weights, VlmError> {
        match &self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.weights()),
            TrainBackend::Gpu(_) => Err(GpuError::Unsupported { what: "saving the frozen base" }.into()),
        }
    }

    /// Saves `config.json` and `model.safetensors` into a folder; the tokenizer and the settings of processors are
    /// copied from `processor_files`, if given.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn save_model(&self, folder: &Path, processor_files: Option<&Path>) -> Result<(), VlmError> {
        let failed = |file: &Path| {
            let file = file.to_owned();
            move |source| VlmError::File { file, source }
        };
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        self.weights()?.write_safetensors(folder.join("model.safetensors"), &metadata)?;
        let config = serde_json::to_string_pretty(&self.architecture.config.to_json()).unwrap_or_default();
        let file = folder.join("config.json");
        std::fs::write(&file, config).map_err(failed(&file))?;
        for name in PROCESSOR_FILES {
            let Some(from) = processor_files.map(|files| files.join(name)).filter(|from| from.is_file())
            else {
                continue;
            };
            std::fs::copy(&from, folder.join(name)).map_err(failed(&from))?;
        }
        Ok(())
    }

    /// All that the next step depends on, if it comes after a [`step`](Self::step): trained weights, and the optimizer's
    /// state. A state of one device goes on on another.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn state(&self) -> Result<Weights, VlmError> {
        match &self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.state()),
            TrainBackend::Gpu(gpu) => Ok(gpu.state()?),
        }
    }

    /// [`state`](Self::state) with what all ranks have, on rank 0; nothing on the others. All of them call it.
    ///
    /// # Errors
    /// When another rank is gone, or the GPU refuses.
    pub fn state_over_ranks(&self) -> Result<Option<Weights>, VlmError> {
        match &self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.state_over_ranks()?),
            TrainBackend::Gpu(gpu) => Ok(Some(gpu.state()?)),
        }
    }

    /// Goes on from a saved [`state`](Self::state).
    ///
    /// # Errors
    /// When it is of another model or other adapters; nothing is changed then.
    pub fn restore(&mut self, state: &Weights) -> Result<(), VlmError> {
        let mut values = HashMap::new();
        for (i, spec) in self.specs.iter().enumerate() {
            if spec.role != Role::Trained {
                continue;
            }
            let stored = state.get(&spec.name).filter(|stored| stored.shape() == spec.shape);
            let Some(numbers) = stored.and_then(crate::weights::Array::to_f32) else {
                let what = format!("the saved state has no `{}` of shape {:?}", spec.name, spec.shape);
                return Err(VlmError::Input(format!("{what}; it is of another model or other adapters")));
            };
            values.insert(i, numbers);
        }
        self.put(values, &[])?;
        match &mut self.backend {
            TrainBackend::Cpu(cpu) => cpu.restore_optimizer(state),
            TrainBackend::Gpu(gpu) => gpu.restore_optimizer(state)?,
        }
        Ok(())
    }

    /// The accumulated gradients, by parameter, for inspection.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn gradients(&self) -> Result<Weights, VlmError> {
        match &self.backend {
            TrainBackend::Cpu(cpu) => Ok(cpu.gradients()),
            TrainBackend::Gpu(gpu) => Ok(gpu.gradients()?),
        }
    }

    /// What each kernel and each kind of matrix product takes in a step on a GPU, the longest first.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate), and when the model is not on a GPU.
    pub fn kernel_times(&mut self, examples: &[Example]) -> Result<Vec<KernelTime>, VlmError> {
        let TrainBackend::Gpu(gpu) = &mut self.backend else {
            return Err(VlmError::Input("kernels are timed on a GPU only".into()));
        };
        let times = gpu.profile(|gpu| {
            gpu.accumulate(&self.architecture, examples, 1.0)?;
            gpu.step(0.0, None)?;
            Ok(())
        })?;
        let time = |(kernel, milliseconds, calls)| KernelTime { kernel, milliseconds, calls };
        Ok(times.into_iter().map(time).collect())
    }

    /// Waits for all that was asked of a GPU.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn wait(&self) -> Result<(), VlmError> {
        match &self.backend {
            TrainBackend::Cpu(_) => Ok(()),
            TrainBackend::Gpu(gpu) => Ok(gpu.wait()?),
        }
    }

    /// Bytes of the GPU's memory that are in use, by this process and others; nothing on the CPU.
    ///
    /// # Errors
    /// When the GPU refuses.
    pub fn used_gpu_memory(&self) -> Result<Option<usize>, VlmError> {
        match &self.backend {
            TrainBackend::Cpu(_) => Ok(None),
            TrainBackend::Gpu(gpu) => Ok(Some(gpu.used_memory()?)),
        }
    }
}

/// What a model's folder has beside weights and sizes.
const PROCESSOR_FILES: [&str; 7] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "chat_template.jinja",
];

fn check_examples(examples: &[Example], vocab: usize) -> Result<(), VlmError> {
    let wrong = |what: String| Err(VlmError::Input(what));
    if examples.is_empty() {
        return wrong("a batch without examples".into());
    }
    for (i, Example { inputs, targets }) in examples.iter().enumerate() {
        if targets.is_empty() {
            return wrong(format!("example {i} has no targets"));
        }
        if let Some((place, token)) =
            targets.iter().find(|(place, token)| *place >= inputs.len() || *token as usize >= vocab)
        {
            return wrong(format!("example {i}: token {token} after position {place} of {}", inputs.len()));
        }
    }
    Ok(())
}
