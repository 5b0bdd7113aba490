//! A model that learns: adapters on a frozen base, or all of its weights.

use std::path::{Path, PathBuf};

use burn::tensor::activation::log_softmax;
use burn::tensor::{FloatDType, Gradients, Int, Tensor, TensorData};
use plaudit_core::Seed;
use serde::{Deserialize, Serialize};

use super::adapter::{Adapter, Low, peft_names, shapes};
use super::body::{Body, Padding};
use super::config::Config;
use super::error::VlmError;
use super::layers::{indices, on_processor, rms_norm};
use super::load::{self, full_name};
use super::network::{self, Linear, Network};
use super::pass::Pass;
use super::processor::{Inputs, Processor};
use super::serve::upload;
use super::text::{self, Wanted};
use crate::classifier::{
    AdamW, Device, Id, Init, Optimizer, Order, Parameters, Precision, Role, Spec, StepOutcome, Value,
    download, number_type,
};
use crate::ops;
use crate::weights::Weights;

/// Which numbers learn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Learn {
    /// All of them.
    Everything,
    /// Adapters; the rest stays as it is.
    Adapters(Lora),
}

/// Low-rank adapters: `y + (alpha / rank) B (A x)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lora {
    /// Numbers between the two matrices.
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

impl Default for Lora {
    fn default() -> Self {
        Self { rank: 16, alpha: 16.0, targets: TARGETS.map(str::to_owned).to_vec(), freeze_vision: false }
    }
}

/// A prompt, and which tokens are to follow some of its tokens.
#[derive(Clone, Debug)]
pub struct Example {
    /// The prompt; with the answer, if more than its first token is to be learned.
    pub inputs: Inputs,
    /// Token `.1` is to follow the token at place `.0`.
    pub targets: Vec<(usize, u32)>,
}

/// The adapter of a layer among the parameters.
#[derive(Clone, Debug)]
struct Slot {
    layer: String,
    down: Id,
    up: Id,
    rank: usize,
    scale: f64,
}

/// Where the first values of a base come from.
#[derive(Clone, Copy)]
enum First<'a> {
    Stored(&'a Weights),
    Drawn { spread: f64 },
}

/// A model in training.
///
/// A step is one or more calls of [`accumulate`](Self::accumulate), then [`step`](Self::step). Weights that learn and
/// their optimizer are always kept in 32 bits; a frozen base may be in fewer.
pub struct Tuner {
    body: Body,
    parameters: Parameters,
    /// By linear layer.
    slots: Vec<Option<Slot>>,
    optimizer: Optimizer,
    checkpointing: bool,
}

impl std::fmt::Debug for Tuner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tuner({} numbers of {:?})", self.trained_numbers(), self.config())
    }
}

impl Tuner {
    /// Goes on from a model's folder.
    ///
    /// # Errors
    /// As [`QwenVl::open`](super::QwenVl::open), and when no layer has a name the adapters are for.
    pub fn open(
        folder: impl AsRef<Path>,
        learn: &Learn,
        adamw: AdamW,
        device: Device,
        precision: Precision,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let folder = folder.as_ref();
        let config = Config::read(&folder.join("config.json"))?;
        let processor = Processor::open(folder, &config)?;
        let weights = load::weights(folder)?;
        load::check(folder, &network::build(&config).1, &weights, config.tied)?;
        Self::build(config, processor, First::Stored(&weights), learn, adamw, device, precision, seed)
    }

