//! Training: adapters on a frozen base, or all weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plaudit_core::{GradientSync, Seed, SyncError};
use serde::{Deserialize, Serialize};

use super::adapter::{Adapter, LoraWeights, peft_names, shapes};
use super::config::Config;
use super::error::VlmError;
use super::forward::{Architecture, Padding};
use super::inference::vector;
use super::layers::rms_norm;
use super::load::{self, full_name};
use super::network::{self, Linear, Network};
use super::param_source::ParamSource;
use super::processor::{Inputs, Processor};
use super::text::{self, TokenSelection};
use crate::classifier::{
    AdamW, Id, Init, Optimizer, Order, Parameters, Role, Sharding, Spec, StepOutcome, Value,
};
use crate::tensor::{Gradients, Tensor, cross_entropy, linear};
use crate::weights::Weights;

/// Which weights are trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FineTuning {
    /// All of them.
    Full,
    /// Low-rank adapters; the rest is frozen.
    Lora(LoraConfig),
}

/// Low-rank adapters: `y + (alpha / rank) B (A x)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraConfig {
    /// The rank of the two matrices.
    pub rank: usize,
    /// The scale of what is added, times the rank.
    pub alpha: f64,
    /// Layers that get an adapter, by the last part of their name.
    pub targets: Vec<String>,
    /// Whether the vision tower gets none.
    pub freeze_vision: bool,
}

/// RLinf's list. In this network it hits all linear layers of the language model, the head, and of the vision tower
/// the attention and the layer that takes patches in.
const TARGETS: [&str; 16] = [
    "proj",
    "qkv",
    "fc1",
    "fc2",
    "q",
    "kv",
    "fc3",
    "out_proj",
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "lm_head",
];

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 16, alpha: 16.0, targets: TARGETS.map(str::to_owned).to_vec(), freeze_vision: false }
    }
}

/// A prompt, and which tokens are to follow some of its tokens.
#[derive(Clone, Debug)]
pub struct Example {
    /// The prompt; with the answer, if more than its first token is to be learned.
    pub inputs: Inputs,
    /// Token `.1` is to follow the token at position `.0`.
    pub targets: Vec<(usize, u32)>,
}

/// The adapter of a layer among the parameters.
#[derive(Clone, Debug)]
struct LoraLayer {
    layer: String,
    down: Id,
    up: Id,
    rank: usize,
    scale: f64,
}

/// Where the initial weights come from.
#[derive(Clone, Copy)]
enum InitialWeights<'a> {
    Pretrained(&'a Weights),
    Random { init_std: f64 },
}

/// A model in training.
///
/// A step is one or more calls of [`accumulate`](Self::accumulate), then [`step`](Self::step). Trained weights and
/// their optimizer are always kept in 32 bits; a frozen base may be in fewer.
pub struct VlmTrainer {
    architecture: Architecture,
    parameters: Parameters,
    /// By linear layer, if it has an adapter.
    lora_layers: Vec<Option<LoraLayer>>,
    optimizer: Optimizer,
    checkpointing: bool,
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
    /// As [`QwenVl::open`](super::QwenVl::open), and when no layer matches the targets of the adapters.
    pub fn open(
        folder: impl AsRef<Path>,
        fine_tuning: &FineTuning,
        adamw: AdamW,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let folder = folder.as_ref();
        let config = Config::read(&folder.join("config.json"))?;
        let processor = Processor::open(folder, &config)?;
        let weights = load::weights(folder)?;
        load::check(folder, &network::build(&config).1, &weights, config.tied)?;
        Self::build(config, processor, InitialWeights::Pretrained(&weights), fine_tuning, adamw, seed)
    }

