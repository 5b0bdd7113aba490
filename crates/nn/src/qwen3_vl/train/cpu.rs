//! Training on the CPU, in single precision.

use std::collections::HashMap;
use std::sync::Arc;

use plaudit_core::{GradientSync, SyncError};

use super::super::error::VlmError;
use super::super::forward::{Architecture, Padding};
use super::super::layers::rms_norm;
use super::super::load::full_name;
use super::super::network::Linear;
use super::super::param_source::ParamSource;
use super::super::processor::Inputs;
use super::super::text::{self, TokenSelection};
use super::{Example, LoraLayer};
use crate::classifier::{AdamW, Id, Optimizer, Parameters, Role, Sharding, Spec, StepOutcome, Value};
use crate::tensor::{Gradients, Tensor, cross_entropy, linear};
use crate::weights::Weights;

/// Parameters in training, and their optimizer.
pub(super) struct CpuTrainer {
    parameters: Parameters,
    optimizer: Optimizer,
    /// By linear layer, if it has an adapter.
    lora_layers: Vec<Option<LoraLayer>>,
    pub(super) recomputes: bool,
}

impl CpuTrainer {
    pub(super) fn new(parameters: Parameters, lora_layers: Vec<Option<LoraLayer>>, adamw: AdamW) -> Self {
        let optimizer = Optimizer::new(adamw, &parameters);
        Self { parameters, optimizer, lora_layers, recomputes: false }
    }

    /// Adds `scale` times the gradient of the batch's loss, and gives the loss.
    pub(super) fn accumulate(
        &mut self,
        architecture: &Architecture,
        examples: &[Example],
        scale: f64,
    ) -> Result<f64, VlmError> {
        if self.recomputes {
            return self.accumulate_layer_by_layer(architecture, examples, scale);
        }
        let params = TrainableParams::new(&self.parameters, &self.lora_layers);
        let loss = architecture.loss(&params, examples)?;
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

    /// [`accumulate`](Self::accumulate) with gradient checkpointing, one layer at a time.
    fn accumulate_layer_by_layer(
        &mut self,
        architecture: &Architecture,
        examples: &[Example],
        scale: f64,
    ) -> Result<f64, VlmError> {
        let Architecture { network, config, .. } = architecture;
        let (text, sizes) = (&network.text, &config.text);
        let inputs: Vec<Inputs> = examples.iter().map(|example| example.inputs.clone()).collect();
        let target_positions = target_positions(examples);
        let selection = selection(target_positions.as_deref());
        // Forward, keeping what goes into each layer.
        let plain = TrainableParams::frozen(&self.parameters, &self.lora_layers);
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

    pub(super) fn step(&mut self, lr: f64, clip: Option<f64>) -> StepOutcome {
        self.optimizer.step(&mut self.parameters, lr, clip)
    }

    pub(super) fn join_ranks(
        &mut self,
        sync: Arc<dyn GradientSync>,
        sharding: Sharding,
    ) -> Result<(), SyncError> {
        self.parameters.share(&*sync)?;
        self.optimizer.join(sync, sharding, &self.parameters);
        self.optimizer.share(&self.parameters)
    }

    pub(super) fn reduce(&mut self) -> Result<(), SyncError> {
        self.optimizer.reduce(&self.parameters)
    }

    pub(super) fn step_over_ranks(&mut self, lr: f64, clip: Option<f64>) -> Result<StepOutcome, SyncError> {
        self.optimizer.step_over_ranks(&mut self.parameters, lr, clip)
    }

    pub(super) fn label_logits(
        &self,
        architecture: &Architecture,
        inputs: &[Inputs],
        labels: &[u32],
    ) -> Result<Vec<Vec<f32>>, VlmError> {
        let params = TrainableParams::frozen(&self.parameters, &self.lora_layers);
        architecture.label_logits(&params, inputs, labels)
    }

    pub(super) fn loss(&self, architecture: &Architecture, examples: &[Example]) -> Result<f64, VlmError> {
        let params = TrainableParams::frozen(&self.parameters, &self.lora_layers);
        Ok(f64::from(architecture.loss(&params, examples)?.item()))
    }

    /// The numbers of a parameter.
    pub(super) fn numbers(&self, id: Id) -> Vec<f32> {
        self.parameters.flat(id).into_vec()
    }

    /// Replaces parameters, and the scales of adapters.
    pub(super) fn put(&mut self, numbers: HashMap<usize, Vec<f32>>, scales: &[(Id, f64)]) {
        for (id, numbers) in numbers {
            self.parameters.set(Id(id), numbers.into());
        }
        for lora_layer in self.lora_layers.iter_mut().flatten() {
            let scale = scales.iter().find(|(down, _)| *down == lora_layer.down);
            lora_layer.scale = scale.map_or(lora_layer.scale, |(_, scale)| *scale);
        }
    }

    /// The weights of the base, as Hugging Face's files have them.
    pub(super) fn weights(&self) -> Weights {
        let mut weights = Weights::new();
        for (i, spec) in self.parameters.specs.iter().enumerate() {
            if !spec.name.contains(".lora_") {
                weights.insert_f32(full_name(&spec.name), &spec.shape, self.parameters.flat(Id(i)).numbers());
            }
        }
        weights
    }

    pub(super) fn state(&self) -> Weights {
        let mut state = self.trained_weights();
        self.optimizer.save(&self.parameters, &mut state);
        state
    }

    pub(super) fn state_over_ranks(&self) -> Result<Option<Weights>, SyncError> {
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

    pub(super) fn restore_optimizer(&mut self, state: &Weights) {
        self.optimizer.restore(&self.parameters, state);
    }

    pub(super) fn gradients(&self) -> Weights {
        let mut gradients = Weights::new();
        for (spec, gradient) in self.parameters.specs.iter().zip(&self.optimizer.gradients) {
            if let Some(gradient) = gradient {
                gradients.insert_f32(&spec.name, &spec.shape, gradient.numbers());
            }
        }
        gradients
    }
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

    fn frozen(parameters: &'a Parameters, lora_layers: &'a [Option<LoraLayer>]) -> Self {
        Self { parameters, lora_layers, leaves: Vec::new() }
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