    /// A model with fresh weights, all of which learn. `spread` is their standard deviation.
    ///
    /// # Errors
    /// When the device is not there.
    pub fn fresh(
        config: Config,
        processor: Processor,
        spread: f64,
        adamw: AdamW,
        device: Device,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let first = First::Drawn { spread };
        Self::build(config, processor, first, &Learn::Everything, adamw, device, Precision::Fp32, seed)
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a model and how it learns")]
    fn build(
        config: Config,
        processor: Processor,
        first: First<'_>,
        learn: &Learn,
        adamw: AdamW,
        device: Device,
        precision: Precision,
        seed: u64,
    ) -> Result<Self, VlmError> {
        let device = device.open()?;
        let (network, mut specs) = network::build(&config);
        let base = specs.len();
        if let First::Drawn { spread } = first {
            specs.iter_mut().for_each(|spec| spec.init = spec.init.with_spread(spread));
        }
        let slots = match learn {
            Learn::Everything => network.all_linears().iter().map(|_| None).collect(),
            Learn::Adapters(lora) => {
                specs.iter_mut().for_each(|spec| spec.role = Role::Frozen);
                add_adapters(&network, lora, &mut specs)?
            }
        };
        let dtype = match learn {
            Learn::Everything => FloatDType::F32,
            Learn::Adapters(_) => number_type(precision, &device),
        };
        let seed = Seed::new(seed).purpose("weights");
        let value = |(i, spec): (usize, &Spec)| match first {
            First::Stored(weights) if i < base => {
                let stored = weights.get(&spec.name).unwrap_or_else(|| unreachable!("weights were checked"));
                upload(stored, if spec.role == Role::Frozen { dtype } else { FloatDType::F32 }, &device)
            }
            _ => {
                let numbers = spec.init.draw(spec.len(), &mut seed.purpose(&spec.name).rng());
                crate::classifier::upload(numbers, &device)
            }
        };
        let values = specs.iter().enumerate().map(value).map(Value::Numbers).collect();
        let parameters = Parameters { specs, values, device: device.clone() };
        let optimizer = Optimizer::new(adamw, &parameters);
        let body = Body { config, processor, network, dtype, device };
        Ok(Self { body, parameters, slots, optimizer, checkpointing: false })
    }

    /// The sizes of the model.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.body.config
    }

    /// What makes prompts and pictures ready for the model.
    #[must_use]
    pub fn processor(&self) -> &Processor {
        &self.body.processor
    }

    /// How many numbers learn.
    #[must_use]
    pub fn trained_numbers(&self) -> usize {
        self.parameters.specs.iter().filter(|spec| spec.role == Role::Trained).map(Spec::len).sum()
    }

    /// Runs a batch, and adds `scale` times the gradient of its loss to those that wait for the next step. Gives the loss:
    /// the mean over all targets of minus the logarithm of their probability.
    ///
    /// # Errors
    /// When an example is empty, has no targets, or one outside of it.
    pub fn accumulate(&mut self, examples: &[Example], scale: f64) -> Result<f64, VlmError> {
        check_examples(examples, self.body.config.text.vocab)?;
        if self.checkpointing {
            return self.accumulate_layer_by_layer(examples, scale);
        }
        let pass = Learning::new(&self.parameters, &self.slots);
        let loss = self.body.loss(&pass, examples)?;
        let value = f64::from(loss.clone().inner().into_scalar::<f32>());
        if !value.is_finite() {
            return Ok(value);
        }
        let mut gradients = (loss * scale).backward();
        let leaves = pass.leaves;
        self.take(leaves, &mut gradients);
        Ok(value)
    }

    /// Adds the gradients of leaves to those that wait.
    fn take(&mut self, leaves: Vec<Option<Tensor<1>>>, gradients: &mut Gradients) {
        for (i, leaf) in leaves.into_iter().enumerate() {
            if let Some(gradient) = leaf.and_then(|leaf| leaf.grad_remove(gradients)) {
                self.optimizer.add(Id(i), gradient);
            }
        }
    }

    /// Whether only the numbers between layers are kept for the gradient, and layers are computed once more for it: less memory
    /// for a third more work.
    pub fn set_checkpointing(&mut self, checkpointing: bool) {
        self.checkpointing = checkpointing;
    }