    /// A model with random weights, all of which are trained. `init_std` is their standard deviation.
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
        Self::build(config, processor, first, &FineTuning::Full, adamw, seed)
    }

    fn build(
        config: Config,
        processor: Processor,
        first: InitialWeights<'_>,
        fine_tuning: &FineTuning,
        adamw: AdamW,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let (network, mut specs) = network::build(&config);
        let base = specs.len();
        if let InitialWeights::Random { init_std } = first {
            specs.iter_mut().for_each(|spec| spec.init = spec.init.with_spread(init_std));
        }
        let lora_layers = match fine_tuning {
            FineTuning::Full => network.all_linears().iter().map(|_| None).collect(),
            FineTuning::Lora(lora) => {
                specs.iter_mut().for_each(|spec| spec.role = Role::Frozen);
                add_adapters(&network, lora, &mut specs)?
            }
        };
        let seed = Seed::new(seed).purpose("weights");
        let value = |(i, spec): (usize, &Spec)| match first {
            InitialWeights::Pretrained(weights) if i < base => {
                let stored = weights.get(&spec.name).unwrap_or_else(|| unreachable!("weights were checked"));
                vector(stored)
            }
            _ => spec.init.sample(spec.len(), &mut seed.purpose(&spec.name).rng()).into(),
        };
        let values = specs.iter().enumerate().map(value).map(Value::Numbers).collect();
        let parameters = Parameters { specs, values };
        let optimizer = Optimizer::new(adamw, &parameters);
        let architecture = Architecture { config, processor, network };
        Ok(Self { architecture, parameters, lora_layers, optimizer, checkpointing: false })
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
        self.parameters.specs.iter().filter(|spec| spec.role == Role::Trained).map(Spec::len).sum()
    }

    /// Forward and backward pass: accumulates `scale` times the gradient of the batch's loss. Returns the loss:
    /// the cross-entropy, averaged over all targets.
    ///
    /// # Errors
    /// When an example is empty, has no targets, or one outside of it.
    pub fn accumulate(&mut self, examples: &[Example], scale: f64) -> Result<f64, VlmError> {
        check_examples(examples, self.architecture.config.text.vocab)?;
        if self.checkpointing {
            return self.accumulate_layer_by_layer(examples, scale);
        }
        let params = TrainableParams::new(&self.parameters, &self.lora_layers);
        let loss = self.architecture.loss(&params, examples)?;
        let value = f64::from(loss.item());
        if !value.is_finite() {
            return Ok(value);
        }
        let mut gradients = loss.backward(vec![scale as f32].into());
        let leaves = params.leaves;
        self.take_gradients(leaves, &mut gradients);
        Ok(value)
    }

    /// Adds the gradients of leaves to the accumulated ones.
    fn take_gradients(&mut self, leaves: Vec<Option<Tensor<1>>>, gradients: &mut Gradients) {
        for (i, leaf) in leaves.into_iter().enumerate() {
            if let Some(gradient) = leaf.and_then(|leaf| gradients.take(&leaf)) {
                self.optimizer.add(Id(i), gradient);
            }
        }
    }

    /// Gradient checkpointing: keeps the activations between layers only, and computes layers again in the backward pass. Less memory
    /// for a third more work.
    pub fn set_checkpointing(&mut self, checkpointing: bool) {
        self.checkpointing = checkpointing;
    }

    /// [`accumulate`](Self::accumulate) with gradient checkpointing, one layer at a time.
    fn accumulate_layer_by_layer(&mut self, examples: &[Example], scale: f64) -> Result<f64, VlmError> {
        let architecture = self.architecture.clone();
        let Architecture { network, config, .. } = &architecture;
        let (text, sizes) = (&network.text, &config.text);
        let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
        let target_positions = target_positions(examples);
        let selection = selection(target_positions.as_deref());
        // Forward, keeping what goes into each layer.
        let plain = TrainableParams {
            parameters: &self.parameters,
            lora_layers: &self.lora_layers,
            leaves: Vec::new(),
        };
        let batch = architecture.batch(&plain, &inputs, Padding::Right)?;
        let deep = |i: usize| {
            batch
                .visual_embeds
                .as_ref()
                .and_then(|(_, visual_embeds)| visual_embeds.deepstack.get(i).cloned())
        };
        let mut between = vec![text::embed(&plain, text, sizes, &batch)];
        for i in 0..text.layers.len() {
            let x = between[i].clone();
            between.push(text::layer_with_deepstack(
                &plain,
                text,
                sizes,
                &batch,
                i,
                x,
                deep(i),
                None,
                selection,
            ));
        }
        // The loss, and its backward pass.
        let params = TrainableParams::new(&self.parameters, &self.lora_layers);
        let last = leaf(between.pop());
        let hidden = rms_norm(last.clone(), params.vector(text.norm), sizes.epsilon);
        let loss = architecture.loss_of(&params, examples, hidden, target_positions.is_some(), batch.tokens);
        let value = f64::from(loss.item());
        if !value.is_finite() {
            return Ok(value);
        }
        let mut gradients = loss.backward(vec![scale as f32].into());
        let mut gradient = gradient_of(&last, &mut gradients);
        let leaves = params.leaves;
        self.take_gradients(leaves, &mut gradients);
        let mut deepstack_gradients = Vec::new();
        for i in (0..text.layers.len()).rev() {
            let params = TrainableParams::new(&self.parameters, &self.lora_layers);
            let (x, added) = (leaf(between.pop()), deep(i).map(|deep| leaf(Some(deep))));
            let y = text::layer_with_deepstack(
                &params,
                text,
                sizes,
                &batch,
                i,
                x.clone(),
                added.clone(),
                None,
                selection,
            );
            let mut gradients = y.backward(gradient);
            gradient = gradient_of(&x, &mut gradients);
            deepstack_gradients.extend(added.map(|added| gradient_of(&added, &mut gradients)));
            let leaves = params.leaves;
            self.take_gradients(leaves, &mut gradients);
        }
        deepstack_gradients.reverse();
        // The token embeddings and the vision tower.
        let params = TrainableParams::new(&self.parameters, &self.lora_layers);
        let batch = architecture.batch(&params, &inputs, Padding::Right)?;
        let embeddings = text::embed(&params, text, sizes, &batch);
        let deepstack =
            batch.visual_embeds.into_iter().flat_map(|(_, visual_embeds)| visual_embeds.deepstack);
        let roots = std::iter::once((embeddings, gradient)).chain(deepstack.zip(deepstack_gradients));
        let mut gradients = Gradients::of(roots);
        let leaves = params.leaves;
        self.take_gradients(leaves, &mut gradients);
        Ok(value)
    }

    /// An optimizer step with the accumulated gradients, clipped to norm `clip`; then they are zero. A gradient
    /// that is not finite changes nothing.
    pub fn step(&mut self, lr: f64, clip: Option<f64>) -> StepOutcome {
        self.optimizer.step(&mut self.parameters, lr, clip)
    }

    /// Learns together with other ranks from now on, beginning with the trained weights and the optimizer's state of rank 0.
    ///
    /// A step is then one or more times [`accumulate`](Self::accumulate) and [`reduce`](Self::reduce), and
    /// [`step_over_ranks`](Self::step_over_ranks). It is bit-exact with the step of one rank that accumulates the batches of all:
    /// first those of the first call, in the order of ranks, then those of the second.
    ///
    /// # Errors
    /// When another rank is gone, or was given other frozen weights.
    pub fn join_ranks(&mut self, sync: Arc<dyn GradientSync>, sharding: Sharding) -> Result<(), SyncError> {
        self.parameters.share(&*sync)?;
        self.optimizer.join(sync, sharding, &self.parameters);
        self.optimizer.share(&self.parameters)
    }

    /// After [`accumulate`](Self::accumulate) on every rank: sums what was accumulated.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn reduce(&mut self) -> Result<(), SyncError> {
        self.optimizer.reduce(&self.parameters)
    }

    /// [`step`](Self::step) along what all ranks accumulated.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn step_over_ranks(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, SyncError> {
        self.optimizer.step_over_ranks(&mut self.parameters, lr, clip)
    }

    /// For each prompt, the logits of these tokens as the next one, by the model as it is now.
    ///
    /// # Errors
    /// As [`QwenVl::label_logits`](super::QwenVl::label_logits).
    pub fn label_logits(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<Vec<f32>>, VlmError> {
        let params = TrainableParams {
            parameters: &self.parameters,
            lora_layers: &self.lora_layers,
            leaves: Vec::new(),
        };
        self.architecture.label_logits(&params, inputs, labels)
    }

    /// The loss of examples, by the model as it is now; nothing is trained.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate).
    pub fn loss(&self, examples: &[Example]) -> Result<f64, VlmError> {
        check_examples(examples, self.architecture.config.text.vocab)?;
        let params = TrainableParams {
            parameters: &self.parameters,
            lora_layers: &self.lora_layers,
            leaves: Vec::new(),
        };
        Ok(f64::from(self.architecture.loss(&params, examples)?.item()))
    }

    /// The adapters as they are now; nothing if all weights are trained.
    #[must_use]
    pub fn adapter(&self) -> Option<Adapter> {
        let lora = |lora_layer: &LoraLayer| {
            let [down, up] = [lora_layer.down, lora_layer.up].map(|id| self.parameters.flat(id).into_vec());
            let shapes = [lora_layer.down, lora_layer.up].map(|id| self.parameters.specs[id.0].shape.clone());
            (
                lora_layer.layer.clone(),
                LoraWeights {
                    rank: lora_layer.rank,
                    scale: lora_layer.scale,
                    down,
                    up,
                    shapes,
                    magnitude: None,
                },
            )
        };
        let layers: std::collections::BTreeMap<_, _> = self.lora_layers.iter().flatten().map(lora).collect();
        (!layers.is_empty()).then(|| Adapter::of_layers(PathBuf::from("training"), layers))
    }

    /// Replaces the adapters by others of the same layers and rank.
    ///
    /// # Errors
    /// When they are for other layers or of another rank; nothing is changed then.
    pub fn load_adapter(&mut self, adapter: &Adapter) -> Result<(), VlmError> {
        adapter.check(&self.architecture.network)?;
        adapter.check_plain(&|name| self.base_tensor(name))?;
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
        if let Some(name) = adapter.layers.keys().find(|name| !known(name)) {
            return wrong(format!("changes `{}`, which has no adapter here", full_name(name)));
        }
        for lora_layer in self.lora_layers.iter_mut().flatten() {
            let lora = &adapter.layers[&lora_layer.layer];
            lora_layer.scale = lora.scale;
            for (id, numbers) in [(lora_layer.down, &lora.down), (lora_layer.up, &lora.up)] {
                self.parameters.set(id, numbers.clone().into());
            }
        }
        Ok(())
    }

    /// A tensor of the base; a tied head is the table of tokens.
    fn base_tensor(&self, name: &str) -> Option<Vec<f32>> {
        let is_tied_head = self.architecture.config.tied && name == "lm_head.weight";
        let name = if is_tied_head { "language_model.embed_tokens.weight" } else { name };
        let found = self.parameters.specs.iter().position(|spec| spec.name == name)?;
        Some(self.parameters.flat(Id(found)).into_vec())
    }

    /// The weights of the base, as Hugging Face's files have them.
    #[must_use]
    pub fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        for (i, spec) in self.parameters.specs.iter().enumerate() {
            if !spec.name.contains(".lora_") {
                weights.insert_f32(full_name(&spec.name), &spec.shape, self.parameters.flat(Id(i)).numbers());
            }
        }
        weights
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
        self.weights().write_safetensors(folder.join("model.safetensors"), &metadata)?;
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
    /// state.
    #[must_use]
    pub fn state(&self) -> Weights {
        let mut state = self.trained_weights();
        self.optimizer.save(&self.parameters, &mut state);
        state
    }

    /// [`state`](Self::state) with what all ranks have, on rank 0; nothing on the others. All of them call it.
    ///
    /// # Errors
    /// When another rank is gone.
    pub fn state_over_ranks(&self) -> Result<Option<Weights>, SyncError> {
        let is_first = self.optimizer.ranks().is_none_or(|sync| sync.rank() == 0);
        let mut state = is_first.then(|| self.trained_weights());
        self.optimizer.save_over_ranks(&self.parameters, &mut state)?;
        Ok(state)
    }

    fn trained_weights(&self) -> Weights {
        let mut state = Weights::new();
        for (i, spec) in self.parameters.specs.iter().enumerate() {
            if spec.role == Role::Trained {
                state.insert_f32(&spec.name, &spec.shape, self.parameters.flat(Id(i)).numbers());
            }
        }
        state
    }

    /// Goes on from a saved [`state`](Self::state).
    ///
    /// # Errors
    /// When it is of another model or other adapters; nothing is changed then.
    pub fn restore(&mut self, state: &Weights) -> Result<(), VlmError> {
        let mut values = Vec::new();
        for (i, spec) in self.parameters.specs.iter().enumerate() {
            if spec.role != Role::Trained {
                continue;
            }
            let stored = state.get(&spec.name).filter(|stored| stored.shape() == spec.shape);
            let Some(numbers) = stored.and_then(crate::weights::Array::to_f32) else {
                let what = format!("the saved state has no `{}` of shape {:?}", spec.name, spec.shape);
                return Err(VlmError::Input(format!("{what}; it is of another model or other adapters")));
            };
            values.push((Id(i), numbers));
        }
        for (id, numbers) in values {
            self.parameters.set(id, numbers.into());
        }
        self.optimizer.restore(&self.parameters, state);
        Ok(())
    }

    /// The accumulated gradients, by parameter, for inspection.
    #[must_use]
    pub fn gradients(&self) -> Weights {
        let mut gradients = Weights::new();
        for (spec, gradient) in self.parameters.specs.iter().zip(&self.optimizer.gradients) {
            if let Some(gradient) = gradient {
                gradients.insert_f32(&spec.name, &spec.shape, gradient.numbers());
            }
        }
        gradients
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

fn add_adapters(
    network: &Network,
    lora: &LoraConfig,
    specs: &mut Vec<Spec>,
) -> Result<Vec<Option<LoraLayer>>, VlmError> {
    if lora.rank == 0 {
        return Err(VlmError::Input("adapters of rank 0; give a rank above zero".into()));
    }
    let mut lora_layer = |linear: &&Linear| {
        let last = linear.name.rsplit('.').next().unwrap_or(&linear.name);
        let matches = |target: &String| target == last || *target == full_name(&linear.name);
        let is_frozen = lora.freeze_vision && linear.name.starts_with("visual.");
        if is_frozen || !lora.targets.iter().any(matches) {
            return None;
        }
        let shapes = shapes(&specs[linear.weight.0].shape, lora.rank);
        let mut add = |name: String, shape: Vec<usize>, init: Init| {
            specs.push(Spec { name, shape, order: Order::Same, role: Role::Trained, init });
            Id(specs.len() - 1)
        };
        let [down_name, up_name] = peft_names(&linear.name);
        let [down_shape, up_shape] = shapes;
        let down = add(down_name, down_shape, Init::Normal(1.0 / lora.rank as f64));
        let up = add(up_name, up_shape, Init::Zero);
        let scale = lora.alpha / lora.rank as f64;
        Some(LoraLayer { layer: linear.name.clone(), down, up, rank: lora.rank, scale })
    };
    let lora_layers: Vec<Option<LoraLayer>> = network.all_linears().iter().map(&mut lora_layer).collect();
    if lora_layers.iter().all(Option::is_none) {
        let targets = lora.targets.join(", ");
        return Err(VlmError::Input(format!("no layer of the model is named {targets}; try q_proj, v_proj")));
    }
    Ok(lora_layers)
}

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

/// A leaf of the tape: activations whose gradient is needed.
fn leaf(x: Option<Tensor<2>>) -> Tensor<2> {
    x.unwrap_or_else(|| unreachable!("every layer has an input")).require_grad()
}

/// The gradient of a leaf; zeros if nothing depends on it.
fn gradient_of(leaf: &Tensor<2>, gradients: &mut Gradients) -> Tensor<2> {
    gradients.take(leaf).unwrap_or_else(|| Tensor::zeros(leaf.dims()))
}

/// Which positions have targets: one of each sequence, if each has one.
fn target_positions(examples: &[Example]) -> Option<Vec<usize>> {
    examples.iter().map(|example| (example.targets.len() == 1).then(|| example.targets[0].0)).collect()
}

fn selection(target_positions: Option<&[usize]>) -> TokenSelection<'_> {
    target_positions.map_or(TokenSelection::All, TokenSelection::LastOf)
}

impl Architecture {
    /// The cross-entropy, averaged over all targets.
    fn loss<P: ParamSource>(&self, params: &P, examples: &[Example]) -> Result<Tensor<1>, VlmError> {
        let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
        let batch = self.batch(params, &inputs, Padding::Right)?;
        let target_positions = target_positions(examples);
        let hidden = self.text_forward(params, &batch, None, selection(target_positions.as_deref()));
        Ok(self.loss_of(params, examples, hidden, target_positions.is_some(), batch.tokens))
    }

    /// The loss from the last hidden states: of all tokens, or of those before targets alone.
    fn loss_of<P: ParamSource>(
        &self,
        params: &P,
        examples: &[Example],
        hidden: Tensor<2>,
        chosen: bool,
        tokens: usize,
    ) -> Tensor<1> {
        let rows = if chosen {
            hidden
        } else {
            let rows = examples.iter().enumerate();
            let rows =
                rows.flat_map(|(i, example)| example.targets.iter().map(move |target| i * tokens + target.0));
            hidden.select(0, &rows.collect::<Vec<usize>>())
        };
        let logits = params.linear(&self.network.text.head, rows);
        let targets = examples.iter().flat_map(|example| &example.targets);
        cross_entropy(logits, targets.map(|target| target.1 as usize).collect())
    }
}

/// Parameters in training; without leaves, the same values without gradients.
struct TrainableParams<'a> {
    parameters: &'a Parameters,
    lora_layers: &'a [Option<LoraLayer>],
    /// The trained ones, as leaves of the tape.
    leaves: Vec<Option<Tensor<1>>>,
}