    /// [`accumulate`](Self::accumulate) that follows one layer at a time.
    fn accumulate_layer_by_layer(&mut self, examples: &[Example], scale: f64) -> Result<f64, VlmError> {
        let body = self.body.clone();
        let Body { network, config, device, .. } = &body;
        let (text, sizes) = (&network.text, &config.text);
        let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
        let places = places(examples);
        let wanted = wanted(places.as_deref());
        // Forward, keeping what goes into each layer.
        let plain = Learning { parameters: &self.parameters, slots: &self.slots, leaves: Vec::new() };
        let batch = body.batch(&plain, &inputs, Padding::Right)?;
        let deep = |i: usize| batch.seen.as_ref().and_then(|(_, seen)| seen.deepstack.get(i).cloned());
        let mut between = vec![text::embed(&plain, text, sizes, &batch, device)];
        for i in 0..text.layers.len() {
            let x = between[i].clone();
            between.push(text::step(&plain, text, sizes, &batch, i, x, deep(i), None, wanted, device));
        }
        // The loss, and back from it.
        let pass = Learning::new(&self.parameters, &self.slots);
        let last = leaf(between.pop());
        let hidden = rms_norm(last.clone(), pass.vector(text.norm), sizes.epsilon);
        let loss = body.loss_of(&pass, examples, hidden, places.is_some(), batch.tokens);
        let value = f64::from(loss.clone().inner().into_scalar::<f32>());
        if !value.is_finite() {
            return Ok(value);
        }
        let mut gradients = (loss * scale).backward();
        let mut slope = slope_of(&last, &mut gradients);
        let leaves = pass.leaves;
        self.take(leaves, &mut gradients);
        let mut deep_slopes = Vec::new();
        for i in (0..text.layers.len()).rev() {
            let pass = Learning::new(&self.parameters, &self.slots);
            let (x, added) = (leaf(between.pop()), deep(i).map(|deep| leaf(Some(deep))));
            let y = text::step(&pass, text, sizes, &batch, i, x.clone(), added.clone(), None, wanted, device);
            let mut gradients = (y * slope).sum().backward();
            slope = slope_of(&x, &mut gradients);
            deep_slopes.extend(added.map(|added| slope_of(&added, &mut gradients)));
            let leaves = pass.leaves;
            self.take(leaves, &mut gradients);
        }
        deep_slopes.reverse();
        // The words' table and the vision tower.
        let pass = Learning::new(&self.parameters, &self.slots);
        let batch = body.batch(&pass, &inputs, Padding::Right)?;
        let mut total = (text::embed(&pass, text, sizes, &batch, device) * slope).sum();
        if let Some((_, seen)) = &batch.seen {
            for (deep, slope) in seen.deepstack.iter().zip(deep_slopes) {
                total = total + (deep.clone() * slope).sum();
            }
        }
        let mut gradients = total.backward();
        let leaves = pass.leaves;
        self.take(leaves, &mut gradients);
        Ok(value)
    }

    /// Moves what learns by what was accumulated, shortened to length `clip` if it is longer, and forgets it. A gradient
    /// that is not finite moves nothing.
    pub fn step(&mut self, lr: f64, clip: Option<f64>) -> StepOutcome {
        self.optimizer.step(&mut self.parameters, lr, clip)
    }

    /// For each prompt, the logits of these tokens as the next one, by the model as it is now.
    ///
    /// # Errors
    /// As [`QwenVl::label_logits`](super::QwenVl::label_logits).
    pub fn label_logits(&self, inputs: &[Inputs], labels: &[u32]) -> Result<Vec<Vec<f32>>, VlmError> {
        let pass = Learning { parameters: &self.parameters, slots: &self.slots, leaves: Vec::new() };
        self.body.label_logits(&pass, inputs, labels)
    }

    /// The loss of examples, by the model as it is now; nothing is learned.
    ///
    /// # Errors
    /// As [`accumulate`](Self::accumulate).
    pub fn loss(&self, examples: &[Example]) -> Result<f64, VlmError> {
        check_examples(examples, self.body.config.text.vocab)?;
        let pass = Learning { parameters: &self.parameters, slots: &self.slots, leaves: Vec::new() };
        Ok(f64::from(self.body.loss(&pass, examples)?.into_scalar::<f32>()))
    }

    /// The adapters as they are now; nothing if all weights learn.
    #[must_use]
    pub fn adapter(&self) -> Option<Adapter> {
        let low = |slot: &Slot| {
            let [down, up] = [slot.down, slot.up].map(|id| download(self.parameters.flat(id)));
            let shapes = [slot.down, slot.up].map(|id| self.parameters.specs[id.0].shape.clone());
            (slot.layer.clone(), Low { rank: slot.rank, scale: slot.scale, down, up, shapes })
        };
        let layers: std::collections::BTreeMap<_, _> = self.slots.iter().flatten().map(low).collect();
        (!layers.is_empty()).then(|| Adapter { source: PathBuf::from("training"), layers })
    }