impl<'a> TrainableParams<'a> {
    fn new(parameters: &'a Parameters, lora_layers: &'a [Option<LoraLayer>]) -> Self {
        let leaf = |(spec, value): (&Spec, &Value)| match value {
            Value::Numbers(tensor) if spec.role == Role::Trained => Some(tensor.clone().require_grad()),
            _ => None,
        };
        let leaves = parameters.specs.iter().zip(&parameters.values).map(leaf).collect();
        Self { parameters, lora_layers, leaves }
    }

    fn matrix(&self, id: Id, rows: usize) -> Tensor<2> {
        let flat = self.vector(id);
        let columns = flat.dims()[0] / rows;
        flat.reshape([rows, columns])
    }
}

impl ParamSource for TrainableParams<'_> {
    fn vector(&self, id: Id) -> Tensor<1> {
        match self.leaves.get(id.0) {
            Some(Some(leaf)) => leaf.clone(),
            _ => self.parameters.flat(id),
        }
    }

    fn rows(&self, table: Id, width: usize, indices: &[usize]) -> Tensor<2> {
        let count = self.parameters.specs[table.0].len() / width;
        self.matrix(table, count).select(0, indices)
    }

    fn linear(&self, layer: &Linear, x: Tensor<2>) -> Tensor<2> {
        let y = linear(x.clone(), self.matrix(layer.weight, layer.outputs));
        let y = match layer.bias {
            Some(bias) => y.add_bias(self.vector(bias)),
            None => y,
        };
        let Some(lora_layer) = &self.lora_layers[layer.index] else { return y };
        let projected = linear(x, self.matrix(lora_layer.down, lora_layer.rank)) * lora_layer.scale;
        y + linear(projected, self.matrix(lora_layer.up, layer.outputs))
    }

    fn outputs(&self, layer: &Linear, x: Tensor<2>, outputs: &[u32]) -> Tensor<2> {
        let columns: Vec<usize> = outputs.iter().map(|output| *output as usize).collect();
        self.linear(layer, x).select(1, &columns)
    }
}