    /// Replaces the adapters by others of the same layers and rank.
    ///
    /// # Errors
    /// When they are for other layers or of another rank; nothing is changed then.
    pub fn load_adapter(&mut self, adapter: &Adapter) -> Result<(), VlmError> {
        adapter.check(&self.body.network)?;
        let wrong = |problem| Err(VlmError::Adapter { file: adapter.source.clone(), problem });
        for slot in self.slots.iter().flatten() {
            match adapter.layers.get(&slot.layer) {
                Some(low) if low.rank != slot.rank => {
                    return wrong(format!("is of rank {}, the one in training of {}", low.rank, slot.rank));
                }
                Some(_) => {}
                None => return wrong(format!("does not change `{}`", full_name(&slot.layer))),
            }
        }
        let known = |name: &String| self.slots.iter().flatten().any(|slot| slot.layer == *name);
        if let Some(name) = adapter.layers.keys().find(|name| !known(name)) {
            return wrong(format!("changes `{}`, which has no adapter here", full_name(name)));
        }
        for slot in self.slots.iter_mut().flatten() {
            let low = &adapter.layers[&slot.layer];
            slot.scale = low.scale;
            for (id, numbers) in [(slot.down, &low.down), (slot.up, &low.up)] {
                self.parameters.set(id, crate::classifier::upload(numbers.clone(), &self.body.device));
            }
        }
        Ok(())
    }

    /// The weights of the base, as Hugging Face's files have them.
    #[must_use]
    pub fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        for (i, spec) in self.parameters.specs.iter().enumerate() {
            if !spec.name.contains(".lora_") {
                weights.insert_f32(
                    full_name(&spec.name),
                    &spec.shape,
                    &download(self.parameters.flat(Id(i))),
                );
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
        let config = serde_json::to_string_pretty(&self.body.config.to_json()).unwrap_or_default();
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

    /// All that the next step depends on, if it comes after a [`step`](Self::step): what learns, and the optimizer's
    /// numbers.
    #[must_use]
    pub fn state(&self) -> Weights {
        let mut state = Weights::new();
        for (i, spec) in self.parameters.specs.iter().enumerate() {
            if spec.role == Role::Trained {
                state.insert_f32(&spec.name, &spec.shape, &download(self.parameters.flat(Id(i))));
            }
        }
        self.optimizer.save(&self.parameters, &mut state);
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
            self.parameters.set(id, crate::classifier::upload(numbers, &self.body.device));
        }
        self.optimizer.restore(&self.parameters, state);
        Ok(())
    }

    /// The gradients that wait for the next step, by parameter, for inspection.
    #[must_use]
    pub fn gradients(&self) -> Weights {
        let mut gradients = Weights::new();
        for (spec, gradient) in self.parameters.specs.iter().zip(&self.optimizer.gradients) {
            if let Some(gradient) = gradient {
                gradients.insert_f32(&spec.name, &spec.shape, &download(gradient.clone()));
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
    lora: &Lora,
    specs: &mut Vec<Spec>,
) -> Result<Vec<Option<Slot>>, VlmError> {
    if lora.rank == 0 {
        return Err(VlmError::Input("adapters of rank 0; give a rank above zero".into()));
    }
    let mut slot = |linear: &&Linear| {
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
        Some(Slot { layer: linear.name.clone(), down, up, rank: lora.rank, scale })
    };
    let slots: Vec<Option<Slot>> = network.all_linears().iter().map(&mut slot).collect();
    if slots.iter().all(Option::is_none) {
        let targets = lora.targets.join(", ");
        return Err(VlmError::Input(format!("no layer of the model is named {targets}; try q_proj, v_proj")));
    }
    Ok(slots)
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
            return wrong(format!("example {i}: token {token} after place {place} of {}", inputs.len()));
        }
    }
    Ok(())
}

/// Numbers whose gradient is wanted.
fn leaf(x: Option<Tensor<2>>) -> Tensor<2> {
    x.unwrap_or_else(|| unreachable!("numbers go into every layer")).autodiff().require_grad()
}

/// The gradient of a leaf; zeros if nothing depends on it.
fn slope_of(leaf: &Tensor<2>, gradients: &mut Gradients) -> Tensor<2> {
    leaf.grad_remove(gradients).unwrap_or_else(|| leaf.clone().inner().zeros_like())
}

/// Which numbers of a batch are wanted: one of each sequence, if each has one target.
fn places(examples: &[Example]) -> Option<Vec<usize>> {
    examples.iter().map(|example| (example.targets.len() == 1).then(|| example.targets[0].0)).collect()
}

fn wanted(places: Option<&[usize]>) -> Wanted<'_> {
    places.map_or(Wanted::All, Wanted::LastOf)
}

impl Body {
    /// The mean over all targets of minus the logarithm of their probability.
    fn loss<P: Pass>(&self, pass: &P, examples: &[Example]) -> Result<Tensor<1>, VlmError> {
        let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
        let batch = self.batch(pass, &inputs, Padding::Right)?;
        let places = places(examples);
        let hidden = self.read(pass, &batch, None, wanted(places.as_deref()));
        Ok(self.loss_of(pass, examples, hidden, places.is_some(), batch.tokens))
    }

    /// The loss by the numbers after the last normalisation: of all tokens, or of those before targets alone.
    fn loss_of<P: Pass>(
        &self,
        pass: &P,
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
            hidden.select(0, indices(rows, &self.device))
        };
        let logits = pass.linear(&self.network.text.head, rows).cast(FloatDType::F32);
        let targets =
            examples.iter().flat_map(|example| example.targets.iter().map(|target| target.1 as i32));
        let targets: Vec<i32> = targets.collect();
        let count = targets.len();
        let targets = Tensor::<2, Int>::from_data(TensorData::new(targets, [count, 1]), &self.device);
        log_softmax(logits, 1).gather(1, targets).mean().neg()
    }
}

/// The pass that learns; without leaves, the same numbers without gradients.
struct Learning<'a> {
    parameters: &'a Parameters,
    slots: &'a [Option<Slot>],
    /// Those that learn, followed through the network.
    leaves: Vec<Option<Tensor<1>>>,
}

impl<'a> Learning<'a> {
    fn new(parameters: &'a Parameters, slots: &'a [Option<Slot>]) -> Self {
        let leaf = |(spec, value): (&Spec, &Value)| match value {
            Value::Numbers(tensor) if spec.role == Role::Trained => {
                Some(tensor.clone().autodiff().require_grad())
            }
            _ => None,
        };
        let leaves = parameters.specs.iter().zip(&parameters.values).map(leaf).collect();
        Self { parameters, slots, leaves }
    }

    fn matrix(&self, id: Id, rows: usize) -> Tensor<2> {
        let flat = self.vector(id);
        let columns = flat.dims()[0] / rows;
        flat.reshape([rows, columns])
    }
}

/// `x [m, k]` times the transpose of `weights [n, k]`.
fn product(x: Tensor<2>, weights: Tensor<2>) -> Tensor<2> {
    if on_processor(&x) { ops::tokens::linear(x, weights) } else { x.matmul(weights.transpose()) }
}

impl Pass for Learning<'_> {
    fn vector(&self, id: Id) -> Tensor<1> {
        match self.leaves.get(id.0) {
            Some(Some(leaf)) => leaf.clone(),
            _ => self.parameters.flat(id),
        }
    }

    fn rows(&self, table: Id, width: usize, indices: Tensor<1, Int>) -> Tensor<2> {
        let count = self.parameters.specs[table.0].len() / width;
        self.matrix(table, count).select(0, indices)
    }

    fn linear(&self, layer: &Linear, x: Tensor<2>) -> Tensor<2> {
        let y = product(x.clone(), self.matrix(layer.weight, layer.outputs));
        let y = match layer.bias {
            Some(bias) => y + self.vector(bias).unsqueeze::<2>(),
            None => y,
        };
        let Some(slot) = &self.slots[layer.index] else { return y };
        let dtype = FloatDType::from(y.dtype());
        let low = product(x.cast(FloatDType::F32), self.matrix(slot.down, slot.rank)) * slot.scale;
        let added = product(low, self.matrix(slot.up, layer.outputs));
        y + added.cast(dtype)
    }

    fn outputs(&self, layer: &Linear, x: Tensor<2>, outputs: &[u32]) -> Tensor<2> {
        let columns = indices(outputs.iter().map(|output| *output as usize), &self.parameters.device);
        self.linear(layer, x).select(1, columns)
    }
}
